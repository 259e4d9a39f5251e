package conn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/resp"
)

// transcript records the commands of a peer.
type transcript struct {
	mu    sync.Mutex
	lines []string
}

func (tr *transcript) add(args []string) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	line := strings.Join(args, " ")
	if before, after, ok := strings.Cut(line, "redlock:probe:"); ok {
		line = before + "KEY" + after[20:]
	}
	if before, _, ok := strings.Cut(line, "LIB-VER "); ok {
		line = before + "LIB-VER ?"
	}
	tr.lines = append(tr.lines, line)
}

func (tr *transcript) get() []string {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return slices.Clone(tr.lines)
}

var restOfHandshake = []string{
	"CLIENT SETINFO LIB-NAME redlock", "CLIENT SETINFO LIB-VER ?", "CLIENT ID", "CLIENT INFO",
	"INFO server", "INFO replication",
	"DELEX KEY IFEQ x", "DELIFEQ KEY x", "SET KEY x IFEQ y PX 1",
}

func restWith(before []string, after ...string) []string {
	return slices.Concat(before, restOfHandshake, after)
}

// serveScript answers every command, and records it.
func (w wire) serveScript(t *testing.T, answer func([]string) string) (Address, Options, *transcript) {
	tr := &transcript{}
	a, o := w.serve(t, func(p *peer) {
		for args := p.command(); args != nil; args = p.command() {
			tr.add(args)
			s := answer(args)
			if s == "" {
				return
			}
			p.say(s)
		}
	})
	return a, o, tr
}

// redis5 answers as Redis 5 does: no HELLO, and NOAUTH until AUTH has come.
func redis5(password string) func(*peer) func([]string) string {
	return func(*peer) func([]string) string {
		known := password == ""
		return func(args []string) string {
			switch args[0] {
			case "HELLO", "DELEX", "DELIFEQ":
				return unknown(args)
			case "AUTH":
				if password == "" {
					return "-ERR Client sent AUTH, but no password is set\r\n"
				}
				if len(args) != 2 {
					return "-ERR wrong number of arguments for 'auth' command\r\n"
				}
				if args[1] != password {
					return "-ERR invalid password\r\n"
				}
				known = true
			}
			if !known {
				return "-NOAUTH Authentication required.\r\n"
			}
			if args[0] == "CLIENT" && (args[1] == "SETINFO" || args[1] == "INFO") {
				return "-ERR Unknown subcommand or wrong number of arguments for '" + args[1] + "'\r\n"
			}
			return redis7(args)
		}
	}
}

func TestHandshakeSendsEverythingAtOnce(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		a, o, tr := w.serveScript(t, redis7)
		o.Username, o.Password, o.ClientName, o.DB = "alice", "secret", "worker-1", 5
		o.Scripts = []string{"return 1", "return 2"}
		c := dial(t, a, o)
		require.Equal(t, Info{
			RunID: "0123456789abcdef0123456789abcdef01234567", ClientID: 7, LocalAddr: "192.0.2.1:5000",
			Version: "7.0.15", Proto: 3, Role: "master",
		}, c.Info())
		require.Equal(t, restWith([]string{"HELLO 3 AUTH alice secret SETNAME worker-1", "SELECT 5"},
			"SCRIPT LOAD return 1", "SCRIPT LOAD return 2"), tr.get())
	})
}

func TestHandshakeIsOneWrite(t *testing.T) {
	for name, answer := range map[string]func([]string) string{"redis 7": redis7, "redis 5": redis5("secret")(nil)} {
		t.Run(name, func(t *testing.T) {
			a, o, _ := wires[4].serveScript(t, answer)
			inner, writes := o.Dial, 0
			o.Dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
				nc, err := inner(ctx, network, addr)
				return countWrites{nc, &writes}, err
			}
			o.Password = "secret"
			dial(t, a, o)
			require.Equal(t, map[string]int{"redis 7": 1, "redis 5": 2}[name], writes)
		})
	}
}

type countWrites struct {
	net.Conn
	n *int
}

func (c countWrites) Write(p []byte) (int, error) {
	*c.n++
	return c.Conn.Write(p)
}

