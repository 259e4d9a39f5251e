package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/goredlock/redlock/engine"
	"github.com/goredlock/redlock/fakeredis"
)

// mastersEnv, set to a number, makes the program a process of that many masters
// instead of a benchmark. It is how the program starts itself.
const mastersEnv = "REDLOCK_BENCH_EMBEDDED_MASTERS"

// childTimeout bounds the start and the end of that process.
const childTimeout = 10 * time.Second

// masters is what is measured against.
type masters struct {
	dial      []string // with credentials
	embedded  bool
	inProcess bool
	stop      func() // ends what was started; may be called again
}

// start brings up embedded masters if no others are given. It says on stderr if
// they had to be in this process.
func (opts options) start(stderr io.Writer) (*masters, error) {
	if len(opts.masters) > 0 {
		return &masters{dial: opts.masters, stop: func() {}}, nil
	}
	m, err := startChild(embeddedMasters)
	if err == nil {
		return m, nil
	}
	fmt.Fprintf(stderr, "bench: no process for the masters (%v): they run in this one, and allocations count theirs too\n", err)
	return startHere(embeddedMasters)
}

// shown returns the addresses as they may be printed.
func (m *masters) shown() []string {
	shown := make([]string, len(m.dial))
	for i, s := range m.dial {
		if a, err := engine.ParseAddress(s); err == nil { // checked with the flags
			shown[i] = a.String()
		}
	}
	return shown
}

// startHere starts n masters in this process.
func startHere(n int) (*masters, error) {
	m := &masters{embedded: true, inProcess: true}
	var servers []*fakeredis.Server
	m.stop = func() {
		for _, s := range servers {
			s.Close()
		}
	}
	for range n {
		s, err := fakeredis.New(fakeredis.Config{})
		if err != nil {
			m.stop()
			return nil, fmt.Errorf("embedded master: %w", err)
		}
		servers = append(servers, s)
		m.dial = append(m.dial, s.Addr())
	}
	return m, nil
}

// startChild starts n masters in another process of this program. That ends when
// its standard input does, however this one ends.
func startChild(n int) (*masters, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, kill := context.WithCancel(context.Background()) // CommandContext kills
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), mastersEnv+"="+strconv.Itoa(n))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		kill()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		kill()
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		kill()
		return nil, err
	}
	m := &masters{embedded: true}
	m.stop = sync.OnceFunc(func() {
		late := time.AfterFunc(childTimeout, kill)
		_ = in.Close()
		_ = cmd.Wait() // it has nothing more to say
		late.Stop()
		kill()
	})
	late := time.AfterFunc(childTimeout, kill)
	defer late.Stop()
	for lines := bufio.NewScanner(out); len(m.dial) < n && lines.Scan(); {
		m.dial = append(m.dial, lines.Text())
	}
	if len(m.dial) < n {
		m.stop()
		return nil, fmt.Errorf("it named %d masters of %d: %v", len(m.dial), n, cmd.ProcessState)
	}
	return m, nil
}

// asMasters says whether this process is to be n masters.
func asMasters() (n int, ok bool) {
	n, err := strconv.Atoi(os.Getenv(mastersEnv))
	return n, err == nil && n > 0
}

// serveMasters is the other process: it prints an address per line and serves
// until in ends. A signal from the keyboard comes to it as well, and must not
// take the masters away before the benchmark has released its locks.
func serveMasters(n int, in io.Reader, out io.Writer) int {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	m, err := startHere(n)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return exitFailed
	}
	defer m.stop()
	for _, addr := range m.dial {
		if _, err := fmt.Fprintln(out, addr); err != nil {
			return exitFailed
		}
	}
	_, _ = io.Copy(io.Discard, in)
	return 0
}
