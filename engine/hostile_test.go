package engine

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/fakeredis"
	"github.com/goredlock/redlock/resp"
)

// lies is what one master answers to one SET. It may cost that master's vote and
// that master's connection, and nothing else.
var lies = []struct {
	name string
	act  fakeredis.Action
	vote Vote   // of that master
	err  string // a part of why its vote failed
	ends bool   // the connection ends at once
	late bool   // the round has to wait for its deadline, the connection for Config.Silence
}{
	{name: "an error", act: raw("-OOM command not allowed\r\n"), vote: Failed, err: "OOM"},
	{name: "a long error", act: raw("!12\r\nLOADING data\r\n"), vote: Failed, err: "LOADING data"},
	{name: "pushes before the reply", act: raw(">2\r\n+invalidate\r\n_\r\n>1\r\n:1\r\n+OK\r\n"), vote: Granted},
	{name: "an attribute before the reply", act: raw("|1\r\n+ttl\r\n:1\r\n+OK\r\n"), vote: Granted},
	{name: "many pushes before the reply", act: raw(strings.Repeat(">2\r\n+invalidate\r\n_\r\n", 50_000) + "+OK\r\n"), vote: Granted},

	{name: "another simple string", act: raw("+QUEUED\r\n"), vote: Failed, err: "cannot have", ends: true},
	{name: "a number", act: raw(":1\r\n"), vote: Failed, err: "cannot have", ends: true},
	{name: "an array", act: raw("*2\r\n+OK\r\n+OK\r\n"), vote: Failed, err: "cannot have", ends: true},
	{name: "garbage", act: raw("HTTP/1.1 400 Bad Request\r\n\r\n"), vote: Failed, err: resp.ErrType.Error(), ends: true},
	{name: "no line end", act: raw("$2\r\nOKOK"), vote: Failed, err: resp.ErrTerminator.Error(), ends: true},
	{name: "a huge length", act: raw("$99999999999999999999\r\n"), vote: Failed, err: "resp: ", ends: true},
	{name: "the largest length", act: raw("$9223372036854775807\r\n"), vote: Failed, err: "resp: ", ends: true},
	{name: "a huge array", act: raw("*9223372036854775807\r\n"), vote: Failed, err: "resp: ", ends: true},
	{name: "endless nesting", act: raw(strings.Repeat("*1\r\n", 1<<18)), vote: Failed, err: resp.ErrTooDeep.Error(), ends: true},
	{name: "an endless line", act: raw("+" + strings.Repeat("a", 4<<20)), vote: Failed, err: resp.ErrTooLarge.Error(), ends: true},
	{name: "an endless bulk", act: raw("$65000\r\n" + strings.Repeat("a", 4<<20)), vote: Failed, err: resp.ErrTerminator.Error(), ends: true},
	{name: "the end of the connection", act: fakeredis.Action{Reset: true}, vote: Failed, err: "read: ", ends: true},

	// The first reply is what it should be; the second gives the lie away, and
	// if both come together the first does not count either.
	{name: "two replies", act: raw("+OK\r\n+OK\r\n"), vote: Failed, err: "nobody asked for", ends: true},
	{name: "a reply and garbage", act: raw("+OK\r\nOK"), vote: Failed, err: resp.ErrType.Error(), ends: true},
	{name: "a reply and half of another", act: raw("+OK\r\n+O"), vote: Granted, ends: true}, // by the next reply

	{name: "nothing", act: raw(""), vote: Failed, err: "no answer in time", late: true},
	{name: "half a reply", act: raw("+O"), vote: Failed, err: "no answer in time", late: true},
	{name: "half a bulk", act: raw("$5\r\nab"), vote: Failed, err: "no answer in time", late: true},
	{name: "pushes only", act: raw(">1\r\n:1\r\n"), vote: Failed, err: "no answer in time", late: true},
	{name: "nothing any more", act: fakeredis.Action{Lose: true}, vote: Failed, err: "no answer in time", late: true},
}

