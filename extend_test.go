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

func TestExtendMovesUntilUp(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		c.latencies(4*time.Millisecond, 4*time.Millisecond, 4*time.Millisecond)
		lock := c.acquire(t, client, ttl)
		time.Sleep(9 * time.Second)
		began := time.Now()
		require.NoError(t, lock.Extend(t.Context(), ttl-999_999))
		require.Equal(t, 4*time.Millisecond, time.Since(began))
		require.Equal(t, ttl-ttlDrift, lock.Until().Sub(began), "of the rounded ttl, from the start")
		for _, m := range c.masters {
			left, ok := m.TTL(key)
			require.True(t, ok)
			require.Equal(t, ttl-2*time.Millisecond, left)
		}
		time.Sleep(9 * time.Second)
		require.Equal(t, 3, c.holders(lock.Value()), "it outlives its first ttl")
	})
}

func TestExtendResetsOnlyItsOwnKeys(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock := c.acquire(t, client, ttl)
		c.masters[0].Set(key, other, time.Second)
		c.masters[1].Del(key)
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, lock.Extend(t.Context(), ttl), "three of five still hold it")
		synctest.Wait()

		left, _ := c.masters[0].TTL(key)
		require.Equal(t, 500*time.Millisecond, left, "another's key is left alone")
		_, ok := c.masters[1].Get(key)
		require.False(t, ok, "a key is never created")
		require.NoError(t, lock.Release())
		synctest.Wait()
		v, _ := c.masters[0].Get(key)
		require.Equal(t, other, v)
		require.Equal(t, 1, c.keys())
	})
}

func TestExtendOfALockThatIsGone(t *testing.T) {
	for name, lose := range map[string]func(m *fakeredis.Server){
		"deleted":   func(m *fakeredis.Server) { m.Del(key) },
		"another's": func(m *fakeredis.Server) { m.Set(key, other, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, c *cluster) {
				lock := c.acquire(t, c.client(t), ttl)
				for _, m := range c.masters[:3] {
					lose(m)
				}
				before := c.keys()
				q := requireKind(t, lock.Extend(t.Context(), ttl), redlock.ErrNotHeld)
				require.Equal(t, 3, q.Refused)
				require.False(t, time.Now().Before(lock.Until()), "it has ended")
				synctest.Wait()
				require.Equal(t, before-2, c.keys(), "what is left of it is released, and nothing else")
				requireKind(t, lock.Release(), redlock.ErrNotHeld)
				requireKind(t, lock.Extend(t.Context(), ttl), redlock.ErrNotHeld)
				synctest.Wait()
				for _, m := range c.masters {
					require.Equal(t, []string{"set", "extend", "release"}, verbs(m))
				}
			})
		})
	}
}

func TestExtendNeedsAQuorum(t *testing.T) {
	t.Run("of answers", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			client := c.client(t)
			lock := c.acquire(t, client, ttl)
			until := lock.Until()
			c.cut(2)
			began := time.Now()
			q := requireKind(t, lock.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
			require.Equal(t, roundTimeout, time.Since(began))
			require.Equal(t, 2, q.Granted)
			require.Len(t, q.Failed, 3)
			require.Equal(t, until, lock.Until(), "the lock is what it was")
			c.heal()
			c.settle()
			require.NoError(t, lock.Extend(t.Context(), ttl), "and may be extended later")
			require.True(t, lock.Until().After(until))
			require.NoError(t, lock.Release())
		})
	})
	t.Run("of connections, or nothing is sent", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			lock := c.acquire(t, c.client(t), ttl)
			c.takeDown(t, 2)
			requireKind(t, lock.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
			synctest.Wait()
			for _, m := range c.masters {
				require.Equal(t, []string{"set"}, verbs(m))
			}
		})
	})
	t.Run("that a few refusals and a few failures do not decide", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, c *cluster) {
			lock := c.acquire(t, c.client(t), ttl)
			c.masters[0].Del(key)
			c.masters[1].Del(key)
			c.cut(3)
			requireKind(t, lock.Extend(t.Context(), ttl), redlock.ErrNoQuorum)
			c.heal()
			c.settle()
			require.NoError(t, lock.Extend(t.Context(), ttl), "three of five held it all the time")
		})
	})
}

