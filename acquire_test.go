package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/fakeredis"
)

func TestAcquireSendsTheCommandOfEveryRedlockClient(t *testing.T) {
	for _, tc := range []struct {
		ttl time.Duration
		px  string
	}{
		{10 * time.Second, "10000"},
		{time.Minute + time.Millisecond, "60001"},
		{time.Minute + 1, "60001"},
		{time.Minute - 1, "60000"},
		{10*time.Millisecond + 999_999, "11"},
	} {
		t.Run("ttl "+tc.ttl.String(), func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				lock := c.acquire(t, c.client(t), tc.ttl)
				for _, m := range c.masters {
					cmds := received(m)
					require.Len(t, cmds, 1)
					require.Equal(t, "SET "+key+" "+lock.Value()+" NX PX "+tc.px, cmds[0].String())
				}
			})
		})
	}
}

func TestUntilIsStartPlusTTLMinusDrift(t *testing.T) {
	for _, tc := range []struct {
		name   string
		ttl    time.Duration
		factor float64
		want   time.Duration
	}{
		{"default", 10 * time.Second, 0, 10*time.Second - 102*time.Millisecond},
		{"of the rounded ttl", 10*time.Second - 999_999, 0, 10*time.Second - 102*time.Millisecond},
		{"no factor", 10 * time.Second, -1, 10*time.Second - 2*time.Millisecond},
		{"a large factor", 10 * time.Second, 0.25, 7500*time.Millisecond - 2*time.Millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				client := c.client(t, func(cfg *redlock.Config) { cfg.DriftFactor = tc.factor })
				c.latencies(4*time.Millisecond, 4*time.Millisecond, 4*time.Millisecond, 4*time.Millisecond, 4*time.Millisecond)
				start := time.Now()
				lock := c.acquire(t, client, tc.ttl)
				require.Equal(t, 4*time.Millisecond, time.Since(start))
				require.Equal(t, tc.want, lock.Until().Sub(start), "counted from the start, not from the answer")
				require.Equal(t, key, lock.Resource())
			})
		})
	}
}

func TestTryAcquireReturnsAtTheDecidingVote(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		client := c.client(t)
		c.latencies(2*time.Millisecond, 4*time.Millisecond, 6*time.Millisecond, 40*time.Millisecond)
		c.cut(4)
		start := time.Now()
		lock := c.acquire(t, client, ttl)
		require.Equal(t, 6*time.Millisecond, time.Since(start), "at the third of five")
		c.settle()
		require.Equal(t, 4, c.holders(lock.Value()), "a straggler that grants late just holds the key too")
		require.Equal(t, []string{"set"}, verbs(c.masters[3]))
	})
}

// The decision is a function of the votes in their order. The test has every
// master vote in every way, and an oracle of its own.
func TestVotesDecide(t *testing.T) {
	const grants, refuses, fails, silent = 0, 1, 2, 3
	const step = 2 * time.Millisecond
	for n := 1; n <= 5; n++ {
		t.Run(fmt.Sprintf("%d masters", n), func(t *testing.T) {
			inBubble(t, n, func(t *testing.T, c *cluster) {
				client := c.client(t)
				votes := make([]int, n)
				for i, m := range c.masters {
					c.SetLatency(m.Addr(), time.Duration(i+1)*step/2)
					m.Hook("set", func(fakeredis.Command) fakeredis.Action {
						switch votes[i] {
						case fails:
							return fakeredis.Action{Error: "ERR no"}
						case silent:
							return fakeredis.Action{Delay: 2 * roundTimeout}
						}
						return fakeredis.Action{}
					})
				}
				for code := range 1 << (2 * n) {
					for i, m := range c.masters {
						votes[i] = code >> (2 * i) & 3
						m.FlushAll()
						if votes[i] == refuses {
							m.Set(key, other, 0)
						}
					}
					// The oracle: the masters answer in their order, step by step.
					quorum, granted, failed, owed := n/2+1, 0, 0, n
					var want error
					var after time.Duration
					decide := func() bool {
						switch {
						case granted >= quorum:
							return true
						case granted+owed >= quorum:
							return false
						case failed > n-quorum:
							want = redlock.ErrNoQuorum
						default:
							want = redlock.ErrLocked
						}
						return true
					}
					decided := false
					for i := 0; i < n && !decided; i++ {
						if votes[i] == silent {
							continue
						}
						owed--
						after = time.Duration(i+1) * step
						switch votes[i] {
						case grants:
							granted++
						case fails:
							failed++
						}
						decided = decide()
					}
					if !decided {
						failed, owed, after = failed+owed, 0, roundTimeout
						require.True(t, decide())
					}

					start := time.Now()
					lock, err := client.TryAcquire(t.Context(), key, ttl)
					require.Equal(t, after, time.Since(start), "votes %v", votes)
					if want == nil {
						require.NoError(t, err, "votes %v", votes)
						require.NotNil(t, lock)
					} else {
						require.Nil(t, lock)
						q := requireKind(t, err, want)
						require.Equal(t, granted, q.Granted, "votes %v", votes)
						require.Len(t, q.Failed, failed, "votes %v", votes)
						require.Equal(t, after, q.Elapsed)
					}
					time.Sleep(3 * roundTimeout)
					synctest.Wait()
					if want != nil {
						for i, m := range c.masters {
							v, ok := m.Get(key)
							require.Equal(t, votes[i] == refuses, ok && v == other, "votes %v", votes)
							require.False(t, ok && v != other, "votes %v: a key is left on master %d", votes, i)
						}
					}
				}
			})
		})
	}
}

