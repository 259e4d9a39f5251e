package conn

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/goredlock/redlock/resp"
)

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	return len(entries)
}

func TestNoDescriptorIsLeft(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		a, o := w.serve(t, func(p *peer) { p.handshake(redis7); p.command() })
		refused, ro := w.serve(t, func(p *peer) { p.handshake(answers{"HELLO": "-ERR no\r\n"}.script) })
		silent, so := w.serve(t, func(p *peer) { p.command(); p.command() })
		so.Timeout = 10 * time.Millisecond
		once := func() {
			c, err := Dial(context.Background(), a, o)
			require.NoError(t, err)
			require.NoError(t, c.Close())
			<-c.Done()
			for range 2 {
				_, err = Dial(context.Background(), refused, ro)
				require.Error(t, err)
				_, err = Dial(context.Background(), silent, so)
				require.Error(t, err)
			}
		}
		once() // whatever is opened once and stays
		// The peers close theirs a little later.
		var before, after int
		require.Eventually(t, func() bool { last := before; before = descriptors(t); return before == last }, 5*time.Second, 10*time.Millisecond)
		for range 5 {
			once()
		}
		require.Eventually(t, func() bool { after = descriptors(t); return after <= before }, 5*time.Second, time.Millisecond)
	})
}

func TestSocketKeepsTheOptionsOfNet(t *testing.T) {
	c := wires[0].dial(t, func(p *peer) { p.command() })
	for _, option := range [][2]int{{unix.IPPROTO_TCP, unix.TCP_NODELAY}, {unix.SOL_SOCKET, unix.SO_KEEPALIVE}} {
		v, err := unix.GetsockoptInt(c.FD(), option[0], option[1])
		require.NoError(t, err)
		require.Equal(t, 1, v)
	}
	flags, err := unix.FcntlInt(uintptr(c.FD()), unix.F_GETFL, 0)
	require.NoError(t, err)
	require.NotZero(t, flags&unix.O_NONBLOCK)
	flags, err = unix.FcntlInt(uintptr(c.FD()), unix.F_GETFD, 0)
	require.NoError(t, err)
	require.NotZero(t, flags&unix.FD_CLOEXEC)
}

// pair returns a connection over a socketpair, and the peer's descriptor: nobody else
// runs.
func pair(tb testing.TB) (*Conn, int) {
	tb.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	require.NoError(tb, err)
	c := &Conn{t: &socket{n: fds[0], closed: make(chan struct{})}, in: newInput()}
	tb.Cleanup(func() {
		require.NoError(tb, c.Close())
		require.NoError(tb, unix.Close(fds[1]))
	})
	return c, fds[1]
}

// roundTrip returns a function that sends chunks commands and takes as many replies.
func roundTrip(tb testing.TB, chunks int) func() {
	c, peer := pair(tb)
	buffers := make([]*Buffer, chunks)
	for i := range buffers {
		buffers[i] = &Buffer{B: []byte(command("SET", "resource", "value", "NX", "PX", "30000")), Recycle: func(*Buffer) {}}
	}
	received := make([]byte, 64<<10)
	var replies []byte
	for range chunks {
		replies = append(replies, "+OK\r\n"...)
	}
	return func() {
		for _, b := range buffers {
			b.Retain()
			c.Append(b, 0, 10)
			c.Append(b, 10, len(b.B))
			b.Release()
		}
		if pending, err := c.Flush(); pending || err != nil {
			tb.Fatal(pending, err)
		}
		if n, errno := sysRecv(peer, received); n != chunks*len(buffers[0].B) || errno != 0 {
			tb.Fatal(n, errno) // one system call's bytes
		}
		if n, errno := sysSend(peer, replies); n != len(replies) || errno != 0 {
			tb.Fatal(n, errno)
		}
		if n, err := c.Fill(); n != len(replies) || err != nil {
			tb.Fatal(n, err)
		}
		for range chunks {
			if v, ok, err := c.Next(); !ok || err != nil || v.Kind != resp.SimpleString {
				tb.Fatal(v, ok, err)
			}
		}
		if _, ok, _ := c.Next(); ok {
			tb.Fatal("too many")
		}
		if n, err := c.Fill(); n != 0 || err != nil { // nothing there now
			tb.Fatal(n, err)
		}
	}
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	for _, chunks := range []int{1, 2, maxGather} {
		require.Zero(t, testing.AllocsPerRun(1000, roundTrip(t, chunks)))
	}
}