func TestLogin(t *testing.T) {
	for _, c := range []struct {
		name    string
		address Address
		options Options
		want    []string
	}{
		{name: "nothing", want: []string{"HELLO 3"}},
		{name: "password only", options: Options{Password: "p"}, want: []string{"HELLO 3 AUTH default p"}},
		{name: "user without password", options: Options{Username: "u"}, want: []string{"HELLO 3 AUTH u "}},
		{name: "name only", options: Options{ClientName: "n"}, want: []string{"HELLO 3 SETNAME n"}},
		{
			name:    "the address wins",
			address: Address{HasAuth: true, Username: "a", Password: "b", HasDB: true, DB: 2},
			options: Options{Username: "u", Password: "p", DB: 1}, want: []string{"HELLO 3 AUTH a b", "SELECT 2"},
		},
		{
			name:    "password and database 0 of the address win",
			address: Address{HasAuth: true, Password: "b", HasDB: true},
			options: Options{Username: "u", Password: "p", DB: 1}, want: []string{"HELLO 3 AUTH default b"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, o, tr := wires[0].serveScript(t, redis7)
			c.address.Network, c.address.Addr = a.Network, a.Addr
			c.options.Timeout = o.Timeout
			dial(t, c.address, c.options)
			require.Equal(t, restWith(c.want), tr.get())
		})
	}
}

func TestServerWithoutHello(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		for _, user := range []string{"", "default"} {
			tr := &transcript{}
			a, o := w.serve(t, func(p *peer) {
				answer := redis5("secret")(p)
				for args := p.command(); args != nil; args = p.command() {
					tr.add(args)
					p.say(answer(args))
				}
			})
			o.Username, o.Password, o.DB, o.ClientName = user, "secret", 2, "worker-1"
			c := dial(t, a, o)
			require.Equal(t, slices.Concat(
				restWith([]string{"HELLO 3 AUTH default secret SETNAME worker-1", "SELECT 2"}),
				restWith([]string{"AUTH secret", "CLIENT SETNAME worker-1", "SELECT 2"})), tr.get())
			info := c.Info()
			require.Equal(t, 2, info.Proto)
			require.EqualValues(t, 7, info.ClientID)
			require.Equal(t, "0123456789abcdef0123456789abcdef01234567", info.RunID)
			require.NotEmpty(t, info.LocalAddr)
			require.NoError(t, c.Close())
		}
	})
}

func TestServerWithoutHelloAndWithoutPassword(t *testing.T) {
	a, o, _ := wires[0].serveScript(t, redis5("")(nil))
	c := dial(t, a, o)
	require.Equal(t, 2, c.Info().Proto)
	require.Equal(t, c.Info().LocalAddr, localAddr(t, c), "as the socket knows it")
}

func TestUserOfAnACLWithoutHello(t *testing.T) {
	a, o, tr := wires[0].serveScript(t, answers{"HELLO": "-NOPROTO unsupported protocol version\r\n"}.script)
	o.Username, o.Password = "alice", "secret"
	dial(t, a, o)
	require.Contains(t, tr.get(), "AUTH alice secret")
}

