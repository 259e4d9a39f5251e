package fakeredis

import (
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// window is how many bytes of a connection may be under way or unread, as much as two sockets hold, before a
// writer waits.
const window = 4 << 20

// memConn is one end of a connection on a Network. Its two directions are flows of the same link.
type memConn struct {
	in, out       *flow
	local, remote net.Addr
	hard          bool // guarded by the link's mu: Close resets
}

// flow is one direction. The link's mu guards it.
type flow struct {
	link *link
	wake *sync.Cond

	sent     []parcel // in the order of sending, which is that of arrival
	size     int      // bytes in sent
	arriving *time.Timer

	readDeadline, writeDeadline deadline

	readerGone bool  // the reader has closed: what is sent to it is dropped
	writerGone bool  // the writer has closed, and cannot write any more
	broken     error // the reset has arrived
}

// parcel is what one Write sent, or the end of the stream.
type parcel struct {
	at   time.Time
	lost bool // by a cut; arrives some time after Heal
	data []byte
	end  error // io.EOF or ECONNRESET
}

// deadline wakes those who wait when it passes.
type deadline struct {
	at    time.Time
	timer *time.Timer
}

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) set(t time.Time, wake *sync.Cond) {
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at = t
	if wait := time.Until(t); !t.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, locked(wake))
	}
	wake.Broadcast()
}

// locked returns wake.Broadcast under the lock: without it, one that comes between a look at the clock and the
// waiting would be missed.
func locked(wake *sync.Cond) func() {
	return func() {
		wake.L.Lock()
		defer wake.L.Unlock()
		wake.Broadcast()
	}
}

func newFlow(l *link) *flow {
	f := &flow{link: l, wake: sync.NewCond(&l.mu)}
	l.flows[f] = struct{}{}
	return f
}

// send puts a parcel on its way.
func (f *flow) send(p parcel) {
	p.at = time.Now().Add(f.link.latency)
	if n := len(f.sent); n > 0 && f.sent[n-1].at.After(p.at) {
		p.at = f.sent[n-1].at
	}
	p.lost = f.link.cut
	f.sent = append(f.sent, p)
	f.size += len(p.data)
	f.schedule()
}

// schedule wakes the reader when the first parcel is there.
func (f *flow) schedule() {
	if f.arriving != nil {
		f.arriving.Stop()
		f.arriving = nil
	}
	if len(f.sent) == 0 || f.sent[0].lost {
		return
	}
	wait := time.Until(f.sent[0].at)
	if wait <= 0 {
		f.wake.Broadcast()
		return
	}
	f.arriving = time.AfterFunc(wait, locked(f.wake))
}

func (f *flow) setCut(cut bool, now time.Time) {
	for i := range f.sent {
		p := &f.sent[i]
		switch {
		case cut && p.at.After(now):
			p.lost = true
		case !cut && p.lost:
			p.lost, p.at = false, now.Add(f.link.latency)
		}
	}
	f.schedule()
}

// arrived returns the first parcel if it is there.
func (f *flow) arrived() *parcel {
	if len(f.sent) == 0 || f.sent[0].lost || time.Now().Before(f.sent[0].at) {
		return nil
	}
	return &f.sent[0]
}

// drop removes the first parcel.
func (f *flow) drop() {
	f.sent[0] = parcel{}
	f.sent = f.sent[1:]
	f.schedule()
}

// Read waits for bytes, the end of the stream, a reset, or the deadline.
func (c *memConn) Read(p []byte) (int, error) {
	f := c.in
	f.link.mu.Lock()
	defer f.link.mu.Unlock()
	for {
		switch {
		case f.readerGone:
			return 0, c.err("read", net.ErrClosed)
		case f.readDeadline.passed():
			return 0, c.err("read", os.ErrDeadlineExceeded)
		case f.broken != nil:
			return 0, c.err("read", f.broken)
		case len(p) == 0:
			return 0, nil
		}
		switch first := f.arrived(); {
		case first == nil:
			f.wake.Wait()
		case first.end == io.EOF:
			return 0, io.EOF // again and again
		case first.end != nil:
			f.broken = first.end
		default:
			n := copy(p, first.data)
			first.data = first.data[n:]
			if len(first.data) == 0 {
				f.drop()
			}
			f.size -= n
			f.wake.Broadcast() // a writer may have waited for room
			return n, nil
		}
	}
}

