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

// promptly is how soon a cancelled call ends.
const promptly = 2 * time.Millisecond

func TestAContextThatIsDoneFailsBeforeAByteIsSent(t *testing.T) {
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	late, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	for _, tc := range []struct {
		name string
		ctx  context.Context
		want error
	}{{"cancelled", canceled, context.Canceled}, {"past its deadline", late, context.DeadlineExceeded}} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				client := c.client(t)
				lock := c.acquire(t, client, ttl)
				until := lock.Until()
				for name, call := range map[string]func() error{
					"TryAcquire": func() error { _, err := client.TryAcquire(tc.ctx, key, ttl); return err },
					"Acquire":    func() error { _, err := client.Acquire(tc.ctx, key, ttl); return err },
					"Extend":     func() error { return lock.Extend(tc.ctx, time.Second) },
				} {
					err := call()
					q := requireKind(t, err, redlock.ErrNoQuorum)
					require.ErrorIs(t, err, tc.want, name)
					require.Zero(t, q.Elapsed)
				}
				synctest.Wait()
				require.Equal(t, until, lock.Until(), "not even the shorter extension has begun")
				for _, m := range c.masters {
					require.Equal(t, []string{"set"}, verbs(m))
				}
			})
		})
	}
}

func TestACancelledCallEndsAtOnceAndReleases(t *testing.T) {
	for _, after := range []time.Duration{0, 500 * time.Microsecond, time.Millisecond, 5 * time.Millisecond, 30 * time.Millisecond} {
		t.Run("after "+after.String(), func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				client := c.client(t)
				// Two masters grant at once, two late, one never answers.
				c.hookAll("set", 2, fakeredis.Times(-1, fakeredis.Action{Delay: 45 * time.Millisecond}))
				c.cut(4)
				ctx, cancel := context.WithCancel(t.Context())
				call := start(func() (*redlock.Lock, error) { return client.TryAcquire(ctx, key, ttl) })
				synctest.Wait()
				time.Sleep(after)
				cancel()
				o := <-call
				require.LessOrEqual(t, o.took-after, promptly)
				require.Nil(t, o.lock)
				requireKind(t, o.err, redlock.ErrNoQuorum)
				require.ErrorIs(t, o.err, context.Canceled)
				require.NotErrorIs(t, o.err, context.DeadlineExceeded)

				c.settle()
				for _, m := range c.masters[:4] {
					require.Equal(t, []string{"set", "release"}, verbs(m))
				}
				c.heal()
				c.settle()
				require.Zero(t, c.keys(), "everywhere, also where the answer came after the end")
			})
		})
	}
}

func TestACallEndsWithTheCallersDeadline(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock := c.acquire(t, client, ttl)
		c.cut(1)
		for name, call := range map[string]func(context.Context) error{
			"TryAcquire": func(ctx context.Context) error { _, err := client.TryAcquire(ctx, "another", ttl); return err },
			"Extend":     func(ctx context.Context) error { return lock.Extend(ctx, ttl) },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			began := time.Now()
			err := call(ctx)
			require.InDelta(t, 20*time.Millisecond, time.Since(began), float64(promptly), name)
			requireKind(t, err, redlock.ErrNoQuorum)
			require.ErrorIs(t, err, context.DeadlineExceeded, name)
			require.NotErrorIs(t, err, context.Canceled)
			cancel()
		}
	})
}

// The end of a context may fall between the deciding vote and the return.
func TestASuccessAfterTheEndOfTheContextIsUndone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock, err := client.TryAcquire(&lateContext{t.Context(), 1}, key, ttl)
		require.Nil(t, lock)
		requireKind(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, err, context.Canceled)
		synctest.Wait()
		require.Zero(t, c.keys())
		for _, m := range c.masters {
			require.Equal(t, []string{"set", "release"}, verbs(m))
		}
	})
}

// Whose lock it is is known; that the context has ended as well takes nothing
// away from that.
func TestALossIsALossAlsoAfterTheEndOfTheContext(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		c.acquire(t, c.client(t), ttl)
		_, err := client.TryAcquire(&lateContext{t.Context(), 1}, key, ttl)
		requireKind(t, err, redlock.ErrLocked)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestACancelledExtendEndsAtOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock := c.acquire(t, client, ttl)
		until := lock.Until()
		c.cut(1)
		ctx, cancel := context.WithCancel(t.Context())
		call := startErr(func() error { return lock.Extend(ctx, 2*ttl) })
		time.Sleep(10 * time.Millisecond)
		cancel()
		o := <-call
		require.LessOrEqual(t, o.took, 10*time.Millisecond+promptly)
		requireKind(t, o.err, redlock.ErrNoQuorum)
		require.ErrorIs(t, o.err, context.Canceled)
		require.Equal(t, until, lock.Until(), "the lock is what it was")
		c.heal()
		c.settle()
		require.NoError(t, lock.Extend(t.Context(), 2*ttl))
		require.NoError(t, lock.Release())
	})
}

func TestManyCancelledCallersLeaveNothingBehind(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		for _, m := range c.masters {
			m.SetLag(3 * time.Millisecond)
		}
		var calls []<-chan outcome
		for i := range 200 {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Duration(i)*50*time.Microsecond, cancel)
			calls = append(calls, start(func() (*redlock.Lock, error) { return client.Acquire(ctx, key, ttl) }))
		}
		won := 0
		for i, call := range calls {
			o := <-call
			if o.err == nil {
				won++
				require.NoError(t, o.lock.Release())
				continue
			}
			require.ErrorIs(t, o.err, context.Canceled)
			require.LessOrEqual(t, o.took, time.Duration(i)*50*time.Microsecond+promptly)
		}
		require.LessOrEqual(t, won, 1)
		c.settle()
		require.Zero(t, c.keys())
	})
}