func raw(s string) fakeredis.Action { return fakeredis.Action{Raw: []byte(s)} }

// lieOnce makes the last master lie to the SET of one key.
func (c *cluster) lieOnce(key string, a fakeredis.Action) *fakeredis.Server {
	liar := c.fakes[len(c.fakes)-1]
	liar.Hook("set", func(cmd fakeredis.Command) fakeredis.Action {
		if string(cmd.Args[1]) == key {
			return a
		}
		return fakeredis.Action{}
	})
	return liar
}

func (c *cluster) connectionOf(master int) (number uint32, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.masters[master].number, c.masters[master].conn != nil
}

func TestALieCostsOneVoteAndAtMostOneConnection(t *testing.T) {
	for _, lie := range lies {
		t.Run(lie.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const timeout, quiet = 50 * ms, 500 * ms
				c := memory.start(t, 5, roundTimeout(timeout), silence(quiet))
				c.lieOnce("lie", lie.act)
				start := time.Now()
				o := c.do(context.Background(), acquireAll, "lie", "v", time.Hour)
				switch {
				case lie.late:
					require.Equal(t, timeout, time.Since(start))
				default:
					require.Zero(t, time.Since(start))
				}
				if lie.vote == Granted {
					require.Equal(t, Tally{5, 5, 0, 0}, o.Tally)
				} else {
					require.Equal(t, Tally{5, 4, 0, 1}, o.Tally)
					require.ErrorContains(t, o.failure(4), lie.err)
				}

				// The next round finds the others as they were.
				o = c.acquire("next", "v")
				require.Equal(t, Won, o.Decision)
				if lie.late {
					time.Sleep(quiet + 2*longestPark + 2*busyTick)
				}
				if lie.ends || lie.late {
					c.eventually(func() bool { return c.masters[4].number == 2 }, "the connection was kept")
				}
				c.awaitUp(5)
				number, _ := c.connectionOf(4)
				require.Equal(t, lie.ends || lie.late, number == 2, "connection %d", number)
				for i := range 4 {
					number, _ := c.connectionOf(i)
					require.EqualValues(t, 1, number, "of master %d, which was honest", i)
				}
				o = c.do(context.Background(), acquireAll, "afterwards", "v", time.Hour)
				require.Equal(t, Tally{5, 5, 0, 0}, o.Tally)
			})
		})
	}
}

// The same in a crowd, over real sockets as well: whoever waits for the four
// honest masters does not notice.
func TestALieInACrowd(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		c := w.start(t, 5)
		for _, lie := range lies {
			if lie.late {
				continue // the crowd would wait in real time
			}
			c.lieOnce("lie 0", lie.act)
			var crowd sync.WaitGroup
			for i := range 20 {
				crowd.Go(func() {
					key := fmt.Sprint("lie ", i)
					o := c.do(context.Background(), &Acquire, key, "v", time.Hour)
					require.Equal(t, Won, o.Decision, lie.name)
					require.Contains(t, []Decision{Won, NoQuorum}, c.release(key, "v").Decision)
				})
			}
			crowd.Wait()
			c.eventually(func() bool { return c.masters[4].conn != nil }, "master 4 is not back")
		}
		c.settled()
		for i := range 4 {
			number, up := c.connectionOf(i)
			require.True(t, up)
			require.EqualValues(t, 1, number, "of an honest master")
			require.Empty(t, c.fakes[i].Keys())
		}
	})
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestAnUnaskedReplyWhileNothingIsOwedEndsTheConnection(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		c := w.start(t, 3)
		require.Equal(t, 3, c.do(context.Background(), acquireAll, "a", "v", time.Hour).Tally.Granted)
		c.mu.Lock()
		of := c.masters[2].conn
		c.mu.Unlock()
		b := &conn.Buffer{B: []byte("PING\r\n")} // behind the engine's back
		b.Retain()
		of.Append(b, 0, len(b.B))
		_, err := of.Flush()
		require.NoError(t, err)
		c.eventually(func() bool { return c.masters[2].number == 2 && c.up == 3 }, "the connection was kept")
	})
}

