package engine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/resp"
)

var allForms = []conn.Form{conn.FormScript, conn.FormDELEX, conn.FormDELIFEQ, conn.FormSETIFEQ, formSource}

// parsed reads one command with another parser than ours.
func parsed(t *testing.T, wire []byte) []string {
	t.Helper()
	complete, args, _, rest, err := redcon.ReadNextCommand(wire, nil)
	require.NoError(t, err)
	require.True(t, complete, "%q", wire)
	require.Empty(t, rest, "more than one command")
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = string(a)
	}
	return words
}

func TestCommandsInEachForm(t *testing.T) {
	const sha = "EVALSHA"
	release, extend := releaseScript, extendScript
	for _, c := range []struct {
		op    *Op
		form  conn.Form
		words []string
	}{
		{&Acquire, conn.FormScript, []string{"SET", "a key", "v", "NX", "PX", "1500"}},
		{&Acquire, conn.FormSETIFEQ, []string{"SET", "a key", "v", "NX", "PX", "1500"}},
		{&Extend, conn.FormScript, []string{sha, extend.sha, "1", "a key", "v", "1500"}},
		{&Extend, conn.FormSETIFEQ, []string{"SET", "a key", "v", "IFEQ", "v", "PX", "1500"}},
		{&Extend, formSource, []string{"EVAL", extend.source, "1", "a key", "v", "1500"}},
		{&Release, conn.FormScript, []string{sha, release.sha, "1", "a key", "v"}},
		{&Release, conn.FormDELEX, []string{"DELEX", "a key", "IFEQ", "v"}},
		{&Release, conn.FormDELIFEQ, []string{"DELIFEQ", "a key", "v"}},
		{&Release, formSource, []string{"EVAL", release.source, "1", "a key", "v"}},
		{&kill, conn.FormScript, []string{"CLIENT", "KILL", "ID", "v", "ADDR", "a key"}},
	} {
		t.Run(fmt.Sprintf("%s/%d", c.op.Name, c.form), func(t *testing.T) {
			r := &Round{Op: c.op, Key: "a key", TTL: 1500 * time.Millisecond}
			r.SetValue([]byte("v"))
			wire := c.op.Append([]byte("before"), c.form, r)
			require.Equal(t, "before", string(wire[:6]), "what is there stays")
			wire = wire[6:]
			require.Equal(t, c.words, parsed(t, wire))

			exact := fmt.Sprintf("*%d\r\n", len(c.words))
			for _, w := range c.words {
				exact += fmt.Sprintf("$%d\r\n%s\r\n", len(w), w)
			}
			require.Equal(t, exact, string(wire))
		})
	}
}

func TestKeysAndValuesMayHoldAnyBytes(t *testing.T) {
	for _, key := range []string{"a\r\nb", "$3\r\n", "", "\x00\xff", "ключ", strings.Repeat("k", 100_000)} {
		for _, op := range []*Op{&Acquire, &Extend, &Release} {
			for _, f := range allForms {
				r := &Round{Op: op, Key: key, TTL: time.Second}
				r.SetValue([]byte("v\r\n" + key))
				words := parsed(t, op.Append(nil, f, r))
				require.Contains(t, words, key)
				require.Contains(t, words, "v\r\n"+key)
			}
		}
	}
}

func TestARoundIsEncodedOncePerForm(t *testing.T) {
	calls := map[conn.Form]int{}
	op := Release
	op.Append = func(dst []byte, f conn.Form, r *Round) []byte {
		calls[f]++
		return appendRelease(dst, f, r)
	}
	r := &Round{Op: &op, Key: "k", Value: []byte("v")}
	r.encode(1<<conn.FormScript | 1<<conn.FormDELIFEQ)
	r.encode(1<<conn.FormScript | 1<<conn.FormDELEX)
	r.encode(1 << conn.FormDELEX)
	require.Equal(t, map[conn.Form]int{conn.FormScript: 1, conn.FormDELEX: 1, conn.FormDELIFEQ: 1}, calls)
	for f := range calls {
		require.Equal(t, string(appendRelease(nil, f, r)), string(r.bytes(f)))
	}
}

