package main

import (
	"context"
	"errors"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goredlock/redlock"
)

const (
	// maxWarmUp bounds the part of a row that is not counted. In it the masters
	// outside the first quorum are connected too, and the pools filled.
	maxWarmUp = 250 * time.Millisecond
	// errorPause keeps a caller whose pairs fail at once from using up the
	// processors of those that work.
	errorPause = time.Millisecond
)

// resource is what caller i locks.
func resource(i int) string { return "bench:" + strconv.Itoa(i) }

// measure makes one row: a new client, a warm-up, and the callers' run. The
// error is the client's, if no quorum of masters could be reached. After the end
// of ctx the row is about the time before it.
func (opts options) measure(ctx context.Context, masters []string, callers int, p *progress) (row, error) {
	client, err := redlock.New(redlock.Config{Masters: masters, ClientName: "redlock-bench"})
	if err != nil {
		return row{}, err
	}
	defer client.Close()
	soon, cancel := context.WithTimeout(ctx, opts.ready)
	defer cancel()
	if err := client.Ready(soon); err != nil {
		return row{}, err
	}
	newCrew(client, callers, opts.ttl).work(ctx, min(opts.duration/4, maxWarmUp))

	crew := newCrew(client, callers, opts.ttl)
	stop := p.watch(opts.duration, crew.done)
	allocs := mallocs()
	start := time.Now()
	crew.work(ctx, opts.duration)
	allocs = mallocs() - allocs
	_ = client.Close() // never fails; waits for the stragglers
	elapsed := time.Since(start)
	stop()
	return crew.row(elapsed, allocs), nil
}

// mallocs is how many objects the process has allocated so far.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

// crew is the callers of one row.
type crew struct {
	callers []*caller
	first   atomic.Pointer[error] // that a caller met
}

// caller takes and releases one resource. Its numbers are its own until the crew
// has stopped, except locks.
type caller struct {
	crew     *crew
	client   *redlock.Client
	resource string
	ttl      time.Duration
	latency  histogram
	errors   int64
	locks    atomic.Int64 // written by the caller only
}

func newCrew(client *redlock.Client, n int, ttl time.Duration) *crew {
	c := &crew{callers: make([]*caller, n)}
	for i := range c.callers {
		c.callers[i] = &caller{crew: c, client: client, resource: resource(i), ttl: ttl}
	}
	return c
}

// work lets all callers take locks for the time given, and waits until they have
// released the last.
func (c *crew) work(ctx context.Context, d time.Duration) {
	until := time.Now().Add(d)
	var wg sync.WaitGroup
	for _, caller := range c.callers {
		wg.Go(func() { caller.work(ctx, until) })
	}
	wg.Wait()
}

// work makes pairs until the time given, and at least one. It ends the pair that
// it is in.
func (c *caller) work(ctx context.Context, until time.Time) {
	// One look at the clock per pair: a pair begins where the last one ended.
	for begin := time.Now(); ctx.Err() == nil; {
		err := c.pair(ctx)
		end := time.Now()
		switch {
		case err == nil:
			c.latency.add(end.Sub(begin))
			c.locks.Add(1)
		case errors.Is(err, context.Canceled): // interrupted: it says nothing about the masters
			return
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

// fail counts a pair that failed. In work, &err would move every pair's err to
// the heap, and count as the client's allocation.
func (c *caller) fail(err error) {
	c.errors++
	c.crew.first.CompareAndSwap(nil, &err)
}

func (c *caller) pair(ctx context.Context) error {
	lock, err := c.client.TryAcquire(ctx, c.resource, c.ttl)
	if err != nil {
		return err
	}
	return lock.Release()
}

// done is how many locks have been taken and released so far.
func (c *crew) done() (locks int64) {
	for _, caller := range c.callers {
		locks += caller.locks.Load()
	}
	return locks
}

// row is what the crew has done. Its callers must have stopped.
func (c *crew) row(elapsed time.Duration, allocs uint64) row {
	var all histogram
	r := row{Callers: len(c.callers), Locks: c.done(), Elapsed: elapsed}
	for _, caller := range c.callers {
		all.merge(&caller.latency)
		r.Errors += caller.errors
	}
	if err := c.first.Load(); err != nil {
		r.FirstError = (*err).Error()
	}
	if r.Locks > 0 {
		r.LocksPerSecond = float64(r.Locks) / elapsed.Seconds()
		r.AllocsPerLock = float64(allocs) / float64(r.Locks)
	}
	r.P50, r.P99, r.P999, r.Max = all.quantile(500), all.quantile(990), all.quantile(999), all.max
	return r
}
