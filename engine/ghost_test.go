package engine

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/fakeredis"
)

// A ghost is a connection that was lost with commands unanswered: the server may
// still execute them.

// killOf is the command that ends client i of a fake.
func killOf(client fakeredis.ClientInfo) string {
	return fmt.Sprintf("CLIENT KILL ID %d ADDR %s", client.ID, client.Addr)
}

// loseSilently has the last master stop in the middle of a SET, until its
// connection is given up.
func (c *cluster) loseSilently(key string) (last *fakeredis.Server, client fakeredis.ClientInfo) {
	c.t.Helper()
	last = c.fakes[len(c.fakes)-1]
	client = last.Clients()[0]
	last.Hook("set", fakeredis.Times(1, fakeredis.Action{Delay: time.Hour}))
	number, _ := c.connectionOf(len(c.fakes) - 1)
	o := c.acquire(key, "v")
	require.True(c.t, o.Sent.Has(len(c.fakes)-1))
	c.eventually(func() bool { return c.masters[len(c.fakes)-1].number > number }, "not given up")
	return last, client
}

func startQuick(t *testing.T, n int) *cluster {
	return memory.start(t, n, roundTimeout(50*ms), silence(500*ms))
}

func TestAGhostIsKilledBeforeAnythingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startQuick(t, 3)
		var ghost fakeredis.ClientInfo
		last := c.fakes[2]
		last.Hook("client|kill", func(fakeredis.Command) fakeredis.Action {
			require.NotContains(t, last.Keys(), "late")
			return fakeredis.Action{}
		})
		ghost = last.Clients()[0]
		last.Hook("set", fakeredis.Times(1, fakeredis.Action{Delay: time.Hour}))
		require.Equal(t, Won, c.acquire("late", "v").Decision)
		require.Equal(t, Won, c.release("late", "v").Decision) // unanswered by the last as well
		c.eventually(func() bool { return c.masters[2].number == 2 }, "not given up")
		c.acquire("next", "v")
		c.settled()
		require.Equal(t, []string{killOf(ghost), "EVALSHA <release> 1 late v", "SET next v NX PX 3600000"}, commands(last))
		time.Sleep(2 * time.Hour)
		require.Empty(t, last.Keys(), "the SET has run after its release")
	})
}

func TestOnlyGhostsAreKilled(t *testing.T) {
	for _, c := range []struct {
		name  string
		lose  func(*cluster, *fakeredis.Server)
		kills int
	}{
		{"unanswered", func(c *cluster, s *fakeredis.Server) { s.Reset() }, 1},
		{"a new run id", func(c *cluster, s *fakeredis.Server) { s.Restart(true) }, 0},
		{"answered", func(c *cluster, s *fakeredis.Server) {
			s.Hook("set", nil)
			c.acquire("key", "another")
			c.settled()
			s.Reset()
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cl := startQuick(t, 3)
				last := cl.fakes[2]
				if c.kills > 0 || c.name == "a new run id" {
					last.Hook("set", fakeredis.Times(1, fakeredis.Action{Skip: true}))
					cl.acquire("key", "v")
					synctest.Wait() // it has received it
				}
				c.lose(cl, last)
				cl.eventually(func() bool { return cl.masters[2].number == 2 && cl.masters[2].conn != nil }, "not back")
				cl.settled()
				require.Equal(t, c.kills, last.Count("client|kill"))
			})
		})
	}
}

