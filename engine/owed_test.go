package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/fakeredis"
)

// takeDown makes the last master unreachable, with nothing unanswered.
func (c *cluster) takeDown() *fakeredis.Server {
	c.t.Helper()
	c.settled()
	last := c.fakes[len(c.fakes)-1]
	require.NoError(c.t, last.Refuse(true))
	last.Reset()
	c.awaitUp(c.N() - 1)
	return last
}

// bringBack undoes takeDown.
func (c *cluster) bringBack() {
	c.t.Helper()
	require.NoError(c.t, c.fakes[len(c.fakes)-1].Refuse(false))
	c.awaitUp(c.N())
}

func TestAReleaseIsOwedToAMasterThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3)
		for i := range 3 {
			require.Equal(t, 3, c.do(context.Background(), acquireAll, fmt.Sprint("key", i), "v", time.Hour).Tally.Granted)
		}
		last := c.takeDown()
		for i := range 3 {
			o := c.do(context.Background(), releaseAll, fmt.Sprint("key", i), "v", time.Hour)
			require.Equal(t, Tally{3, 2, 0, 1}, o.Tally)
			require.Error(t, o.failure(2))
		}
		require.Len(t, last.Keys(), 3)

		// Rounds want to go out at the very moment at which the master is back.
		stop := make(chan struct{})
		go func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(100 * time.Microsecond):
					c.acquire(fmt.Sprint("new", i), "v")
				}
			}
		}()
		c.bringBack()
		time.Sleep(10 * ms)
		close(stop)
		c.settled()
		sent := commands(last)
		require.Equal(t, []string{"EVALSHA <release> 1 key0 v", "EVALSHA <release> 1 key1 v", "EVALSHA <release> 1 key2 v"}, sent[:3])
		require.Greater(t, len(sent), 3)
		require.Empty(t, starting(sent[3:], "EVALSHA"), "released once")
		require.Empty(t, starting(last.Keys(), "key"))
	})
}

func TestAReleaseIsSentBehindItsUnansweredSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3, roundTimeout(50*ms))
		for _, s := range c.fakes {
			s.Hook("set", fakeredis.Times(1, fakeredis.Action{Delay: 200 * ms}))
		}
		o := c.acquire("key", "v")
		require.Equal(t, NoQuorum, o.Decision)
		require.NoError(t, c.Send(c.begin(&Release, "key", "v", time.Hour, func(r *Round) { r.May = o.Sent })))
		c.settled()
		for _, s := range c.fakes {
			require.Empty(t, s.Keys(), "an orphan for a whole ttl")
			require.Len(t, starting(commands(s), "SET key", "EVALSHA <release> 1 key"), 2)
			require.Contains(t, commands(s)[1], "EVALSHA")
		}
	})
}

func TestAReleaseUnansweredOnALostConnectionIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3)
		require.Equal(t, 3, c.do(context.Background(), acquireAll, "key", "v", time.Hour).Tally.Granted)
		c.fakes[2].Hook("evalsha", fakeredis.Times(1, fakeredis.Action{Skip: true, Reset: true}))
		require.Equal(t, Tally{3, 2, 0, 1}, c.do(context.Background(), releaseAll, "key", "v", time.Hour).Tally)
		require.Len(t, c.fakes[2].Keys(), 1)
		c.settled()
		require.Empty(t, c.fakes[2].Keys())
	})
}

func TestAReleaseAnsweredWithAnErrorIsTriedAgainWithBackOff(t *testing.T) {
	for _, text := range []string{"BUSY Redis is busy running a script.", "LOADING Redis is loading", "NOPERM no", "ERR what"} {
		t.Run(text, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := memory.start(t, 5)
				o := c.do(context.Background(), acquireAll, "key", "v", time.Hour)
				require.Equal(t, 5, o.Tally.Granted)
				const errors = 12
				for _, s := range c.fakes {
					s.Hook("evalsha", fakeredis.Times(errors, fakeredis.Action{Error: text}))
				}
				o = c.do(context.Background(), releaseAll, "key", "v", time.Hour)
				require.Equal(t, Tally{5, 0, 0, 5}, o.Tally, "an error is no answer")
				require.ErrorContains(t, o.failure(0), text)
				time.Sleep(time.Minute)
				c.settled()
				for i, s := range c.fakes {
					require.Empty(t, s.Keys())
					var at []time.Time
					for _, cmd := range s.Commands() {
						if cmd.Name == "evalsha" {
							at = append(at, cmd.At)
						}
					}
					require.Len(t, at, errors+1)
					for n := 1; n < len(at); n++ {
						gap, longest := at[n].Sub(at[n-1]), backOff(n, slowestRelease, 0)
						require.GreaterOrEqual(t, gap, longest/2, "try %d of master %d", n, i)
						require.LessOrEqual(t, gap, longest+2*busyTick, "try %d of master %d", n, i)
					}
				}
			})
		})
	}
}

