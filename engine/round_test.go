package engine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/conn"
)

// Rounds in virtual time: every instant is exact.

func roundTimeout(d time.Duration) func(*Config) { return func(cfg *Config) { cfg.RoundTimeout = d } }
func silence(d time.Duration) func(*Config)      { return func(cfg *Config) { cfg.Silence = d } }

func TestTheDecisionComesAtTheDecidingReply(t *testing.T) {
	const timeout = 50 * ms
	for _, c := range []struct {
		name       string
		roundTrips []time.Duration
		taken      []int // masters on which another has the key
		at         time.Duration
		decision   Decision
		tally      Tally
	}{
		{"all but one answer", []time.Duration{1 * ms, 2 * ms, 3 * ms, 40 * ms, cut}, nil, 3 * ms, Won, Tally{5, 3, 0, 0}},
		{"in any order", []time.Duration{cut, 40 * ms, 3 * ms, 2 * ms, 1 * ms}, nil, 3 * ms, Won, Tally{5, 3, 0, 0}},
		{"two cut off", []time.Duration{1 * ms, 2 * ms, 40 * ms, cut, cut}, nil, 40 * ms, Won, Tally{5, 3, 0, 0}},
		{"at the same instant", []time.Duration{3 * ms, 3 * ms, 3 * ms, 40 * ms, 40 * ms}, nil, 3 * ms, Won, Tally{5, 3, 0, 0}},
		{"three cut off", []time.Duration{1 * ms, 2 * ms, cut, cut, cut}, nil, timeout, NoQuorum, Tally{5, 2, 0, 3}},
		{"all cut off", []time.Duration{cut, cut, cut, cut, cut}, nil, timeout, NoQuorum, Tally{5, 0, 0, 5}},
		{"the third a moment before the time-out", []time.Duration{ms, ms, timeout - 2, cut, cut}, nil, timeout - 2, Won, Tally{5, 3, 0, 0}},
		{"the third too late", []time.Duration{ms, ms, timeout + 2, cut, cut}, nil, timeout, NoQuorum, Tally{5, 2, 0, 3}},
		{"another has it", []time.Duration{1 * ms, 2 * ms, 3 * ms, 40 * ms, cut}, []int{0, 1, 2, 3, 4}, 3 * ms, Lost, Tally{5, 0, 3, 0}},
		{"another has one", []time.Duration{1 * ms, 2 * ms, 3 * ms, 40 * ms, cut}, []int{1}, 40 * ms, Won, Tally{5, 3, 1, 0}},
		{"split, the last is cut off", []time.Duration{1 * ms, 2 * ms, 3 * ms, 4 * ms, cut}, []int{0, 1}, timeout, Lost, Tally{5, 2, 2, 1}},
		{"one master", []time.Duration{7 * ms}, nil, 7 * ms, Won, Tally{1, 1, 0, 0}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := memory.start(t, len(c.roundTrips), roundTimeout(timeout))
				for _, i := range c.taken {
					cl.fakes[i].Set("key", "another", 0)
				}
				cl.latencies(c.roundTrips...)
				start := time.Now()
				o := cl.acquire("key", "v")
				require.Equal(t, c.at, time.Since(start))
				require.Equal(t, c.decision, o.Decision)
				require.Equal(t, c.tally, o.Tally)
				require.Equal(t, cl.everyone(), o.Sent)
				require.NoError(t, o.Err)
				for _, f := range o.Failures {
					require.ErrorIs(t, f.Err, os.ErrDeadlineExceeded)
					require.NotErrorIs(t, f.Err, context.DeadlineExceeded, "it is not the caller's deadline")
					late := c.roundTrips[f.Master] == cut || c.roundTrips[f.Master] > timeout
					require.True(t, late, "master %d has answered", f.Master)
				}
				if c.decision != Won {
					require.Len(t, o.Failures, c.tally.Failed)
				}
			})
		})
	}
}

