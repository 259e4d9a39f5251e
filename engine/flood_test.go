package engine

import (
	"context"
	"io"
	"math"
	"net"
	"runtime"
	"runtime/metrics"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/fakeredis"
)

// flood stands before a fake. It passes everything on, until open is called:
// from then on what is connected gets one block of bytes again and again, as
// fast as it takes them, and no reply any more.
type flood struct {
	net.Listener
	head, block []byte
	opened      chan struct{}
	sent        atomic.Int64  // bytes of blocks
	refused     chan struct{} // closed when a flooded connection was ended by its client
	crew        sync.WaitGroup
}

func startFlood(t *testing.T, to, head, block string) *flood {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	// Writes of a fair size, whatever the block's is.
	block = strings.Repeat(block, max(1, 64<<10/len(block)))
	f := &flood{
		Listener: ln, head: []byte(head), block: []byte(block),
		opened: make(chan struct{}), refused: make(chan struct{}),
	}
	var conns sync.Map
	t.Cleanup(func() {
		_ = ln.Close()
		conns.Range(func(c, _ any) bool { _ = c.(net.Conn).Close(); return true })
		f.crew.Wait()
	})
	f.crew.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			conns.Store(client, nil)
			conns.Store(server, nil)
			f.crew.Go(func() { f.serve(client, server) })
		}
	})
	return f
}

func (f *flood) serve(client, server net.Conn) {
	defer client.Close()
	defer server.Close()
	f.crew.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
	select {
	case <-f.opened: // a later connection is left alone
		_, _ = io.Copy(client, server)
		return
	default:
	}
	over := make(chan struct{})
	f.crew.Go(func() {
		select {
		case <-f.opened:
			_ = server.SetReadDeadline(time.Now())
		case <-over:
		}
	})
	_, err := io.Copy(client, server)
	close(over)
	if ne, ok := err.(net.Error); !ok || !ne.Timeout() {
		return
	}
	_, err = client.Write(f.head)
	for err == nil {
		var n int
		n, err = client.Write(f.block)
		f.sent.Add(int64(n))
	}
	close(f.refused)
}

func (f *flood) ended() bool { return closed(f.refused) }

// floodLimit is what a flood may cost, whatever its size.
const floodLimit = 4 << 20

func TestWhatAHostileMasterSendsTakesBoundedMemory(t *testing.T) {
	const enough = 64 << 20
	for _, tc := range []struct {
		name        string
		head, block string
		kept        bool // nothing is wrong with it, so the connection is
	}{
		{"endless pushes", "", ">2\r\n+invalidate\r\n*1\r\n$1000\r\n" + strings.Repeat("k", 1000) + "\r\n", true},
		{"endless long pushes", "", ">2\r\n+invalidate\r\n$60000\r\n" + strings.Repeat("k", 60_000) + "\r\n", true},
		{"endless attributes", "", "|1\r\n+ttl\r\n$1000\r\n" + strings.Repeat("k", 1000) + "\r\n", true},
		{"one endless bulk", "$1000000000\r\n", "a", false},
		{"one endless line", "+", "a", false},
		{"one endless number", ":", "1", false},
		{"one endless push", ">100\r\n", "$1000\r\n" + strings.Repeat("k", 1000) + "\r\n", false},
		{"one endless array", "*1000000\r\n", "$1000\r\n" + strings.Repeat("k", 1000) + "\r\n", false},
		{"one endless nested array", "", "*1\r\n", false},
		{"one endless map", "%1000000\r\n", "+k\r\n:1\r\n", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, w way) {
				var f *flood
				c := w.start(t, 3, func(cfg *Config) {
					f = startFlood(t, cfg.Masters[2].Addr, tc.head, tc.block)
					cfg.Masters[2].Addr = f.Addr().String()
				})
				require.Equal(t, 3, c.do(context.Background(), acquireAll, "before", "v", time.Hour).Tally.Granted)
				// Somebody waits, so that all is read as fast as it comes.
				asked := make(chan struct{})
				c.fakes[2].Hook("set", func(fakeredis.Command) fakeredis.Action {
					close(asked)
					return fakeredis.Action{Lose: true}
				})
				done := make(chan Outcome, 1)
				go func() { done <- c.do(context.Background(), acquireAll, "key", "v", time.Hour) }()
				<-asked
				c.fakes[2].Hook("set", nil)
				before := live()
				close(f.opened)
				until(t, func() bool {
					require.Less(t, live(), before+floodLimit, "after %d bytes", f.sent.Load())
					return f.ended() || f.sent.Load() > enough
				}, "neither is all read nor has the connection ended")
				require.Equal(t, tc.kept, !f.ended())
				if !tc.kept {
					o := <-done
					require.Equal(t, Tally{3, 2, 0, 1}, o.Tally)
					require.ErrorContains(t, o.failure(2), "resp: ")
				}
				c.Close()
			})
		})
	}
}

// A client that nobody uses reads at its ticks only. What comes in between waits
// in the sockets.
func TestWhatAHostileMasterSendsAnIdleClientTakesBoundedMemory(t *testing.T) {
	onEach(t, func(t *testing.T, w way) {
		var f *flood
		c := w.start(t, 3, func(cfg *Config) {
			f = startFlood(t, cfg.Masters[2].Addr, "", ">2\r\n+invalidate\r\n_\r\n")
			cfg.Masters[2].Addr = f.Addr().String()
		})
		c.settled()
		before := live()
		close(f.opened)
		until(t, func() bool { return f.sent.Load() > 0 }, "nothing is sent")
		for end := time.Now().Add(3 * idleTick / 2); time.Now().Before(end); {
			require.Less(t, live(), before+floodLimit, "after %d bytes", f.sent.Load())
		}
		require.False(t, f.ended())
		c.Close()
	})
}

// live is what is reachable now, in bytes. A collection counts what is allocated
// while it runs as well, so it is the least of a few.
func live() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	least := uint64(math.MaxUint64)
	for range 3 {
		runtime.GC()
		metrics.Read(sample)
		least = min(least, sample[0].Value.Uint64())
	}
	return least
}
