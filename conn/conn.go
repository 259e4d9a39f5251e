package conn

import (
	"errors"
	"net"
	"sync"

	"github.com/goredlock/redlock/resp"
)

// errAgain is what a transport returns for "not now".
var errAgain = errors.New("conn: nothing can be done now")

// transport moves bytes without waiting. It has two implementations: socket, on
// Linux, and pump. send, shutdown and close are called under Conn.mu; recv, fd and
// close by the reader.
type transport interface {
	// send takes at least one byte of p, which is not empty, or returns errAgain. If
	// it takes fewer than all, it takes none at once afterwards.
	send(p []byte) (int, error)

	// recv returns at least one byte, errAgain, or io.EOF. p is not empty.
	recv(p []byte) (int, error)

	// shutdown ends both directions: recv returns what is there, then io.EOF.
	shutdown()

	// close is called once.
	close() error

	// done is closed when close has been called and nothing is left running.
	done() <-chan struct{}

	// fd is the descriptor to poll, or −1.
	fd() int
}

// maxSend limits the bytes of one system call: a raw one cannot be preempted. This
// much takes about 10 µs on loopback.
const maxSend = 64 << 10

// maxGather limits the chunks that one system call sends.
const maxGather = 32

// Conn is a connection to one master. See the package comment for which goroutine
// may call what.
type Conn struct {
	t    transport
	addr string
	info Info

	mu      sync.Mutex // never held across anything that can wait, nor across a callback
	queue   []chunk    // guarded by mu; queue[head:] is unsent, its buffers retained
	head    int        // guarded by mu
	scratch []byte     // guarded by mu; where several chunks become one system call
	sent    bool       // guarded by mu; a byte of Append was given to t
	werr    error      // guarded by mu; the first error of t.send
	closed  bool       // guarded by mu; written by the reader only

	in *input // owned by the reader
}

// Info returns what the handshake found out.
func (c *Conn) Info() Info { return c.info }

// Addr returns the master's address, as Address.String gives it.
func (c *Conn) Addr() string { return c.addr }

// FD returns the descriptor to poll, or −1: with a pump, which calls Options.Ready
// instead, and after Close. Nobody else may read, write or close it. It belongs to
// the reader.
func (c *Conn) FD() int { return c.t.fd() }

// Append queues b.B[from:to] behind everything queued before. It sends nothing. The
// buffer is retained until these bytes are sent or the connection is closed. After
// Close it does nothing. The queue has no limit of its own: the caller bounds what it
// appends while Flush reports pending bytes.
func (c *Conn) Append(b *Buffer, from, to int) {
	if from >= to {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return
	}
	if n := len(c.queue); n > c.head && c.queue[n-1].b == b && c.queue[n-1].to == from {
		c.queue[n-1].to = to
		return
	}
	if len(c.queue) == cap(c.queue) && c.head > len(c.queue)/2 { // copied at most once for each chunk
		n := copy(c.queue, c.queue[c.head:])
		clear(c.queue[n:])
		c.queue, c.head = c.queue[:n], 0
	}
	b.Retain()
	c.queue = append(c.queue, chunk{b, from, to})
}

// Flush sends what the socket takes now. pending says that bytes are left: wait until
// the socket is writable (with a pump: until Ready is called) and call Flush again.
// Bytes that a pump has taken are not pending, though they may still be on their way.
//
// One call is one system call, if no more than 64 KiB in 32 pieces are queued. After
// an error, an *Error, nothing more can be sent; what is queued is kept until Close.
// After Close the error wraps net.ErrClosed.
func (c *Conn) Flush() (pending bool, err error) {
	for {
		var sent [maxGather]*Buffer
		c.mu.Lock()
		n, more, err := c.send(&sent)
		pending := c.head < len(c.queue)
		c.mu.Unlock()
		// Outside the mutex: the last holder's Recycle is a callback.
		for _, b := range sent[:n] {
			b.Release()
		}
		if !more || err != nil {
			return pending, err
		}
	}
}

