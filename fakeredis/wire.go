package fakeredis

import (
	"crypto/tls"
	"io"
	"net"
)

// wire is the connection as redcon sees it. What it reads for redcon has passed the guard, so that redcon meets
// whole and valid commands only; what redcon writes is merely the sign that a batch of commands is done, because
// replies go through the client's output.
type wire struct {
	conn   net.Conn // TLS or not
	raw    net.Conn // below TLS; what is closed, because a TLS goodbye may wait for the peer
	client *client
	guard  guard
	net.Conn
}

func newWire(conn net.Conn, config *tls.Config) *wire {
	w := &wire{conn: conn, raw: conn}
	if config != nil {
		w.conn = tls.Server(conn, config)
	}
	w.Conn = w.conn
	return w
}

// Read returns bytes of whole commands. At a violation of the protocol it sends the error that Redis sends, after
// the replies to what came before, and ends the connection.
func (w *wire) Read(p []byte) (int, error) {
	for {
		if w.guard.more() {
			return w.guard.read(p), nil
		}
		if w.guard.fault == tooBig {
			return 0, io.EOF
		}
		if w.guard.fault != "" {
			w.client.out.add(errorReply(w.guard.fault), 2, 0)
			w.client.out.flush()
			return 0, io.EOF
		}
		n, err := w.conn.Read(w.guard.room())
		if n > 0 {
			w.guard.feed(n)
			continue
		}
		if err != nil {
			return 0, err
		}
	}
}

// Write is called by redcon at the end of every batch, normally with nothing: replies of commands that arrived
// together leave together. With bytes it is a protocol error that only redcon found.
func (w *wire) Write(p []byte) (int, error) {
	if w.client == nil { // a connection that was never accepted
		return len(p), nil
	}
	if len(p) > 0 {
		w.client.out.add(rawReply(p), 2, 0)
	}
	if len(p) > 0 || !w.guard.more() { // else redcon comes back with more of the same batch
		w.client.out.flush()
	}
	return len(p), nil
}

// Close is redcon's way to end the connection.
func (w *wire) Close() error { return w.raw.Close() }

// end closes the connection, by a reset if asked for.
func (w *wire) end(reset bool) {
	if reset {
		abort(w.raw)
		return
	}
	_ = w.raw.Close()
}
