package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// dialError dials in vain.
func dialError(t *testing.T, ctx context.Context, a Address, o Options) *Error {
	t.Helper()
	c, err := Dial(ctx, a, o)
	require.Nil(t, c)
	var e *Error
	require.ErrorAs(t, err, &e)
	require.NotContains(t, err.Error(), "\n")
	return e
}

func TestDialErrors(t *testing.T) {
	ln, a, o := listenTCP(t)
	require.NoError(t, ln.Close())
	e := dialError(t, context.Background(), a, o)
	require.Equal(t, "dial", e.Op)
	require.False(t, e.Sent)
	require.EqualError(t, e, "dial "+a.Addr+": connect: connection refused")

	path := filepath.Join(shortTempDir(t), "missing")
	e = dialError(t, context.Background(), Address{Network: "unix", Addr: path}, o)
	require.ErrorIs(t, e, os.ErrNotExist)
	require.EqualError(t, e, "dial unix://"+path+": connect: no such file or directory")

	o.Dial = func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.Join(errors.New("one"), errors.New("two"))
	}
	require.EqualError(t, dialError(t, context.Background(), a, o), "dial "+a.Addr+": one; two")

	o.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, nil }
	require.EqualError(t, dialError(t, context.Background(), a, o), "dial "+a.Addr+": Options.Dial returned no connection")
}

func TestDialWithAContextThatIsDone(t *testing.T) {
	dialed := false
	o := Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		dialed = true
		return nil, errors.New("dialed")
	}}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	e := dialError(t, ctx, Address{Network: "tcp", Addr: "h:1"}, o)
	require.ErrorIs(t, e, context.Canceled)
	require.False(t, dialed)
}

// A time-out that Go's dialer reports answers true to errors.Is of
// context.DeadlineExceeded, even when it is not the caller's.
func TestDialTimeoutIsNotTheCallers(t *testing.T) {
	stuck := func(ctx context.Context, network, addr string) (net.Conn, error) {
		d := net.Dialer{Deadline: time.Unix(1, 0)}
		return d.DialContext(ctx, network, addr)
	}
	_, err := stuck(context.Background(), "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, context.DeadlineExceeded, "otherwise this test is about nothing")

	a := Address{Network: "tcp", Addr: "127.0.0.1:1"}
	e := dialError(t, context.Background(), a, Options{Dial: stuck})
	require.ErrorIs(t, e, os.ErrDeadlineExceeded)
	require.NotErrorIs(t, e, context.DeadlineExceeded)

	// A deadline of the caller's that has passed, although its timer has not fired.
	e = dialError(t, lateContext{context.Background()}, a, Options{Dial: stuck})
	require.ErrorIs(t, e, context.DeadlineExceeded)
}

type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

func TestTLS(t *testing.T) {
	server, client := certificate()
	tlsWire := wires[len(wires)-1]
	silent := func(p *peer) { p.command() }

	t.Run("a config alone is enough, and names the server", func(t *testing.T) {
		a, o := tlsWire.serve(t, func(p *peer) { p.handshake(redis7); p.command() })
		a.TLS = false
		c := dial(t, a, o)
		require.Equal(t, 3, c.Info().Proto)
		require.Empty(t, client.ServerName, "the caller's config is not changed")
	})
	t.Run("verification is on by default", func(t *testing.T) {
		a, o := tlsWire.serve(t, silent)
		o.TLS = nil
		e := dialError(t, context.Background(), a, o)
		require.Equal(t, "tls", e.Op)
		require.False(t, e.Sent)
		var unverified *tls.CertificateVerificationError
		require.ErrorAs(t, e, &unverified)
	})
	t.Run("another name", func(t *testing.T) {
		a, o := tlsWire.serve(t, silent)
		o.TLS = client.Clone()
		o.TLS.ServerName = "other.example"
		require.ErrorContains(t, dialError(t, context.Background(), a, o), "other.example")
	})
	t.Run("over a custom Dial", func(t *testing.T) {
		ln := newPipeListener()
		w := wire{listen: func(*testing.T) (net.Listener, Address, Options) {
			return tls.NewListener(ln, server), Address{Network: "tcp", Addr: "127.0.0.1:1"}, Options{Dial: ln.dial, TLS: client}
		}}
		a, o := w.serve(t, func(p *peer) { p.handshake(redis7); echo(p) })
		c := dial(t, a, o)
		c.send(command("ECHO", "over TLS"))
		require.Equal(t, "over TLS", string(c.next().Data))
	})
	t.Run("a peer that does not speak it", func(t *testing.T) {
		a, o := wires[0].serve(t, func(p *peer) { p.say("-ERR Protocol error\r\n") })
		o.TLS = client
		require.Equal(t, "tls", dialError(t, context.Background(), a, o).Op)
	})
	t.Run("a peer that is silent", func(t *testing.T) {
		a, o := wires[0].serve(t, func(p *peer) { _, _ = p.r.WriteTo(discard{}) })
		o.TLS = client
		e := dialTimeout(t, a, o, "dial")
		require.Equal(t, "tls", e.Op)
		require.False(t, e.Sent)
	})
	t.Run("a unix socket has no name to verify", func(t *testing.T) {
		a, o := wires[1].serve(t, silent)
		o.TLS = client
		require.Equal(t, "tls", dialError(t, context.Background(), a, o).Op)
	})
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