// Each debt has its own pause: a new one does not have the old ones asked again.
func TestOneReleasesBackOffIsNotAnothers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 1)
		c.fakes[0].Hook("evalsha", fakeredis.Times(-1, fakeredis.Action{Error: "BUSY"}))
		for i := range 100 {
			require.NoError(t, c.Send(c.begin(&Release, fmt.Sprint("key", i), "v", time.Hour)))
			time.Sleep(100 * ms)
		}
		// In ten seconds the pauses of one grow to more than a second.
		require.Less(t, len(starting(commands(c.fakes[0]), "EVALSHA <release> 1 key0 ")), 15)
	})
}

func TestAReleaseThatAMasterMayNotDoIsForgottenWithItsTTL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 1)
		c.fakes[0].Hook("evalsha", fakeredis.Times(-1, fakeredis.Action{Error: "NOPERM no"}))
		c.do(context.Background(), &Release, "key", "v", time.Minute)
		time.Sleep(time.Minute + slowestRelease)
		c.settled()
		n := c.fakes[0].Count("evalsha")
		time.Sleep(time.Hour)
		require.Equal(t, n, c.fakes[0].Count("evalsha"))
		require.Less(t, n, 30)
	})
}

func TestNOSCRIPTOnAReleaseIsAnsweredWithTheSource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3)
		require.Equal(t, 3, c.do(context.Background(), acquireAll, "key", "v", time.Hour).Tally.Granted)
		c.fakes[2].Hook("evalsha", fakeredis.Times(1, fakeredis.Action{Error: "NOSCRIPT No matching script."}))
		o := c.do(context.Background(), releaseAll, "key", "v", time.Hour)
		require.Equal(t, Tally{3, 3, 0, 0}, o.Tally)
		require.Empty(t, c.fakes[2].Keys())
		require.Equal(t, []string{"EVALSHA <release> 1 key v", "EVAL <release> 1 key v"}, starting(commands(c.fakes[2]), "EVAL"))
		require.Len(t, starting(commands(c.fakes[1]), "EVAL"), 1)

		// At once, and not when somebody happens to write next.
		c.settled()
		c.latencies(10*ms, 10*ms, 10*ms)
		for _, s := range c.fakes {
			s.Hook("evalsha", fakeredis.Times(1, fakeredis.Action{Error: "NOSCRIPT No matching script."}))
		}
		start := time.Now()
		require.Equal(t, 3, c.do(context.Background(), releaseAll, "key", "v", time.Hour).Tally.Refused)
		require.Equal(t, 20*ms, time.Since(start), "two round trips")
		c.latencies(0, 0, 0)

		// Also when nobody waits, and on a source that fails as well.
		c.fakes[2].Set("key", "v", 0)
		c.fakes[2].Hook("evalsha", fakeredis.Times(1, fakeredis.Action{Error: "NOSCRIPT No matching script."}))
		c.fakes[2].Hook("eval", fakeredis.Times(1, fakeredis.Action{Error: "NOSCRIPT what"}))
		require.NoError(t, c.Send(c.begin(&Release, "key", "v", time.Hour)))
		c.settled()
		require.Empty(t, c.fakes[2].Keys())
		require.Equal(t, 3, c.fakes[2].Count("eval"))
	})
}

