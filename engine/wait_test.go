package engine

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/fakeredis"
	"github.com/goredlock/redlock/resp"
)

// wired is a waiter with connections that it watches.
type wired struct {
	waiter
	epoch time.Time
	parks atomic.Uint64
	conns []*conn.Conn
	fakes []*fakeredis.Server
}

func (w *wired) now() instant { return time.Since(w.epoch) }

// wire connects to n fakes.
func wire(t *testing.T, how way, n int) *wired {
	w := &wired{epoch: time.Now()}
	var err error
	w.waiter, err = newWaiter(w.epoch, how.pump, &w.parks)
	require.NoError(t, err)
	t.Cleanup(w.close)
	for i := range n {
		s := fakeredis.Start(t)
		o := conn.Options{Pump: how.pump}
		if sig, ok := w.waiter.(*signals); ok {
			o.Ready = func() { sig.signal(i) }
		}
		c, err := conn.Dial(context.Background(), conn.Address{Network: "tcp", Addr: s.Addr()}, o)
		require.NoError(t, err)
		require.NoError(t, w.add(c, socket{i, uint32(10 + i)}))
		t.Cleanup(func() {
			w.remove(c)
			c.Close()
			<-c.Done()
		})
		w.conns, w.fakes = append(w.conns, c), append(w.fakes, s)
	}
	w.quiet(t)
	return w
}

// quiet takes the signals that come without data.
func (w *wired) quiet(t *testing.T) {
	until(t, func() bool {
		for _, c := range w.conns {
			n, err := c.Fill()
			require.NoError(t, err)
			require.Zero(t, n)
		}
		return len(w.poll(nil)) == 0
	}, "never quiet")
}

// ping has master i answer.
func (w *wired) ping(t *testing.T, i int) {
	b := &conn.Buffer{B: []byte("PING\r\n")}
	b.Retain()
	w.conns[i].Append(b, 0, len(b.B))
	_, err := w.conns[i].Flush()
	require.NoError(t, err)
}

// pong takes the answer, which is there.
func (w *wired) pong(t *testing.T, i int) {
	n, err := w.conns[i].Fill()
	require.NoError(t, err)
	require.Positive(t, n)
	v, ok, err := w.conns[i].Next()
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, resp.SimpleString, v.Kind)
}

// parkFor parks again and again, as the reader does, until something is ready.
func (w *wired) parkFor(d time.Duration) (ready []socket) {
	for end := w.now() + d; len(ready) == 0 && w.now() < end; {
		ready = w.park(end, ready)
	}
	return ready
}

const never = time.Hour

func TestParkEndsWithData(t *testing.T) {
	onEach(t, func(t *testing.T, how way) {
		w := wire(t, how, 5)
		for i := range 5 {
			for range 20 { // before the park, or during it
				w.ping(t, i)
				require.Equal(t, []socket{{i, uint32(10 + i)}}, w.parkFor(forLong))
				w.pong(t, i)
			}
		}
	})
}

func TestParkEndsWithDataThatWasThereBefore(t *testing.T) {
	onEach(t, func(t *testing.T, how way) {
		w := wire(t, how, 2)
		for range 20 {
			w.ping(t, 1)
			until(t, func() bool { return len(w.poll(nil)) > 0 }, "no answer")
			if sig, ok := w.waiter.(*signals); ok {
				sig.signal(1) // the poll took it
			}
			parks := w.parks.Load()
			require.Equal(t, []socket{{1, 11}}, w.park(never, nil))
			require.Equal(t, parks, w.parks.Load(), "nothing had to be waited for")
			w.pong(t, 1)
		}
	})
}

func TestParkEndsAtItsInstant(t *testing.T) {
	onEach(t, func(t *testing.T, how way) {
		w := wire(t, how, 1)
		for _, d := range []time.Duration{20 * ms, ms, 0, -ms, -never, 5 * ms, 40 * ms, 2 * ms} {
			until := w.now() + d
			var ready []socket
			for len(ready) == 0 && w.now() < until { // it may end early
				ready = w.park(until, ready)
			}
			require.Empty(t, ready)
			require.Less(t, w.now(), max(until, 0)+forLong)
			require.Empty(t, w.park(until, nil), "again, when it has passed")
		}
		// And what comes after a deadline has passed is not missed.
		w.ping(t, 0)
		require.Len(t, w.parkFor(forLong), 1)
		w.pong(t, 0)
	})
}

func TestAKickEndsThePark(t *testing.T) {
	onEach(t, func(t *testing.T, how way) {
		w := wire(t, how, 1)
		t.Run("before", func(t *testing.T) {
			w.kick()
			require.Empty(t, w.park(w.now()+never, nil))
		})
		t.Run("during", func(t *testing.T) {
			for i := range 50 {
				parks := w.parks.Load()
				done := make(chan int)
				go func() { done <- len(w.park(w.now()+never, nil)) }()
				until(t, func() bool { return w.parks.Load() > parks || len(done) > 0 }, "does not park")
				w.kick()
				require.Zero(t, <-done, "park %d", i)
				// A kick may end one more park, so that none is lost.
				w.kick()
				w.park(w.now()+never, nil)
				for range 2 {
					w.park(w.now()+ms, nil)
				}
			}
		})
		t.Run("at any moment", func(t *testing.T) {
			var stop atomic.Bool
			var kicker sync.WaitGroup
			kicker.Go(func() {
				for !stop.Load() {
					w.kick()
				}
			})
			for range 2000 {
				require.Empty(t, w.park(w.now()+never, nil))
			}
			stop.Store(true)
			kicker.Wait()
		})
		t.Run("and the next one works", func(t *testing.T) {
			w.ping(t, 0)
			require.Len(t, w.parkFor(forLong), 1)
			w.pong(t, 0)
			end, parks := w.now()+20*ms, 0
			for ; w.now() < end; parks++ {
				require.Empty(t, w.park(end, nil))
			}
			require.Less(t, parks, 10, "it sleeps, and does not look again and again")
		})
	})
}

