package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goredlock/redlock/internal/redisproc"
)

// masters is what is measured against: real servers, or embedded ones where the
// machine has none. They run in other processes.
type masters interface {
	addrs() []string
	freeze(i int) error
	thaw(i int) error
	kill(i int) error
	restart(i int) error
	// executed is how many commands of others master i has executed.
	executed(i int) (int64, error)
	// idle reports whether master i has executed all that it has read, and its
	// sockets have taken all that it has answered.
	idle(i int) (bool, error)
	// left is how many keys there are.
	left(i int) (int64, error)
	// clear removes all keys.
	clear(i int) error
	// about says what they are.
	about() string
	real() bool
	close()
}

// startMasters starts n real servers if the machine has a binary, else embedded
// ones.
func startMasters(n int) (masters, error) {
	bin, found := redisproc.Find()
	switch {
	case found:
		return launchServers(bin, n)
	case bin != "":
		return nil, fmt.Errorf("%s cannot be run", bin)
	}
	return startEmbedded(n)
}

// servers are real ones.
type servers struct {
	processes []*redisproc.Process
	wires     []*wire // nil after a kill
	version   string
}

func launchServers(bin string, n int) (masters, error) {
	processes, err := redisproc.Launch(n, "")
	if err != nil {
		return nil, err
	}
	s := &servers{processes: processes, wires: make([]*wire, n)}
	info, err := processes[0].Do("INFO", "server")
	if err != nil {
		s.close()
		return nil, err
	}
	s.version = bin
	for line := range strings.Lines(info) {
		for _, name := range []string{"valkey_version:", "redis_version:"} {
			if v, ok := strings.CutPrefix(line, name); ok && s.version == bin {
				s.version = strings.TrimSuffix(name, "_version:") + " " + strings.TrimSpace(v)
			}
		}
	}
	return s, nil
}

func (s *servers) addrs() []string     { return redisproc.Addrs(s.processes) }
func (s *servers) freeze(i int) error  { return s.processes[i].Stop() }
func (s *servers) thaw(i int) error    { return s.processes[i].Continue() }
func (s *servers) restart(i int) error { return s.processes[i].Restart(false) }
func (s *servers) about() string       { return s.version }
func (s *servers) real() bool          { return true }
func (s *servers) clear(i int) error {
	return s.ask(i, func(w *wire) error { _, err := w.do("FLUSHALL"); return err })
}

func (s *servers) kill(i int) error {
	if s.wires[i] != nil {
		s.wires[i].close()
		s.wires[i] = nil
	}
	return s.processes[i].Kill()
}

func (s *servers) close() {
	for _, p := range s.processes {
		_ = p.Close() // nothing can be done about it at the end
	}
}

func (s *servers) left(i int) (n int64, err error) {
	err = s.ask(i, func(w *wire) error {
		n, err = w.number("DBSIZE")
		return err
	})
	return n, err
}

// ask asks master i, on a connection that is kept.
func (s *servers) ask(i int, f func(*wire) error) error {
	if s.wires[i] == nil {
		w, err := dialWire(s.processes[i].Addr())
		if err != nil {
			return err
		}
		s.wires[i] = w
	}
	err := f(s.wires[i])
	if err != nil {
		s.wires[i].close()
		s.wires[i] = nil
	}
	return err
}

func (s *servers) executed(i int) (n int64, err error) {
	err = s.ask(i, func(w *wire) error {
		stats, err := w.do("INFO", "commandstats")
		n = countCalls(stats)
		return err
	})
	return n, err
}

func (s *servers) idle(i int) (idle bool, err error) {
	err = s.ask(i, func(w *wire) error {
		list, err := w.do("CLIENT", "LIST")
		idle = queuesEmpty(list, w.id)
		return err
	})
	return idle, err
}

// asked are the commands that this instrument and the keep-alives of clients
// send: they are not what is measured, and would never stand still.
var asked = []string{"info", "ping", "dbsize", "flushall", "exists", "hello", "client", "command"}

// countCalls adds up the calls in INFO commandstats.
func countCalls(stats string) (n int64) {
	for line := range strings.Lines(stats) {
		name, rest, _ := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		name, _, _ = strings.Cut(name, "|")
		if slices.Contains(asked, name) {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		c, err := strconv.ParseInt(calls, 10, 64)
		if err == nil { // a heading is no number
			n += c
		}
	}
	return n
}

// queuesEmpty reports whether no client in a CLIENT LIST, but for the one that
// asks, has sent what was not executed, or waits for what was not sent.
func queuesEmpty(list, self string) bool {
	for line := range strings.Lines(list) {
		if strings.HasPrefix(line, "id="+self+" ") {
			continue
		}
		for field := range strings.FieldsSeq(line) {
			switch name, value, _ := strings.Cut(field, "="); name {
			case "qbuf", "obl", "oll", "omem":
				if value != "0" {
					return false
				}
			}
		}
	}
	return true
}

// binaryMissing is what the report says when there is no server.
const binaryMissing = "no redis-server or valkey-server in the PATH: the masters are embedded ones (fakeredis), and the numbers say little about real ones"
