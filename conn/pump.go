package conn

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// Limits of a pump: received bytes that nobody has taken (then it stops reading, and
// the peer is held up), and taken bytes that are not yet written (then send returns
// errAgain).
const (
	maxPumpIn   = 64 << 10
	maxPumpOut  = 1 << 20
	pumpRead    = 8 << 10
	keepPumpOut = 64 << 10 // a larger buffer is given back once it is written
)

// pump makes a transport of any net.Conn, whose Read and Write wait: a goroutine for
// each of them. It works in virtual time (testing/synctest): no mutex is held across
// a wait, and nothing polls.
type pump struct {
	nc    net.Conn // read and written
	under net.Conn // closed: nc itself, or what TLS runs on
	ready func()   // called without mu held; never nil

	mu       sync.Mutex
	readMay  sync.Cond // there is room in in, or down
	writeMay sync.Cond // there is something in out, or down
	in       []byte    // guarded by mu; in[inAt:] is received and not taken
	inAt     int       // guarded by mu
	out      []byte    // guarded by mu; taken from send, not yet with the writer
	writing  int       // guarded by mu; bytes that the writer is writing
	full     bool      // guarded by mu; send was refused something: tell when there is room
	readErr  error     // guarded by mu; why the reader ended
	writeErr error     // guarded by mu; why the writer ended
	down     bool      // guarded by mu; shutdown or close was called

	running atomic.Int32  // goroutines that have not ended: reader, writer, closer
	ended   chan struct{} // closed when running is 0
}

func newPump(nc, under net.Conn, ready func()) *pump {
	if ready == nil {
		ready = func() {}
	}
	p := &pump{nc: nc, under: under, ready: ready, in: make([]byte, 0, pumpRead), ended: make(chan struct{})}
	p.readMay.L, p.writeMay.L = &p.mu, &p.mu
	p.running.Store(3)
	go p.read()
	go p.write()
	return p
}

// exit is the last thing that each of the three goroutines does.
func (p *pump) exit() {
	if p.running.Add(-1) == 0 {
		close(p.ended)
	}
}

func (p *pump) read() {
	defer p.exit()
	buf := make([]byte, pumpRead)
	for {
		p.mu.Lock()
		for len(p.in)-p.inAt > maxPumpIn-pumpRead && !p.down {
			p.readMay.Wait()
		}
		if p.down {
			p.readErr = io.EOF
			p.mu.Unlock()
			p.ready()
			return
		}
		p.mu.Unlock()
		n, err := p.nc.Read(buf)
		p.mu.Lock()
		if p.inAt > 0 && len(p.in)+n > cap(p.in) {
			p.in, p.inAt = p.in[:copy(p.in, p.in[p.inAt:])], 0
		}
		p.in = append(p.in, buf[:n]...)
		if err != nil && p.down {
			err = io.EOF // what our own shutdown looks like on a socket
		}
		p.readErr = err
		p.mu.Unlock()
		p.ready()
		if err != nil {
			return
		}
	}
}

func (p *pump) write() {
	defer p.exit()
	var batch []byte
	for {
		p.mu.Lock()
		for len(p.out) == 0 && !p.down {
			p.writeMay.Wait()
		}
		if p.down {
			p.mu.Unlock()
			return
		}
		batch, p.out = p.out, batch[:0]
		p.writing = len(batch)
		p.mu.Unlock()
		_, err := p.nc.Write(batch)
		if cap(batch) > keepPumpOut {
			batch = nil
		}
		p.mu.Lock()
		p.writing = 0
		p.writeErr = err // final: TLS cannot go on after a failed write, and a part may have left
		tell := p.full || err != nil
		p.full = false
		p.mu.Unlock()
		if tell {
			p.ready()
		}
		if err != nil {
			return
		}
	}
}

func (p *pump) send(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writeErr != nil {
		return 0, p.writeErr
	}
	if p.down {
		return 0, io.ErrClosedPipe
	}
	n := min(len(b), maxPumpOut-len(p.out)-p.writing)
	p.full = n < len(b)
	if n == 0 {
		return 0, errAgain
	}
	p.out = append(p.out, b[:n]...)
	p.writeMay.Signal()
	return n, nil
}

func (p *pump) recv(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := copy(b, p.in[p.inAt:])
	if n == 0 {
		switch {
		case p.readErr != nil:
			return 0, p.readErr
		case p.down:
			return 0, io.EOF
		case p.writeErr != nil: // the reader may wait for ever; the connection is over all the same
			return 0, p.writeErr
		}
		return 0, errAgain
	}
	p.inAt += n
	if p.inAt == len(p.in) {
		p.in, p.inAt = p.in[:0], 0
	}
	p.readMay.Signal()
	return n, nil
}

// shutdown ends both goroutines. It closes what TLS runs on, because to close TLS
// itself waits for up to five seconds; and in a goroutine, because a foreign net.Conn
// may wait as well.
func (p *pump) shutdown() {
	p.mu.Lock()
	first := !p.down
	p.down = true
	p.readMay.Signal()
	p.writeMay.Signal()
	p.mu.Unlock()
	if first {
		go func() {
			defer p.exit()
			_ = p.under.Close()
		}()
	}
}

func (p *pump) close() error {
	p.shutdown()
	return nil
}

func (p *pump) done() <-chan struct{} { return p.ended }

func (p *pump) fd() int { return -1 }
