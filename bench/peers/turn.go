package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"time"
)

const (
	// startWithin is how long a client process may take to be ready, its warm-up
	// included.
	startWithin = lastWait + 2*readyTimeout
	// victim is the master that suffers the fault: the last one.
	victim = standardMasters - 1
)

// sample is one implementation's turn at one workload.
type sample struct {
	result                // of all client processes together
	drained time.Duration // from the callers' end until all masters had answered
	left    int64         // keys that nobody holds and nobody released
	total   *histogram
}

// turn measures one implementation at one workload. Whatever it does to the
// masters it undoes.
func (b *bench) turn(ctx context.Context, w workload, impl implementation) (s sample, err error) {
	t := &turn{bench: b, w: w, impl: impl, addrs: b.masters.addrs()[:w.Masters], onTheWay: func() bool { return false }}
	if w.Fault == slow {
		d, err := delay(t.addrs[victim], slowFor)
		if err != nil {
			return sample{}, err
		}
		defer d.close()
		t.addrs = append(append([]string{}, t.addrs[:victim]...), d.addr())
		t.onTheWay = func() bool { return !d.idle() }
	}
	defer func() { err = errors.Join(err, t.close(ctx)) }()
	if err := t.start(ctx); err != nil {
		return sample{}, err
	}
	return t.measure(ctx)
}

// turn is the state of one turn.
type turn struct {
	bench     *bench
	w         workload
	impl      implementation
	addrs     []string
	onTheWay  func() bool // something is held up between masters and clients
	processes []*process
	harmed    bool
	board     string // the file of the contenders' board, if there are any
}

// job is what each of the client processes is to do.
func (t *turn) job() job {
	o := t.bench.opts
	j := job{
		Impl: t.impl.name, Task: t.w.Task, Addrs: t.addrs, Callers: t.w.Callers, KeySize: t.w.KeySize,
		TTL: o.ttl, Duration: o.duration, WarmUp: min(o.duration/4, maxWarmUp), Grace: maxGrace, Patient: o.short,
	}
	if t.w.Fault != healthy && o.short {
		j.Grace = min(o.duration, maxGrace) // those that wait for a dead master would use it up
	}
	if t.w.Task == contended {
		j.Board = t.board
		j.WarmUp = 0 // processes do not know of each other's; the first handovers are few
	}
	return j
}

// close ends the processes and undoes everything, also what the masters still
// find in their sockets.
func (t *turn) close(ctx context.Context) error {
	for _, p := range t.processes {
		p.end()
	}
	if t.board != "" {
		_ = os.Remove(t.board) // a small file among other temporary ones
	}
	err := t.heal()
	if err == nil && ctx.Err() == nil {
		_, err = drain(ctx, t.bench.masters, t.alive(), t.onTheWay)
	}
	return errors.Join(err, t.clear())
}

// start brings the client processes up to the point where they wait for "go".
func (t *turn) start(ctx context.Context) error {
	if t.w.Task == contended {
		f, err := os.CreateTemp("", "peers-board-")
		if err != nil {
			return err
		}
		t.board = f.Name()
		if err := f.Close(); err != nil {
			return err
		}
	}
	for range t.w.Clients {
		p, err := startClient(ctx, t.job())
		if err != nil {
			return err
		}
		t.processes = append(t.processes, p)
	}
	if err := t.all(stateReady, startWithin, nil); err != nil {
		return err
	}
	_, err := drain(ctx, t.bench.masters, t.alive(), t.onTheWay) // the warm-up's stragglers
	if err == nil && t.w.Task == pairing {
		err = t.clear() // what they have left behind must not count in the turn
	}
	return err
}

// all waits until all processes are in that state.
func (t *turn) all(state string, atMost time.Duration, each func(*result)) error {
	for _, p := range t.processes {
		r, err := p.await(state, atMost)
		if err != nil {
			return err
		}
		if each != nil && r != nil {
			each(r)
		}
	}
	return nil
}

func (t *turn) order(word string) error {
	for _, p := range t.processes {
		if err := p.order(word); err != nil {
			return err
		}
	}
	return nil
}

// measure is the turn from "go" to the results.
func (t *turn) measure(ctx context.Context) (s sample, err error) {
	if err := t.harm(); err != nil {
		return s, err
	}
	if err := t.order(orderGo); err != nil {
		return s, err
	}
	if err := t.all(stateDone, t.bench.opts.duration+maxGrace+startWithin, nil); err != nil {
		return s, err
	}
	if t.w.Fault == frozen { // it answers now what it was sent all the time
		if err := t.heal(); err != nil {
			return s, err
		}
	}
	begin := time.Now()
	last, err := drain(ctx, t.bench.masters, t.alive(), t.onTheWay)
	if err != nil {
		return s, err
	}
	s.drained = last.Sub(begin)
	if t.w.Task == pairing {
		if s.left, err = t.left(); err != nil {
			return s, err
		}
	}
	if err := t.order(orderEnd); err != nil {
		return s, err
	}
	s.total = new(histogram)
	s.Until = math.MaxInt64
	if err := t.all(stateResult, lastWait+startWithin, s.add); err != nil {
		return s, err
	}
	if t.w.Task == contended {
		return s, s.handOver()
	}
	return s, nil
}

// add takes in what one process has done.
func (s *sample) add(r *result) {
	s.Ops += r.Ops
	s.Errors += r.Errors
	s.Unfinished += r.Unfinished
	if s.FirstError == "" {
		s.FirstError = r.FirstError
	}
	s.Elapsed = max(s.Elapsed, r.Elapsed)
	s.Until = min(s.Until, r.Until)
	s.CPU += r.CPU
	s.Mallocs += r.Mallocs
	s.Bytes += r.Bytes
	s.Goroutines += r.Goroutines
	s.total.merge(r.Latency.dense())
	s.Tenures = append(s.Tenures, r.Tenures...)
}

// handOver replaces the callers' numbers by those of the handovers.
func (s *sample) handOver() error {
	h := handoversOf(s.Tenures, s.Until-int64(lastTenure))
	if h.overlaps > 0 {
		return fmt.Errorf("it does not lock: %d times two callers held the key at once", h.overlaps)
	}
	s.total, s.Ops = &h.latency, int64(h.latency.total)
	return nil
}

// harm does to the victim what the workload is about, for all of the time that
// is measured.
func (t *turn) harm() error {
	switch t.w.Fault {
	case frozen:
		t.harmed = true
		return t.bench.masters.freeze(victim)
	case killed:
		t.harmed = true
		return t.bench.masters.kill(victim)
	}
	return nil
}

func (t *turn) heal() error {
	if !t.harmed {
		return nil
	}
	t.harmed = false
	if t.w.Fault == frozen {
		return t.bench.masters.thaw(victim)
	}
	return t.bench.masters.restart(victim)
}

// alive lists the masters that answer.
func (t *turn) alive() (list []int) {
	for i := range t.impl.masters(t.addrs) {
		if !t.harmed || i != victim {
			list = append(list, i)
		}
	}
	return list
}

// left counts the keys that are still there.
func (t *turn) left() (keys int64, err error) {
	for _, i := range t.alive() {
		n, err := t.bench.masters.left(i)
		if err != nil {
			return 0, err
		}
		keys += n
	}
	return keys, nil
}

// clear removes what the turn has left.
func (t *turn) clear() error {
	for i := range t.addrs {
		if err := t.bench.masters.clear(i); err != nil {
			return err
		}
	}
	return nil
}