// An extension that was answered with an error may be sent once more, unless
// something newer of its lock was queued: it would undo that.
func TestAnOldExtensionIsNotSentAgain(t *testing.T) {
	const extended = 30 * time.Minute
	type newer func(c *cluster, o *Order)
	queued := func(op *Op, ttl time.Duration) newer {
		return func(c *cluster, o *Order) {
			r := c.begin(op, "key", "v", ttl, func(r *Round) { r.Order = o })
			require.NoError(c.t, c.Send(r))
		}
	}
	for _, form := range []struct {
		name, error string
		flavor      fakeredis.Flavor
		command     string
	}{
		{"NOSCRIPT", "NOSCRIPT No matching script.", fakeredis.Redis70, "evalsha"},
		{"OOM Redis", "OOM command not allowed", fakeredis.Redis84, "set"},
		{"OOM Valkey", "OOM command not allowed", fakeredis.Valkey9, "set"},
	} {
		for _, c := range []struct {
			name  string
			newer newer
			again bool
		}{
			{"nothing newer", func(*cluster, *Order) {}, true},
			{"another lock's", func(c *cluster, _ *Order) { queued(&Extend, time.Hour)(c, new(Order)) }, true},
			{"a newer extension", queued(&Extend, time.Hour), false},
			{"the release", queued(&Release, time.Hour), false},
		} {
			t.Run(form.name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					cl := memory.startFlavors(t, []fakeredis.Flavor{form.flavor})
					cl.latencies(10 * ms)
					cl.fakes[0].Set("key", "v", time.Hour)
					cl.fakes[0].Hook(form.command, fakeredis.Times(1, fakeredis.Action{Error: form.error}))
					var order Order
					r := cl.begin(extendAll, "key", "v", extended, func(r *Round) { r.Order = &order })
					time.AfterFunc(5*ms, func() { c.newer(cl, &order) })
					o := cl.Wait(context.Background(), r)
					cl.settled()
					evals := starting(commands(cl.fakes[0]), "EVAL <extend>")
					if c.again {
						require.Equal(t, Tally{1, 1, 0, 0}, o.Tally)
						require.Equal(t, []string{fmt.Sprint("EVAL <extend> 1 key v ", extended.Milliseconds())}, evals)
						return
					}
					require.Equal(t, Tally{1, 0, 0, 1}, o.Tally)
					require.ErrorContains(t, o.failure(0), form.error)
					require.Empty(t, evals)
					if ttl, ok := cl.fakes[0].TTL("key"); ok {
						require.Greater(t, ttl, extended, "the newer one stands")
					}
				})
			})
		}
	}
}

func TestFullMemoryDoesNotStopAnExtension(t *testing.T) {
	for _, f := range []fakeredis.Flavor{fakeredis.Redis70, fakeredis.Redis84, fakeredis.Valkey9} {
		t.Run(f.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := memory.startFlavors(t, []fakeredis.Flavor{f, f, f})
				require.Equal(t, 3, c.do(context.Background(), acquireAll, "key", "v", time.Minute).Tally.Granted)
				for _, s := range c.fakes {
					s.SetOOM(true)
				}
				o := c.do(context.Background(), acquireAll, "other", "v", time.Hour)
				require.Equal(t, Tally{3, 0, 0, 3}, o.Tally, "full is not taken")
				require.ErrorContains(t, o.failure(1), "OOM")
				require.Equal(t, Tally{3, 3, 0, 0}, c.do(context.Background(), extendAll, "key", "v", time.Hour).Tally)
				ttl, _ := c.fakes[0].TTL("key")
				require.Equal(t, time.Hour, ttl)
				require.Equal(t, Tally{3, 3, 0, 0}, c.do(context.Background(), releaseAll, "key", "v", time.Hour).Tally)
			})
		})
	}
}

func TestAnOwedReleaseIsForgottenWhenItsTTLHasPassed(t *testing.T) {
	for _, c := range []struct {
		name string
		down time.Duration
		sent int
	}{{"in time", 4 * time.Second, 1}, {"too late", 6 * time.Second, 0}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := memory.start(t, 3)
				cl.acquire("key", "v")
				last := cl.takeDown()
				cl.do(context.Background(), &Release, "key", "v", 5*time.Second)
				time.Sleep(c.down)
				cl.bringBack()
				cl.settled()
				require.Len(t, starting(commands(last), "EVALSHA"), c.sent)
			})
		})
	}
}