// Write waits only while the window is full.
func (c *memConn) Write(p []byte) (int, error) {
	f := c.out
	f.link.mu.Lock()
	defer f.link.mu.Unlock()
	n := 0
	for {
		switch {
		case f.writerGone:
			return n, c.err("write", net.ErrClosed)
		case f.writeDeadline.passed():
			return n, c.err("write", os.ErrDeadlineExceeded)
		case c.peerGone():
			return n, c.err("write", syscall.EPIPE)
		case len(p) == 0:
			return n, nil
		}
		room := window - f.size
		switch {
		case f.readerGone: // nobody will read it; the news is still on the way to us
			return n + len(p), nil
		case room <= 0:
			f.wake.Wait()
		default:
			part := p[:min(room, len(p))]
			f.send(parcel{data: append([]byte(nil), part...)})
			n, p = n+len(part), p[len(part):]
		}
	}
}

// peerGone reports whether the peer's close, or its reset, has arrived.
func (c *memConn) peerGone() bool {
	if c.in.broken != nil {
		return true
	}
	for i := range c.in.sent { // unread bytes may lie before it
		if p := &c.in.sent[i]; p.end != nil {
			return !p.lost && !time.Now().Before(p.at)
		}
	}
	return false
}

// Close ends both directions. The peer reads what is under way and then EOF; after SetLinger(0), a reset.
func (c *memConn) Close() error {
	l := c.in.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.out.writerGone {
		return c.err("close", net.ErrClosed)
	}
	end := io.EOF
	if c.hard {
		end = syscall.ECONNRESET
	}
	c.out.send(parcel{end: end})
	c.out.writerGone, c.in.readerGone = true, true
	c.in.sent, c.in.size = nil, 0
	c.in.schedule()
	for _, f := range []*flow{c.in, c.out} {
		f.readDeadline.set(time.Time{}, f.wake)
		f.writeDeadline.set(time.Time{}, f.wake)
		if f.readerGone && f.writerGone {
			delete(l.flows, f)
		}
	}
	return nil
}

// SetLinger with 0 makes Close reset the connection, as for a net.TCPConn.
func (c *memConn) SetLinger(sec int) error {
	c.in.link.mu.Lock()
	defer c.in.link.mu.Unlock()
	c.hard = sec == 0
	return nil
}

func (c *memConn) err(op string, err error) error {
	return &net.OpError{Op: op, Net: c.remote.Network(), Source: c.local, Addr: c.remote, Err: err}
}

// LocalAddr returns this end's name.
func (c *memConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr returns the other end's name.
func (c *memConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline sets both deadlines.
func (c *memConn) SetDeadline(t time.Time) error {
	_ = c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

// SetReadDeadline makes Read return os.ErrDeadlineExceeded from t on; the zero time means never.
func (c *memConn) SetReadDeadline(t time.Time) error {
	c.in.link.mu.Lock()
	defer c.in.link.mu.Unlock()
	if !c.in.readerGone {
		c.in.readDeadline.set(t, c.in.wake)
	}
	return nil
}

// SetWriteDeadline makes Write return os.ErrDeadlineExceeded from t on; the zero time means never.
func (c *memConn) SetWriteDeadline(t time.Time) error {
	c.out.link.mu.Lock()
	defer c.out.link.mu.Unlock()
	if !c.out.writerGone {
		c.out.writeDeadline.set(t, c.out.wake)
	}
	return nil
}