func TestMandatoryStepsThatFail(t *testing.T) {
	long := strings.Repeat("long ", 100)
	cases := []struct {
		name     string
		answers  answers
		password string
		op, text string // the error; not the address
	}{
		{"wrong password", answers{"HELLO": "-WRONGPASS invalid username-password pair or user is disabled.\r\n"}, "hunter2",
			"hello", "WRONGPASS invalid username-password pair or user is disabled."},
		{"wrong password, no HELLO", answers{"HELLO": "-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `hunter2`, \r\n",
			"AUTH": "-ERR invalid password\r\n"}, "hunter2", "auth", "ERR invalid password"},
		{"no password wanted", answers{"HELLO": "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n"},
			"hunter2", "hello", "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"},
		{"no password wanted, no HELLO", answers{"HELLO": "-ERR unknown command 'HELLO'\r\n", "AUTH": "-ERR Client sent AUTH, but no password is set\r\n"},
			"hunter2", "auth", "ERR Client sent AUTH, but no password is set"},
		{"no HELLO and no AUTH, quoting", answers{"HELLO": "-ERR unknown command 'HELLO', with args beginning with: '3' 'AUTH' 'default' 'hunter2' \r\n",
			"AUTH": "-ERR unknown command 'AUTH', with args beginning with: 'hunter2' \r\n"}, "hunter2", "auth", "ERR unknown command 'AUTH'"},
		{"quoting in words of its own", answers{"HELLO": "-ERR no such user default/hunter2\r\n"}, "hunter2",
			"hello", "refused (the master's message quotes the password and is not shown)"},
		{"quoting with line breaks removed", answers{"HELLO": bulkError("ERR bad\nhunter 2")}, "hunter\n2",
			"hello", "ERR bad hunter 2"},
		{"password wanted", answers{"HELLO": "-NOAUTH HELLO must be called with the client already authenticated\r\n"}, "",
			"hello", "the master wants a password and none is configured: NOAUTH HELLO must be called with the client already authenticated"},
		{"password wanted, no HELLO", answers{"HELLO": "-ERR unknown command 'HELLO'\r\n", "CLIENT": "-NOAUTH Authentication required.\r\n"}, "",
			"handshake", "the master wants a password and none is configured: NOAUTH Authentication required."},
		{"NOAUTH all the same", answers{"HELLO": "-NOAUTH Authentication required.\r\n"}, "hunter2", "hello", "NOAUTH Authentication required."},
		{"loading", answers{"HELLO": "-LOADING Redis is loading the dataset in memory\r\n"}, "", "hello", "LOADING Redis is loading the dataset in memory"},
		{"no such database", answers{"SELECT": "-ERR DB index is out of range\r\n"}, "", "select", "ERR DB index is out of range"},
		{"no such database, no HELLO", answers{"HELLO": "-NOPROTO sorry\r\n", "SELECT": "-ERR DB index is out of range\r\n"}, "", "select", "ERR DB index is out of range"},
		{"database queued", answers{"SELECT": "+QUEUED\r\n"}, "", "select", "unexpected reply: simple string"},
		{"HELLO is OK", answers{"HELLO": "+OK\r\n"}, "", "hello", "unexpected reply: simple string"},
		{"HELLO is null", answers{"HELLO": "_\r\n"}, "", "hello", "unexpected reply: null"},
		{"empty error", answers{"HELLO": "-\r\n"}, "", "hello", "refused without a message"},
		{"long error", answers{"HELLO": "-ERR " + long + "\r\n"}, "", "hello", ("ERR " + long)[:maxReplyText] + "…"},
		{"closes", answers{"HELLO": ""}, "", "hello", "EOF"},
		{"closes later", answers{"INFO replication": ""}, "", "handshake", "EOF"},
		{"not RESP", answers{"HELLO": "HTTP/1.1 400 Bad Request\r\n"}, "", "hello", "resp: invalid reply: unknown type byte"},
		{"huge length", answers{"HELLO": "*9223372036854775807\r\n"}, "", "hello", "resp: invalid reply: larger than 64 KiB"},
		{"huge INFO", answers{"INFO server": "$9223372036854775807\r\n"}, "", "handshake", "resp: invalid reply: larger than 64 KiB"},
	}
	forEachWire(t, func(t *testing.T, w wire) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				a, o, _ := w.serveScript(t, c.answers.script)
				o.Password, o.DB = c.password, 5
				_, err := Dial(context.Background(), a, o)
				var e *Error
				require.ErrorAs(t, err, &e)
				text := err.Error()
				if !isReset(err) { // the peer closed with commands unread
					require.Equal(t, c.op+" "+a.String()+": "+c.text, text)
				}
				require.True(t, e.Sent)
				require.Equal(t, c.op, e.Op)
				if c.password != "" {
					require.NotContains(t, text, c.password)
				}
			})
		}
	})
}

func bulkError(s string) string { return "!" + bulk(s)[1:] }

func TestOptionalStepsThatFail(t *testing.T) {
	const no = "-NOPERM User default has no permissions to run this command\r\n"
	forEachWire(t, func(t *testing.T, w wire) {
		a, o, _ := w.serveScript(t, answers{"CLIENT": no, "INFO": no, "DELEX": no, "DELIFEQ": no, "SET": no, "SCRIPT": no}.script)
		o.Scripts = []string{"return 1"}
		c := dial(t, a, o)
		info := c.Info()
		require.Equal(t, Info{ClientID: 7, LocalAddr: info.LocalAddr, Version: "7.0.15", Proto: 3, Role: "master"}, info,
			"HELLO says the most important")
		require.NotEmpty(t, info.LocalAddr)
	})
}

