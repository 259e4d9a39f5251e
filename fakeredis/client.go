package fakeredis

import (
	"sync"
	"time"
)

// client is one connection.
type client struct {
	srv  *Server
	wire *wire
	gone chan struct{} // closed when the connection has ended; whoever waits for it stops
	out  output
	id   int64
	addr string

	// Guarded by srv.mu.
	dead    bool // nothing more is executed
	authed  bool
	db      int
	proto   int
	name    string
	libName string
	libVer  string
}

// quit lets the replies that are queued leave and then closes the connection. srv.mu is held.
func (c *client) quit() {
	c.dead = true
	c.out.mu.Lock()
	c.out.closing = true
	c.out.mu.Unlock()
}

const (
	// maxOutput is how much may wait for a client that does not read; Redis limits its buffers as well.
	maxOutput = 64 << 20
	// maxSpare is the largest buffer that an idle connection keeps.
	maxSpare = 256 << 10
)

// output is what a connection still has to send. Replies leave in the order in which they were added. There is one
// writer at a time, and it does not hold mu while it writes: the connection's own goroutine normally, another one
// while replies are late. Whatever is added meanwhile, by whomever, goes behind.
type output struct {
	srv  *Server
	wire *wire
	gone chan struct{}

	mu      sync.Mutex
	buf     []byte // may leave now
	spare   []byte
	late    []chunk // must wait; while there are any, everything new goes behind them
	size    int     // bytes in late
	writing bool    // somebody writes, and looks for more before it stops
	muted   bool    // everything is thrown away
	closing bool    // close when everything has left
}

// chunk is a reply that must not leave before a point in time.
type chunk struct {
	at   time.Time
	data []byte
}

// add queues r, to be sent after lag at the earliest.
func (o *output) add(r reply, proto int, lag time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.muted {
		return
	}
	if lag <= 0 && len(o.late) == 0 {
		o.buf = r.encode(o.buf, proto)
		return
	}
	data := r.encode(nil, proto)
	if o.size += len(data); o.size > maxOutput {
		o.muted = true
		o.wire.end(false)
		return
	}
	o.late = append(o.late, chunk{time.Now().Add(lag), data})
}

// mute throws away whatever is added from now on.
func (o *output) mute() {
	o.mu.Lock()
	o.muted = true
	o.mu.Unlock()
}

// flush sends what may leave now and sees to it that the rest will. It waits while the peer does not read.
func (o *output) flush() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing {
		return
	}
	o.writing = true
	o.send()
	if len(o.late) > 0 {
		o.srv.wg.Add(1)
		go o.sendLate()
		return
	}
	o.done()
}

// send writes buf until it is empty. mu is held, but not during the writing.
func (o *output) send() {
	for len(o.buf) > 0 {
		b := o.buf
		o.buf, o.spare = o.spare[:0], nil
		o.write(b)
		if cap(b) <= maxSpare {
			o.spare = b[:0]
		}
	}
}

func (o *output) write(b []byte) {
	o.mu.Unlock()
	_, err := o.wire.conn.Write(b)
	o.mu.Lock()
	if err != nil { // the connection's reader notices the end
		o.muted, o.buf, o.late = true, nil, nil
	}
}

// done ends the writer's turn. mu is held.
func (o *output) done() {
	o.writing = false
	if o.closing {
		o.wire.end(false)
	}
}

// sendLate is the writer while replies are late.
func (o *output) sendLate() {
	defer o.srv.wg.Done()
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.late) > 0 || len(o.buf) > 0 {
		o.send()
		if len(o.late) == 0 {
			break
		}
		next := o.late[0]
		o.mu.Unlock()
		ok := pause(time.Until(next.at), o.gone)
		o.mu.Lock()
		if !ok {
			o.late = nil
			break
		}
		if len(o.late) > 0 {
			o.late = o.late[1:]
			o.size -= len(next.data)
			o.write(next.data)
		}
	}
	o.done()
}

// pause waits for d, or until gone is closed: then it returns false.
func pause(d time.Duration, gone <-chan struct{}) bool {
	if d <= 0 {
		select {
		case <-gone:
			return false
		default:
			return true
		}
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-gone:
		return false
	}
}
