package conn

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// wire is one way to reach a peer.
type wire struct {
	name   string
	listen func(t *testing.T) (net.Listener, Address, Options)
}

var wires = []wire{
	{"tcp", listenTCP},
	{"unix", func(t *testing.T) (net.Listener, Address, Options) {
		path := filepath.Join(shortTempDir(t), "s")
		ln, err := net.Listen("unix", path)
		require.NoError(t, err)
		return ln, Address{Network: "unix", Addr: path}, Options{}
	}},
	{"one byte at a time", func(t *testing.T) (net.Listener, Address, Options) {
		ln, a, o := listenTCP(t)
		return dripListener{ln}, a, o
	}},
	{"pump", func(t *testing.T) (net.Listener, Address, Options) {
		ln, a, o := listenTCP(t)
		o.Pump = true
		return ln, a, o
	}},
	{"memory", func(t *testing.T) (net.Listener, Address, Options) {
		ln := newPipeListener()
		return ln, Address{Network: "tcp", Addr: "memory:1"}, Options{Dial: ln.dial}
	}},
	{"tls", func(t *testing.T) (net.Listener, Address, Options) {
		ln, a, o := listenTCP(t)
		server, client := certificate()
		a.TLS, o.TLS = true, client
		return tls.NewListener(ln, server), a, o
	}},
}

func listenTCP(t *testing.T) (net.Listener, Address, Options) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return ln, Address{Network: "tcp", Addr: ln.Addr().String()}, Options{}
}

// shortTempDir: a socket's path has 107 bytes at most, and t.TempDir may be longer.
func shortTempDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "conn")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// forEachWire runs f over every wire.
func forEachWire(t *testing.T, f func(t *testing.T, w wire)) {
	for _, w := range wires {
		t.Run(w.name, func(t *testing.T) { f(t, w) })
	}
}

// dripListener's connections write one byte at a time.
type dripListener struct{ net.Listener }

func (l dripListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return dripConn{nc}, err
}

type dripConn struct{ net.Conn }

func (c dripConn) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		_, err = c.Conn.Write(p[n : n+1])
		n++
	}
	return n, err
}

// pipeListener is a network of net.Pipe, which buffers nothing.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "memory"} }

var issued = time.Now() // not in a bubble of virtual time

// certificate returns the two ends' configurations for 127.0.0.1, self-signed.
var certificate = sync.OnceValues(func() (server, client *tls.Config) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: issued.Add(-time.Hour), NotAfter: issued.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		panic(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(parsed)
	server = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	return server, &tls.Config{RootCAs: roots}
})
