package engine

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/fakeredis"
)

// answerOf is what master i answers to the SET of a key, so that each answer
// tells to whom it belongs.
func answerOf(key string, i int) Vote {
	h := fnv.New32a()
	fmt.Fprint(h, key, i)
	return []Vote{Granted, Refused, Failed}[h.Sum32()>>8%3]
}

// answerByKey has every master answer so.
func (c *cluster) answerByKey() {
	for i, s := range c.fakes {
		s.Hook("set", func(cmd fakeredis.Command) fakeredis.Action {
			key := string(cmd.Args[1])
			switch answerOf(key, i) {
			case Granted:
				return raw("+OK\r\n")
			case Refused:
				return raw("_\r\n")
			}
			return fakeredis.Action{Error: "ERR to " + key}
		})
	}
}

// checkAnswers compares the votes of a round with what the masters have
// answered to it. Votes may be missing: failed with the connection, or owed.
// It returns how many are.
func checkAnswers(t *testing.T, key string, o Outcome) (missing int) {
	t.Helper()
	want := Tally{Masters: o.Tally.Masters}
	for i := range o.Tally.Masters {
		want.count(answerOf(key, i))
	}
	answered := 0
	for _, f := range o.Failures {
		var se ServerError
		if errors.As(f.Err, &se) {
			require.Equal(t, "ERR to "+key, se.Error(), "another round's answer")
			require.Equal(t, Failed, answerOf(key, f.Master), "another master's answer")
			answered++
		}
	}
	require.LessOrEqual(t, o.Tally.Granted, want.Granted, "%s", key)
	require.LessOrEqual(t, o.Tally.Refused, want.Refused, "%s", key)
	missing = o.Tally.Owed() + o.Tally.Failed - answered
	if missing == 0 {
		require.Equal(t, want, o.Tally, "%s", key)
	}
	return missing
}

// early makes an Op that is decided by so many votes of any kind: the rest are
// stragglers, and the round goes back to the pool when they have come.
func early(n int) *Op {
	op := Acquire
	op.Decide = func(t Tally) Decision {
		if t.Granted+t.Refused+t.Failed < n {
			return Undecided
		}
		return NoQuorum // so that the outcome shows the failures
	}
	return &op
}

func TestAVoteNeverCountsForAnotherRound(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		c := w.start(t, 5)
		c.answerByKey()
		ops := []*Op{early(1), early(3), early(4), early(5)}
		var crowd sync.WaitGroup
		for g := range 24 {
			crowd.Go(func() {
				for i := range 100 {
					key := fmt.Sprint("key ", g, " ", i)
					op := ops[rand.IntN(len(ops))]
					o := c.do(context.Background(), op, key, "v", time.Hour)
					require.Equal(t, NoQuorum, o.Decision)
					checkAnswers(t, key, o)
				}
			})
		}
		crowd.Wait()
		c.settled()
		require.Equal(t, 5, c.connected())
	})
}

func TestAVoteNeverCountsForAnotherRoundWhileConnectionsEnd(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		c := w.start(t, 5)
		c.answerByKey()
		ops := []*Op{early(3), early(5)}
		stop := make(chan struct{})
		var crowd, breaker sync.WaitGroup
		breaker.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(ms):
					c.forgiveFailures()
					if c.connected() < 5 {
						continue
					}
					s := c.fakes[rand.IntN(5)]
					if i%4 == 0 {
						s.Restart(false)
					} else {
						s.Reset()
					}
				}
			}
		})
		var complete, missing atomic.Int64
		for g := range 16 {
			crowd.Go(func() {
				for i := range 100 {
					key := fmt.Sprint("key ", g, " ", i)
					until(t, func() bool { return c.connected() == 5 }, "masters do not come back")
					o := c.do(context.Background(), ops[i%2], key, "v", time.Hour)
					if checkAnswers(t, key, o) > 0 {
						missing.Add(1)
					} else {
						complete.Add(1)
					}
				}
			})
		}
		crowd.Wait()
		close(stop)
		breaker.Wait()
		c.awaitUp(5)
		c.settled()
		require.Positive(t, complete.Load())
		require.Positive(t, missing.Load())
		t.Log(complete.Load(), "rounds were complete,", missing.Load(), "were not")
	})
}

// A master lags behind by many rounds: its answers come when the rounds to which
// they belong are long decided, and others go on.
func TestAStragglersAnswerNeverCountsForALaterRound(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		c := w.start(t, 5)
		c.answerByKey()
		c.fakes[4].SetLag(20 * ms)
		ops := []*Op{early(3), early(4)}
		var crowd sync.WaitGroup
		for g := range 8 {
			crowd.Go(func() {
				for i := range 200 {
					key := fmt.Sprint("key ", g, " ", i)
					op := ops[rand.IntN(2)]
					if i%40 == 39 { // in the lag of the others
						op = early(5)
					}
					checkAnswers(t, key, c.do(context.Background(), op, key, "v", time.Hour))
				}
			})
		}
		crowd.Wait()
		c.settled()
		require.Equal(t, 5, c.connected())
	})
}