func TestOptionalStepsWithOddReplies(t *testing.T) {
	for _, odd := range []string{"_\r\n", ":0\r\n", "*0\r\n", "%1\r\n+a\r\n+b\r\n", "+\r\n", "$0\r\n\r\n", "#t\r\n", "(3\r\n", "~1\r\n:1\r\n"} {
		a, o, _ := wires[0].serveScript(t, answers{"CLIENT": odd, "INFO": odd, "SCRIPT": odd, "HELLO": "*0\r\n"}.script)
		o.Scripts = []string{"return 1"}
		c := dial(t, a, o)
		require.Empty(t, c.Info().RunID)
		require.Equal(t, 3, c.Info().Proto)
	}
}

func TestRoleHasOneName(t *testing.T) {
	a, o, _ := wires[0].serveScript(t, answers{"INFO replication": bulk("# Replication\r\nrole:slave\r\n")}.script)
	require.Equal(t, "replica", dial(t, a, o).Info().Role)
}

func TestProbes(t *testing.T) {
	const syntax, null2, null3 = "-ERR syntax error\r\n", "$-1\r\n", "_\r\n"
	no := "-ERR unknown command\r\n"
	for _, c := range []struct {
		name                string
		delex, delifeq, set string
		release, extend     Form
	}{
		{"neither", no, no, syntax, FormScript, FormScript},
		{"redis 8.4", ":0\r\n", no, null3, FormDELEX, FormSETIFEQ},
		{"valkey 8.1", no, no, null3, FormScript, FormSETIFEQ},
		{"valkey 9.0", no, ":0\r\n", null2, FormDELIFEQ, FormSETIFEQ},
		{"both", ":0\r\n", ":0\r\n", null3, FormDELEX, FormSETIFEQ},
		{"forbidden", "-NOPERM no\r\n", "-NOPERM no\r\n", "-NOPERM no\r\n", FormScript, FormScript},
		{"out of memory", ":0\r\n", no, "-OOM command not allowed\r\n", FormDELEX, FormScript},
		{"loading", "-LOADING\r\n", "-LOADING\r\n", "-LOADING\r\n", FormScript, FormScript},
		{"deleted something", ":1\r\n", ":1\r\n", "+OK\r\n", FormScript, FormScript},
		{"other types", "_\r\n", "+OK\r\n", ":0\r\n", FormScript, FormScript},
		{"queued", "+QUEUED\r\n", "+QUEUED\r\n", "+QUEUED\r\n", FormScript, FormScript},
		{"zero as text", "+0\r\n", bulk("0"), "$0\r\n\r\n", FormScript, FormScript},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, hello := range []string{redis7([]string{"HELLO"}), "-NOPROTO no\r\n"} {
				a, o, _ := wires[0].serveScript(t, answers{"HELLO": hello, "DELEX": c.delex, "DELIFEQ": c.delifeq, "SET": c.set}.script)
				info := dial(t, a, o).Info()
				require.Equal(t, c.release, info.Release)
				require.Equal(t, c.extend, info.Extend)
			}
		})
	}
}

func TestFirstProbesDoNotCountAfterASeparateLogin(t *testing.T) {
	var count sync.Map
	a, o, _ := wires[0].serveScript(t, func(args []string) string {
		_, again := count.LoadOrStore(args[0], true)
		switch args[0] {
		case "HELLO":
			return "-NOPROTO no\r\n"
		case "DELEX", "DELIFEQ":
			if !again {
				return ":0\r\n"
			}
			return "-NOPERM no\r\n"
		}
		return redis7(args)
	})
	require.Equal(t, FormScript, dial(t, a, o).Info().Release)
}

func TestPushesAndAttributesDuringTheHandshake(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		a, o, _ := w.serveScript(t, func(args []string) string {
			return ">1\r\n+hello\r\n|1\r\n+a\r\n+b\r\n" + redis7(args)
		})
		require.EqualValues(t, 7, dial(t, a, o).Info().ClientID)
	})
}

