package engine

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/fakeredis"
)

func TestCloseEndsEveryWait(t *testing.T) {
	for _, callers := range []int{1, 2, 50} {
		t.Run(fmt.Sprint(callers, " callers"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := memory.start(t, 3, roundTimeout(time.Second))
				c.latencies(cut, cut, cut)
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				start := time.Now()
				var crowd sync.WaitGroup
				for i := range callers {
					crowd.Go(func() {
						use := ctx
						if i%2 == 0 {
							use = context.Background()
						}
						o := c.do(use, &Acquire, fmt.Sprint("key", i), "v", time.Hour)
						require.ErrorIs(t, o.Err, ErrClosed)
						require.Equal(t, Undecided, o.Decision)
						require.Equal(t, c.everyone(), o.Sent)
						require.Equal(t, 100*ms, time.Since(start), "at the call of Close")
					})
				}
				time.Sleep(100 * ms)
				c.Close()
				crowd.Wait()
				require.Equal(t, 100*ms, time.Since(start), "there was no release to wait for")
			})
		})
	}
}

func TestCloseOfAnIdleEngineTakesNoTime(t *testing.T) {
	for _, roundTrip := range []time.Duration{0, 100 * ms, cut} {
		for _, connected := range []bool{true, false} {
			t.Run(fmt.Sprint(roundTrip, connected), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := memory.start(t, 3, roundTimeout(time.Second))
					c.latencies(roundTrip, roundTrip, roundTrip)
					if !connected { // in the middle of a dial or a handshake
						for _, s := range c.fakes {
							s.Restart(true)
						}
						time.Sleep(250 * ms)
					}
					start := time.Now()
					c.Close()
					require.Zero(t, time.Since(start))
				})
			})
		}
	}
}

func TestCloseWaitsForTheAnswersToReleases(t *testing.T) {
	for _, c := range []struct {
		name       string
		roundTrips []time.Duration
		frozen     bool
		took       time.Duration
		left       int
	}{
		{"all answer", []time.Duration{10 * ms, 20 * ms, 30 * ms}, false, 30 * ms, 0},
		{"one answers too late", []time.Duration{10 * ms, 20 * ms, 300 * ms}, false, 200 * ms, 0},
		{"one is frozen", []time.Duration{10 * ms, 20 * ms, 30 * ms}, true, 200 * ms, 1},
		{"all are cut off", []time.Duration{cut, cut, cut}, false, 200 * ms, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := memory.start(t, 3, roundTimeout(200*ms))
				for i := range 20 {
					cl.do(context.Background(), acquireAll, fmt.Sprint("key", i), "v", time.Hour)
				}
				cl.settled()
				cl.latencies(c.roundTrips...)
				if c.frozen {
					cl.fakes[2].Freeze()
				}
				start := time.Now()
				for i := range 20 {
					require.NoError(t, cl.Send(cl.begin(&Release, fmt.Sprint("key", i), "v", time.Hour)))
				}
				cl.Close()
				require.Equal(t, c.took, time.Since(start))
				left := 0
				for _, s := range cl.fakes {
					if len(s.Keys()) > 0 {
						left++
					}
				}
				require.Equal(t, c.left, left)
			})
		})
	}
}

// A caller whose wait Close ends releases what it may have got, as after any
// other failure; Close lets it, and waits for that.
func TestCloseLetsEndedCallersRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3, roundTimeout(time.Second))
		c.latencies(20*ms, 20*ms, 20*ms)
		var crowd sync.WaitGroup
		for i := range 20 {
			crowd.Go(func() {
				require.NoError(t, c.Enter())
				defer c.Leave()
				key := fmt.Sprint("key", i)
				o := c.Wait(context.Background(), c.begin(&Acquire, key, "v", time.Hour))
				require.ErrorIs(t, o.Err, ErrClosed)
				again := c.Wait(context.Background(), c.begin(&Acquire, key, "v", time.Hour))
				require.Equal(t, ErrClosed, again.Err, "releases only")
				require.Zero(t, again.Sent)
				time.Sleep(5 * ms) // it is slow
				require.NoError(t, c.Send(c.begin(&Release, key, "v", time.Hour, func(r *Round) { r.May = o.Sent })))
			})
		}
		time.Sleep(5 * ms)
		start := time.Now()
		c.Close()
		require.Equal(t, 25*ms, time.Since(start), "the pause and a round trip")
		crowd.Wait()
		for _, s := range c.fakes {
			require.Equal(t, 20, s.Count("evalsha"))
			require.Empty(t, s.Keys())
		}
	})
}

func TestAClosedEngineRefusesEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3)
		before := c.begin(&Acquire, "before", "v", time.Hour) // queued, and not yet waited for
		c.Close()
		c.Close()

		require.ErrorIs(t, c.Enter(), ErrClosed)
		require.ErrorIs(t, c.Ready(context.Background()), ErrClosed)
		c.FirstContact(context.Background(), time.Now().Add(time.Hour)) // does not wait
		for _, op := range []*Op{&Acquire, &Extend, &Release} {
			o := c.Wait(context.Background(), c.begin(op, "key", "v", time.Hour))
			require.Equal(t, ErrClosed, o.Err, op.Name)
			require.Equal(t, Undecided, o.Decision)
			require.Zero(t, o.Sent)
			require.Equal(t, ErrClosed, c.Send(c.begin(op, "key", "v", time.Hour)), op.Name)
		}
		o := c.Wait(context.Background(), before)
		require.True(t, o.Decision != Undecided || o.Err == ErrClosed, "it waits for ever")
		synctest.Wait()
		for i, s := range c.fakes {
			require.Zero(t, s.Count("evalsha"))
			require.Zero(t, s.Connections(), "master %d", i)
			require.ErrorIs(t, c.Down()[i].Err, ErrClosed)
		}
		time.Sleep(time.Hour) // nothing comes back
		require.Equal(t, 0, c.connected())
	})
}

func TestCloseWakesThoseWhoWaitForMasters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3)
		cfg := c.cfg
		cfg.Dial.Scripts = nil
		c.latencies(cut, cut, cut)
		e, err := New(cfg)
		require.NoError(t, err)
		var crowd sync.WaitGroup
		crowd.Go(func() { require.ErrorIs(t, e.Ready(context.Background()), ErrClosed) })
		crowd.Go(func() { e.FirstContact(context.Background(), time.Now().Add(time.Hour)) })
		synctest.Wait()
		start := time.Now()
		e.Close()
		crowd.Wait()
		require.Zero(t, time.Since(start))
	})
}

// Close in the middle of everything: every call returns, and nothing is left of
// the engine.
func TestCloseLeavesNoGoroutineAndNoDescriptor(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		var fakes []*fakeredis.Server
		cfg := Config{RoundTimeout: 5 * time.Second, Silence: time.Minute, Dial: conn.Options{Pump: w.pump, Timeout: forLong}}
		for range 3 {
			s := fakeredis.Start(t)
			fakes = append(fakes, s)
			cfg.Masters = append(cfg.Masters, conn.Address{Network: "tcp", Addr: s.Addr()})
		}
		files := descriptors(t)
		for round := range 15 {
			e, err := New(cfg)
			require.NoError(t, err)
			c := &cluster{Engine: e, t: t, fakes: fakes}
			if round%3 > 0 {
				require.NoError(t, e.Ready(context.Background()))
			}
			var crowd sync.WaitGroup
			for g := range 8 {
				crowd.Go(func() {
					for i := 0; ; i++ {
						key := fmt.Sprint("key ", g, i)
						o := c.acquire(key, "v")
						if o.Sent != 0 {
							_ = c.Send(c.begin(&Release, key, "v", time.Minute, func(r *Round) { r.May = o.Sent }))
						}
						if o.Err != nil {
							require.ErrorIs(t, o.Err, ErrClosed)
							return
						}
					}
				})
			}
			for range round { // some way in
				runtime.Gosched()
			}
			if round%3 == 2 {
				fakes[round%2].Reset()
			}
			for range 2 { // at the same time
				crowd.Go(e.Close)
			}
			e.Close()
			crowd.Wait()
		}
		until(t, func() bool { return len(ours()) == 0 }, "goroutines are left")
		until(t, func() bool { return descriptors(t) <= files }, "descriptors are left")
	})
}

// descriptors counts this process's, where that is possible.
func descriptors(t testing.TB) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return 0
	}
	return len(list)
}