func TestWhatRepliesMean(t *testing.T) {
	const g, r, b = Granted, Refused, Broken
	for _, c := range []struct {
		wire                string
		set, count, anyKill Vote // of a SET, of a script or DELEX, of CLIENT KILL
	}{
		{"+OK\r\n", g, b, b},
		{"+ok\r\n", b, b, b},
		{"+QUEUED\r\n", b, b, b},
		{"+\r\n", b, b, b},
		{"$-1\r\n", r, b, b},
		{"*-1\r\n", r, b, b},
		{"_\r\n", r, b, b},
		{":1\r\n", b, g, g},
		{":0\r\n", b, r, g},
		{":2\r\n", b, b, g},
		{":-1\r\n", b, b, g},
		{"$2\r\nOK\r\n", b, b, b},
		{"$1\r\n1\r\n", b, b, b},
		{"#t\r\n", b, b, b},
		{",1\r\n", b, b, b},
		{"(1\r\n", b, b, b},
		{"=6\r\ntxt:OK\r\n", b, b, b},
		{"*1\r\n+OK\r\n", b, b, b},
		{"*1\r\n:1\r\n", b, b, b},
		{"%0\r\n", b, b, b},
		{"~0\r\n", b, b, b},
	} {
		v, n, err := resp.Decode([]byte(c.wire))
		require.NoError(t, err, "%q", c.wire)
		require.Equal(t, len(c.wire), n)
		for _, f := range allForms {
			require.Equal(t, c.set, Acquire.Vote(f, v), "acquire, %v, %q", f, c.wire)
			require.Equal(t, c.count, Release.Vote(f, v), "release, %v, %q", f, c.wire)
			want := c.count
			if f == conn.FormSETIFEQ {
				want = c.set
			}
			require.Equal(t, want, Extend.Vote(f, v), "extend, %v, %q", f, c.wire)
			require.Equal(t, c.anyKill, kill.Vote(f, v), "kill, %v, %q", f, c.wire)
		}
	}
}

func TestWhichErrorsAskForTheSource(t *testing.T) {
	type ask struct {
		op   *Op
		form conn.Form
		code string
	}
	asks := map[ask]bool{
		{&Release, conn.FormScript, "NOSCRIPT"}: true,
		{&Extend, conn.FormScript, "NOSCRIPT"}:  true,
		{&Extend, conn.FormSETIFEQ, "OOM"}:      true,
	}
	for _, op := range []*Op{&Acquire, &Extend, &Release, &kill} {
		for _, f := range allForms {
			if op == &Release && f == conn.FormSETIFEQ {
				continue // no master has it so
			}
			for _, code := range []string{"NOSCRIPT", "OOM", "BUSY", "ERR", "READONLY", "LOADING", "NOPERM", "noscript", ""} {
				require.Equal(t, asks[ask{op, f, code}], op.sendAsSource(f, code), "%s, form %d, %s", op.Name, f, code)
			}
		}
	}
}

func TestServerErrorsShowNoArguments(t *testing.T) {
	for _, c := range []struct{ text, shown, code string }{
		{"OOM command not allowed when used memory > 'maxmemory'.", "OOM command not allowed when used memory > 'maxmemory'.", "OOM"},
		{"NOSCRIPT", "NOSCRIPT", "NOSCRIPT"},
		{"", "", ""},
		{"ERR unknown command 'DELEX', with args beginning with: 'k' 'IFEQ' 'secret' ", "ERR unknown command 'DELEX'", "ERR"},
		{"ERR unknown command `DELEX`, with args beginning with: `k`, `IFEQ`, `secret`, ", "ERR unknown command `DELEX`", "ERR"},
		{"ERR a\x1b[31mb", `"ERR a\x1b[31mb"`, `"ERR`},
		{"ERR a\r\nb\x00", `"ERR a\r\nb\x00"`, `"ERR`},
		{"ERR \xff\xfe", `"ERR \xff\xfe"`, `"ERR`},
		{"ERR größer", "ERR größer", "ERR"},
	} {
		err := serverError([]byte(c.text))
		require.Equal(t, c.shown, err.Error(), "%q", c.text)
		require.Equal(t, c.code, err.Code(), "%q", c.text)
	}
	require.Len(t, serverError([]byte("ERR "+strings.Repeat("x", 10_000))).Error(), maxServerError)
}