// What a frozen server's socket holds runs when it wakes: the key's ttl begins
// only then.
func TestAfterASilentLossTheTTLCountsFromTheReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttl = 5 * time.Second
		c := memory.start(t, 3, roundTimeout(50*ms), silence(time.Second))
		last := c.fakes[2]
		last.Deny("client") // so that nothing stops the old command
		last.Freeze()
		require.Equal(t, Won, c.do(context.Background(), &Acquire, "key", "v", ttl).Decision)
		c.awaitUp(2)
		c.do(context.Background(), &Release, "key", "v", ttl)
		time.Sleep(10 * ttl)
		c.latencies(0, 0, 10*ms)
		last.Thaw()
		synctest.Wait()
		require.Len(t, last.Keys(), 1, "the SET has run")
		c.awaitUp(3)
		c.settled()
		require.Empty(t, last.Keys(), "and is released")

		// The next loss is not a silent one.
		c.takeDown()
		c.do(context.Background(), &Release, "key", "v", ttl)
		n := last.Count("evalsha")
		time.Sleep(10 * ttl)
		c.bringBack()
		c.settled()
		require.Equal(t, n, last.Count("evalsha"))
	})
}

func TestOwedReleasesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 1)
		last := c.takeDown()
		const beyond = 100
		for i := range maxReleases + beyond {
			require.NoError(t, c.Send(c.begin(&Release, fmt.Sprint("key", i), "v", time.Hour)))
		}
		owed := &c.masters[0].owed
		c.locked(func() {
			require.Equal(t, maxReleases, owed.len)
			require.Equal(t, fmt.Sprint("key", beyond), owed.at(0).key, "the oldest are given up")
			require.LessOrEqual(t, c.freeLen, maxFreeRounds)
		})
		c.bringBack()
		c.settled()
		require.Equal(t, maxReleases, last.Count("evalsha"))
		time.Sleep(2 * idleTick)
		c.mu.Lock()
		defer c.mu.Unlock()
		require.LessOrEqual(t, c.freeLen, idleFreeRounds)
		require.Empty(t, owed.ring, "its memory is given back")
	})
}

func TestAMasterThatOwesTooMuchGetsNoNewLocksButAllReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3, roundTimeout(50*ms), silence(time.Hour))
		last := c.fakes[2]
		last.Freeze()
		each := func(op *Op) { // and let the others answer
			for i := range maxOwed {
				require.NoError(t, c.Send(c.begin(op, fmt.Sprint("key", i), "v", time.Hour)))
				if i%500 == 499 {
					c.eventually(func() bool { return c.masters[0].fifo.len == 0 }, "no answer")
				}
			}
		}
		each(&Acquire)
		c.locked(func() { require.Equal(t, maxOwed, c.masters[2].fifo.len) })
		for _, op := range []*Op{&Acquire, &Extend} {
			o := c.do(context.Background(), unanimous(*op), "beyond", "v", time.Hour)
			require.False(t, o.Sent.Has(2))
			require.Equal(t, errFull, o.failure(2))
			require.Equal(t, 1, o.Tally.Failed, "the others go on")
		}
		require.Equal(t, Won, c.release("beyond", "v").Decision)
		each(&Release)
		c.locked(func() { require.Equal(t, 2*maxOwed+1, c.masters[2].fifo.len) })

		last.Thaw()
		c.settled()
		for _, s := range c.fakes {
			require.Empty(t, s.Keys())
		}
		o := c.do(context.Background(), acquireAll, "afterwards", "v", time.Hour)
		require.Equal(t, Tally{3, 3, 0, 0}, o.Tally)
		c.mu.Lock()
		defer c.mu.Unlock()
		require.EqualValues(t, 1, c.masters[2].number, "on the same connection")
	})
}

// A release that is decided before anything is written is read like any other.
func TestARoundThatIsDecidedAtOnceLeavesNothingUnread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3)
		c.acquire("key", "v")
		c.settled()
		for _, s := range c.fakes[1:] {
			require.NoError(t, s.Refuse(true))
			s.Reset()
		}
		c.awaitUp(1)
		time.Sleep(idleTick / 2)
		require.Equal(t, NoQuorum, c.release("key", "v").Decision)
		c.mu.Lock()
		defer c.mu.Unlock()
		require.Equal(t, 1, c.debts)
		require.True(t, c.role != free || c.soon, "nobody will read the reply")
	})
}