// send makes one system call. It takes the chunks that are sent whole off the queue
// and returns their n buffers in sent; more says that another call may send more.
// mu is held.
func (c *Conn) send(sent *[maxGather]*Buffer) (n int, more bool, err error) {
	switch {
	case c.closed:
		return 0, false, c.fail("write", net.ErrClosed)
	case c.werr != nil:
		return 0, false, c.fail("write", c.werr)
	case c.head == len(c.queue):
		return 0, false, nil
	}
	p := c.gather()
	size, err := c.t.send(p)
	if err == errAgain {
		return 0, false, nil
	}
	if err != nil {
		c.werr = err
		return 0, false, c.fail("write", err)
	}
	c.sent = true
	more = size == len(p)
	for size > 0 {
		first := &c.queue[c.head]
		if left := first.to - first.from; size < left {
			first.from += size
			break
		} else {
			size -= left
		}
		sent[n] = first.b
		n++
		*first = chunk{}
		c.head++
	}
	if c.head == len(c.queue) {
		c.queue, c.head, more = c.queue[:0], 0, false
	}
	return n, more, nil
}

// gather returns the bytes to send next. A single chunk is sent from where it is.
// Several are copied together, so that they cost one system call.
// mu is held.
func (c *Conn) gather() []byte {
	first := c.queue[c.head]
	p := first.b.B[first.from:min(first.to, first.from+maxSend)]
	if c.head+1 == len(c.queue) || len(p) == maxSend {
		return p
	}
	c.scratch = append(c.scratch[:0], p...)
	for _, next := range c.queue[c.head+1 : min(len(c.queue), c.head+maxGather)] {
		room := maxSend - len(c.scratch)
		if room == 0 {
			break
		}
		c.scratch = append(c.scratch, next.b.B[next.from:min(next.to, next.from+room)]...)
	}
	return c.scratch
}

// Trim gives back the memory that a burst has left behind. Call it when the
// connection is idle.
func (c *Conn) Trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scratch = nil
	if c.head == len(c.queue) {
		c.queue, c.head = nil, 0
	}
}

// Pending reports whether bytes are queued that Flush has not sent.
func (c *Conn) Pending() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head < len(c.queue)
}

// Fill receives once into the read buffer and returns the number of bytes; 0 with a
// nil error means that nothing is there now. Views that Next returned end here. Call
// it only after Next has returned false: when the buffer, of 72 KiB at most, is full,
// Fill returns 0 although more may be there.
//
// The error is an *Error; it wraps io.EOF if the peer closed or Shutdown was called,
// and net.ErrClosed after Close.
func (c *Conn) Fill() (n int, err error) {
	if c.closed { // the reader itself has written it
		return 0, c.failed("read", net.ErrClosed)
	}
	space := c.in.space()
	if len(space) == 0 {
		return 0, nil // and not recv, which would return 0 as at the end
	}
	n, err = c.t.recv(space)
	if err != nil {
		if err == errAgain {
			return 0, nil
		}
		return 0, c.failed("read", err)
	}
	c.in.added(n)
	return n, nil
}

// Next returns the next whole reply that has been received; ok is false if there is
// none. Attributes are skipped, pushes are returned. v is a view, valid until the
// next Fill or Close. The error, an *Error, means that the bytes are not RESP: the
// stream is out of step and must be closed. It stays.
//
// Dial can return with replies already received: call Next before waiting for more.
func (c *Conn) Next() (v resp.Value, ok bool, err error) {
	v, ok, err = c.in.next()
	if err != nil {
		err = c.failed("decode", err)
	}
	return v, ok, err
}

// Shutdown ends the connection in both directions without closing it: Fill returns
// what has already come, and then io.EOF. Any goroutine may call it, at any time.
func (c *Conn) Shutdown() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.t.shutdown()
	}
}

// Close closes the connection and releases the buffers of what was not sent. It does
// not wait; with a pump, bytes on their way are lost, and Ready may still be called
// until Done is closed. Only the reader may call it; further calls do nothing and
// return nil.
func (c *Conn) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	unsent := c.queue[c.head:]
	c.queue, c.head, c.scratch = nil, 0, nil
	err := c.t.close()
	c.mu.Unlock()
	for _, chunk := range unsent {
		chunk.b.Release()
	}
	return err
}

// Done returns a channel that is closed when Close has been called and no goroutine
// of the connection is left.
func (c *Conn) Done() <-chan struct{} { return c.t.done() }

// fail makes an Error; mu is held.
func (c *Conn) fail(op string, err error) error {
	return &Error{Op: op, Addr: c.addr, Sent: c.sent, Err: err}
}

// failed is fail for the reader, which does not hold mu.
func (c *Conn) failed(op string, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fail(op, err)
}
