package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// crew is the callers of one turn.
type crew struct {
	job     job
	locker  locker
	callers []*caller
	stopped chan struct{}         // closed when all callers have stopped
	cutOff  atomic.Bool           // the grace is over: what ends now is unfinished
	first   atomic.Pointer[error] // that a caller met
}

// caller does the job's task again and again. Its fields are its own until the
// crew has stopped.
type caller struct {
	crew       *crew
	number     int
	key        string
	held       lock // to be extended
	latency    histogram
	ops        int64
	errors     int64
	unfinished int64
	tenures    []tenure
}

func newCrew(l locker, j job) *crew {
	c := &crew{job: j, locker: l, callers: make([]*caller, j.Callers)}
	for i := range c.callers {
		c.callers[i] = &caller{crew: c, number: i, key: key(i, j.KeySize)}
		if j.Task == contended {
			c.callers[i].key = key(0, j.KeySize)
		}
	}
	return c
}

// prepare does what the task needs beforehand: locks to extend, or locks of
// another client that refuses ours. Undo releases them.
func (c *crew) prepare(ctx context.Context, impl implementation) (undo func(), err error) {
	holder := c.locker
	var held []lock
	undo = func() {
		for _, l := range held {
			_ = l.release(ctx) // what is not released expires, and is flushed with the turn
		}
		if holder != c.locker {
			holder.close()
		}
	}
	switch c.job.Task {
	case refusing:
		s := c.job.setup()
		s.ttl = time.Hour
		if holder, err = impl.open(s); err != nil {
			return nil, err
		}
	case extending:
	default:
		return undo, nil
	}
	for _, caller := range c.callers {
		l, err := holder.try(ctx, caller.key)
		if err != nil {
			undo()
			return nil, fmt.Errorf("preparing: %w", err)
		}
		held = append(held, l)
		caller.held = l
	}
	return undo, nil
}

// work lets all callers begin, for the time given.
func (c *crew) work(ctx context.Context, d time.Duration) {
	until := time.Now().Add(d)
	c.stopped = make(chan struct{})
	var wg sync.WaitGroup
	defer func() {
		go func() {
			wg.Wait()
			close(c.stopped)
		}()
	}()
	f, single := c.locker.(*floor)
	if single && len(c.callers) > 1 {
		wg.Go(func() { c.batches(f, until) })
		return
	}
	for _, caller := range c.callers {
		switch c.job.Task {
		case contended:
			wg.Go(func() { caller.contend(ctx, until) })
		default:
			wg.Go(func() { caller.repeat(ctx, until) })
		}
	}
}

// join waits until all callers have stopped.
func (c *crew) join(atMost time.Duration) error {
	select {
	case <-c.stopped:
		return nil
	case <-time.After(atMost):
		return fmt.Errorf("callers have not stopped in %v", atMost)
	}
}

// repeat does the task until the time given, and at least once. It ends what it
// has begun.
func (c *caller) repeat(ctx context.Context, until time.Time) {
	// One look at the clock per turn: one begins where the last one ended.
	for begin := time.Now(); ; {
		err := c.once(ctx)
		end := time.Now()
		switch {
		case c.crew.cutOff.Load():
			c.latency.add(end.Sub(begin))
			c.unfinished++
			c.fail(errUnfinished)
			return
		case err == nil:
			c.latency.add(end.Sub(begin))
			c.ops++
		default:
			c.fail(err)
			time.Sleep(errorPause)
			end = time.Now()
		}
		if begin = end; !begin.Before(until) {
			return
		}
	}
}

var (
	errUnfinished = errors.New("it took longer than the turn")
	errGranted    = errors.New("granted what another holds")
)

func (c *caller) once(ctx context.Context) error {
	switch c.crew.job.Task {
	case extending:
		if c.held != nil { // not in the warm-up
			return c.held.extend(ctx, c.crew.job.TTL)
		}
	case refusing:
		if c.held != nil {
			switch _, err := c.crew.locker.try(ctx, c.key); {
			case errors.Is(err, errRefused):
				return nil
			case err == nil:
				return errGranted
			default:
				return err
			}
		}
	}
	l, err := c.crew.locker.try(ctx, c.key)
	if err != nil {
		return err
	}
	return l.release(ctx)
}

// fail counts what failed. In a caller's loop, &err would move every err to the
// heap, and count as the implementation's allocation.
func (c *caller) fail(err error) {
	c.errors++
	c.crew.first.CompareAndSwap(nil, &err)
}

// batches is the work of all callers by the floor's one thread: they acquire
// together, and release together.
func (c *crew) batches(f *floor, until time.Time) {
	locks := make([]floorLock, len(c.callers))
	for begin := time.Now(); ; {
		for i, caller := range c.callers {
			locks[i] = floorLock{f, caller.key, floorValue()}
		}
		err := f.acquire(locks)
		if err == nil {
			err = f.releaseAll(locks)
		}
		end := time.Now()
		for _, caller := range c.callers {
			if err != nil {
				caller.fail(err)
				continue
			}
			caller.latency.add(end.Sub(begin))
			caller.ops++
		}
		if begin = end; !begin.Before(until) {
			return
		}
	}
}

// result is what the crew has done. Its callers must have stopped.
func (c *crew) result() *result {
	r := new(result)
	var all histogram
	for _, caller := range c.callers {
		all.merge(&caller.latency)
		r.Ops += caller.ops
		r.Errors += caller.errors
		r.Unfinished += caller.unfinished
		r.Tenures = append(r.Tenures, caller.tenures...)
	}
	r.Latency = all.sparse()
	if err := c.first.Load(); err != nil {
		r.FirstError = oneLine(*err)
	}
	return r
}

// oneLine is the text of an error that may have been joined of several.
func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
