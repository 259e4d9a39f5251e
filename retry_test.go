package redlock_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/fakeredis"
)

// attempts returns the SETs that a master has received.
func attempts(m *fakeredis.Server) []fakeredis.Command {
	return slices.DeleteFunc(received(m), func(cmd fakeredis.Command) bool { return cmd.Name != "set" })
}

func TestAcquireTriesAgainWithAFreshValueAfterARandomPause(t *testing.T) {
	const roundTrip = 10 * time.Millisecond
	for _, tc := range []struct {
		name              string
		delay             time.Duration
		shortest, longest time.Duration // of a pause, beyond the time that the attempt took
	}{
		{"default", 0, 10 * time.Millisecond, 30 * time.Millisecond},
		{"a second", time.Second, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"off", -1, 0, roundTrip},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				client := c.client(t, func(cfg *redlock.Config) { cfg.RetryDelay = tc.delay })
				for _, m := range c.masters {
					m.Set(key, other, 0)
				}
				c.latencies(roundTrip, roundTrip, roundTrip)
				ctx, cancel := context.WithTimeout(t.Context(), 50*(2*roundTrip+tc.longest))
				defer cancel()
				_, err := client.Acquire(ctx, key, ttl)
				require.ErrorIs(t, err, context.DeadlineExceeded)

				sets := attempts(c.masters[0])
				require.Greater(t, len(sets), 40)
				values, pauses := map[string]bool{}, map[time.Duration]bool{}
				for i, cmd := range sets {
					value := string(cmd.Args[2])
					require.False(t, values[value], "a value is never used again")
					values[value] = true
					if i == 0 {
						continue
					}
					pause := cmd.At.Sub(sets[i-1].At) - roundTrip
					require.GreaterOrEqual(t, pause, roundTrip+tc.shortest, "longer than the round took")
					require.LessOrEqual(t, pause, roundTrip+tc.longest)
					pauses[pause] = true
				}
				require.Greater(t, len(pauses), len(sets)/2, "they are random")
			})
		})
	}
}

func TestAcquireEndsWithTheContext(t *testing.T) {
	t.Run("in a pause", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			client := c.client(t)
			c.acquire(t, c.client(t), ttl)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			lock, err := client.Acquire(ctx, key, ttl)
			require.Equal(t, time.Second, time.Since(began))
			require.Nil(t, lock)
			requireKind(t, err, redlock.ErrLocked)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
	t.Run("in a round, with what is known from the one before", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			client := c.client(t)
			for _, m := range c.masters {
				m.Set(key, other, 0)
			}
			ctx, cancel := context.WithCancel(t.Context())
			n := 0
			c.masters[0].Hook("set", func(fakeredis.Command) fakeredis.Action {
				if n++; n == 3 {
					c.cut(0)
					time.AfterFunc(10*time.Millisecond, cancel)
				}
				return fakeredis.Action{}
			})
			c.latencies(2*time.Millisecond, 4*time.Millisecond, 4*time.Millisecond)
			_, err := client.Acquire(ctx, key, ttl)
			requireKind(t, err, redlock.ErrLocked)
			require.ErrorIs(t, err, context.Canceled)
			c.heal()
		})
	})
	t.Run("in the first round", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			client := c.client(t)
			c.cut(0)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			_, err := client.Acquire(ctx, key, ttl)
			requireKind(t, err, redlock.ErrNoQuorum)
			require.ErrorIs(t, err, context.DeadlineExceeded)
		})
	})
	t.Run("at the very end of a pause", func(t *testing.T) {
		inBubble(t, 1, func(t *testing.T, c *cluster) {
			client := c.client(t)
			c.masters[0].Set(key, other, 0)
			// Looked at before the attempt, after it, and after the pause.
			_, err := client.Acquire(&lateContext{t.Context(), 2}, key, ttl)
			requireKind(t, err, redlock.ErrLocked)
			require.ErrorIs(t, err, context.Canceled)
		})
	})
}

func TestAcquireTakesALockThatBecomesFree(t *testing.T) {
	t.Run("by release", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.acquire(t, c.client(t), ttl)
			client := c.client(t)
			call := start(func() (*redlock.Lock, error) { return client.Acquire(t.Context(), key, ttl) })
			time.Sleep(time.Second)
			require.NoError(t, lock.Release())
			o := <-call
			require.NoError(t, o.err)
			require.Less(t, o.took, time.Second+31*time.Millisecond)
			require.NotEqual(t, lock.Value(), o.lock.Value())
			require.WithinDuration(t, time.Now().Add(ttl-ttlDrift), o.lock.Until(), 0, "counted from the last attempt")
		})
	})
	t.Run("by expiry", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.acquire(t, c.client(t), time.Second)
			client := c.client(t)
			o := <-start(func() (*redlock.Lock, error) { return client.Acquire(t.Context(), key, ttl) })
			require.NoError(t, o.err)
			require.Less(t, o.took, time.Second+31*time.Millisecond)
		})
	})
	t.Run("by the return of the masters", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			client := c.client(t)
			c.takeDown(t, 2)
			call := start(func() (*redlock.Lock, error) { return client.Acquire(t.Context(), key, ttl) })
			time.Sleep(3 * time.Second)
			select {
			case <-call:
				require.Fail(t, "it waits also while there is no quorum")
			default:
			}
			c.bringUp(t, 2)
			o := <-call
			require.NoError(t, o.err)
			require.Less(t, o.took, 5*time.Second, "masters are dialed at least every second")
		})
	})
}

func TestAcquireEndsWithClose(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t, func(cfg *redlock.Config) { cfg.RetryDelay = time.Hour })
		c.acquire(t, c.client(t), ttl)
		call := start(func() (*redlock.Lock, error) { return client.Acquire(t.Context(), key, ttl) })
		time.Sleep(time.Second) // it pauses
		synctest.Wait()
		require.NoError(t, client.Close())
		o := <-call
		require.Equal(t, time.Second, o.took)
		requireKind(t, o.err, redlock.ErrClosed)
		require.False(t, errors.Is(o.err, context.Canceled))
	})
}
