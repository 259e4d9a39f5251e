package fakeredis

import (
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Action is what a hook wants done about one command. The zero value does nothing unusual.
type Action struct {
	// Delay waits before the command is executed. What came behind it on the same connection waits as well.
	Delay time.Duration
	// Lag waits after the command was executed, before its reply leaves. Commands behind it on the same connection
	// are executed meanwhile; their replies leave after this one.
	Lag time.Duration
	// Error, if not empty, is answered instead of executing the command, such as "LOADING Redis is loading the
	// dataset in memory".
	Error string
	// Skip leaves the command unexecuted. Without Error and Raw it is not answered either.
	Skip bool
	// Raw, if not nil, is sent in place of the reply, as it is; empty: nothing is sent, and the stream is out of
	// step from then on.
	Raw []byte
	// Lose executes the command, but neither its reply nor anything after it is ever sent on this connection.
	Lose bool
	// Reset executes the command and resets the connection instead of replying.
	Reset bool
}

// Command is one command as it was received.
type Command struct {
	// Name is the name in lower case; with a subcommand, if the server has that, it is like "client|kill".
	Name string
	// Args are the arguments as sent, with the name first. They must not be changed.
	Args [][]byte
	// Client is the number that CLIENT ID tells.
	Client int64
	// At is when it was received, by the computer's clock (or the bubble's), not by Config.Now.
	At time.Time
}

// String shows the command as an inline command would be typed, without quotes.
func (c Command) String() string {
	words := make([]string, len(c.Args))
	for i, a := range c.Args {
		words[i] = string(a)
	}
	return strings.Join(words, " ")
}

// Times returns a hook that answers a for the first n commands and nothing unusual after them. A negative n means
// always.
func Times(n int, a Action) func(Command) Action {
	var asked atomic.Int64
	return func(Command) Action {
		if n >= 0 && asked.Add(1) > int64(n) {
			return Action{}
		}
		return a
	}
}

// faults is what has been switched on. Guarded by Server.mu.
type faults struct {
	hooks  map[string]func(Command) Action
	delay  time.Duration
	lag    time.Duration
	thawed chan struct{} // not nil while frozen; closed by Thaw
	oom    bool
	denied []string
}

// Hook calls f for every command of that name that is received: "set", "client|kill", or "client" for all its
// subcommands; "" means every command for which there is no hook of its own. A nil f removes the hook. f is called
// on the connection's goroutine before the command is executed, with no lock held: it may block, and use every
// method of the server but Close.
func (s *Server) Hook(name string, f func(Command) Action) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.hooks == nil {
		s.faults.hooks = make(map[string]func(Command) Action)
	}
	s.faults.hooks[strings.ToLower(name)] = f
	if f == nil {
		delete(s.faults.hooks, strings.ToLower(name))
	}
}

// hook returns the hook for a command, or nil. s.mu is held.
func (f *faults) hook(name string) func(Command) Action {
	if len(f.hooks) == 0 {
		return nil
	}
	if h := f.hooks[name]; h != nil {
		return h
	}
	if container, _, ok := strings.Cut(name, "|"); ok {
		if h := f.hooks[container]; h != nil {
			return h
		}
	}
	return f.hooks[""]
}

// SetDelay makes every command wait before it is executed, as Action.Delay does. 0 switches it off.
func (s *Server) SetDelay(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.delay = d
}

// SetLag makes every reply wait before it leaves, as Action.Lag does. 0 switches it off.
func (s *Server) SetLag(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.lag = d
}

// Freeze stops the server as SIGSTOP would: connections are accepted and bytes are taken, but nothing is executed
// and nothing is answered until Thaw. Then all that has been received runs, even if its sender has gone since.
func (s *Server) Freeze() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.faults.thawed == nil {
		s.faults.thawed = make(chan struct{})
	}
}

// Thaw ends Freeze.
func (s *Server) Thaw() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.thaw()
}

func (s *Server) thaw() {
	if s.faults.thawed != nil {
		close(s.faults.thawed)
		s.faults.thawed = nil
	}
}

// Refuse(true) stops listening: a dial is refused, open connections stay. Refuse(false) listens again on the same
// address; the error is the system's, if somebody else took it meanwhile.
func (s *Server) Refuse(on bool) error { return s.ln.refuse(on) }

// Reset resets every open connection. Commands that were waiting there are not executed.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		s.kill(c, true)
	}
}

// Restart does what a restarted process shows: connections are closed, waiting commands are lost, the run_id is
// new, client numbers begin again, scripts are forgotten, it is not frozen; and the keys are gone unless keepKeys.
// Other switches, hooks and the listening address stay.
func (s *Server) Restart(keepKeys bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.clients {
		s.kill(c, false)
	}
	if !keepKeys {
		s.flush()
	}
	s.runID, s.started, s.lastID = newRunID(), s.cfg.Now(), 0
	s.scripts = scripts{}
	s.thaw()
}

// SetOOM makes the server refuse what Redis refuses when memory is full: SET and INCR, from outside, and in a
// script that has not written anything yet. Deleting and expiring still work.
func (s *Server) SetOOM(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.oom = on
}

// Deny forbids commands to every user, as an ACL would: "info", "client|id", or "client" for all its subcommands.
// It replaces what was forbidden before; without names nothing is.
func (s *Server) Deny(names ...string) {
	denied := make([]string, len(names))
	for i, n := range names {
		denied[i] = strings.ToLower(n)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults.denied = denied
}

func (f *faults) forbids(name string) bool {
	if len(f.denied) == 0 {
		return false
	}
	container, _, _ := strings.Cut(name, "|")
	return slices.Contains(f.denied, name) || slices.Contains(f.denied, container)
}
