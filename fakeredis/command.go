package fakeredis

import (
	"fmt"
	"strings"
	"time"
)

// flag is what Redis calls a command's flags.
type flag uint8

const (
	write    flag = 1 << iota // changes keys
	readonly                  // reads keys
	denyoom                   // refused when memory is full
	noscript                  // not to be called by scripts
	fast
	noauth // allowed before authentication
)

// keys says which arguments are keys, as COMMAND tells it: first, last, step.
type keys [3]int

// command is one line of the table.
type command struct {
	name  string // "client|id" is the subcommand ID of CLIENT
	arity int    // how many words, with the name; negative: at least so many
	flags flag
	keys  keys
	in    flavors // the servers that know it
	run   func(*call) reply
}

// call is one execution of a command. Everything happens with Server.mu held.
type call struct {
	srv    *Server
	client *client
	cmd    *command
	args   [][]byte
	db     int
	now    int64 // Unix ms; stands still while a script runs
	script *scriptRun
}

// byName holds the table. It is filled when the program starts, because COMMAND, a line of the table, reads it.
var byName = make(map[string]*command)

func init() {
	for _, c := range table() {
		byName[c.name] = &c
	}
}

// process takes one command that a client has sent through all faults to its reply.
func (s *Server) process(c *client, args [][]byte) {
	cmd, name := s.lookup(args)
	s.mu.Lock()
	if c.dead {
		s.mu.Unlock()
		return
	}
	received := Command{Name: name, Args: args, Client: c.id, At: time.Now()}
	s.journal.add(received)
	a := Action{Delay: s.faults.delay, Lag: s.faults.lag}
	hook := s.faults.hook(name)
	if hook != nil || a.Delay > 0 || s.faults.thawed != nil {
		s.mu.Unlock()
		c.out.flush() // what was answered before must not wait with this
		if hook != nil {
			a = hook(received).plus(a)
		}
		if !s.lockInTurn(c, a.Delay) {
			return
		}
	}
	s.answer(c, cmd, args, a)
	s.mu.Unlock()
}

// plus adds the waits that are switched on for every command.
func (a Action) plus(all Action) Action {
	a.Delay += all.Delay
	a.Lag += all.Lag
	return a
}

// lockInTurn waits for the delay and for Thaw, and locks s.mu. It returns false, and locks nothing, if the
// connection was ended by the server meanwhile: then the command must not be executed any more.
func (s *Server) lockInTurn(c *client, delay time.Duration) bool {
	if !pause(delay, c.gone) {
		return false
	}
	for {
		s.mu.Lock()
		thawed := s.faults.thawed
		switch {
		case c.dead:
			s.mu.Unlock()
			return false
		case thawed == nil:
			return true
		}
		s.mu.Unlock()
		select {
		case <-thawed:
		case <-c.gone:
			return false
		}
	}
}

// answer executes a command and queues the reply, as a says. s.mu is held.
func (s *Server) answer(c *client, cmd *command, args [][]byte, a Action) {
	var r reply
	switch {
	case a.Error != "":
		r = errorReply(a.Error)
	case !a.Skip:
		r = s.run(&call{srv: s, client: c, cmd: cmd, args: args, db: c.db, now: s.now()})
	}
	if a.Raw != nil {
		r = rawReply(a.Raw)
	}
	if a.Lose {
		c.out.mute()
	}
	if a.Reset {
		s.kill(c, true)
		return
	}
	c.out.add(r, c.proto, a.Lag)
}

// run checks a command as Redis does, in the same order, and executes it.
func (s *Server) run(x *call) reply {
	switch {
	case x.cmd == nil:
		return s.unknown(x.args)
	case !x.arityOK():
		return errorReply(fmt.Sprintf("ERR wrong number of arguments for '%s' command", x.cmd.name))
	case !x.client.authed && x.cmd.flags&noauth == 0:
		return errorReply("NOAUTH Authentication required.")
	case s.faults.forbids(x.cmd.name):
		return s.cfg.Flavor.noPermission(s.cfg.Username, x.cmd.name)
	case s.faults.oom && x.cmd.flags&denyoom != 0:
		return replyOOM
	}
	return x.cmd.run(x)
}

var replyOOM = errorReply("OOM command not allowed when used memory > 'maxmemory'.")

func (x *call) arityOK() bool {
	return len(x.args) == x.cmd.arity || x.cmd.arity < 0 && len(x.args) >= -x.cmd.arity
}

// lookup finds the command that args name, or nil; and the name that hooks and the journal know it by.
func (s *Server) lookup(args [][]byte) (*command, string) {
	cmd := s.named(args[0])
	if cmd == nil || strings.Contains(cmd.name, "|") { // "client|id" is our spelling
		return nil, strings.ToLower(string(args[0]))
	}
	if cmd.run != nil {
		return cmd, cmd.name
	}
	if len(args) == 1 {
		return cmd, cmd.name // and its arity is wrong
	}
	sub := s.named([]byte(cmd.name + "|" + string(args[1])))
	if sub == nil {
		return nil, cmd.name
	}
	return sub, sub.name
}

// named returns the command of that name, in whatever case, if the server that is played has it.
func (s *Server) named(name []byte) *command {
	var lower [32]byte
	if len(name) > len(lower) {
		return nil
	}
	for i, b := range name {
		if 'A' <= b && b <= 'Z' {
			b += 'a' - 'A'
		}
		lower[i] = b
	}
	if cmd := byName[string(lower[:len(name)])]; cmd != nil && cmd.in.has(s.cfg.Flavor) {
		return cmd
	}
	return nil
}

// unknown answers a command, or a subcommand, that the server does not have.
func (s *Server) unknown(args [][]byte) reply {
	if cmd := s.named(args[0]); cmd != nil && cmd.run == nil {
		return s.cfg.Flavor.unknownSubcommand(cmd.name, args[1])
	}
	return s.cfg.Flavor.unknownCommand(args)
}