// Each kick follows a change that the parked goroutine must come to see: if one
// were lost, the two would wait for each other.
func TestNoKickIsLost(t *testing.T) {
	onEach(t, func(t *testing.T, how way) {
		w := wire(t, how, 1)
		const turns = 5000
		var turn atomic.Int64
		var kicker sync.WaitGroup
		kicker.Go(func() {
			for i := int64(1); i < turns; i += 2 {
				for turn.Load() != i {
					time.Sleep(0)
				}
				turn.Store(i + 1)
				w.kick()
			}
		})
		start := time.Now()
		for i := int64(0); i < turns; i += 2 {
			turn.Store(i + 1)
			for turn.Load() != i+2 {
				require.Empty(t, w.park(w.now()+never, nil))
			}
		}
		kicker.Wait()
		require.Less(t, time.Since(start), forLong)
	})
}

func TestParkEndsWithTheConnection(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*wired)
	}{
		{"closed by the peer", func(w *wired) { w.fakes[1].Restart(true) }},
		{"reset by the peer", func(w *wired) { w.fakes[1].Reset() }},
		{"shut down here", func(w *wired) { w.conns[1].Shutdown() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, how way) {
				w := wire(t, how, 2)
				parks := w.parks.Load()
				var crowd sync.WaitGroup
				crowd.Go(func() {
					until(t, func() bool { return w.parks.Load() > parks }, "does not park")
					c.end(w)
				})
				require.Equal(t, []socket{{1, 11}}, w.parkFor(forLong))
				crowd.Wait()
				n, err := w.conns[1].Fill()
				require.Zero(t, n)
				require.Error(t, err)
				// It stays so until it is removed, and then says nothing more.
				w.remove(w.conns[1])
				w.poll(nil)
				w.ping(t, 0)
				require.Equal(t, []socket{{0, 10}}, w.parkFor(forLong))
			})
		})
	}
}

// A pump may have made room before anybody knew that bytes were left over.
func TestAPumpWithUnsentBytesIsLookedAtOnce(t *testing.T) {
	var parks atomic.Uint64
	w := newSignals(time.Now(), &parks)
	defer w.close()
	w.number[3].Store(7)
	w.writable(nil, socket{3, 7}, false)
	require.Empty(t, w.poll(nil))
	w.writable(nil, socket{3, 7}, true)
	require.Equal(t, []socket{{3, 7}}, w.park(never, nil))
	require.NoError(t, w.add(nil, socket{5, 2})) // so is a new one: something may have come already
	require.Equal(t, []socket{{5, 2}}, w.park(never, nil))
}

// A socket that takes no more wakes the parked goroutine when it does again,
// although its watch was changed by another while it slept.
func TestParkEndsWhenUnsentBytesCanBeSent(t *testing.T) {
	onEach(t, func(t *testing.T, how way) {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer ln.Close()
		w := &wired{epoch: time.Now()}
		w.waiter, err = newWaiter(w.epoch, how.pump, &w.parks)
		require.NoError(t, err)
		defer w.close()
		o := conn.Options{Pump: how.pump}
		if sig, ok := w.waiter.(*signals); ok {
			o.Ready = func() { sig.signal(0) }
		}
		s := fakeredis.Start(t)
		g := newGate(t, s.Addr())
		c, err := conn.Dial(context.Background(), conn.Address{Network: "tcp", Addr: g.addr()}, o)
		require.NoError(t, err)
		defer func() { c.Close(); <-c.Done() }()
		at := socket{0, 1}
		require.NoError(t, w.add(c, at))
		defer w.remove(c)

		g.shut()
		// One command, so that no answer wakes us before all of it is sent.
		b := &conn.Buffer{B: resp.AppendCommand(nil, "SET", "key", strings.Repeat("v", 16<<20))} // more than two sockets hold
		b.Retain()
		c.Append(b, 0, len(b.B))
		pending, err := c.Flush()
		require.NoError(t, err)
		require.True(t, pending)
		parks := w.parks.Load()
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for pending && err == nil { // the kernel may yet find some room
				require.Equal(t, []socket{at}, w.parkFor(forLong))
				pending, err = c.Flush()
				_, _ = c.Fill()
			}
		}()
		until(t, func() bool { return w.parks.Load() > parks }, "does not park")
		w.writable(c, at, true)
		g.open()
		<-sent
		require.NoError(t, err)
		w.writable(c, at, false)
		until(t, func() bool {
			for ok := true; ok; { // the last answers
				_, ok, err = c.Next()
				require.NoError(t, err)
			}
			n, err := c.Fill()
			return n == 0 && err == nil && len(w.poll(nil)) == 0
		}, "it stays ready for nothing")
	})
}
