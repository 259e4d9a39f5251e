// Package redisproc runs real Redis (or Valkey) servers for tests and
// benchmarks: they are started on free loopback ports, can be killed, frozen
// and restarted, and are gone when the test is over.
//
// Tests call Start, which skips when the machine has no server; programs that
// are not tests call Launch. The package imports the standard library only and
// brings its own few lines of RESP, so that a mistake in package resp cannot
// hide behind itself.
package redisproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Process is one server, running or not. Its address and its directory stay
// the same from Start or Launch to Close, over any number of restarts.
//
// All methods may be called concurrently; those that change the process
// (Kill, Stop, Continue, Restart, Close) wait for each other.
type Process struct {
	bin      string
	dir      string // holds data/ and server.log
	port     int
	args     []string // the caller's own, after ours
	password string   // from --requirepass, for Do and Raw
	ownDir   bool     // dir is a temporary directory that Close removes

	mu      sync.Mutex
	run     *run // guarded by mu; nil when the server was killed or closed
	stopped bool // guarded by mu; frozen by Stop
	closed  bool // guarded by mu
}

var (
	errNotRunning = errors.New("not running")
	errClosed     = errors.New("closed")
)

// Find returns the server binary to use: the one that $REDLOCK_SERVER_BIN
// names if that is set, else redis-server, else valkey-server from the PATH.
// ok is false when there is none; the path is then the one that
// $REDLOCK_SERVER_BIN named in vain, or empty.
func Find() (path string, ok bool) {
	if bin := os.Getenv("REDLOCK_SERVER_BIN"); bin != "" {
		path, err := exec.LookPath(bin)
		if err != nil {
			return bin, false
		}
		return path, true
	}
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// Launch starts n servers at once and returns when every one of them answers,
// or with an error (and none left running) when one does not within 15
// seconds. Each gets a sub-directory of dir; with an empty dir it gets a
// temporary one that its Close removes.
//
// Nothing is saved to disk unless args ask for it. args are further
// command-line options for every server, such as "--requirepass", "secret".
//
// The caller calls Close on every process. On Linux and FreeBSD the kernel
// kills the servers if this program ends without doing so, however it ends; on
// other systems there is no such help, and they would be left behind.
func Launch(n int, dir string, args ...string) ([]*Process, error) {
	bin, ok := Find()
	if !ok {
		return nil, fmt.Errorf("redisproc: %s", missing(bin))
	}
	return launch(bin, n, dir, args, ports.take)
}

// launch is Launch with the binary and the choice of ports as arguments.
func launch(bin string, n int, dir string, args []string, pick func() (int, error)) ([]*Process, error) {
	ps, errs := make([]*Process, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { ps[i], errs[i] = launchOne(bin, i, dir, args, pick) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, p := range ps {
			if p != nil {
				_ = p.Close()
			}
		}
		return nil, err
	}
	return ps, nil
}

func launchOne(bin string, i int, dir string, args []string, pick func() (int, error)) (*Process, error) {
	p := &Process{bin: bin, args: slices.Clone(args), password: option(args, "requirepass")}
	var err error
	if dir == "" {
		p.ownDir = true
		p.dir, err = os.MkdirTemp("", "redisproc-")
	} else {
		// MkdirTemp and not a plain number: Launch may be called twice with one dir.
		p.dir, err = os.MkdirTemp(dir, "server"+strconv.Itoa(i)+"-")
	}
	if err != nil {
		return nil, fmt.Errorf("redisproc: %w", err)
	}
	// Between the choice of a port and the server's bind anybody may take it.
	for range 10 {
		if p.port, err = pick(); err != nil {
			break
		}
		if err = p.start(); err == nil {
			return p, nil
		}
		ports.give(p.port)
		if !errors.Is(err, errPortTaken) {
			break
		}
	}
	p.removeDir()
	return nil, fmt.Errorf("redisproc: %w", err)
}

// Addrs returns the addresses of the processes, in order.
func Addrs(ps []*Process) []string {
	addrs := make([]string, len(ps))
	for i, p := range ps {
		addrs[i] = p.Addr()
	}
	return addrs
}

// Addr returns the server's address, always 127.0.0.1:port. It stays the same
// over restarts.
func (p *Process) Addr() string { return "127.0.0.1:" + strconv.Itoa(p.port) }

// Dir returns the server's working directory, where a relative --unixsocket
// or --logfile ends up. Restart(false) empties it.
func (p *Process) Dir() string { return filepath.Join(p.dir, "data") }

func (p *Process) logPath() string { return filepath.Join(p.dir, "server.log") }

// PID returns the id of the server's process, or 0 if it is not running.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || p.run.ended() {
		return 0
	}
	return p.run.pid
}

