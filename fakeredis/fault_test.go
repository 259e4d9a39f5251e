package fakeredis

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// virtual runs f in virtual time with one server on an in-memory network.
func virtual(t *testing.T, f func(t *testing.T, n *Network, s *Server)) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		f(t, n, Start(t, Config{Network: n}))
	})
}

// join connects to s over its network.
func join(t *testing.T, n *Network, s *Server) *rawClient {
	conn, err := n.Dial(t.Context(), "tcp", s.Addr())
	require.NoError(t, err)
	return newRawClient(t, conn)
}

// clock returns a function that tells the time since now.
func clock() func() time.Duration {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// ended waits for the end of a connection and returns how it came, nil for an orderly one.
func (c *rawClient) ended() error {
	_, err := c.r.ReadByte()
	if errors.Is(err, io.EOF) {
		return nil
	}
	require.Error(c.t, err)
	return err
}

// silent checks that nothing arrives within a second of virtual time.
func (c *rawClient) silent() {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(time.Second)))
	_, err := c.r.ReadByte()
	require.ErrorIs(c.t, err, errTimeout)
	require.NoError(c.t, c.SetReadDeadline(time.Time{}))
}

func TestDelayWaitsBeforeExecution(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.Hook("set", Times(1, Action{Delay: time.Second}))
		c, at := join(t, n, s), clock()
		c.send("PING")
		c.send("SET", "k", "v")
		c.send("GET", "k")
		require.Equal(t, "+PONG\r\n", c.reply())
		require.Zero(t, at(), "what was answered before does not wait")
		synctest.Wait()
		_, there := s.Get("k")
		require.False(t, there, "not executed yet")
		require.Equal(t, 1, s.Count("set"), "but received")
		require.Equal(t, "+OK\r\n", c.reply())
		require.Equal(t, "$1\r\nv\r\n", c.reply(), "what came behind is executed behind")
		require.Equal(t, time.Second, at())
		require.Equal(t, "+OK\r\n", c.do("SET", "k", "w"))
		require.Equal(t, time.Second, at(), "once only")
	})
}

func TestLagWaitsAfterExecution(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.Hook("set", Times(1, Action{Lag: time.Second}))
		c, at := join(t, n, s), clock()
		c.send("SET", "k", "v")
		c.send("INCR", "n")
		synctest.Wait()
		v, _ := s.Get("k")
		require.Equal(t, "v", v, "executed at once")
		v, _ = s.Get("n")
		require.Equal(t, "1", v, "and so is what came behind")
		require.Zero(t, at())
		require.Equal(t, "+OK\r\n", c.reply())
		require.Equal(t, ":1\r\n", c.reply(), "replies keep their order")
		require.Equal(t, time.Second, at())
		require.Equal(t, "+PONG\r\n", c.do("PING"))
		require.Equal(t, time.Second, at())
	})
}

func TestLagOfManyRepliesIsNotAdded(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.SetLag(40 * time.Millisecond)
		c, at := join(t, n, s), clock()
		for range 10 {
			c.send("PING")
		}
		for range 10 {
			require.Equal(t, "+PONG\r\n", c.reply())
		}
		require.Equal(t, 40*time.Millisecond, at())
		c.send("QUIT")
		require.Equal(t, "+OK\r\n", c.reply())
		require.NoError(t, c.ended())
		require.Equal(t, 80*time.Millisecond, at())
	})
}

func TestDelayForAllCommands(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.SetDelay(10 * time.Millisecond)
		s.Hook("get", Times(-1, Action{Delay: 5 * time.Millisecond}))
		c, at := join(t, n, s), clock()
		c.do("PING")
		require.Equal(t, 10*time.Millisecond, at())
		c.do("GET", "k")
		require.Equal(t, 25*time.Millisecond, at())
		s.SetDelay(0)
		s.Hook("get", nil)
		c.do("GET", "k")
		require.Equal(t, 25*time.Millisecond, at())
	})
}

func TestLoseExecutesButNeverReplies(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.Hook("set", Times(1, Action{Lose: true}))
		c := join(t, n, s)
		c.send("PING")
		c.send("SET", "k", "v")
		c.send("INCR", "n")
		require.Equal(t, "+PONG\r\n", c.reply())
		c.silent()
		require.Equal(t, []string{"k", "n"}, s.Keys())
		require.Equal(t, "+PONG\r\n", join(t, n, s).do("PING"), "other connections are well")
	})
}