func TestSocketThatIsFullDoesNotAllocate(t *testing.T) {
	c, peer := pair(t)
	b := &Buffer{B: make([]byte, maxSend)}
	b.Retain()
	received := make([]byte, maxSend)
	full := func() {
		for pending := false; !pending; {
			c.Append(b, 0, len(b.B))
			c.Append(b, 1, len(b.B))
			var err error
			if pending, err = c.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		for c.Pending() {
			for n := 1; n > 0; {
				n, _ = sysRecv(peer, received)
			}
			if _, err := c.Flush(); err != nil {
				t.Fatal(err)
			}
		}
		for n := 1; n > 0; {
			n, _ = sysRecv(peer, received)
		}
	}
	full()
	require.Zero(t, testing.AllocsPerRun(20, full))
	require.EqualValues(t, 1, b.refs.Load())
}

// The queue against its model: whatever is appended comes out, in order, and every
// Buffer is let go once.
func TestQueueAgainstItsModel(t *testing.T) {
	for seed := range uint64(5) {
		rng := rand.New(rand.NewPCG(seed, 0))
		c, peer := pair(t)
		var want, got []byte
		var buffers []*counted
		received := make([]byte, 256<<10)
		for range 3000 {
			switch rng.IntN(4) {
			case 0, 1:
				b := newCounted(strings.Repeat(string(rune('a'+rng.IntN(26))), 1+rng.IntN(1<<rng.IntN(15))))
				for range 1 + rng.IntN(3) {
					from := rng.IntN(len(b.B))
					to := from + rng.IntN(len(b.B)-from+1)
					c.Append(&b.Buffer, from, to)
					want = append(want, b.B[from:to]...)
				}
				b.Release()
				buffers = append(buffers, b)
			case 2:
				pending, err := c.Flush()
				require.NoError(t, err)
				require.Equal(t, pending, c.Pending())
			case 3:
				n, _ := sysRecv(peer, received[:1+rng.IntN(len(received))])
				got = append(got, received[:max(n, 0)]...)
			}
		}
		for pending := true; pending; {
			n, _ := sysRecv(peer, received)
			got = append(got, received[:max(n, 0)]...)
			var err error
			pending, err = c.Flush()
			require.NoError(t, err)
		}
		for n := 1; n > 0; {
			n, _ = sysRecv(peer, received)
			got = append(got, received[:max(n, 0)]...)
		}
		require.True(t, bytes.Equal(want, got))
		for _, b := range buffers {
			require.Equal(t, 1, b.count())
		}
	}
}

func BenchmarkFlush64KiB(b *testing.B) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	defer ln.Close()
	nc, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(b, err)
	peer, err := ln.Accept()
	require.NoError(b, err)
	defer peer.Close()
	s, err := newSocket(nc)
	require.NoError(b, err)
	defer s.close()
	p, received := make([]byte, maxSend), make([]byte, maxSend)
	var sending time.Duration
	for b.Loop() {
		start := time.Now()
		n, err := s.send(p)
		sending += time.Since(start)
		require.NoError(b, err)
		_, err = io.ReadFull(peer, received[:n])
		require.NoError(b, err)
	}
	b.ReportMetric(float64(sending.Nanoseconds())/float64(b.N), "ns/send")
}

func BenchmarkRoundTrip(b *testing.B) {
	for name, chunks := range map[string]int{"1 chunk": 1, "4 chunks": 4} {
		b.Run(name, func(b *testing.B) {
			f := roundTrip(b, chunks)
			b.ReportAllocs()
			for b.Loop() {
				f()
			}
		})
	}
}