// Kill ends the server with SIGKILL, as a crash would, and waits until it is
// gone: its port is free then and its connections are reset. Killing a server
// that does not run is not an error.
func (p *Process) Kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.kill("kill")
}

// Stop freezes the server with SIGSTOP: its sockets still take connections and
// bytes, but nothing is answered. On Linux it returns when every thread of the
// process has stopped; elsewhere as soon as the signal is sent. It fails with
// errors.ErrUnsupported on systems that have no such signal.
func (p *Process) Stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.signal(suspend)
	if err == nil {
		p.stopped = true
	}
	return p.fail("stop", err)
}

// Continue wakes a server that Stop froze; it executes whatever its sockets
// hold by then. It does nothing to a server that is not frozen.
func (p *Process) Continue() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.signal(resume)
	if err == nil {
		p.stopped = false
	}
	return p.fail("continue", err)
}

func (p *Process) signal(send func(*run) error) error {
	switch {
	case p.closed:
		return errClosed
	case p.run == nil || p.run.ended():
		return errNotRunning
	}
	return send(p.run)
}

// Restart kills the server if it runs, starts it again at the same address and
// returns when it answers, after at most 15 seconds.
//
// With keepData the new server has the old one's keys with what is left of
// their ttl: a running server is told to SAVE first. After a Kill that is too
// late, and Restart(true) fails, unless the server was started with
// "--appendonly", "yes", "--appendfsync", "always". Without keepData the new
// server starts empty.
func (p *Process) Restart(keepData bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return p.fail("restart", errClosed)
	}
	aof := strings.EqualFold(option(p.args, "appendonly"), "yes")
	if keepData && !aof {
		if err := p.save(); err != nil {
			return p.fail("restart with its data", err)
		}
	}
	if err := p.kill("restart"); err != nil {
		return err
	}
	if !keepData {
		if err := os.RemoveAll(p.Dir()); err != nil {
			return p.fail("restart", err)
		}
	}
	if err := p.start(); err != nil {
		return p.fail("restart", err)
	}
	if keepData && !aof {
		// It is loaded; left there it would be stale at the next restart.
		return p.fail("restart", os.Remove(filepath.Join(p.Dir(), "dump.rdb")))
	}
	return nil
}

// save writes the running server's keys to its dump.rdb.
func (p *Process) save() error {
	switch {
	case p.run == nil || p.run.ended():
		return fmt.Errorf("%w, and it was not started with --appendonly yes", errNotRunning)
	case p.stopped:
		return errors.New("it is stopped, so it cannot save them")
	}
	_, err := p.Do("SAVE")
	return err
}

// Close kills the server if it runs and gives its port back. A temporary
// directory that Launch made is removed; a directory that the caller named is
// left to the caller. A closed process cannot be restarted; closing it again
// does nothing.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	if err := p.kill("close"); err != nil {
		return err
	}
	p.closed = true
	ports.give(p.port)
	p.removeDir()
	return nil
}

// kill is Kill with mu held.
func (p *Process) kill(op string) error {
	if p.run == nil {
		return nil
	}
	if err := p.run.kill(); err != nil {
		return p.fail(op, err)
	}
	p.run, p.stopped = nil, false
	return nil
}

func (p *Process) removeDir() {
	if p.ownDir {
		_ = os.RemoveAll(p.dir) // left-over files in a temporary directory harm nobody
	}
}

// crash says how the server ended if it did so by itself, else "".
func (p *Process) crash() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.run == nil || !p.run.ended() {
		return ""
	}
	return fmt.Sprintf("%v: %s", p.run.cmd.ProcessState, logTail(p.logPath()))
}

// fail says which server an error is about.
func (p *Process) fail(op string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("redisproc: %s %s: %w", op, p.Addr(), err)
}

// option returns the value that follows --name in args; the last one counts.
func option(args []string, name string) string {
	value := ""
	for i := 0; i+1 < len(args); i++ {
		if strings.EqualFold(args[i], "--"+name) {
			value = args[i+1]
		}
	}
	return value
}

// missing explains that there is no server binary; path is Find's.
func missing(path string) string {
	if path != "" {
		return fmt.Sprintf("$REDLOCK_SERVER_BIN names %q, which cannot be run", path)
	}
	return "no redis-server or valkey-server in the PATH ($REDLOCK_SERVER_BIN can name one)"
}
