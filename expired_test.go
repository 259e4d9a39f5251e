package redlock_test

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/fakeredis"
)

// A lock that is granted too late is no lock: ErrExpired, and a release behind
// every SET.
func TestGrantsThatComeTooLate(t *testing.T) {
	for _, tc := range []struct {
		name        string
		ttl         time.Duration
		factor      float64
		minValidity time.Duration
		roundTrip   time.Duration
		ok          bool
	}{
		// 100 ms - drift of 3 ms = 97 ms
		{"just above MinValidity", 100 * time.Millisecond, 0, 90 * time.Millisecond, 6 * time.Millisecond, true},
		{"exactly MinValidity", 100 * time.Millisecond, 0, 87 * time.Millisecond, 10 * time.Millisecond, false},
		{"below MinValidity", 100 * time.Millisecond, 0, 90 * time.Millisecond, 20 * time.Millisecond, false},
		// 100 ms - drift of 82 ms = 18 ms
		{"validity left", 100 * time.Millisecond, 0.8, 0, 16 * time.Millisecond, true},
		{"exactly none left", 100 * time.Millisecond, 0.8, 0, 18 * time.Millisecond, false},
		{"less than none left", 100 * time.Millisecond, 0.8, 0, 24 * time.Millisecond, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				client := c.client(t, func(cfg *redlock.Config) {
					cfg.DriftFactor, cfg.MinValidity = tc.factor, tc.minValidity
				})
				c.latencies(tc.roundTrip, tc.roundTrip, tc.roundTrip)
				lock, err := client.TryAcquire(t.Context(), key, tc.ttl)
				if tc.ok {
					require.NoError(t, err)
					require.True(t, time.Now().Before(lock.Until()))
					return
				}
				require.Nil(t, lock)
				q := requireKind(t, err, redlock.ErrExpired)
				require.GreaterOrEqual(t, q.Granted, 2)
				require.Empty(t, q.Failed)
				time.Sleep(tc.roundTrip)
				synctest.Wait()
				require.Zero(t, c.keys(), "released, long before the ttl")
				for _, m := range c.masters {
					require.Equal(t, []string{"set", "release"}, verbs(m))
				}
			})
		})
	}
}

func TestALostAttemptLeavesNothingBehind(t *testing.T) {
	t.Run("the release goes behind the SET on the same connection", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			client := c.client(t)
			for _, m := range c.masters[:3] {
				m.Set(key, other, 0)
			}
			// The last master takes the SET, and executes it long after the decision.
			c.masters[4].Hook("set", fakeredis.Times(-1, fakeredis.Action{Delay: 70 * time.Millisecond}))
			start := time.Now()
			_, err := client.TryAcquire(t.Context(), key, ttl)
			requireKind(t, err, redlock.ErrLocked)
			require.Zero(t, time.Since(start), "nobody waits for the release")
			c.settle()
			for i, m := range c.masters {
				cmds := received(m)
				require.Len(t, cmds, 2)
				require.Equal(t, []string{"set", "release"}, verbs(m))
				require.Equal(t, cmds[0].Client, cmds[1].Client)
				require.Equal(t, cmds[0].Args[2], cmds[1].Args[4], "it releases what was set")
				v, ok := m.Get(key)
				require.Equal(t, i < 3, ok && v == other, "another's key stays")
				require.Equal(t, i >= 3, !ok, "nothing of ours does")
			}
		})
	})
	t.Run("the release goes only where the SET went", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			client := c.client(t)
			c.takeDown(t, 2)
			c.masters[0].Set(key, other, 0)
			_, err := client.TryAcquire(t.Context(), key, ttl)
			requireKind(t, err, redlock.ErrLocked)
			c.bringUp(t, 2)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.Empty(t, received(c.masters[2]))
		})
	})
	t.Run("a split vote is taken back by both", func(t *testing.T) {
		inBubble(t, 4, func(t *testing.T, c *cluster) {
			one, two := c.client(t), c.client(t)
			// Two masters get the one's SET first, two the other's; nobody answers before that.
			for _, m := range c.masters {
				m.SetLag(5 * time.Millisecond)
			}
			for _, m := range c.masters[2:] {
				m.Hook("set", fakeredis.Times(1, fakeredis.Action{Delay: 2 * time.Millisecond}))
			}
			first := start(func() (*redlock.Lock, error) { return one.TryAcquire(t.Context(), key, ttl) })
			synctest.Wait()
			time.Sleep(time.Millisecond)
			second := start(func() (*redlock.Lock, error) { return two.TryAcquire(t.Context(), key, ttl) })
			a, b := <-first, <-second
			require.Equal(t, 2, requireKind(t, a.err, redlock.ErrLocked).Refused)
			require.Equal(t, 2, requireKind(t, b.err, redlock.ErrLocked).Refused)
			c.settle()
			require.Zero(t, c.keys())
		})
	})
	t.Run("the release survives the loss of the connection", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			client := c.client(t)
			// One refuses, one fails, one grants but loses the connection before it says so.
			c.masters[0].Set(key, other, 0)
			c.masters[1].Deny("set")
			c.masters[2].Hook("set", fakeredis.Times(1, fakeredis.Action{Reset: true}))
			_, err := client.TryAcquire(t.Context(), key, ttl)
			require.Error(t, err)
			time.Sleep(time.Second)
			synctest.Wait()
			_, ok := c.masters[2].Get(key)
			require.False(t, ok, "released on the next connection")
			require.Equal(t, "release", verbs(c.masters[2])[1])
		})
	})
}

func TestFewAndManyMasters(t *testing.T) {
	for _, tc := range []struct{ n, quorum int }{{1, 1}, {2, 2}, {3, 2}, {4, 3}, {7, 4}, {9, 5}, {64, 33}} {
		t.Run(strconv.Itoa(tc.n), func(t *testing.T) {
			inBubble(t, tc.n, func(t *testing.T, c *cluster) {
				client := c.client(t)
				lock := c.acquire(t, client, ttl)
				require.Equal(t, tc.n, c.holders(lock.Value()))
				_, err := client.TryAcquire(t.Context(), key, ttl)
				q := requireKind(t, err, redlock.ErrLocked)
				require.Equal(t, tc.n, q.Masters)
				require.Equal(t, tc.quorum, q.Quorum)
				require.NoError(t, lock.Extend(t.Context(), ttl))
				require.NoError(t, lock.Release())
				synctest.Wait()
				require.Zero(t, c.keys())

				c.takeDown(t, tc.quorum)
				lock = c.acquire(t, client, ttl)
				require.NoError(t, lock.Release(), "with exactly a quorum")
				c.takeDown(t, tc.quorum-1)
				_, err = client.TryAcquire(t.Context(), key, ttl)
				requireKind(t, err, redlock.ErrNoQuorum)
			})
		})
	}
}
