package conn

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// pipe returns a connection with a pump and the other end, which buffers nothing.
func pipe(t *testing.T, ready func()) (*Conn, net.Conn) {
	t.Helper()
	ours, theirs := net.Pipe()
	c := &Conn{t: newPump(ours, ours, ready), addr: "memory:1", in: newInput()}
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		<-c.Done()
		require.NoError(t, theirs.Close())
	})
	return c, theirs
}

func send(c *Conn, s string) (bool, error) {
	c.Append(&Buffer{B: []byte(s)}, 0, len(s))
	return c.Flush()
}

func TestNeedsPump(t *testing.T) {
	dialer := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no") }
	_, tlsConfig := certificate()
	require.Equal(t, !haveSocket, NeedsPump(Address{}, Options{}))
	require.True(t, NeedsPump(Address{TLS: true}, Options{}))
	require.True(t, NeedsPump(Address{}, Options{TLS: tlsConfig}))
	require.True(t, NeedsPump(Address{}, Options{Dial: dialer}))
	require.True(t, NeedsPump(Address{}, Options{Pump: true}))
}

func TestPumpIsReadyWhenThereIsSomething(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 0
		c, peer := pipe(t, func() { ready++ })
		n, err := c.Fill()
		require.Zero(t, n)
		require.NoError(t, err)
		pending, err := send(c, "hello") // nobody reads it yet, and yet this does not wait
		require.False(t, pending)
		require.NoError(t, err)
		synctest.Wait()
		require.Zero(t, ready)

		buf := make([]byte, 10)
		n, err = peer.Read(buf)
		require.NoError(t, err)
		require.Equal(t, "hello", string(buf[:n]))
		synctest.Wait()
		require.Zero(t, ready, "nobody waits for room")

		_, err = peer.Write([]byte("+OK\r\n"))
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, ready)
		n, err = c.Fill()
		require.NoError(t, err)
		require.Equal(t, 5, n)

		require.NoError(t, peer.Close())
		synctest.Wait()
		require.Equal(t, 2, ready)
		_, err = c.Fill()
		require.ErrorIs(t, err, io.EOF)
	})
}

func TestPumpHoldsUpAPeerThatIsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, nil)
		taken := 0
		go func() {
			for {
				n, err := peer.Write(make([]byte, 1000))
				taken += n
				if err != nil {
					return
				}
			}
		}()
		synctest.Wait()
		require.LessOrEqual(t, taken, maxPumpIn)
		require.Greater(t, taken, maxPumpIn/2)
		// One byte of room is not enough for a read; some more are.
		before := taken
		for range 2 {
			n, err := c.Fill()
			require.NoError(t, err)
			require.Positive(t, n)
			c.in.r, c.in.w = 0, 0
			synctest.Wait()
		}
		require.Greater(t, taken, before)
	})
}

func TestPumpTakesAMegabyteAndTellsWhenThereIsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ready := 0
		c, peer := pipe(t, func() { ready++ })
		pending, err := send(c, strings.Repeat("x", maxPumpOut))
		require.NoError(t, err)
		require.False(t, pending)
		synctest.Wait() // the writer has it, and waits
		pending, err = send(c, "y")
		require.NoError(t, err)
		require.True(t, pending)
		pending, err = c.Flush()
		require.NoError(t, err)
		require.True(t, pending)
		require.Zero(t, ready)

		_, err = io.CopyN(io.Discard, peer, maxPumpOut)
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, ready)
		pending, err = c.Flush()
		require.NoError(t, err)
		require.False(t, pending)
		buf := make([]byte, 1)
		_, err = io.ReadFull(peer, buf)
		require.NoError(t, err)
		require.Equal(t, "y", string(buf))
	})
}

func TestPumpWritesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, nil)
		var want bytes.Buffer
		for i := range 200 {
			s := strings.Repeat(string(rune('a'+i%26)), i*10)
			want.WriteString(s)
			_, err := send(c, s)
			require.NoError(t, err)
		}
		got := make([]byte, want.Len())
		_, err := io.ReadFull(peer, got)
		require.NoError(t, err)
		require.Equal(t, want.Bytes(), got)
	})
}

// brokenWrite fails every Write, while Read waits for ever.
type brokenWrite struct{ net.Conn }

func (brokenWrite) Write([]byte) (int, error) { return 3, os.ErrDeadlineExceeded }

func TestFailedWriteOfThePumpIsFinalAndEndsTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		ready := 0
		c := &Conn{t: newPump(brokenWrite{ours}, ours, func() { ready++ }), in: newInput()}
		_, err := send(c, "hello")
		require.NoError(t, err, "it is not known yet")
		synctest.Wait()
		require.Equal(t, 1, ready)
		_, err = c.Fill()
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		_, err = send(c, "more")
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, c.Close())
		<-c.Done()
		_ = theirs
	})
}

// slowClose waits in Close for as long as it is told, as TLS may.
type slowClose struct {
	net.Conn
	closing, may chan struct{}
}

