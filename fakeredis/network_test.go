package fakeredis

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errTimeout = os.ErrDeadlineExceeded

const ms = time.Millisecond

// pipe returns both ends of a connection on a network, and the name of the listening end.
func pipe(t *testing.T, n *Network) (client, server net.Conn, addr string) {
	ln, err := n.Listen("")
	require.NoError(t, err)
	addr = ln.Addr().String()
	client, err = n.Dial(t.Context(), "tcp", addr)
	require.NoError(t, err)
	server, err = ln.Accept()
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	return client, server, addr
}

func writeAll(t *testing.T, c net.Conn, s string) {
	n, err := c.Write([]byte(s))
	require.NoError(t, err)
	require.Equal(t, len(s), n)
}

func readN(t *testing.T, c net.Conn, n int) string {
	b := make([]byte, n)
	_, err := io.ReadFull(c, b)
	require.NoError(t, err)
	return string(b)
}

func TestNetworkLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		s := Start(t, Config{Network: n, Addr: "master:6379"})
		n.SetLatency("master:6379", 20*ms)
		at := clock()
		c := join(t, n, s)
		require.Equal(t, 40*ms, at(), "a dial is one round trip")
		c.do("PING")
		require.Equal(t, 80*ms, at())
		c.send("PING")
		time.Sleep(5 * ms)
		c.send("ECHO", "x")
		require.Equal(t, "+PONG\r\n", c.reply())
		require.Equal(t, 120*ms, at())
		require.Equal(t, "$1\r\nx\r\n", c.reply())
		require.Equal(t, 125*ms, at(), "what was sent later arrives later")
	})
}

func TestNetworkKeepsOrderWhenLatencyFalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		client, server, addr := pipe(t, n)
		n.SetLatency(addr, 100*ms)
		writeAll(t, client, "slow")
		n.SetLatency(addr, ms)
		writeAll(t, client, "fast")
		at := clock()
		require.Equal(t, "slowfast", readN(t, server, 8))
		require.Equal(t, 100*ms, at())
	})
}

func TestNetworkMastersAtTheirOwnLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		var order []string
		var mu sync.Mutex
		var wg sync.WaitGroup
		for _, latency := range []time.Duration{3, 1, 40, 2} {
			s := Start(t, Config{Network: n})
			c := join(t, n, s)
			n.SetLatency(s.Addr(), latency*ms)
			at := clock()
			wg.Go(func() {
				c.do("PING")
				mu.Lock()
				order = append(order, at().String())
				mu.Unlock()
			})
		}
		wg.Wait()
		require.Equal(t, []string{"2ms", "4ms", "6ms", "80ms"}, order)
	})
}

func TestCutHoldsEverythingUntilHeal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		s := Start(t, Config{Network: n})
		n.SetLatency(s.Addr(), 10*ms)
		c := join(t, n, s)
		c.send("SET", "before", "1")
		time.Sleep(5 * ms) // it is half way
		n.Cut(s.Addr())
		n.Cut(s.Addr())
		c.send("SET", "after", "1")
		c.silent()
		require.Empty(t, s.Keys())
		at := clock()
		n.Heal(s.Addr())
		require.Equal(t, "+OK\r\n", c.reply())
		require.Equal(t, 20*ms, at(), "sent again, and answered")
		require.Equal(t, "+OK\r\n", c.reply())
		require.Equal(t, []string{"after", "before"}, s.Keys())
	})
}

func TestCutLosesTheReplyOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		s := Start(t, Config{Network: n})
		n.SetLatency(s.Addr(), 10*ms)
		c := join(t, n, s)
		c.send("SET", "k", "v")
		time.Sleep(15 * ms)
		n.Cut(s.Addr())
		require.Equal(t, []string{"k"}, s.Keys())
		c.silent()
	})
}

func TestCutLeavesWhatHasArrived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		client, server, addr := pipe(t, n)
		writeAll(t, client, "there")
		n.Cut(addr)
		require.Equal(t, "there", readN(t, server, 5))
	})
}

func TestCutIsOfOneLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		a, b := Start(t, Config{Network: n}), Start(t, Config{Network: n})
		require.NotEqual(t, a.Addr(), b.Addr())
		n.Cut(a.Addr())
		require.Equal(t, "+PONG\r\n", join(t, n, b).do("PING"))
	})
}

func TestDialHangsWhileCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		s := Start(t, Config{Network: n})
		n.SetLatency(s.Addr(), 10*ms)
		n.Cut(s.Addr())
		at := clock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := n.Dial(ctx, "tcp", s.Addr())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, at())
		time.AfterFunc(time.Second, func() { n.Heal(s.Addr()) })
		conn, err := n.Dial(t.Context(), "tcp", s.Addr())
		require.NoError(t, err)
		require.Equal(t, 2*time.Second+20*ms, at())
		require.NoError(t, conn.Close())
	})
}

func TestCutHidesTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		s := Start(t, Config{Network: n})
		c := join(t, n, s)
		c.do("PING")
		n.Cut(s.Addr())
		s.Reset()
		c.silent()
		n.Heal(s.Addr())
		require.ErrorIs(t, c.ended(), syscall.ECONNRESET)
	})
}

func TestDialToNobodyIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		n.SetLatency("nobody:1", 10*ms)
		at := clock()
		_, err := n.Dial(t.Context(), "tcp", "nobody:1")
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		require.Equal(t, 20*ms, at())
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = n.Dial(ctx, "tcp", "nobody:1")
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestListenTwice(t *testing.T) {
	n := NewNetwork()
	ln, err := n.Listen("a:1")
	require.NoError(t, err)
	_, err = n.Listen("a:1")
	require.ErrorIs(t, err, syscall.EADDRINUSE)
	conn, err := n.Dial(t.Context(), "tcp", "a:1")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET, "never accepted")
	require.Error(t, ln.Close())
	_, err = ln.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	ln, err = n.Listen("a:1")
	require.NoError(t, err)
	require.NoError(t, ln.Close())
}

func TestEndComesAfterTheData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		client, server, addr := pipe(t, n)
		n.SetLatency(addr, 10*ms)
		writeAll(t, server, "last words")
		require.NoError(t, server.Close())
		require.ErrorIs(t, server.Close(), net.ErrClosed)
		_, err := server.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
		_, err = server.Read(make([]byte, 1))
		require.ErrorIs(t, err, net.ErrClosed)
		writeAll(t, client, "not known yet")
		at := clock()
		require.Equal(t, "last words", readN(t, client, 10))
		for range 2 {
			_, err = client.Read(make([]byte, 1))
			require.Equal(t, io.EOF, err)
		}
		require.Equal(t, 10*ms, at())
		_, err = client.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		require.NoError(t, client.Close())
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		client, server, _ := pipe(t, n)
		at := clock()
		require.NoError(t, client.SetDeadline(time.Now().Add(time.Second)))
		_, err := client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		var timeout net.Error
		require.True(t, errors.As(err, &timeout) && timeout.Timeout())
		require.Equal(t, time.Second, at())
		_, err = client.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "it has passed for writing as well")
		require.NoError(t, client.SetDeadline(time.Time{}))
		writeAll(t, client, "x")
		require.Equal(t, "x", readN(t, server, 1))

		time.AfterFunc(time.Second, func() { _ = client.SetReadDeadline(time.Now()) })
		_, err = client.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded, "a deadline ends a Read that waits already")
		require.Equal(t, 2*time.Second, at())
		time.AfterFunc(time.Second, func() { _ = client.Close() })
		_, err = client.Read(make([]byte, 1))
		require.Error(t, err, "and so does Close")
	})
}

func TestWindowIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork()
		client, server, _ := pipe(t, n)
		require.NoError(t, client.SetWriteDeadline(time.Now().Add(time.Second)))
		data := strings.Repeat("0123456789", window/10+1000)
		sent, err := client.Write([]byte(data))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, window, sent)
		require.NoError(t, client.SetWriteDeadline(time.Time{}))
		done := make(chan error, 1)
		go func() {
			_, err := client.Write([]byte(data[sent:]))
			done <- err
		}()
		require.Equal(t, data, readN(t, server, len(data)))
		require.NoError(t, <-done)

		go func() {
			_, err := client.Write(make([]byte, 2*window))
			done <- err
		}()
		synctest.Wait()
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, syscall.EPIPE, "a Write that waits is woken")
	})
}

func TestNetworkIsSafeForConcurrentUse(t *testing.T) {
	n := NewNetwork()
	s := Start(t, Config{Network: n})
	stop := make(chan struct{})
	var trouble, traffic sync.WaitGroup
	trouble.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				n.Heal(s.Addr())
				return
			default:
			}
			n.SetLatency(s.Addr(), time.Duration(i%3)*100*time.Microsecond)
			n.Cut(s.Addr())
			n.Heal(s.Addr())
		}
	})
	for range 8 {
		c := join(t, n, s)
		traffic.Go(func() {
			for range 200 {
				if c.do("INCR", "n") == "" {
					return
				}
			}
		})
	}
	traffic.Wait()
	close(stop)
	trouble.Wait()
	v, _ := s.Get("n")
	require.Equal(t, "1600", v)
}
