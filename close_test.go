package redlock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
)

func TestCloseEndsWhatWaits(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t, func(cfg *redlock.Config) { cfg.RoundTimeout = 5 * time.Second })
		held := c.acquire(t, client, time.Minute)
		toExtend, err := client.TryAcquire(t.Context(), "extended", time.Minute)
		require.NoError(t, err)
		toRelease, err := client.TryAcquire(t.Context(), "released", time.Minute)
		require.NoError(t, err)
		c.cut(0)
		calls := map[string]<-chan outcome{
			"TryAcquire": start(func() (*redlock.Lock, error) { return client.TryAcquire(t.Context(), "a", time.Minute) }),
			"Acquire":    start(func() (*redlock.Lock, error) { return client.Acquire(t.Context(), "b", time.Minute) }),
			"Extend":     startErr(func() error { return toExtend.Extend(t.Context(), time.Minute) }),
			"Release":    startErr(toRelease.Release),
		}
		time.Sleep(20 * time.Millisecond)
		synctest.Wait()
		began := time.Now()
		require.NoError(t, client.Close())
		require.LessOrEqual(t, time.Since(began), 5*time.Second, "releases are given one RoundTimeout")
		for name, call := range calls {
			o := <-call
			require.LessOrEqual(t, o.took, 20*time.Millisecond+promptly, name)
			requireKind(t, o.err, redlock.ErrClosed)
			require.NotErrorIs(t, o.err, context.Canceled, name)
		}
		require.True(t, held.Until().After(time.Now()))
		c.heal()
	})
}

func TestCloseDrainsReleases(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		for _, m := range c.masters {
			c.SetLatency(m.Addr(), 10*time.Millisecond)
		}
		lock := c.acquire(t, client, ttl)
		waits := start(func() (*redlock.Lock, error) { return client.TryAcquire(t.Context(), "another", ttl) })
		time.Sleep(time.Millisecond)
		lock.ReleaseAsync()
		began := time.Now()
		require.NoError(t, client.Close())
		require.Equal(t, 20*time.Millisecond, time.Since(began), "as long as the answers take")
		requireKind(t, (<-waits).err, redlock.ErrClosed)
		for _, m := range c.masters {
			require.Empty(t, m.Keys(), "neither the lock nor the attempt that Close ended")
		}
	})
}

func TestNothingWorksAfterClose(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		require.NoError(t, client.Close())
		require.NoError(t, client.Close(), "once more does nothing")
		_, err := client.TryAcquire(t.Context(), key, ttl)
		requireKind(t, err, redlock.ErrClosed)
		_, err = client.Acquire(t.Context(), key, ttl)
		requireKind(t, err, redlock.ErrClosed)
		requireKind(t, client.Ready(t.Context()), redlock.ErrClosed)
		synctest.Wait()
		for _, m := range c.masters {
			require.Empty(t, received(m))
			require.Zero(t, m.Connections())
		}
	})
}

func TestReady(t *testing.T) {
	t.Run("returns at a quorum", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			c.latencies(2*time.Millisecond, 4*time.Millisecond, 6*time.Millisecond, 40*time.Millisecond)
			c.cut(4)
			client := newClient(t, c.config())
			began := time.Now()
			require.NoError(t, client.Ready(t.Context()))
			require.Equal(t, 12*time.Millisecond, time.Since(began), "dial and handshake of the third")
		})
	})
	t.Run("says why not", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			require.NoError(t, c.masters[1].Refuse(true))
			c.cut(2)
			client := newClient(t, c.config())
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := client.Ready(ctx)
			q := requireKind(t, err, redlock.ErrNoQuorum)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Equal(t, time.Second, q.Elapsed)
			require.Len(t, q.Failed, 2)
			require.ErrorContains(t, err, c.masters[1].Addr()+": dial: connection refused")
			require.ErrorContains(t, err, c.masters[2].Addr()+": not connected yet")
		})
	})
	t.Run("ends with Close, and says nothing of a cancellation", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			c.cut(0)
			client := newClient(t, c.config())
			calls := []<-chan outcome{
				startErr(func() error { return client.Ready(t.Context()) }),
				start(func() (*redlock.Lock, error) { return client.TryAcquire(t.Context(), key, ttl) }),
			}
			synctest.Wait()
			require.NoError(t, client.Close())
			for _, call := range calls {
				o := <-call
				require.Zero(t, o.took)
				requireKind(t, o.err, redlock.ErrClosed)
				require.NotErrorIs(t, o.err, context.Canceled)
			}
			err := client.Ready(t.Context())
			requireKind(t, err, redlock.ErrClosed)
			require.NotErrorIs(t, err, context.Canceled)
		})
	})
}
