package engine

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/goredlock/redlock/conn"
)

// instant is a point in time: nanoseconds of the monotonic clock since the
// engine's epoch.
type instant = time.Duration

// socket names one connection of one master. A master's connections are
// numbered, so that an event of a connection that is gone means nothing to the
// one that took its place.
type socket struct {
	master int
	number uint32
}

// waiter tells which connections can make progress. One goroutine at a time
// waits (the holder of the reader role); add, writable and kick may be called
// by any.
type waiter interface {
	// add has a new connection watched.
	add(c *conn.Conn, s socket) error
	// writable turns on and off that room for unsent bytes counts as progress.
	writable(c *conn.Conn, s socket, on bool)
	// remove ends the watch, before the connection is closed.
	remove(c *conn.Conn)
	// poll appends the connections with progress to ready and does not wait.
	poll(ready []socket) []socket
	// park is poll, but waits for progress, a kick, or the instant until. It may
	// return early with nothing.
	park(until instant, ready []socket) []socket
	// kick ends the park of now, or the next one.
	kick()
	close()
}

// signals is the waiter for connections whose own goroutines do the input and
// output: they signal progress, a channel carries it. It knows of every signal
// only that there was one; Fill and Flush find out the rest.
type signals struct {
	epoch  time.Time
	ready  atomic.Uint64 // the masters that have signalled
	number [MaxMasters]atomic.Uint32
	wake   chan struct{}
	timer  *time.Timer
	parks  *atomic.Uint64
}

func newSignals(epoch time.Time, parks *atomic.Uint64) *signals {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &signals{epoch: epoch, wake: make(chan struct{}, 1), timer: timer, parks: parks}
}

// signal is the conn.Options.Ready of a master's connections.
func (w *signals) signal(master int) {
	w.ready.Or(1 << master)
	w.kick()
}

// again is for the reader, who has taken what one signal stood for. There may be
// more: signals add up to one, and a read takes no more than fits. So the next
// poll looks once more; at what is not there the read ends.
func (w *signals) again(master int) { w.ready.Or(1 << master) }

func (w *signals) add(_ *conn.Conn, s socket) error {
	w.number[s.master].Store(s.number)
	w.signal(s.master) // what came before it was added
	return nil
}

// writable signals at once: the pump may have made room, and said so, before
// anybody knew that bytes were left over.
func (w *signals) writable(_ *conn.Conn, s socket, on bool) {
	if on {
		w.signal(s.master)
	}
}

func (w *signals) remove(*conn.Conn) {}
func (w *signals) close()            { w.timer.Stop() }

func (w *signals) kick() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *signals) poll(ready []socket) []socket {
	for set := w.ready.Swap(0); set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		ready = append(ready, socket{i, w.number[i].Load()})
	}
	return ready
}

func (w *signals) park(until instant, ready []socket) []socket {
	had := len(ready)
	if ready = w.poll(ready); len(ready) > had {
		return ready
	}
	// A signal sets its bit before it sends the token, so one that the poll
	// missed is seen here.
	w.timer.Reset(until - time.Since(w.epoch))
	w.parks.Add(1)
	select {
	case <-w.wake:
	case <-w.timer.C:
	}
	w.timer.Stop()
	return w.poll(ready)
}