// TestNothingEverHangs lets everything happen at once, at random: every wait
// ends by its deadline, and in the end nothing is owed and no key is left.
func TestNothingEverHangs(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		const (
			timeout = 100 * ms
			slack   = 10 * time.Second // of a busy machine
			keys    = 12               // fewer than callers: they compete
		)
		c := w.start(t, 5, roundTimeout(timeout), silence(300*ms))
		stop := make(chan struct{})
		var crowd, breaker sync.WaitGroup
		breaker.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Duration(rand.IntN(20)) * ms):
				}
				c.forgiveFailures()
				if c.connected() < 3+rand.IntN(2) {
					continue
				}
				s := c.fakes[rand.IntN(5)]
				switch rand.IntN(8) {
				case 0, 1, 2:
					s.Reset()
				case 3:
					s.Restart(true)
				case 4:
					s.SetLag(time.Duration(rand.IntN(int(timeout))))
				case 5:
					s.SetLag(0)
				case 6:
					s.Freeze()
				case 7:
					s.Thaw()
				}
			}
		})
		var longest atomic.Int64
		decisions := [4]atomic.Int64{}
		end := time.Now().Add(1500 * ms)
		for g := range 24 {
			crowd.Go(func() {
				for i := 0; time.Now().Before(end); i++ {
					key, value := fmt.Sprint("key", rand.IntN(keys)), fmt.Sprint("v ", g, " ", i)
					ctx, cancel := context.Background(), context.CancelFunc(func() {})
					limit := timeout
					switch rand.IntN(4) {
					case 0:
						ctx, cancel = context.WithTimeout(ctx, time.Duration(rand.IntN(int(2*timeout))))
					case 1:
						ctx, cancel = context.WithCancel(ctx)
						time.AfterFunc(time.Duration(rand.IntN(int(timeout))), cancel)
					}
					set := func(r *Round) {
						if rand.IntN(3) == 0 {
							limit = time.Duration(rand.IntN(int(timeout)))
							r.Deadline = time.Now().Add(limit)
						}
					}
					start := time.Now()
					o := c.do(ctx, &Acquire, key, value, time.Hour, set)
					longest.Store(max(longest.Load(), int64(time.Since(start)-limit)))
					require.True(t, o.Decision != Undecided || o.Err != nil)
					decisions[o.Decision].Add(1)
					if o.Decision == Won && rand.IntN(2) == 0 {
						c.do(ctx, &Extend, key, value, time.Hour, func(r *Round) { r.Order = new(Order) })
					}
					if o.Sent != 0 {
						r := c.begin(&Release, key, value, time.Hour, func(r *Round) { r.May = o.Sent })
						if rand.IntN(2) == 0 {
							require.NoError(t, c.Send(r))
						} else {
							c.Wait(context.Background(), r)
						}
					}
					cancel()
				}
			})
		}
		crowd.Wait()
		close(stop)
		breaker.Wait()
		require.Less(t, time.Duration(longest.Load()), slack)
		for _, s := range c.fakes {
			s.SetLag(0)
			s.Thaw()
		}
		c.awaitUp(5)
		c.settled()
		for i, s := range c.fakes {
			require.Empty(t, s.Keys(), "master %d: released on every master, whatever happened", i)
		}
		require.Equal(t, Won, c.acquire("afterwards", "v").Decision)
		c.settled()
		c.consistent()
		t.Logf("%d undecided, %d won, %d lost, %d no quorum; at most %v late", decisions[0].Load(), decisions[1].Load(),
			decisions[2].Load(), decisions[3].Load(), time.Duration(longest.Load()))
	})
}

// forgiveFailures has masters dialed again soon, however often they have failed:
// else most of the time would be spent waiting.
func (c *cluster) forgiveFailures() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.masters {
		m.failures = 0
	}
}

// consistent checks the engine's counts against what they count.
func (c *cluster) consistent() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	debts, releases, unsent, up := 0, 0, 0, 0
	for _, m := range c.masters {
		debts += m.fifo.len
		for i := range m.fifo.len {
			if m.fifo.at(i).round.Op.Kind == Releasing {
				releases++
			}
		}
		if m.unsent {
			unsent++
		}
		if m.conn != nil {
			up++
		}
	}
	require.Equal(c.t, []int{debts, releases, unsent, up}, []int{c.debts, c.releases, c.unsent, c.up})
	pooled := map[*Round]bool{}
	for r := c.free; r != nil; r = r.next {
		require.False(c.t, pooled[r], "a round is in the pool twice")
		pooled[r] = true
		require.Zero(c.t, r.debts)
		require.Equal(c.t, absent, r.caller)
		require.Empty(c.t, r.wake)
		require.NotContains(c.t, strings.Trim(fmt.Sprint(r.votes), "[]"), "granted")
	}
	require.Len(c.t, pooled, c.freeLen)
}