func TestWithoutAQuorumToWriteToNothingIsSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3)
		for _, s := range c.fakes[1:] {
			require.NoError(t, s.Refuse(true))
			s.Reset()
		}
		c.awaitUp(1)
		for _, op := range []*Op{&Acquire, &Extend} {
			start := time.Now()
			o := c.do(context.Background(), op, "key", "v", time.Hour)
			require.Zero(t, time.Since(start))
			require.Equal(t, NoQuorum, o.Decision)
			require.Zero(t, o.Sent)
			require.Error(t, o.failure(1))
			require.Error(t, o.failure(2))
		}
		synctest.Wait()
		require.Empty(t, commands(c.fakes[0]))
	})
}

func TestARoundsOwnDeadlineDecides(t *testing.T) {
	for _, own := range []time.Duration{7 * ms, 49 * ms, 500 * ms, -ms, 0} {
		t.Run(own.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := memory.start(t, 3, roundTimeout(50*ms))
				c.latencies(cut, cut, ms)
				time.Sleep(3 * ms) // away from the epoch
				start := time.Now()
				o := c.do(context.Background(), &Acquire, "key", "v", time.Hour,
					func(r *Round) { r.Deadline = start.Add(own) })
				require.Equal(t, max(0, min(own, 50*ms)), time.Since(start), "the earlier of the two")
				require.Equal(t, NoQuorum, o.Decision)
				require.Zero(t, o.Tally.Owed(), "what was owed has failed")
				require.NoError(t, o.Err)
			})
		})
	}
}

// Callers whose deadlines differ share one reader, which may sleep past a
// deadline that is queued later.
func TestEveryDeadlineOfACrowdIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3, roundTimeout(time.Second), silence(time.Hour))
		c.latencies(cut, cut, ms)
		var crowd sync.WaitGroup
		for i := range 50 {
			crowd.Go(func() {
				time.Sleep(time.Duration(i%10) * ms)
				start := time.Now()
				own := time.Duration(600-11*i) * ms
				o := c.do(context.Background(), &Acquire, fmt.Sprint("key", i), "v", time.Hour,
					func(r *Round) { r.Deadline = start.Add(own) })
				require.Equal(t, own, time.Since(start))
				require.Equal(t, NoQuorum, o.Decision)
			})
		}
		crowd.Wait()
	})
}

func TestADeadlineBeforeThatOfTheReaderIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3, roundTimeout(time.Second), silence(time.Hour))
		c.latencies(cut, cut, cut)
		var reader sync.WaitGroup
		reader.Go(func() { require.Equal(t, NoQuorum, c.acquire("reader", "v").Decision) })
		time.Sleep(5 * ms)
		c.mu.Lock()
		parked := c.parked
		c.mu.Unlock()
		require.Greater(t, parked, c.now()+50*ms)
		start := time.Now()
		o := c.do(context.Background(), &Acquire, "key", "v", time.Hour, func(r *Round) { r.Deadline = start.Add(7 * ms) })
		require.Equal(t, NoQuorum, o.Decision)
		require.Equal(t, 7*ms, time.Since(start))
		reader.Wait()
	})
}

func TestACancelledContextEndsTheWait(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		name   string
		others int // callers that wait as well
		after  time.Duration
		slack  time.Duration
	}{
		{"before anything", 0, 0, lookEvery},
		{"of a caller that reads", 0, 300 * time.Microsecond, lookEvery},
		{"of a caller that has read for long", 0, 5 * ms, lookEvery},
		{"of one of a crowd", 20, 5 * ms, 0},
		{"of one of a crowd, before anything", 20, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := memory.start(t, 3, roundTimeout(40*ms))
				cl.latencies(cut, cut, ms)
				var crowd sync.WaitGroup
				for i := range c.others {
					crowd.Go(func() {
						o := cl.acquire(fmt.Sprint("other", i), "v")
						require.NoError(t, o.Err)
						require.Equal(t, NoQuorum, o.Decision)
					})
				}
				synctest.Wait()
				ctx, cancel := context.WithCancelCause(context.Background())
				defer cancel(nil)
				start := time.Now()
				if c.after == 0 {
					cancel(cause)
				} else {
					time.AfterFunc(c.after, func() { cancel(cause) })
				}
				o := cl.do(ctx, &Acquire, "key", "v", time.Hour)
				took := time.Since(start)
				require.GreaterOrEqual(t, took, c.after)
				require.LessOrEqual(t, took, c.after+c.slack)
				require.Less(t, took, c.after+2*ms)
				require.Equal(t, Undecided, o.Decision)
				require.ErrorIs(t, o.Err, context.Canceled)
				require.Equal(t, cl.everyone(), o.Sent, "what has to be released")
				crowd.Wait()
			})
		})
	}
}

