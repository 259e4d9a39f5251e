package engine

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A connection that ended while nobody used it still takes a write, and the
// vote would be lost. Within stale of the last look that is a risk worth its
// saving; after it a caller looks first.
func TestAfterAPauseACallerLooksBeforeItWrites(t *testing.T) {
	for _, tc := range []struct {
		name  string
		pause time.Duration
		looks bool
	}{
		{"no pause", 0, false},
		{"a pause of stale", stale, false},
		{"a longer one", stale + 1, true},
		{"a pause just before the tick", idleTick - 1, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const dead = 2
				c := memory.start(t, 3)
				c.do(t.Context(), acquireAll, "earlier", "v", time.Hour)
				c.settled()
				time.Sleep(2 * busyTick) // a tick that the round has asked for
				c.look()
				c.mu.Lock()
				c.timer.Reset(idleTick) // the next one is a whole pause away
				c.mu.Unlock()

				require.NoError(t, c.fakes[dead].Refuse(true))
				c.fakes[dead].Reset()
				synctest.Wait()
				time.Sleep(tc.pause)
				require.Equal(t, 3, c.connected(), "nobody has noticed")

				require.NoError(t, c.Enter())
				defer c.Leave()
				_, up := c.connectionOf(dead)
				require.Equal(t, tc.looks, !up)
				r := c.begin(&Acquire, "key", "v", time.Hour)
				c.mu.Lock()
				queued := c.masters[dead].fifo.len + len(c.masters[dead].out)
				c.mu.Unlock()
				o := c.Wait(t.Context(), r)
				require.Equal(t, Won, o.Decision)
				require.Equal(t, tc.looks, !o.Sent.Has(dead))
				require.Equal(t, tc.looks, queued == 0, "on the dead connection")
				require.True(t, o.Sent.Has(0) && o.Sent.Has(1))
			})
		})
	}
}
