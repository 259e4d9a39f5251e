package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/fakeredis"
	"github.com/goredlock/redlock/resp"
)

// gated starts an engine whose last master is behind a gate.
func (w way) gated(t testing.TB, n int, change ...func(*Config)) (*cluster, *gate) {
	var g *gate
	change = append(change, func(cfg *Config) {
		last := &cfg.Masters[n-1]
		g = newGate(t, last.Addr)
		*last = conn.Address{Network: "tcp", Addr: g.addr()}
	})
	c := w.start(t, n, change...)
	// Behind a relay a client has another address for the server.
	last := c.fakes[n-1]
	last.Hook("client", func(cmd fakeredis.Command) fakeredis.Action {
		for _, client := range last.Clients() {
			if client.ID == cmd.Client && strings.EqualFold(string(cmd.Args[1]), "INFO") {
				return raw(fmt.Sprintf("+id=%d addr=%s laddr=x\r\n", client.ID, client.Addr))
			}
		}
		return fakeredis.Action{}
	})
	last.Reset()
	c.eventually(func() bool { return c.masters[n-1].number == 2 && c.up == n }, "not back")
	return c, g
}

// fill queues rounds until the last master's socket takes nothing more. It
// returns the keys of what it has acquired, and of what it has released again,
// in that order.
func (c *cluster) fill() (held, released []string) {
	c.t.Helper()
	stuck := func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.masters[c.N()-1].unsent
	}
	for i := 0; !stuck(); i++ {
		require.Less(c.t, i, 1000, "the socket is never full")
		key := fmt.Sprint("key ", i, " ", strings.Repeat("k", 50<<10))
		require.Equal(c.t, Won, c.acquire(key, "v").Decision)
		held = append(held, key)
		// A socket may have room although it is not reported as writable;
		// releases are written to it all the same.
		for len(held) > 0 && stuck() && len(released) < 40 {
			require.Equal(c.t, Won, c.release(held[0], "v").Decision)
			held, released = held[1:], append(released, held[0])
		}
	}
	require.Len(c.t, released, 40)
	return held, released
}

func TestAMasterThatTakesNoBytesHoldsUpNobodyElse(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		c, g := w.gated(t, 3)
		g.shut()
		held, released := c.fill()

		for i := range 100 {
			o := c.do(context.Background(), acquireAll, fmt.Sprint("other ", i), "v", time.Hour)
			require.Equal(t, Tally{3, 2, 0, 1}, o.Tally)
			require.Equal(t, errFull, o.failure(2), "a new lock is not queued behind bytes that are stuck")
			require.Equal(t, Won, c.release(fmt.Sprint("other ", i), "v").Decision)
		}
		for _, key := range held {
			require.Equal(t, Won, c.release(key, "v").Decision, "a release is, and others answer it")
		}
		c.locked(func() {
			require.Equal(t, 1, c.unsent)
			require.Equal(t, background, c.role, "somebody waits for the socket to take more")
		})
		require.Empty(t, starting(commands(c.fakes[2]), "EVAL"))

		g.open()
		c.settled()
		c.consistent()
		for i, s := range c.fakes {
			require.Zero(t, len(s.Keys()), "keys on master %d", i)
		}
		number, _ := c.connectionOf(2)
		require.EqualValues(t, 2, number, "nothing was lost")
		// Everything has arrived, in the order in which it was queued.
		want := released
		for i := range 100 {
			want = append(want, fmt.Sprint("other ", i, " v"))
		}
		want = append(want, held...)
		got := starting(commands(c.fakes[2]), "EVAL")
		require.Equal(t, len(want), len(got))
		for i := range want {
			key := want[i][:min(len(want[i]), 10)] // of a long command the fake keeps a part
			require.Equal(t, "EVALSHA <release> 1 "+key, got[i][:min(len(got[i]), 20+len(key))], "command %d", i)
		}
		require.Equal(t, 3, c.do(context.Background(), acquireAll, "afterwards", "v", time.Hour).Tally.Granted)
	})
}

func TestUnsentBytesGoWithTheirConnection(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		c, g := w.gated(t, 3, silence(time.Second))
		g.shut()
		held, _ := c.fill()
		c.eventually(func() bool { return c.masters[2].conn == nil }, "not given up")
		c.locked(func() {
			require.Zero(t, c.unsent)
		})
		for _, key := range held {
			require.Equal(t, Won, c.release(key, "v").Decision)
		}
		g.open()
		c.awaitUp(3)
		c.settled()
		c.consistent()
		for i, s := range c.fakes {
			require.Zero(t, len(s.Keys()), "keys on master %d", i)
		}
	})
}

