package fakeredis

import (
	"context"
	"fmt"
	"net"
	"sync"
	"syscall"
	"time"
)

// backlog is how many connections wait to be accepted before a dial is refused.
const backlog = 1024

// Network is an in-memory network of servers, each reached over a link of its own that has a latency and can be
// cut. Servers join it by Config.Network; clients use Dial, which fits redlock's Config.Dial. It keeps no goroutine
// and waits on nothing but channels, timers and condition variables, so that it works in virtual time
// (testing/synctest). It is safe for concurrent use.
type Network struct {
	mu    sync.Mutex
	links map[string]*link
	names int
	ports int
}

// link is the way to one server. mu guards everything that travels on it.
type link struct {
	mu       sync.Mutex
	latency  time.Duration // one way
	cut      bool
	changed  chan struct{} // closed and replaced whenever cut changes
	listener *memListener  // nil: dials are refused
	flows    map[*flow]struct{}
}

// NewNetwork returns a network without latency.
func NewNetwork() *Network { return &Network{links: make(map[string]*link)} }

func (n *Network) link(addr string) *link {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[addr]
	if l == nil {
		l = &link{changed: make(chan struct{}), flows: make(map[*flow]struct{})}
		n.links[addr] = l
	}
	return l
}

// SetLatency sets how long everything sent to or by the server at addr travels, one way: a round trip takes twice
// that, and a dial one round trip. It holds for what is sent from now on; nothing overtakes what was sent before.
func (n *Network) SetLatency(addr string, oneWay time.Duration) {
	l := n.link(addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.latency = oneWay
}

// Cut interrupts the link to addr. Nothing arrives any more in either direction, also of what is under way, and
// nobody is told: connections hang and dials hang. As with TCP, whatever got lost is sent again after Heal.
func (n *Network) Cut(addr string) { n.link(addr).setCut(true) }

// Heal ends Cut. What got lost meanwhile arrives one latency later.
func (n *Network) Heal(addr string) { n.link(addr).setCut(false) }

func (l *link) setCut(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cut == cut {
		return
	}
	l.cut = cut
	close(l.changed)
	l.changed = make(chan struct{})
	now := time.Now()
	for f := range l.flows {
		f.setCut(cut, now)
	}
}

// Listen returns a listener for addr, which is any name; Config.Network does this. An empty addr means a free
// "10.0.0.n:6379". The error is EADDRINUSE.
func (n *Network) Listen(addr string) (net.Listener, error) {
	if addr == "" {
		n.mu.Lock()
		n.names++
		addr = fmt.Sprintf("10.0.%d.%d:6379", n.names/250, n.names%250+1)
		n.mu.Unlock()
	}
	l := n.link(addr)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		return nil, opError("listen", memAddr(addr), syscall.EADDRINUSE)
	}
	l.listener = &memListener{link: l, addr: memAddr(addr)}
	l.listener.wake = sync.NewCond(&l.mu)
	return l.listener, nil
}

// Dial connects to the server that listens at addr; network is not looked at. It takes one round trip, is refused
// (ECONNREFUSED) if nobody listens, and hangs while the link is cut, until ctx ends.
func (n *Network) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l := n.link(addr)
	if err := l.travel(ctx); err != nil {
		return nil, opError("dial", memAddr(addr), err)
	}
	n.mu.Lock()
	n.ports++
	local := memAddr(fmt.Sprintf("10.1.0.%d:%d", n.ports/50000%250+1, 10000+n.ports%50000))
	n.mu.Unlock()
	l.mu.Lock()
	ln := l.listener
	if ln == nil || len(ln.queue) >= backlog {
		l.mu.Unlock()
		if err := l.travel(ctx); err != nil { // the refusal travels as well
			return nil, opError("dial", memAddr(addr), err)
		}
		return nil, opError("dial", memAddr(addr), syscall.ECONNREFUSED)
	}
	there, back := newFlow(l), newFlow(l)
	client := &memConn{in: back, out: there, local: local, remote: memAddr(addr)}
	ln.queue = append(ln.queue, &memConn{in: there, out: back, local: memAddr(addr), remote: local})
	ln.wake.Broadcast()
	l.mu.Unlock()
	if err := l.travel(ctx); err != nil {
		_ = client.Close()
		return nil, opError("dial", memAddr(addr), err)
	}
	return client, nil
}

// travel waits for one latency, longer while the link is cut, at most until ctx ends.
func (l *link) travel(ctx context.Context) error {
	for {
		l.mu.Lock()
		cut, changed, latency := l.cut, l.changed, l.latency
		l.mu.Unlock()
		var arrived <-chan time.Time
		if !cut {
			if err := ctx.Err(); err != nil {
				return err
			}
			if latency <= 0 {
				return nil
			}
			t := time.NewTimer(latency)
			defer t.Stop() // at most one a cut
			arrived = t.C
		}
		select {
		case <-arrived:
			return nil
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func opError(op string, addr net.Addr, err error) error {
	return &net.OpError{Op: op, Net: addr.Network(), Addr: addr, Err: err}
}

// memAddr is a name on a Network.
type memAddr string

func (memAddr) Network() string  { return "tcp" }
func (a memAddr) String() string { return string(a) }

// memListener is a net.Listener on a Network. Guarded by link.mu.
type memListener struct {
	link   *link
	addr   memAddr
	wake   *sync.Cond
	queue  []*memConn
	closed bool
}

// Accept waits for the next connection.
func (m *memListener) Accept() (net.Conn, error) {
	m.link.mu.Lock()
	defer m.link.mu.Unlock()
	for len(m.queue) == 0 && !m.closed {
		m.wake.Wait()
	}
	if m.closed {
		return nil, net.ErrClosed
	}
	c := m.queue[0]
	m.queue = m.queue[1:]
	return c, nil
}

// Close stops listening; connections that were not accepted yet are reset.
func (m *memListener) Close() error {
	m.link.mu.Lock()
	if m.closed {
		m.link.mu.Unlock()
		return net.ErrClosed
	}
	m.closed = true
	m.link.listener = nil
	queue := m.queue
	m.queue = nil
	m.wake.Broadcast()
	m.link.mu.Unlock()
	for _, c := range queue {
		abort(c)
	}
	return nil
}

// Addr returns the name that the listener has on the network.
func (m *memListener) Addr() net.Addr { return m.addr }
