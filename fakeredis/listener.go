package fakeredis

import (
	"crypto/tls"
	"net"
	"sync"
	"time"
)

// listener is what redcon accepts from: it outlives the real listener, which Refuse takes away and brings back.
// (redcon closes every connection when its listener ends, so it must not see that.)
type listener struct {
	open func() (net.Listener, error)
	name string // the bound address, as Addr returns it
	addr net.Addr
	tls  *tls.Config

	mu      sync.Mutex
	cur     net.Listener  // nil while connections are refused
	changed chan struct{} // closed and replaced whenever cur or closed changes
	closed  bool
}

func newListener(cfg Config) (*listener, error) {
	l := &listener{tls: cfg.TLS, changed: make(chan struct{})}
	addr := cfg.Addr
	l.open = func() (net.Listener, error) {
		if cfg.Network != nil {
			return cfg.Network.Listen(addr)
		}
		if addr == "" {
			addr = "127.0.0.1:0"
		}
		return net.Listen(splitAddr(addr))
	}
	ln, err := l.open()
	if err != nil {
		return nil, err
	}
	l.cur, l.addr, l.name = ln, ln.Addr(), joinAddr(ln.Addr())
	addr = l.name // a free port was chosen once; from now on it is this one
	return l, nil
}

// port returns the TCP port, or "0" if there is none.
func (l *listener) port() string {
	if _, port, err := net.SplitHostPort(l.name); err == nil {
		return port
	}
	return "0"
}

// Accept waits for the next connection, through times of refusal, until the listener is closed for good.
func (l *listener) Accept() (net.Conn, error) {
	for {
		l.mu.Lock()
		cur, changed, closed := l.cur, l.changed, l.closed
		l.mu.Unlock()
		if closed {
			return nil, net.ErrClosed
		}
		if cur == nil {
			<-changed
			continue
		}
		conn, err := cur.Accept()
		l.mu.Lock()
		same := l.cur == cur
		l.mu.Unlock()
		switch {
		case err == nil && same:
			return newWire(conn, l.tls), nil
		case err == nil: // refusal began meanwhile
			abort(conn)
		case same: // out of descriptors, most likely: do not spin
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// refuse stops or resumes listening on the same address.
func (l *listener) refuse(on bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || on == (l.cur == nil) {
		return nil
	}
	if on {
		_ = l.cur.Close()
		l.cur = nil
	} else {
		ln, err := l.open()
		if err != nil {
			return err
		}
		l.cur = ln
	}
	l.change()
	return nil
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	if l.cur != nil {
		_ = l.cur.Close()
		l.cur = nil
	}
	l.change()
}

func (l *listener) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// Close is for redcon, which closes its listener when it stops serving.
func (l *listener) Close() error {
	l.close()
	return nil
}

func (l *listener) Addr() net.Addr { return l.addr }

// abort closes a connection so that the peer sees a reset instead of an orderly end, where the transport can.
func abort(conn net.Conn) {
	if c, ok := conn.(interface{ SetLinger(sec int) error }); ok {
		_ = c.SetLinger(0)
	}
	_ = conn.Close()
}