func TestExtendOnlyWhileTheOldValidityLasts(t *testing.T) {
	t.Run("not after it", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.acquire(t, c.client(t), ttl)
			time.Sleep(time.Until(lock.Until()))
			require.Equal(t, 3, c.keys(), "the masters still have it")
			requireKind(t, lock.Extend(t.Context(), ttl), redlock.ErrExpired)
			synctest.Wait()
			require.Zero(t, c.keys())
			for _, m := range c.masters {
				require.Equal(t, []string{"set", "release"}, verbs(m), "no extension is sent, a release is")
			}
			requireKind(t, lock.Extend(t.Context(), ttl), redlock.ErrNotHeld)
		})
	})
	t.Run("up to its last nanosecond", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.acquire(t, c.client(t), ttl)
			time.Sleep(time.Until(lock.Until()) - 1)
			require.NoError(t, lock.Extend(t.Context(), ttl))
		})
	})
	t.Run("nor when the answers come after it", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.acquire(t, c.client(t), ttl)
			old := lock.Until()
			time.Sleep(time.Until(old) - 5*time.Millisecond)
			c.latencies(6*time.Millisecond, 6*time.Millisecond, 6*time.Millisecond)
			requireKind(t, lock.Extend(t.Context(), ttl), redlock.ErrExpired)
			require.False(t, lock.Until().After(old), "it has ended")
			c.settle()
			require.Zero(t, c.keys(), "although all masters extended it")
			for _, m := range c.masters {
				require.Equal(t, []string{"set", "extend", "release"}, verbs(m))
			}
		})
	})
}

// Masters may obey a shorter extension whether we hear of it or not, so it
// counts from before its first byte leaves.
func TestAShorterExtendMovesUntilDownForGood(t *testing.T) {
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, c *cluster)
		want    error
	}{
		{"granted", func(*testing.T, *cluster) {}, nil},
		{"every master answers with an error", func(_ *testing.T, c *cluster) {
			for _, m := range c.masters {
				m.Hook("evalsha", fakeredis.Times(1, fakeredis.Action{Error: "ERR no"}))
			}
		}, redlock.ErrNoQuorum},
		{"no master answers", func(_ *testing.T, c *cluster) { c.cut(0) }, redlock.ErrNoQuorum},
		{"the connections break", func(_ *testing.T, c *cluster) {
			for _, m := range c.masters {
				m.Hook("evalsha", fakeredis.Times(1, fakeredis.Action{Reset: true}))
			}
		}, redlock.ErrNoQuorum},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				lock := c.acquire(t, c.client(t), ttl)
				long := lock.Until()
				time.Sleep(time.Second)
				tc.prepare(t, c)
				began := time.Now()
				want := began.Add(time.Second - 12*time.Millisecond)
				err := lock.Extend(t.Context(), time.Second)
				if tc.want == nil {
					require.NoError(t, err)
				} else {
					requireKind(t, err, tc.want)
				}
				require.Equal(t, want, lock.Until())
				require.True(t, want.Before(long))
				c.heal()
				c.settle()
				require.Equal(t, want, lock.Until(), "it stays there")
				require.NoError(t, lock.Extend(t.Context(), ttl), "until another extension")
				require.True(t, lock.Until().After(want))
			})
		})
	}
	t.Run("before its first byte leaves", func(t *testing.T) {
		inBubble(t, 3, func(t *testing.T, c *cluster) {
			lock := c.acquire(t, c.client(t), ttl)
			seen := make(chan time.Time, 3)
			c.hookAll("evalsha", 0, func(fakeredis.Command) fakeredis.Action {
				seen <- lock.Until()
				return fakeredis.Action{}
			})
			began := time.Now()
			require.NoError(t, lock.Extend(t.Context(), time.Second))
			synctest.Wait()
			for range 3 {
				require.Equal(t, began.Add(time.Second-12*time.Millisecond), <-seen)
			}
		})
	})
}