func (c slowClose) Close() error {
	close(c.closing)
	<-c.may
	return c.Conn.Close()
}

func TestPumpDoesNotWaitForAnythingInShutdownAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		slow := slowClose{ours, make(chan struct{}), make(chan struct{})}
		c := &Conn{t: newPump(slow, slow, nil), in: newInput()}
		_, err := send(c, "stuck") // the peer never reads: Write waits
		require.NoError(t, err)
		synctest.Wait()
		c.Shutdown()
		_, err = c.Fill()
		require.ErrorIs(t, err, io.EOF)
		_, err = send(c, "late")
		require.Error(t, err)
		require.NoError(t, c.Close())
		<-slow.closing
		synctest.Wait()
		select {
		case <-c.Done():
			require.Fail(t, "goroutines are left")
		default:
		}
		close(slow.may)
		<-c.Done()
		_ = theirs
	})
}

func TestCloseOfTLSDoesNotWaitForAStuckWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := certificate()
		ln := newPipeListener()
		stop := make(chan struct{})
		go func() {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			p := newPeer(tls.Server(nc, server))
			p.handshake(redis7)
			<-stop // and reads nothing more
			_ = nc.Close()
		}()
		client = client.Clone()
		client.Time = func() time.Time { return issued } // virtual time starts in 2000
		a := Address{Network: "tcp", Addr: "127.0.0.1:1", TLS: true}
		c, err := Dial(context.Background(), a, Options{TLS: client, Dial: ln.dial})
		require.NoError(t, err)
		_, err = send(c, strings.Repeat("x", 100_000))
		require.NoError(t, err)
		synctest.Wait()
		start := time.Now()
		require.NoError(t, c.Close())
		<-c.Done()
		require.Zero(t, time.Since(start))
		close(stop)
	})
}

func TestTimeoutsInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ln := newPipeListener()
		a, o := Address{Network: "tcp", Addr: "memory:1"}, Options{Dial: ln.dial, Timeout: 3 * time.Second}
		start := time.Now()
		_, err := Dial(context.Background(), a, o) // nobody accepts
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.EqualError(t, err, "dial memory:1: not done within 3s: i/o timeout")
		require.Equal(t, 3*time.Second, time.Since(start))

		go func() {
			for {
				nc, err := ln.Accept()
				if err != nil {
					return
				}
				time.Sleep(time.Second)
				_, _ = io.Copy(io.Discard, nc) // and says nothing
			}
		}()
		start = time.Now()
		_, err = Dial(context.Background(), a, o)
		require.EqualError(t, err, "hello memory:1: not done within 3s: i/o timeout")
		require.Equal(t, 3*time.Second, time.Since(start))

		start = time.Now()
		o.Timeout = 0
		_, err = Dial(context.Background(), a, o)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, DefaultTimeout, time.Since(start))

		start = time.Now()
		o.Timeout = -1
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		_, err = Dial(ctx, a, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Hour, time.Since(start))

		o.Timeout = time.Hour
		ctx, cancel = context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err = Dial(ctx, a, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, ln.Close())
	})
}

// noDeadlines is a net.Conn that a custom Dial might return.
type noDeadlines struct{ net.Conn }

func (noDeadlines) SetDeadline(time.Time) error { return os.ErrNoDeadline }

func TestTimeoutOfAConnectionWithoutDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		o := Options{Timeout: time.Second, Dial: func(context.Context, string, string) (net.Conn, error) { return noDeadlines{ours}, nil }}
		_, err := Dial(context.Background(), Address{Network: "tcp", Addr: "memory:1"}, o)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, theirs.Close())
	})
}

func TestPumpDoesNotAllocateInSteadyState(t *testing.T) {
	ln, _, _ := listenTCP(t)
	defer ln.Close()
	ours, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	peer, err := ln.Accept()
	require.NoError(t, err)
	defer peer.Close()
	ready := make(chan struct{}, 1)
	c := &Conn{in: newInput(), t: newPump(ours, ours, func() { ready <- struct{}{} })}
	b := &Buffer{B: []byte(command("SET", "resource", "value", "NX", "PX", "30000"))}
	b.Retain()
	buf := make([]byte, len(b.B))
	roundTrip := func() {
		c.Append(b, 0, len(b.B))
		if pending, err := c.Flush(); pending || err != nil {
			t.Fatal(pending, err)
		}
		if _, err := io.ReadFull(peer, buf); err != nil {
			t.Fatal(err)
		}
		if _, err := peer.Write(ok); err != nil {
			t.Fatal(err)
		}
		<-ready
		if n, err := c.Fill(); n != len(ok) || err != nil {
			t.Fatal(n, err)
		}
		if _, ok, err := c.Next(); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	require.Zero(t, testing.AllocsPerRun(500, roundTrip))
	require.NoError(t, c.Close())
	<-ready // the reader's end
	<-c.Done()
}

var ok = []byte("+OK\r\n")
