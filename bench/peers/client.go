package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// errorPause keeps callers whose locks fail at once from using up the
	// processors of those that work.
	errorPause = time.Millisecond
	// sampleEvery is how often the goroutines are counted.
	sampleEvery = 5 * time.Millisecond
	// settle is for replies that have left the masters and are still to be read.
	settle = 10 * time.Millisecond
	// lastWait is how long callers that outlasted the grace have, after "end".
	lastWait = 30 * time.Second
)

// client is a client process: its orders, and what it says.
type client struct {
	in  *bufio.Scanner
	out *json.Encoder
}

// serveClient is the program as a client process. A signal from the keyboard
// reaches it too, but it is the parent that decides what becomes of the turn.
func serveClient(in io.Reader, out io.Writer) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	c := client{in: bufio.NewScanner(in), out: json.NewEncoder(out)}
	r, err := c.work()
	last := message{State: stateResult, Result: r}
	if err != nil {
		last.Error = oneLine(err)
	}
	if c.out.Encode(last) != nil || err != nil {
		return exitFailed
	}
	return 0
}

func (c client) work() (*result, error) {
	if !c.in.Scan() {
		return nil, io.ErrUnexpectedEOF
	}
	var j job
	if err := json.Unmarshal(c.in.Bytes(), &j); err != nil {
		return nil, err
	}
	impl, ok := find(j.Impl)
	if !ok {
		return nil, fmt.Errorf("there is no implementation %q", j.Impl)
	}
	if j.Task == checking {
		return new(result), check(impl, j)
	}
	l, err := impl.open(j.setup())
	if err != nil {
		return nil, err
	}
	defer l.close()

	ctx, cancel := context.WithCancel(context.Background()) // as a server's handler has it
	defer cancel()
	if j.WarmUp > 0 {
		warm := newCrew(l, j)
		warm.work(ctx, j.WarmUp)
		if err := warm.join(j.WarmUp + lastWait); err != nil {
			return nil, err
		}
	}
	crew := newCrew(l, j)
	undo, err := crew.prepare(ctx, impl)
	if err != nil {
		return nil, err
	}
	defer undo()
	if err := c.expect(stateReady, orderGo); err != nil {
		return nil, err
	}
	return crew.measure(ctx, c)
}

func (j job) setup() setup {
	return setup{addrs: j.Addrs, callers: j.Callers, ttl: j.TTL, patient: j.Patient}
}

// expect says where the process is, and waits for the order to go on.
func (c client) expect(state, order string) error {
	if err := c.out.Encode(message{State: state}); err != nil {
		return err
	}
	if !c.in.Scan() {
		return io.ErrUnexpectedEOF
	}
	if got := c.in.Text(); got != order {
		return fmt.Errorf("the order was %q and not %q", got, order)
	}
	return nil
}

// measure does the job and returns what it took, up to the parent's word that
// all masters have answered all of it.
func (c *crew) measure(ctx context.Context, client client) (*result, error) {
	runtime.GC() // what connecting has left
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, peak := cpuTime(), watchGoroutines()
	start := time.Now()
	c.work(ctx, c.job.Duration)
	late := c.join(c.job.Duration + c.job.Grace)
	elapsed := time.Since(start)
	c.cutOff.Store(true)
	if err := client.expect(stateDone, orderEnd); err != nil {
		return nil, err
	}
	if late != nil {
		if err := c.join(lastWait); err != nil {
			return nil, err
		}
	}
	time.Sleep(settle)
	cpu = cpuTime() - cpu
	runtime.ReadMemStats(&after)
	r := c.result()
	r.Until = start.Add(c.job.Duration).UnixNano()
	r.Elapsed, r.CPU, r.Goroutines = elapsed, cpu, peak()
	r.Mallocs, r.Bytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	return r, nil
}

// watchGoroutines counts the process's goroutines until the function it returns
// is called, which tells the peak. It allocates once.
func watchGoroutines() (peak func() int) {
	var most atomic.Int64
	quit := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for {
			most.Store(max(most.Load(), int64(runtime.NumGoroutine())))
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
	})
	return func() int {
		close(quit)
		wg.Wait()
		return int(most.Load()) - 1 // the counter's own
	}
}