// A reply that came with the handshake's must not be taken for the first
// round's.
func TestAnUnaskedReplyBehindTheHandshakeIsNoVote(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		c := w.start(t, 3)
		liar := c.fakes[2]
		liar.Hook("script|load", func(cmd fakeredis.Command) fakeredis.Action {
			if string(cmd.Args[2]) == extendScript.source { // the last command of the handshake
				return raw("+sha\r\n+OK\r\n")
			}
			return fakeredis.Action{}
		})
		liar.Set("key", "another", 0)
		liar.Reset()
		c.awaitUp(2)
		c.eventually(func() bool { return c.masters[2].number > 1 || liar.Count("script|load") > 4 }, "it is not dialed")
		for range 20 {
			o := c.do(context.Background(), acquireAll, "key", "v", time.Hour)
			require.LessOrEqual(t, o.Tally.Granted, 2, "granted by a master on which another has it")
			require.Equal(t, 2, c.do(context.Background(), releaseAll, "key", "v", time.Hour).Tally.Granted)
		}
		liar.Hook("script|load", nil)
		c.awaitUp(3)
	})
}

// A connection that ends with its last reply is noticed, although both may come
// together and nobody sends anything after it.
func TestTheEndBehindAReplyIsNoticed(t *testing.T) {
	quit := Op{
		Name:   "quit",
		Append: func(dst []byte, _ conn.Form, _ *Round) []byte { return resp.AppendCommand(dst, "QUIT") },
		Vote:   voteAcquire, // +OK
		Decide: Tally.Confirmation,
	}
	onEach(t, func(t *testing.T, w way) {
		c := w.start(t, 1)
		for i := range uint32(4) {
			require.Equal(t, Won, c.do(context.Background(), &quit, "", "", 0).Decision)
			c.eventually(func() bool { return c.masters[0].number == i+2 }, "not noticed")
		}
	})
}

// More replies than one read takes, which come while nobody reads, are all read
// at the next look.
func TestABacklogOfRepliesIsReadToItsEnd(t *testing.T) {
	const rounds = 4000 // at five bytes each: more than two read buffers
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3, roundTimeout(50*ms), silence(time.Second))
		c.fakes[2].SetLag(40 * ms)
		for i := range rounds {
			require.NoError(t, c.Send(c.begin(&Acquire, fmt.Sprint("key", i), "v", time.Hour)))
		}
		time.Sleep(40*ms + 10*busyTick)
		synctest.Wait()
		c.mu.Lock()
		defer c.mu.Unlock()
		require.Zero(t, c.debts, "replies have come and are not read")
		require.Equal(t, 3, c.up)
	})
}

func TestAMasterThatSpeaksAnotherProtocolNeverComesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := memory.start(t, 3, func(cfg *Config) { cfg.Dial.Timeout = time.Second })
		ln, err := c.net.Listen("web:80")
		require.NoError(t, err)
		defer ln.Close()
		go func() {
			for {
				nc, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(nc, "HTTP/1.1 400 Bad Request\r\n\r\n")
				_ = nc.Close()
			}
		}()
		cfg := c.cfg
		cfg.Masters = append(cfg.Masters[:2:2], Address{Network: "tcp", Addr: "web:80"})
		e, err := New(cfg)
		require.NoError(t, err)
		defer e.Close()
		require.NoError(t, e.Ready(context.Background()))
		time.Sleep(10 * time.Second)
		down := e.Down()
		require.Len(t, down, 1)
		require.ErrorContains(t, down[0].Err, "hello: ")
		c2 := &cluster{Engine: e, t: t, net: c.net}
		require.Equal(t, Won, c2.acquire("key", "v").Decision)
	})
}