func TestSilentMaster(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		for _, c := range []answers{{"HELLO": "%"}, {"INFO server": ":"}} { // an unfinished reply
			a, o := w.serve(t, func(p *peer) {
				for args := p.command(); args != nil; args = p.command() {
					s := c.script(args)
					p.say(s)
					if len(s) == 1 {
						_, _ = io.Copy(io.Discard, p.r)
					}
				}
			})
			e := dialTimeout(t, a, o, "dial", "tls")
			require.True(t, e.Sent)
			require.Contains(t, []string{"hello", "handshake"}, e.Op)
		}
	})
}

// dialTimeout dials in vain with a short time-out, and a longer one for as long as a
// busy machine does not even get past the steps too early.
func dialTimeout(t *testing.T, a Address, o Options, tooEarly ...string) *Error {
	t.Helper()
	for o.Timeout = 20 * time.Millisecond; ; o.Timeout *= 2 {
		e := dialError(t, context.Background(), a, o)
		require.ErrorIs(t, e, os.ErrDeadlineExceeded)
		require.NotErrorIs(t, e, context.DeadlineExceeded)
		require.ErrorContains(t, e, "not done within "+o.Timeout.String())
		if o.Timeout > 10*time.Second || !slices.Contains(tooEarly, e.Op) {
			return e
		}
	}
}

func TestContextEndsTheHandshake(t *testing.T) {
	forEachWire(t, func(t *testing.T, w wire) {
		arrived := make(chan struct{}, 2)
		a, o := w.serve(t, func(p *peer) {
			p.command()
			arrived <- struct{}{}
			_, _ = io.Copy(io.Discard, p.r)
		})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			<-arrived
			cancel()
		}()
		_, err := Dial(ctx, a, o)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)

		ctx, cancel = context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		_, err = Dial(ctx, a, o)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	})
}

func TestEndlessPushesEndAtTheDeadline(t *testing.T) {
	a, o := wires[0].serve(t, func(p *peer) {
		for {
			if _, err := io.WriteString(p.Conn, ">1\r\n+more\r\n|1\r\n+a\r\n+b\r\n"); err != nil {
				return
			}
		}
	})
	o.Timeout = 30 * time.Millisecond
	_, err := Dial(context.Background(), a, o)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

// FuzzHandshake gives the handshake any replies: it may succeed or fail, and the
// error never has the password.
func FuzzHandshake(f *testing.F) {
	add := func(a answers) {
		var all []byte
		h := newHandshake(Address{}, Options{DB: 1}, &recorded{})
		for _, s := range append([]step{h.hello()}, h.rest()...) {
			all = append(all, a.script(s.args)...)
		}
		f.Add(all)
	}
	add(nil)
	add(answers{"HELLO": "-NOPROTO no\r\n"})
	add(answers{"HELLO": "-ERR no hunter2 here\r\n"})
	f.Add([]byte(strings.Repeat("-ERR unknown command 'x', with args beginning with: 'hunter2'\r\n", 12) + "-hunter2\r\n"))
	f.Add([]byte("%1\r\n+version\r\n"))
	f.Fuzz(func(t *testing.T, replies []byte) {
		h := newHandshake(Address{}, Options{Password: "hunter2", DB: 1}, &recorded{r: bytes.NewReader(replies)})
		err := h.run()
		if err != nil {
			require.NotContains(t, err.Error(), "hunter2")
			require.NotContains(t, err.Error(), "\n")
			return
		}
		require.Contains(t, []Form{FormScript, FormDELEX, FormDELIFEQ}, h.info.Release)
		_, _, err = h.in.next()
		require.True(t, err == nil || errors.Is(err, resp.ErrInvalid))
	})
}

// recorded is a connection whose peer has said everything beforehand.
type recorded struct {
	net.Conn
	r io.Reader
}

func (c *recorded) Read(p []byte) (int, error)  { return c.r.Read(p) }
func (c *recorded) Write(p []byte) (int, error) { return len(p), nil }
func (c *recorded) LocalAddr() net.Addr         { return nil }