// What somebody else's lock looks like is defined by SET NX: null. An error
// never is a refusal, whatever it says.
func TestAnErrorReplyIsAFailureNotARefusal(t *testing.T) {
	for _, reply := range []string{
		"OOM command not allowed when used memory > 'maxmemory'.",
		"READONLY You can't write against a read only replica.",
		"LOADING Redis is loading the dataset in memory",
		"NOAUTH Authentication required.",
		"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
		"NOPERM this user has no permissions to run the 'set' command",
		"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
		"MISCONF Redis is configured to save RDB snapshots",
		"NOREPLICAS Not enough good replicas to write.",
		"CLUSTERDOWN The cluster is down",
		"MOVED 866 127.0.0.1:7001",
		"ERR unknown command 'SET', with args beginning with: 'a' 'secret value' ",
		"whatever",
	} {
		t.Run(reply[:min(len(reply), 12)], func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				client := c.client(t)
				c.latencies(6*time.Millisecond, 4*time.Millisecond, 2*time.Millisecond)
				c.hookAll("set", 1, fakeredis.Times(-1, fakeredis.Action{Error: reply}))
				lock, err := client.TryAcquire(t.Context(), key, ttl)
				require.Nil(t, lock)
				q := requireKind(t, err, redlock.ErrNoQuorum)
				require.Zero(t, q.Refused)
				require.Len(t, q.Failed, 2)
				require.NotContains(t, err.Error(), "secret value")
				c.settle()
				require.Zero(t, c.keys(), "what the first master granted is released")
			})
		})
	}
}

func TestAMinorityOfErrorRepliesDoesNotMatter(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		client := c.client(t)
		c.masters[0].SetOOM(true)
		c.masters[1].Deny("set")
		lock := c.acquire(t, client, ttl)
		require.NoError(t, lock.Extend(t.Context(), ttl))
		require.NoError(t, lock.Release())
	})
}

func TestWithoutAQuorumNothingIsSent(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		client := c.client(t)
		c.takeDown(t, 2)
		start := time.Now()
		_, err := client.TryAcquire(t.Context(), key, ttl)
		q := requireKind(t, err, redlock.ErrNoQuorum)
		require.Zero(t, time.Since(start), "there is nothing to wait for")
		require.Len(t, q.Failed, 3)
		for _, f := range q.Failed {
			require.ErrorContains(t, f, "dial: connection refused")
		}
		c.settle()
		for _, m := range c.masters {
			require.Empty(t, received(m))
		}
	})
}

func TestTheFirstDialIsWaitedFor(t *testing.T) {
	const roundTrip = 10 * time.Millisecond
	t.Run("and the lock taken then", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.latencies(roundTrip, roundTrip, roundTrip)
			client := newClient(t, c.config())
			start := time.Now()
			lock := c.acquire(t, client, ttl)
			require.Equal(t, 3*roundTrip, time.Since(start), "dial, handshake, SET")
			require.Equal(t, ttl-ttlDrift, lock.Until().Sub(start))
		})
	})
	t.Run("for as long as a round", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.cut(1)
			client := newClient(t, c.config())
			start := time.Now()
			_, err := client.TryAcquire(t.Context(), key, ttl)
			require.Equal(t, roundTimeout, time.Since(start))
			q := requireKind(t, err, redlock.ErrNoQuorum)
			require.Len(t, q.Failed, 2)
			require.ErrorContains(t, q.Failed[0], "not connected yet")
			require.NotErrorIs(t, err, context.DeadlineExceeded)
			require.Empty(t, received(c.masters[0]), "nothing is sent to the one that is there")
		})
	})
	t.Run("until the context ends", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.cut(0)
			client := newClient(t, c.config())
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(7*time.Millisecond, cancel)
			start := time.Now()
			_, err := client.TryAcquire(ctx, key, ttl)
			require.Equal(t, 7*time.Millisecond, time.Since(start))
			requireKind(t, err, redlock.ErrNoQuorum)
			require.ErrorIs(t, err, context.Canceled)
		})
	})
	t.Run("but not the second one", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			for _, m := range c.masters {
				require.NoError(t, m.Refuse(true))
			}
			client := newClient(t, c.config())
			synctest.Wait()
			start := time.Now()
			_, err := client.TryAcquire(t.Context(), key, ttl)
			require.Zero(t, time.Since(start))
			requireKind(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, "connection refused")
		})
	})
}

func TestARoundEndsAtTheEarliestDeadline(t *testing.T) {
	for _, tc := range []struct {
		name               string
		timeout, ttl, ctx  time.Duration
		want               time.Duration
		isTheCallersAtLast bool
	}{
		{"the default RoundTimeout", 0, time.Minute, time.Hour, 50 * time.Millisecond, false},
		{"RoundTimeout", 80 * time.Millisecond, time.Minute, time.Hour, 80 * time.Millisecond, false},
		{"a quarter of the ttl", 0, 100 * time.Millisecond, time.Hour, 25 * time.Millisecond, false},
		{"the context", 0, time.Minute, 20 * time.Millisecond, 20 * time.Millisecond, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				client := c.client(t, func(cfg *redlock.Config) { cfg.RoundTimeout = tc.timeout })
				c.cut(1)
				ctx, cancel := context.WithTimeout(t.Context(), tc.ctx)
				defer cancel()
				start := time.Now()
				_, err := client.TryAcquire(ctx, key, tc.ttl)
				require.Equal(t, tc.want, time.Since(start))
				q := requireKind(t, err, redlock.ErrNoQuorum)
				require.Equal(t, 1, q.Granted)
				require.Equal(t, tc.isTheCallersAtLast, errors.Is(err, context.DeadlineExceeded))
				c.settle()
				require.Zero(t, c.keys())
			})
		})
	}
}
