package fakeredis

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// row is one command and the exact reply to it.
type row struct {
	setup string  // commands before it on the same connection, separated by ";"
	state string  // what is switched on after the set-up: a key of the target's states
	cmd   string  // the command; "…" is one word
	want  string  // the reply; lines end in CRLF; a line "_" is RESP2's "$-1"; "re:" begins a regular expression
	want3 string  // the reply in RESP3, if it differs by more than that
	in    flavors // the servers that answer so; default: all with RESP3
	lacks bool    // tells what a server lacks, which later versions of it may have
	ends  bool    // the connection is closed after the reply
}

// target is a server that the table is run against.
type target struct {
	flavor Flavor
	exact  bool
	addr   func(t *testing.T, state string) string // the server, empty, fit for that state
	set    func(t *testing.T, state string, on bool)
	hash   func(c *rawClient, key string) // makes a key of another type
}

// TestCommandTable runs one table of commands and exact replies against the fake in all its flavors, a real
// redis-server, and the server that the environment variable REDLOCK_SERVER_BIN names, so that the fake is checked
// against the real ones.
func TestCommandTable(t *testing.T) {
	for _, f := range []Flavor{Redis70, Redis84, Valkey9} {
		t.Run("fake "+f.String(), func(t *testing.T) { runTable(t, fakeTarget(f)) })
	}
	t.Run("redis-server", func(t *testing.T) {
		t.Setenv("REDLOCK_SERVER_BIN", "") // the one in the PATH
		runTable(t, realTarget(t))
	})
	if os.Getenv("REDLOCK_SERVER_BIN") != "" {
		t.Run("REDLOCK_SERVER_BIN", func(t *testing.T) { runTable(t, realTarget(t)) })
	}
}

func runTable(t *testing.T, target target) {
	for _, r := range rows() {
		if r.in == 0 {
			r.in = since6
		}
		if !r.in.has(target.flavor) || r.lacks && !target.exact {
			continue
		}
		protos := []string{"2", "3"}
		if r.state == "password" {
			protos = protos[:1] // such rows do their own HELLO
		}
		for _, proto := range protos {
			name := r.cmd + " after " + r.setup + " " + r.state
			t.Run(name+" RESP"+proto, func(t *testing.T) { runRow(t, target, r, proto) })
		}
	}
}

func runRow(t *testing.T, target target, r row, proto string) {
	addr := target.addr(t, r.state)
	password := r.state == "password"
	if password { // before the connection is made: one that exists stays as it is
		target.set(t, r.state, true)
		defer target.set(t, r.state, false)
	}
	c := dial(t, "tcp", addr)
	if !password {
		require.NotContains(t, c.do("HELLO", proto), "-ERR")
	}
	for _, line := range strings.Split(r.setup, ";") {
		args := words(line)
		switch {
		case len(args) == 0:
		case args[0] == "HSET":
			target.hash(c, args[1])
		default:
			c.do(args...)
		}
	}
	if r.state != "" && !password {
		target.set(t, r.state, true)
		defer target.set(t, r.state, false)
	}
	got := c.do(words(r.cmd)...)
	want := r.want
	if proto == "3" && r.want3 != "" {
		want = r.want3
	}
	if pattern, ok := strings.CutPrefix(want, "re:"); ok {
		require.Regexp(t, regexp.MustCompile("^(?:"+strings.ReplaceAll(pattern, `\n`, `\r\n`)+")\r\n$"), got)
	} else {
		require.Equal(t, raw(want, proto), got)
	}
	if r.ends {
		_, err := c.r.ReadByte()
		require.Error(t, err)
		return
	}
	c.send("ECHO", "end") // nothing but the one reply has come
	require.Contains(t, []string{"$3\r\nend\r\n", "-NOAUTH Authentication required.\r\n"}, c.reply())
}

// raw turns the table's notation into bytes.
func raw(want, proto string) string {
	lines := strings.Split(want, "\n")
	for i, l := range lines {
		if l == "_" && proto == "2" {
			lines[i] = "$-1"
		}
	}
	return strings.Join(lines, "\r\n") + "\r\n"
}

// fakeTarget is a new fake for every row.
func fakeTarget(f Flavor) target {
	var s *Server
	return target{
		flavor: f, exact: true,
		addr: func(t *testing.T, state string) string {
			cfg := Config{Flavor: f}
			if state == "password" {
				cfg.Password = "secret"
			}
			s = Start(t, cfg)
			return s.Addr()
		},
		set: func(_ *testing.T, state string, on bool) {
			switch state {
			case "oom":
				s.SetOOM(on)
			case "denied":
				s.Deny("info", "client|id", "evalsha")
			}
		},
		hash: func(_ *rawClient, key string) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.dbs[0][key] = entry{typ: typeHash}
		},
	}
}

// states is how a real server is brought into a state and out of it. A new connection to a server with a password
// is not authenticated; one that was there before stays so.
var states = map[string][2]string{
	"password": {"CONFIG SET requirepass secret", `CONFIG SET requirepass ""`},
	"oom":      {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0"},
	"denied":   {"ACL SETUSER default -info -client|id -evalsha", "ACL SETUSER default +@all"},
}

// realTarget is one process, emptied for every row.
func realTarget(t *testing.T) target {
	addr := startReal(t)
	flavor, exact := realFlavor(t, addr)
	admin := dial(t, "tcp", addr)
	ok := func(args ...string) { require.Equal(t, "+OK\r\n", admin.do(args...)) }
	return target{
		flavor: flavor, exact: exact,
		addr: func(*testing.T, string) string {
			ok("FLUSHALL")
			ok("SCRIPT", "FLUSH")
			return addr
		},
		set: func(_ *testing.T, state string, on bool) {
			ok(words(states[state][btoi(!on)])...)
		},
		hash: func(c *rawClient, key string) { require.Equal(t, ":1\r\n", c.do("HSET", key, "field", "value")) },
	}
}
