package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// DefaultTimeout is the Options.Timeout of zero.
const DefaultTimeout = 5 * time.Second

// Options say how to connect. The zero Options connect without a password, in plain.
type Options struct {
	// Username and Password log in; an Address that names credentials wins. With a
	// Password only, the user is "default".
	Username, Password string

	DB         int    // an Address that names one wins
	ClientName string // shown in CLIENT LIST; empty: none. No spaces, no newlines

	// TLS is for every master, if not nil. An Address with TLS and a nil config gets
	// one that verifies the master. ServerName defaults to the address's host.
	TLS *tls.Config

	// Dial connects in place of net.Dialer; TLS, if any, is laid over its connection.
	// network is "tcp" or "unix". It must return when ctx ends.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)

	// Timeout limits the dial, TLS included, and then once more the handshake. Zero
	// means DefaultTimeout, negative none.
	Timeout time.Duration

	Scripts []string // sources to SCRIPT LOAD during the handshake; allowed to fail

	Pump bool // use the pump even where a raw socket would do

	// Ready is called with a pump only: Fill or Flush can make progress, or the
	// connection has ended. It is called by the pump's goroutines, possibly before
	// Dial returns, and must not wait.
	Ready func()
}

// NeedsPump reports whether a connection to a has no descriptor to poll, and calls
// o.Ready instead: TLS, a custom Dial, systems other than Linux, o.Pump.
func NeedsPump(a Address, o Options) bool {
	return !haveSocket || o.Pump || o.Dial != nil || o.TLS != nil || a.TLS
}

// Dial connects to a master and logs in. It waits for at most twice o.Timeout, and
// no longer than ctx.
//
// The error is an *Error. If ctx ended it wraps ctx.Err(). A time-out of our own is
// os.ErrDeadlineExceeded, never context.DeadlineExceeded. Nothing is left open then.
// What is allowed to fail in the handshake is missing from Info; everything else is
// an error: a lock in the wrong database excludes nobody.
func Dial(ctx context.Context, a Address, o Options) (*Conn, error) {
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	nc, under, err := open(ctx, a, o)
	if err != nil {
		return nil, err
	}
	h := newHandshake(a, o, nc)
	err = guard(ctx, o.Timeout, under, h.run)
	if err != nil {
		_ = under.Close()
		return nil, &Error{Op: h.op, Addr: a.String(), Sent: h.sent, Err: err}
	}
	c := &Conn{addr: a.String(), info: h.info, in: h.in}
	if NeedsPump(a, o) {
		c.t = newPump(nc, under, o.Ready)
		return c, nil
	}
	c.t, err = newSocket(nc)
	if err != nil {
		return nil, &Error{Op: "dial", Addr: a.String(), Sent: true, Err: err}
	}
	return c, nil
}

// open connects, and does the TLS handshake if there is to be one. under is what nc
// runs on: nc itself without TLS.
func open(ctx context.Context, a Address, o Options) (nc, under net.Conn, err error) {
	own, cancel := withTimeout(ctx, o.Timeout)
	defer cancel()
	dial := o.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext // sets TCP_NODELAY and keep-alive
	}
	op := "dial"
	if err = ctx.Err(); err == nil {
		nc, err = dial(own, a.Network, a.Addr)
		if err == nil && nc == nil {
			err = errors.New("Options.Dial returned no connection")
		}
	}
	under = nc
	if err == nil && (a.TLS || o.TLS != nil) {
		op = "tls"
		secure := tls.Client(nc, tlsConfig(a, o))
		if err = secure.HandshakeContext(own); err != nil {
			_ = under.Close()
		}
		nc = secure
	}
	if err != nil {
		return nil, nil, &Error{Op: op, Addr: a.String(), Err: normalize(ctx, own, o.Timeout, err)}
	}
	return nc, under, nil
}

func tlsConfig(a Address, o Options) *tls.Config {
	config := &tls.Config{}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	if config.ServerName == "" && a.Network == "tcp" {
		config.ServerName, _, _ = net.SplitHostPort(a.Addr)
	}
	return config
}

// guard runs f, whose reads and writes of nc fail at once when ctx ends or the
// time-out passes. Its error is normalized.
func guard(ctx context.Context, timeout time.Duration, nc net.Conn, f func() error) error {
	own, cancel := withTimeout(ctx, timeout)
	defer cancel()
	stop := context.AfterFunc(own, func() {
		if nc.SetDeadline(time.Unix(1, 0)) != nil { // a custom Dial's connection may have no deadlines
			_ = nc.Close()
		}
	})
	err := f()
	if !stop() && err == nil {
		err = own.Err() // the deadline is being set: this connection cannot be used
	}
	if err != nil {
		err = normalize(ctx, own, timeout, err)
	}
	return err
}

func withTimeout(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if timeout < 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, timeout)
}
