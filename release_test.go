package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/fakeredis"
)

func TestReleaseDeletesOnAllMasters(t *testing.T) {
	for name, release := range map[string]func(*redlock.Lock){
		"Release":      func(l *redlock.Lock) { _ = l.Release() },
		"ReleaseAsync": (*redlock.Lock).ReleaseAsync,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				client := c.client(t)
				c.latencies(2*time.Millisecond, 2*time.Millisecond, 4*time.Millisecond, 30*time.Millisecond, 60*time.Millisecond)
				lock := c.acquire(t, client, ttl)
				release(lock) // two masters have not even granted yet
				c.settle()
				require.Zero(t, c.keys())
				for _, m := range c.masters {
					cmds := received(m)
					require.Equal(t, []string{"set", "release"}, verbs(m))
					require.Equal(t, cmds[0].Client, cmds[1].Client)
				}
			})
		})
	}
}

func TestReleaseReturnsAtAQuorum(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock := c.acquire(t, client, ttl)
		c.settle()
		c.latencies(2*time.Millisecond, 4*time.Millisecond, 6*time.Millisecond, 40*time.Millisecond)
		c.cut(4)
		began := time.Now()
		require.NoError(t, lock.Release())
		require.Equal(t, 6*time.Millisecond, time.Since(began))
	})
}

func TestReleaseAsyncDoesNotWait(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock := c.acquire(t, client, ttl)
		c.cut(0)
		began := time.Now()
		lock.ReleaseAsync()
		require.Zero(t, time.Since(began))
		require.False(t, lock.Until().After(began))
		requireKind(t, lock.Release(), redlock.ErrNotHeld)
		lock.ReleaseAsync() // once more does nothing
		c.heal()
		c.settle()
		require.Zero(t, c.keys())
		for _, m := range c.masters {
			require.Equal(t, []string{"set", "release"}, verbs(m))
		}
	})
}

func TestReleaseEndsValidityBeforeItsFirstByte(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.acquire(t, c.client(t), ttl)
		time.Sleep(time.Second)
		seen := make(chan time.Time, 3)
		c.hookAll("evalsha", 0, func(fakeredis.Command) fakeredis.Action {
			seen <- lock.Until()
			return fakeredis.Action{}
		})
		released := time.Now()
		require.NoError(t, lock.Release())
		synctest.Wait()
		for range 3 {
			require.False(t, (<-seen).After(released))
		}
	})
}

func TestReleaseWorksInADeferAfterACancellation(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		ctx, cancel := context.WithCancel(t.Context())
		lock, err := client.Acquire(ctx, key, ttl)
		require.NoError(t, err)
		cancel()
		require.NoError(t, lock.Release())
		synctest.Wait()
		require.Zero(t, c.keys())
	})
}

func TestWhatReleaseReturns(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, c *cluster)
		want    error
		took    time.Duration
		left    int // keys of ours that are left where nobody can delete them yet
	}{
		{"all delete", func(*testing.T, *cluster) {}, nil, 0, 0},
		{"a minority is silent", func(_ *testing.T, c *cluster) { c.cut(3) }, nil, 0, 2},
		{"a majority is silent", func(_ *testing.T, c *cluster) { c.cut(2) }, redlock.ErrNoQuorum, roundTimeout, 3},
		{"a minority is down", func(t *testing.T, c *cluster) { c.takeDown(t, 3) }, nil, 0, 2},
		{"a majority is down", func(t *testing.T, c *cluster) { c.takeDown(t, 2) }, redlock.ErrNoQuorum, 0, 3},
		{"a minority has lost it", func(_ *testing.T, c *cluster) {
			for _, m := range c.masters[:2] {
				m.Del(key)
			}
		}, nil, 0, 0},
		{"a majority has lost it", func(_ *testing.T, c *cluster) {
			for _, m := range c.masters[:3] {
				m.Del(key)
			}
		}, redlock.ErrNotHeld, 0, 0},
		{"a majority has another's", func(_ *testing.T, c *cluster) {
			for _, m := range c.masters[:3] {
				m.Set(key, other, 0)
			}
		}, redlock.ErrNotHeld, 0, 0},
		{"a minority has lost it and another is silent", func(_ *testing.T, c *cluster) {
			c.masters[0].Del(key)
			c.masters[1].Del(key)
			c.cut(4)
		}, redlock.ErrNoQuorum, roundTimeout, 1},
		{"it has expired", func(*testing.T, *cluster) { time.Sleep(ttl + time.Millisecond) }, redlock.ErrNotHeld, 0, 0},
		{"its validity has ended", func(*testing.T, *cluster) { time.Sleep(ttl - ttlDrift) }, nil, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				lock := c.acquire(t, c.client(t), ttl)
				tc.prepare(t, c)
				began := time.Now()
				err := lock.Release()
				require.Equal(t, tc.took, time.Since(began))
				if tc.want == nil {
					require.NoError(t, err)
				} else {
					requireKind(t, err, tc.want)
					require.NotErrorIs(t, err, context.DeadlineExceeded)
				}
				synctest.Wait()
				require.Equal(t, tc.left, c.holders(lock.Value()))
				sent := len(received(c.masters[0]))
				requireKind(t, lock.Release(), redlock.ErrNotHeld)
				synctest.Wait()
				require.Len(t, received(c.masters[0]), sent, "once is enough")
				c.heal()
			})
		})
	}
}

func TestALockCannotDoAnythingOnAClosedClient(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock := c.acquire(t, client, ttl)
		require.NoError(t, client.Close())
		requireKind(t, lock.Extend(t.Context(), ttl), redlock.ErrClosed)
		requireKind(t, lock.Release(), redlock.ErrClosed)
		requireKind(t, lock.Release(), redlock.ErrClosed)
		lock.ReleaseAsync()
		require.False(t, lock.Until().After(time.Now()))
		synctest.Wait()
		require.Equal(t, 3, c.keys(), "locks stay held until their ttl ends")
	})
}