func TestRawBytesInPlaceOfTheReply(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.Hook("set", Times(1, Action{Raw: []byte(":7\r\n")}))
		s.Hook("incr", Times(1, Action{Raw: []byte("$-1\r\n"), Skip: true}))
		s.Hook("del", Times(1, Action{Raw: []byte{}}))
		c := join(t, n, s)
		require.Equal(t, ":7\r\n", c.do("SET", "k", "v"))
		require.Equal(t, "$-1\r\n", c.do("INCR", "n"))
		c.send("DEL", "none")
		require.Equal(t, "$1\r\nv\r\n", c.do("GET", "k"), "executed, and DEL has no reply")
		require.Equal(t, "$-1\r\n", c.do("GET", "n"), "not executed")
	})
}

func TestErrorReplyInsteadOfExecution(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.Hook("set", Times(2, Action{Error: "BUSY Redis is busy running a script."}))
		c := join(t, n, s)
		require.Equal(t, "-BUSY Redis is busy running a script.\r\n", c.do("SET", "k", "v"))
		require.Equal(t, "-BUSY Redis is busy running a script.\r\n", c.do("SET", "k", "v"))
		require.Empty(t, s.Keys())
		require.Equal(t, "+OK\r\n", c.do("SET", "k", "v"))
	})
}

func TestResetInsteadOfReply(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.Hook("set", Times(1, Action{Reset: true}))
		c := join(t, n, s)
		_, err := c.Write(append(encode("SET", "k", "v"), encode("INCR", "n")...)) // both, before the reset can come
		require.NoError(t, err)
		require.ErrorIs(t, c.ended(), syscall.ECONNRESET)
		require.Equal(t, []string{"k"}, s.Keys(), "executed, but not what came behind")
	})
}

func TestHookNames(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		named := func(text string) func(Command) Action {
			return func(cmd Command) Action { return Action{Error: text + " " + cmd.String()} }
		}
		s.Hook("", named("ALL"))
		s.Hook("client", named("CLIENT"))
		s.Hook("CLIENT|ID", named("ID"))
		c := join(t, n, s)
		require.Equal(t, "-ID CLIENT ID\r\n", c.do("CLIENT", "ID"))
		require.Equal(t, "-CLIENT client GetName\r\n", c.do("client", "GetName"))
		require.Equal(t, "-ALL nonsense 1\r\n", c.do("nonsense", "1"))
		s.Hook("", nil)
		require.Equal(t, "+PONG\r\n", c.do("PING"))
		var seen Command
		s.Hook("echo", func(cmd Command) Action { seen = cmd; return Action{} })
		c.do("ECHO", "x")
		require.Equal(t, "echo", seen.Name)
		require.Equal(t, s.Clients()[0].ID, seen.Client)
		require.Equal(t, time.Now(), seen.At)
	})
}

func TestFreezeAcceptsAndNeverAnswers(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		old := join(t, n, s)
		require.Equal(t, "+PONG\r\n", old.do("PING"))
		s.Freeze()
		s.Freeze()
		fresh := join(t, n, s)
		old.send("SET", "old", "1")
		fresh.send("SET", "fresh", "1")
		old.silent()
		fresh.silent()
		require.Empty(t, s.Keys())
		require.Equal(t, 2, s.Count("set"), "received")
		require.NoError(t, fresh.Close())
		s.Thaw()
		require.Equal(t, "+OK\r\n", old.reply())
		synctest.Wait()
		require.Equal(t, []string{"fresh", "old"}, s.Keys(), "also the one whose sender has gone")
		s.Thaw()
	})
}

func TestFreezeWhileACommandIsDelayed(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.SetDelay(time.Second)
		c := join(t, n, s)
		c.send("SET", "k", "v")
		synctest.Wait()
		s.Freeze()
		time.Sleep(time.Minute)
		require.Empty(t, s.Keys())
		s.Thaw()
		require.Equal(t, "+OK\r\n", c.reply())
	})
}

func TestRefuse(t *testing.T) {
	for name, start := range map[string]func(t *testing.T) (*Server, func() (net.Conn, error)){
		"tcp": func(t *testing.T) (*Server, func() (net.Conn, error)) {
			s := Start(t)
			return s, func() (net.Conn, error) { return net.Dial("tcp", s.Addr()) }
		},
		"memory": func(t *testing.T) (*Server, func() (net.Conn, error)) {
			n := NewNetwork()
			s := Start(t, Config{Network: n})
			return s, func() (net.Conn, error) { return n.Dial(t.Context(), "tcp", s.Addr()) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, connect := start(t)
			conn, err := connect()
			require.NoError(t, err)
			old := newRawClient(t, conn)
			require.Equal(t, "+PONG\r\n", old.do("PING"))
			for range 3 {
				require.NoError(t, s.Refuse(true))
				require.NoError(t, s.Refuse(true))
				_, err = connect()
				require.ErrorIs(t, err, syscall.ECONNREFUSED)
				require.Equal(t, "+PONG\r\n", old.do("PING"), "open connections stay")
				require.NoError(t, s.Refuse(false))
				conn, err = connect()
				require.NoError(t, err)
				require.Equal(t, "+PONG\r\n", newRawClient(t, conn).do("PING"))
			}
		})
	}
}