func TestADecisionIsWorthMoreThanACancellation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3)
		r := c.begin(&Acquire, "key", "v", time.Hour)
		require.NoError(t, c.Send(c.begin(&Acquire, "other", "v", time.Hour))) // writes both
		synctest.Wait()
		c.look()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		o := c.Wait(ctx, r)
		require.Equal(t, Won, o.Decision)
		require.NoError(t, o.Err)
	})
}

func TestNobodyReadsWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 5, roundTimeout(time.Second))
		c.latencies(1*ms, 2*ms, 3*ms, 40*ms, 40*ms)
		var crowd sync.WaitGroup
		for i := range 50 {
			crowd.Go(func() { require.Equal(t, Won, c.acquire(fmt.Sprint("key", i), "v").Decision) })
		}
		crowd.Wait()
		synctest.Wait()
		c.locked(func() {
			require.Equal(t, free, c.role, "stragglers are left to the tick")
			require.Equal(t, 2*50, c.debts)
			require.True(t, c.soon)
		})
		time.Sleep(37*ms + busyTick)
		synctest.Wait()
		c.locked(func() {
			require.Zero(t, c.debts, "the tick has read them")
			require.LessOrEqual(t, c.freeLen, 50)
		})
		time.Sleep(idleTick)
		require.Empty(t, goroutines("(*Engine).background"))
	})
}

func TestASilentConnectionIsGivenUpAndComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const quiet = time.Second
		c := memory.start(t, 3, roundTimeout(50*ms), silence(quiet))
		c.latencies(ms, ms, cut)
		start := time.Now()
		for i := 0; time.Since(start) <= quiet; i++ { // replies are owed all the time
			require.Equal(t, Won, c.acquire(fmt.Sprint("key", i), "v").Decision)
			require.Equal(t, 3, c.connected(), "not silent for long enough")
			time.Sleep(10 * ms)
		}
		c.awaitUp(2)
		require.LessOrEqual(t, time.Since(start), quiet+2*longestPark+2*busyTick)
		require.ErrorIs(t, c.Down()[0].Err, os.ErrDeadlineExceeded)

		o := c.acquire("without it", "v")
		require.Equal(t, Won, o.Decision)
		require.False(t, o.Sent.Has(2))

		c.latencies(ms, ms, ms)
		c.awaitUp(3)
		require.Empty(t, c.Down())
		o = c.do(context.Background(), acquireAll, "with it", "v", time.Hour)
		require.Equal(t, 3, o.Tally.Granted)
	})
}

func TestAConnectionThatOwesNothingMayBeSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3, silence(time.Second))
		time.Sleep(time.Hour)
		require.Equal(t, 3, c.connected())
		// And an old silence does not count against what is owed from now on.
		c.latencies(999*ms, 999*ms, 999*ms)
		require.Equal(t, Won, c.acquire("key", "v").Decision)
		require.Equal(t, 3, c.connected())
	})
}

// Under load a master owes replies all the time, and they come late: as long as
// they come, the connection is good.
func TestAConnectionThatBringsBytesIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3, roundTimeout(50*ms), silence(500*ms))
		c.latencies(ms, ms, 400*ms)
		start := time.Now()
		for i := 0; time.Since(start) <= 10*time.Second; i++ {
			require.Equal(t, Won, c.acquire(fmt.Sprint("key", i), "v").Decision)
			time.Sleep(10 * ms)
		}
		number, up := c.connectionOf(2)
		require.True(t, up)
		require.EqualValues(t, 1, number)
	})
}

func TestDialsBackOffWithJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var dials []time.Time
		c := memory.start(t, 1, func(cfg *Config) {
			dial := cfg.Dial.Dial
			cfg.Dial.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				mu.Lock()
				defer mu.Unlock()
				dials = append(dials, time.Now())
				return dial(ctx, network, addr)
			}
		})
		require.NoError(t, c.fakes[0].Refuse(true))
		time.Sleep(time.Minute) // it has lived for long
		c.fakes[0].Reset()
		time.Sleep(time.Minute)
		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, len(dials), 60)
		whole := 0
		for n := 1; n+1 < len(dials); n++ {
			gap, longest := dials[n+1].Sub(dials[n]), backOff(n+1, slowestDial, 0)
			require.LessOrEqual(t, gap, longest, "dial %d", n)
			require.GreaterOrEqual(t, gap, longest/2, "dial %d", n)
			if gap == longest || gap == dials[n].Sub(dials[n-1]) {
				whole++
			}
		}
		require.Less(t, whole, 5, "the pauses are random")
	})
}

func TestAConnectionThatEndsAtOnceIsNotDialedInALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dials := 0
		c := memory.start(t, 1)
		start := time.Now()
		for time.Since(start) < 10*time.Second {
			c.fakes[0].Reset()
			c.awaitUp(0)
			c.awaitUp(1)
			dials++
		}
		require.Less(t, dials, 40, "each connection lives for less than settledAfter")
	})
}

func TestReadyWaitsForAQuorum(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memory.network()
		cfg := Config{RoundTimeout: 50 * ms, Silence: time.Second, Dial: conn.Options{Dial: n.Dial, Timeout: time.Second}}
		for _, addr := range []string{"a:1", "b:1", "c:1"} {
			cfg.Masters = append(cfg.Masters, conn.Address{Network: "tcp", Addr: addr})
		}
		e, err := New(cfg)
		require.NoError(t, err)
		defer e.Close()
		require.Len(t, e.Down(), 3)

		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.ErrorIs(t, e.Ready(ctx), context.DeadlineExceeded)
		for _, f := range e.Down() {
			require.ErrorContains(t, f.Err, "dial: ")
			require.NotContains(t, f.Err.Error(), ":1", "the master is named beside it")
		}
		ready := make(chan error, 1)
		go func() { ready <- e.Ready(context.Background()) }()
		startFake(t, n, "a:1")
		time.Sleep(5 * time.Second)
		require.Empty(t, ready)
		startFake(t, n, "c:1")
		require.NoError(t, <-ready)
	})
}

func TestFirstContactWaitsOnlyForFirstDials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &cluster{t: t, net: memory.network()}
		n := c.net
		cfg := Config{RoundTimeout: 50 * ms, Silence: time.Second, Dial: conn.Options{Dial: n.Dial, Timeout: time.Second}}
		for i, addr := range []string{"a:1", "b:1", "c:1"} {
			cfg.Masters = append(cfg.Masters, conn.Address{Network: "tcp", Addr: addr})
			n.SetLatency(addr, time.Duration(5*(i+1))*ms)
		}
		startFake(t, n, "a:1")
		startFake(t, n, "b:1")
		e, err := New(cfg)
		require.NoError(t, err)
		defer e.Close()

		start := time.Now()
		e.FirstContact(context.Background(), start.Add(7*ms))
		require.Equal(t, 7*ms, time.Since(start), "its deadline")
		ctx, cancel := context.WithTimeout(context.Background(), 4*ms)
		defer cancel()
		e.FirstContact(ctx, start.Add(time.Hour))
		require.Equal(t, 11*ms, time.Since(start), "its context")
		e.FirstContact(context.Background(), start.Add(time.Hour))
		require.Equal(t, 4*10*ms, time.Since(start), "a dial and a handshake with two masters of three")
		e.FirstContact(context.Background(), start.Add(time.Hour))
		require.Equal(t, 4*10*ms, time.Since(start), "a quorum is up")
	})
}