// Of two extensions under way only the newest moves Until up: the masters end
// with what was queued last.
func TestOfConcurrentExtendsTheNewestDecides(t *testing.T) {
	for _, tc := range []struct {
		name          string
		first, second time.Duration
		secondFails   bool
		want          func(old, first, second time.Time) time.Time
	}{
		{"the newer is longer", 2 * ttl, 3 * ttl, false, func(_, _, second time.Time) time.Time { return second }},
		{"the newer is shorter, longer than before", 3 * ttl, 2 * ttl, false, func(_, _, second time.Time) time.Time { return second }},
		{"the newer is shorter than before", 3 * ttl, ttl / 2, false, func(_, _, second time.Time) time.Time { return second }},
		{"the newer fails", 3 * ttl, 2 * ttl, true, func(old, _, _ time.Time) time.Time { return old }},
		{"the newer is shorter than before and fails", 3 * ttl, ttl / 2, true, func(_, _, second time.Time) time.Time { return second }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				lock := c.acquire(t, c.client(t), ttl)
				old := lock.Until()
				c.latencies(10*time.Millisecond, 10*time.Millisecond, 10*time.Millisecond)
				if tc.secondFails {
					for _, m := range c.masters {
						n := 0
						m.Hook("evalsha", func(fakeredis.Command) fakeredis.Action {
							if n++; n == 2 {
								return fakeredis.Action{Error: "ERR no"}
							}
							return fakeredis.Action{}
						})
					}
				}
				end := func(d time.Duration) time.Time { return time.Now().Add(d - d/100 - 2*time.Millisecond) }
				firstUntil := end(tc.first)
				first := startErr(func() error { return lock.Extend(t.Context(), tc.first) })
				time.Sleep(time.Millisecond)
				synctest.Wait()
				secondUntil := end(tc.second)
				second := startErr(func() error { return lock.Extend(t.Context(), tc.second) })

				require.NoError(t, (<-first).err)
				synctest.Wait()
				require.False(t, lock.Until().After(old), "the first is not the newest any more")
				o := <-second
				require.Equal(t, tc.secondFails, o.err != nil)
				want := tc.want(old, firstUntil, secondUntil)
				require.Equal(t, want, lock.Until())
				for _, m := range c.masters {
					left, ok := m.TTL(key)
					require.True(t, ok)
					require.False(t, time.Now().Add(left).Before(want), "the masters hold it for as long")
				}
			})
		})
	}
}

func TestALateExtensionReplyDoesNotRevive(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.acquire(t, c.client(t), ttl)
		for _, m := range c.masters {
			m.SetLag(10 * time.Millisecond)
		}
		extend := startErr(func() error { return lock.Extend(t.Context(), 2*ttl) })
		time.Sleep(time.Millisecond)
		synctest.Wait()
		released := time.Now()
		release := startErr(lock.Release)
		synctest.Wait()
		require.False(t, lock.Until().After(released))
		requireKind(t, (<-extend).err, redlock.ErrNotHeld)
		require.NoError(t, (<-release).err)
		require.False(t, lock.Until().After(released))
		c.settle()
		require.Zero(t, c.keys())
		for _, m := range c.masters {
			require.Equal(t, []string{"set", "extend", "release"}, verbs(m), "in this order")
		}
	})
}

// A lock may be handed on with other servers on the way: the commands differ,
// what they do does not.
func TestTheWholeLifeOnEveryServer(t *testing.T) {
	flavors := []fakeredis.Flavor{fakeredis.Redis5, fakeredis.Redis70, fakeredis.Redis84, fakeredis.Valkey9}
	for _, flavor := range append(flavors, 100) {
		name := flavor.String()
		if flavor == 100 {
			name = "one of each"
		}
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &cluster{Network: fakeredis.NewNetwork()}
				for i := range 4 {
					f := flavor
					if f == 100 {
						f = flavors[i]
					}
					c.masters = append(c.masters, fakeredis.Start(t, fakeredis.Config{Network: c.Network, Flavor: f}))
				}
				client := c.client(t)
				lock, err := client.Acquire(context.Background(), key, ttl)
				require.NoError(t, err)
				synctest.Wait()
				require.Equal(t, 4, c.holders(lock.Value()))
				time.Sleep(time.Second)
				require.NoError(t, lock.Extend(t.Context(), ttl))
				synctest.Wait()
				for _, m := range c.masters {
					left, _ := m.TTL(key)
					require.Equal(t, ttl, left)
				}
				require.NoError(t, lock.Release())
				synctest.Wait()
				require.Zero(t, c.keys())
				for _, m := range c.masters {
					require.Equal(t, []string{"set", "extend", "release"}, verbs(m))
				}
			})
		})
	}
}
