package main

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// slowFor is what the slow master's replies come later by.
const slowFor = 5 * time.Millisecond

// delayed is an address from which the replies of a master come later. Commands
// go through at once. It runs in the parent, so that no client pays for it.
type delayed struct {
	target  string
	delay   time.Duration
	ln      net.Listener
	wg      sync.WaitGroup
	mu      sync.Mutex
	conns   map[net.Conn]struct{} // guarded by mu; nil after close
	pending atomic.Int64          // replies on their way
}

func delay(target string, by time.Duration) (*delayed, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &delayed{target: target, delay: by, ln: ln, conns: make(map[net.Conn]struct{})}
	d.wg.Go(d.accept)
	return d, nil
}

func (d *delayed) addr() string { return d.ln.Addr().String() }

// idle reports whether no reply is on its way.
func (d *delayed) idle() bool { return d.pending.Load() == 0 }

// close ends all connections, and returns when nothing of it is left.
func (d *delayed) close() {
	_ = d.ln.Close()
	d.mu.Lock()
	for c := range d.conns {
		_ = c.Close()
	}
	d.conns = nil
	d.mu.Unlock()
	d.wg.Wait()
}

// keep remembers a connection for close; false means that it is too late.
func (d *delayed) keep(c net.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conns == nil {
		_ = c.Close()
		return false
	}
	d.conns[c] = struct{}{}
	return true
}

func (d *delayed) accept() {
	for {
		client, err := d.ln.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", d.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !d.keep(client) || !d.keep(server) {
			_ = client.Close()
			return
		}
		d.wg.Go(func() {
			_, _ = io.Copy(server, client) // the end of either is the end of both
			_ = server.Close()
		})
		d.wg.Go(func() {
			d.hold(client, server)
			_ = client.Close()
		})
	}
}

// reply is bytes, and when they may go on.
type reply struct {
	data []byte
	due  time.Time
}

// hold passes on what the server says when it is due. Reading does not wait for
// writing: the delay is a distance, not a bottleneck.
func (d *delayed) hold(client io.Writer, server io.Reader) {
	replies := make(chan reply, 1<<16)
	d.wg.Go(func() {
		for r := range replies {
			time.Sleep(time.Until(r.due))
			_, _ = client.Write(r.data) // if it is gone, reading ends
			d.pending.Add(-1)
		}
	})
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if n > 0 {
			d.pending.Add(1)
			replies <- reply{append([]byte(nil), buf[:n]...), time.Now().Add(d.delay)}
		}
		if err != nil {
			close(replies)
			return
		}
	}
}