// Nothing but room in the socket can have the rest of one command sent: until
// then there is no answer.
func TestTheRestOfACommandIsSentWhenThereIsRoom(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		c, g := w.gated(t, 1)
		g.shut()
		set := Op{
			Name:   "set",
			Append: func(dst []byte, _ conn.Form, r *Round) []byte { return resp.AppendCommand(dst, "SET", r.Key, r.Key) },
			Vote:   voteAcquire,
			Decide: Tally.Acquisition,
		}
		done := make(chan Outcome)
		go func() { done <- c.do(context.Background(), &set, strings.Repeat("k", 12<<20), "", 0) }()
		c.eventually(func() bool { return c.unsent == 1 && c.parked > 0 }, "all was sent")
		g.open()
		require.Equal(t, Won, (<-done).Decision)
		c.settled()
	})
}

func TestCloseDoesNotWaitForUnsentBytes(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		const timeout = 2 * time.Second // of the rounds that fill the socket as well
		c, g := w.gated(t, 3, roundTimeout(timeout))
		g.shut()
		c.fill()
		start := time.Now()
		c.Close()
		require.GreaterOrEqual(t, time.Since(start), timeout, "it gives them the time")
		require.Less(t, time.Since(start), forLong)
	})
}

// A master comes up that wants another form, between the writing of a round and
// its way into the queue.
func TestARoundIsWrittenInAFormThatIsWantedAtTheLastMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.startFlavors(t, []fakeredis.Flavor{fakeredis.Redis84})
		m := c.masters[0]
		c.locked(func() {
			m.form[Releasing] = conn.FormScript
			c.forms[Releasing].Store(1 << conn.FormScript)
		})
		op := Release
		op.Append = func(dst []byte, f conn.Form, r *Round) []byte {
			c.locked(func() {
				m.form[Releasing] = conn.FormDELEX
				c.forms[Releasing].Or(1 << conn.FormDELEX)
			})
			return appendRelease(dst, f, r)
		}
		c.fakes[0].Set("key", "v", 0)
		require.Equal(t, Won, c.do(context.Background(), &op, "key", "v", time.Hour).Decision)
		require.Equal(t, []string{"DELEX key IFEQ v"}, commands(c.fakes[0]))
	})
}

// Masters that speak different forms are in one client: a round is written in
// each form once, whichever masters get it.
func TestEachMasterGetsItsOwnForm(t *testing.T) {
	flavors := []fakeredis.Flavor{fakeredis.Redis70, fakeredis.Redis84, fakeredis.Valkey9, fakeredis.Redis5, fakeredis.Redis84}
	for _, w := range append([]way{memory}, realWays...) {
		t.Run(w.name, func(t *testing.T) {
			c := w.startFlavors(t, flavors)
			count := func(op Op) (*Op, map[conn.Form]int) {
				calls := map[conn.Form]int{}
				inner := op.Append
				op.Append = func(dst []byte, f conn.Form, r *Round) []byte {
					calls[f]++
					return inner(dst, f, r)
				}
				return unanimous(op), calls
			}
			acquire, acquires := count(Acquire)
			extend, extends := count(Extend)
			release, releases := count(Release)
			ctx := context.Background()
			const rounds = 10
			for range rounds {
				require.Equal(t, 5, c.do(ctx, acquire, "key", "v", time.Minute).Tally.Granted)
				require.Equal(t, 5, c.do(ctx, extend, "key", "v", time.Hour).Tally.Granted)
				require.Equal(t, Tally{5, 0, 5, 0}, c.do(ctx, extend, "key", "not v", time.Hour).Tally)
				require.Equal(t, Tally{5, 0, 5, 0}, c.do(ctx, release, "key", "not v", time.Hour).Tally)
				require.Equal(t, 5, c.do(ctx, release, "key", "v", time.Hour).Tally.Granted)
			}
			require.Equal(t, map[conn.Form]int{conn.FormScript: rounds}, acquires)
			require.Equal(t, map[conn.Form]int{conn.FormScript: 2 * rounds, conn.FormSETIFEQ: 2 * rounds}, extends)
			require.Equal(t, map[conn.Form]int{conn.FormScript: 2 * rounds, conn.FormDELEX: 2 * rounds, conn.FormDELIFEQ: 2 * rounds}, releases)
			script := []string{"SET key v NX PX 60000", "EVALSHA <extend> 1 key v 3600000", "EVALSHA <extend> 1 key not v 3600000",
				"EVALSHA <release> 1 key not v", "EVALSHA <release> 1 key v"}
			native := []string{script[0], "SET key v IFEQ v PX 3600000", "SET key not v IFEQ not v PX 3600000"}
			for i, want := range [][]string{
				script, append(native[:3:3], "DELEX key IFEQ not v", "DELEX key IFEQ v"),
				append(native[:3:3], "DELIFEQ key not v", "DELIFEQ key v"), script, append(native[:3:3], "DELEX key IFEQ not v", "DELEX key IFEQ v"),
			} {
				require.Equal(t, want, commands(c.fakes[i])[:5], "%v", flavors[i])
			}
		})
	}
}