func TestResetBreaksAllConnections(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		virtual(t, func(t *testing.T, n *Network, s *Server) {
			s.SetDelay(time.Second)
			a, b := join(t, n, s), join(t, n, s)
			a.send("SET", "k", "v")
			synctest.Wait()
			s.Reset()
			require.ErrorIs(t, a.ended(), syscall.ECONNRESET)
			require.ErrorIs(t, b.ended(), syscall.ECONNRESET)
			time.Sleep(time.Minute)
			require.Empty(t, s.Keys(), "what waited there is not executed")
			require.Zero(t, s.Connections())
		})
	})
	t.Run("tcp", func(t *testing.T) {
		s := Start(t)
		c := dial(t, "tcp", s.Addr())
		c.do("PING")
		s.Reset()
		require.ErrorIs(t, c.ended(), syscall.ECONNRESET)
		require.Equal(t, "+PONG\r\n", dial(t, "tcp", s.Addr()).do("PING"))
	})
}

func TestRestart(t *testing.T) {
	for _, keep := range []bool{true, false} {
		virtual(t, func(t *testing.T, n *Network, s *Server) {
			c := join(t, n, s)
			c.do("SET", "k", "v", "PX", "60000")
			sha := c.do("SCRIPT", "LOAD", "return 1")[5:45]
			require.Equal(t, ":1\r\n", c.do("EVALSHA", sha, "0"))
			id, run := c.do("CLIENT", "ID"), s.RunID()
			s.Freeze()
			c.send("SET", "late", "1")
			synctest.Wait()
			s.Restart(keep)
			require.NoError(t, c.ended(), "an orderly end, as from a process that exits")

			c = join(t, n, s)
			require.NotEqual(t, run, s.RunID())
			require.Contains(t, c.do("INFO", "server"), "run_id:"+s.RunID()+"\r\n")
			require.Equal(t, id, c.do("CLIENT", "ID"), "numbers begin again")
			require.Equal(t, "-NOSCRIPT No matching script. Please use EVAL.\r\n", c.do("EVALSHA", sha, "0"))
			require.Equal(t, "$-1\r\n", c.do("GET", "late"), "not executed")
			if keep {
				require.Equal(t, ":60000\r\n", c.do("PTTL", "k"))
			} else {
				require.Equal(t, "$-1\r\n", c.do("GET", "k"))
			}
		})
	}
}

func TestOutOfMemory(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.SetOOM(true)
		c := join(t, n, s)
		require.Contains(t, c.do("SET", "k", "v"), "-OOM ")
		require.Equal(t, ":0\r\n", c.do("DEL", "k"))
		s.SetOOM(false)
		require.Equal(t, "+OK\r\n", c.do("SET", "k", "v"))
	})
}

func TestDeny(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.Deny("CLIENT", "evalsha")
		c := join(t, n, s)
		require.Contains(t, c.do("CLIENT", "ID"), "-NOPERM ")
		require.Contains(t, c.do("evalsha", "x", "0"), "-NOPERM ")
		require.Equal(t, "+PONG\r\n", c.do("PING"))
		s.Deny()
		require.Equal(t, ":1\r\n", c.do("CLIENT", "ID"))
	})
}

// TestSlowReaderHoldsUpOnlyItself fills a connection whose client does not read.
func TestSlowReaderHoldsUpOnlyItself(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.Set("big", string(make([]byte, 1<<20)), 0)
		c := join(t, n, s)
		for range 10 {
			c.send("GET", "big")
		}
		synctest.Wait()
		require.Equal(t, "+PONG\r\n", join(t, n, s).do("PING"))
		for range 10 {
			require.Len(t, c.reply(), 1<<20+len("$1048576\r\n\r\n"))
		}
	})
}

func TestLateRepliesAreBounded(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		s.Set("big", string(make([]byte, 1<<20)), 0)
		s.SetLag(time.Hour)
		c := join(t, n, s)
		for range maxOutput>>20 + 1 {
			c.send("GET", "big")
		}
		require.NoError(t, c.ended(), "closed, as by Redis' client-output-buffer-limit")
	})
}
