package fakeredis

import "slices"

const (
	journalSize = 1024    // how many commands the server remembers
	journalArgs = 4 << 10 // how many bytes of arguments it remembers of a command without cutting them
	journalArg  = 64      // and to how much it cuts each argument of a longer one
)

// journal remembers what was received. Guarded by Server.mu.
type journal struct {
	last   []Command // a ring once it is full
	next   int
	counts map[string]int
}

func (j *journal) add(cmd Command) {
	if j.counts == nil {
		j.counts = make(map[string]int)
		j.last = make([]Command, 0, journalSize)
	}
	j.counts[cmd.Name]++
	cmd.Args = cut(cmd.Args)
	if len(j.last) < journalSize {
		j.last = append(j.last, cmd)
		return
	}
	j.last[j.next] = cmd
	j.next = (j.next + 1) % journalSize
}

// cut keeps the journal small.
func cut(args [][]byte) [][]byte {
	size := 0
	for _, a := range args {
		size += len(a)
	}
	if size <= journalArgs {
		return args
	}
	short := make([][]byte, min(len(args), journalArgs/journalArg))
	for i := range short {
		short[i] = slices.Clone(args[i][:min(len(args[i]), journalArg)])
	}
	return short
}

// Commands returns the last commands that were received, 1,024 at most, the oldest first. A command is here as soon
// as it was received, although a delay or Freeze may still keep it from being executed. Commands that scripts call
// are not. Of a command with more than 4 KiB of arguments only the beginnings of the first 64 are kept.
func (s *Server) Commands() []Command {
	s.mu.Lock()
	defer s.mu.Unlock()
	j := &s.journal
	return slices.Concat(j.last[j.next:], j.last[:j.next])
}

// Count returns how many commands of that name have been received: "set", "client|kill", or whatever unknown name
// was sent, in lower case.
func (s *Server) Count(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.counts[name]
}