// A kill that was not answered is asked for again, with the connection on which
// it was asked.
func TestAGhostIsRememberedUntilItsKillIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startQuick(t, 3)
		last := c.fakes[2]
		answers := []fakeredis.Action{
			{Skip: true, Reset: true},     // connection 2: the kill of 1
			{}, {Skip: true, Reset: true}, // connection 3: of 1, which is answered, and of 2
			{}, {}, // connection 4: of 2 and of 3
		}
		last.Hook("client|kill", func(fakeredis.Command) fakeredis.Action {
			a := answers[0]
			answers = answers[1:]
			return a
		})
		_, first := c.loseSilently("key")
		c.eventually(func() bool { return c.masters[2].number == 4 && c.masters[2].conn != nil }, "not back")
		c.settled()

		var ids []string
		for _, cmd := range last.Commands() {
			if cmd.Name == "client|kill" {
				ids = append(ids, fmt.Sprintf("%d asks for %s", cmd.Client, cmd.Args[3]))
			}
		}
		n := first.ID
		asks := func(by, of int64) string { return fmt.Sprintf("%d asks for %d", n+by, n+of) }
		require.Equal(t, []string{asks(1, 0), asks(2, 0), asks(2, 1), asks(3, 1), asks(3, 2)}, ids)
		c.mu.Lock()
		defer c.mu.Unlock()
		require.Empty(t, c.masters[2].ghosts)
	})
}

func TestAMasterThatForbidsTheKillIsUsedAllTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startQuick(t, 3)
		c.fakes[2].Deny("client|kill")
		c.loseSilently("key")
		c.settled()
		require.Equal(t, 1, c.fakes[2].Count("client|kill"))
		require.Equal(t, Tally{3, 3, 0, 0}, c.do(context.Background(), acquireAll, "next", "v", time.Hour).Tally)
	})
}

// Where the kill is refused, a release that found nothing is sent again, for as
// long as the lost command could still have come.
func TestNothingIsLeftBehindWhereTheKillIsForbidden(t *testing.T) {
	for _, deny := range []string{"", "client|kill", "client|id"} {
		t.Run("forbidden: "+deny, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := startQuick(t, 3)
				last := c.fakes[2]
				last.Deny(deny)
				last.Hook("set", fakeredis.Times(1, fakeredis.Action{Delay: 10 * time.Second}))
				require.Equal(t, Won, c.acquire("key", "v").Decision)
				c.eventually(func() bool { return c.masters[2].number == 2 }, "not given up")
				require.Equal(t, Won, c.release("key", "v").Decision)
				late := false
				for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(ms) {
					late = late || len(last.Keys()) > 0
				}
				require.Equal(t, deny == "client|kill", late, "whether the lost SET comes")
				require.Empty(t, last.Keys())
			})
		})
	}
}

func TestGhostsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := startQuick(t, 1)
		c.fakes[0].Hook("client|kill", fakeredis.Times(-1, fakeredis.Action{Skip: true, Reset: true}))
		c.loseSilently("key")
		time.Sleep(2 * maxGhosts * slowestDial)
		// One is given up for each that comes in a full list: while the master is up
		// there is one less.
		c.mu.Lock()
		ghosts := len(c.masters[0].ghosts)
		c.mu.Unlock()
		require.Contains(t, []int{maxGhosts - 1, maxGhosts}, ghosts)
		c.fakes[0].Hook("client|kill", nil)
		c.eventually(func() bool { return c.up == 1 && len(c.masters[0].ghosts) == 0 }, "the kills are not answered")
		c.settled()
		require.Equal(t, Won, c.acquire("next", "v").Decision)
	})
}

// A connection that is lost while its round is only queued has sent nothing that
// a new connection would repeat.
func TestARoundIsNeverSentOnTheNextConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 1)
		s := c.fakes[0]
		c.mu.Lock()
		c.writing = true // nobody writes for now
		c.mu.Unlock()
		r := c.begin(&Acquire, "key", "v", time.Hour)
		s.Reset()
		c.eventually(func() bool { return c.masters[0].number == 2 && c.up == 1 }, "not back")
		c.mu.Lock()
		c.writing = false
		c.mu.Unlock()
		o := c.Wait(context.Background(), r)
		require.Equal(t, NoQuorum, o.Decision)
		c.settled()
		require.Empty(t, starting(commands(s), "SET"))
		require.Empty(t, s.Keys())
		number, _ := c.connectionOf(0)
		require.EqualValues(t, 2, number)
		require.Equal(t, Won, c.acquire("next", "v").Decision)
		require.Equal(t, []string{"SET next v NX PX 3600000"}, starting(commands(s), "SET"))
	})
}
