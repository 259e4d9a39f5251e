package redlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/fakeredis"
)

// Whoever may have been sent the key and has not answered its release is sent
// it when he is back.

func TestAMasterThatWasAwayGetsItsReleaseLater(t *testing.T) {
	for _, tc := range []struct {
		name   string
		leave  func(t *testing.T, c *cluster)
		comeIn time.Duration
		back   func(t *testing.T, c *cluster)
	}{
		{"down", func(t *testing.T, c *cluster) { c.takeDown(t, 2) }, time.Second,
			func(t *testing.T, c *cluster) { c.bringUp(t, 2) }},
		{"unreachable for a moment", func(_ *testing.T, c *cluster) { c.cut(2) }, 100 * time.Millisecond,
			func(_ *testing.T, c *cluster) { c.heal() }},
		{"unreachable for long", func(_ *testing.T, c *cluster) { c.cut(2) }, 5 * time.Second,
			func(_ *testing.T, c *cluster) { c.heal() }},
		{"frozen", func(_ *testing.T, c *cluster) { c.masters[2].Freeze() }, 5 * time.Second,
			func(_ *testing.T, c *cluster) { c.masters[2].Thaw() }},
		{"without permission", func(_ *testing.T, c *cluster) { c.masters[2].Deny("evalsha", "eval") }, time.Second,
			func(_ *testing.T, c *cluster) { c.masters[2].Deny() }},
		{"busy", func(_ *testing.T, c *cluster) {
			c.masters[2].Hook("evalsha", fakeredis.Times(5, fakeredis.Action{Error: "BUSY Redis is busy running a script."}))
		}, time.Second, func(*testing.T, *cluster) {}},
		{"restarting, with its keys", func(t *testing.T, c *cluster) { c.takeDown(t, 2) }, time.Second,
			func(t *testing.T, c *cluster) { c.masters[2].Restart(true); c.bringUp(t, 2) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, c *cluster) {
				lock := c.acquire(t, c.client(t), time.Minute)
				tc.leave(t, c)
				require.NoError(t, lock.Release(), "a quorum is there")
				synctest.Wait()
				require.Equal(t, 1, c.keys())
				time.Sleep(tc.comeIn)
				tc.back(t, c)
				time.Sleep(4 * time.Second)
				synctest.Wait()
				require.Zero(t, c.keys(), "long before the ttl")
			})
		})
	}
}

func TestAnOwedReleaseOfALostAttempt(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		c.masters[0].Set(key, other, 0)
		c.masters[1].Set(key, other, 0)
		c.cut(2)
		_, err := client.TryAcquire(t.Context(), key, time.Minute)
		requireKind(t, err, redlock.ErrLocked)
		time.Sleep(5 * time.Second) // the connection is given up meanwhile
		c.heal()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		_, ok := c.masters[2].Get(key)
		require.False(t, ok)
	})
}

func TestAnOwedReleaseComesBeforeANewLock(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock := c.acquire(t, client, time.Minute)
		c.takeDown(t, 0)
		requireKind(t, lock.Release(), redlock.ErrNoQuorum)
		c.bringUp(t, 0)
		require.NoError(t, client.Ready(t.Context()))
		_, err := client.TryAcquire(t.Context(), key, ttl)
		require.NoError(t, err, "the old key is gone by the time that the master is up")
		require.Equal(t, []string{"set", "release", "set"}, verbs(c.masters[0]))
	})
}

func TestAnOwedReleaseIsForgottenAfterTheTTL(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock := c.acquire(t, client, ttl)
		c.takeDown(t, 2)
		require.NoError(t, lock.Release())
		time.Sleep(ttl + time.Second)
		c.bringUp(t, 2)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, c.masters[2].Connections(), "it is back")
		require.Equal(t, []string{"set"}, verbs(c.masters[2]), "there is nothing to delete any more")
	})
}

func TestAnOwedReleaseLeavesTheNextHolderAlone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		lock := c.acquire(t, client, time.Minute)
		c.takeDown(t, 2)
		require.NoError(t, lock.Release())
		c.masters[2].Set(key, other, 0)
		c.bringUp(t, 2)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Equal(t, []string{"set", "release"}, verbs(c.masters[2]))
		v, _ := c.masters[2].Get(key)
		require.Equal(t, other, v)
	})
}

func TestAnOwedReleaseIsKeptForTheLongestTTL(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		lock := c.acquire(t, c.client(t), 2*time.Second)
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		require.NoError(t, lock.Extend(t.Context(), 2*time.Second))
		c.masters[2].Set(key, lock.Value(), time.Minute) // it missed the last extension
		c.settle()
		c.takeDown(t, 2)
		require.NoError(t, lock.Release())
		time.Sleep(10 * time.Second)
		c.bringUp(t, 2)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		require.Zero(t, c.keys())
	})
}

// A connection that is given up may have left a SET with the server, which runs
// when the server comes to it: after the release on the next connection, unless
// the old one is killed first.
func TestASetOfALostConnectionDoesNotComeAfterItsRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, c *cluster) {
		client := c.client(t)
		slow := c.masters[2]
		slow.Hook("set", fakeredis.Times(1, fakeredis.Action{Delay: 10 * time.Second}))
		lock := c.acquire(t, client, time.Minute)
		time.Sleep(5 * time.Second)
		require.Equal(t, 3, client.Connected())
		require.Equal(t, 1, slow.Count("client|kill"), "the connection was given up, and its successor is there")
		require.NoError(t, lock.Release())
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Zero(t, c.keys())
	})
}
