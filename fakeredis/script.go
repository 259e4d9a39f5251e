package fakeredis

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// scripts is the script cache and the Lua state that runs them. Guarded by Server.mu.
type scripts struct {
	cache map[string]*lua.FunctionProto // by SHA-1; compiled once
	lua   *interpreter                  // made by the first script; scripts run one at a time, so one is enough
}

// scriptRun is the script that is being executed.
type scriptRun struct {
	db    int
	wrote bool // it has called a command that writes: out of memory does not stop it any more
}

// sourceName is what Lua's messages call a script.
const sourceName = "user_script"

const msgNoScript = "NOSCRIPT No matching script. Please use EVAL."

func sha1hex(s []byte) string {
	sum := sha1.Sum(s)
	return hex.EncodeToString(sum[:])
}

// load compiles a script unless the cache has it.
func (s *scripts) load(source []byte) (sha string, bad reply) {
	sha = sha1hex(source)
	if _, ok := s.cache[sha]; ok {
		return sha, reply{}
	}
	chunk, err := parse.Parse(strings.NewReader(string(source)), sourceName)
	if err != nil {
		return "", compileError(err)
	}
	proto, err := lua.Compile(chunk, sourceName)
	if err != nil {
		return "", compileError(err)
	}
	proto.IsVarArg &^= lua.VarArgNeedsArg // a table "arg" for every run, which Redis' scripts do not get either
	if s.cache == nil {
		s.cache = make(map[string]*lua.FunctionProto)
	}
	s.cache[sha] = proto
	return sha, reply{}
}

// compileError words a parser's message as Redis' Lua does, where it can.
func compileError(err error) reply {
	text := err.Error()
	var pe *parse.Error
	if errors.As(err, &pe) {
		msg := strings.TrimSpace(pe.Message)
		if msg == "syntax error" {
			msg = "unexpected symbol"
		}
		text = fmt.Sprintf("%s:%d: %s near '%s'", sourceName, pe.Pos.Line, msg, pe.Token)
		if pe.Pos.Line == parse.EOF {
			text = fmt.Sprintf("%s: %s near '<eof>'", sourceName, msg)
		}
	}
	return errorReply("ERR Error compiling script (new function): " + text)
}

func scriptLoad(x *call) reply {
	sha, bad := x.srv.scripts.load(x.args[2])
	if bad.isError() {
		return bad
	}
	return bulkReply(sha)
}

func scriptExists(x *call) reply {
	var list []reply
	for i := range x.args[2:] {
		_, ok := x.srv.scripts.cache[x.word(i+2)]
		list = append(list, boolReply(ok))
	}
	return arrayReply(list...)
}

func scriptFlush(x *call) reply {
	if len(x.args) > 3 || len(x.args) == 3 && x.word(2) != "sync" && x.word(2) != "async" {
		return errorReply("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
	}
	x.srv.scripts = scripts{}
	return replyOK
}

func eval(x *call) reply {
	n, bad := x.scriptKeys()
	if bad.isError() {
		return bad
	}
	sha, bad := x.srv.scripts.load(x.args[1])
	if bad.isError() {
		return bad
	}
	return x.runScript(sha, n)
}

func evalSHA(x *call) reply {
	if len(x.args[1]) != 2*sha1.Size {
		return errorReply(msgNoScript)
	}
	n, bad := x.scriptKeys()
	if bad.isError() {
		return bad
	}
	if _, ok := x.srv.scripts.cache[string(x.args[1])]; ok { // in lower case already
		return x.runScript(string(x.args[1]), n)
	}
	return x.runScript(x.word(1), n)
}

// scriptKeys reads how many of the arguments are keys.
func (x *call) scriptKeys() (int, reply) {
	n, ok := parseInt(x.args[2])
	switch {
	case !ok:
		return 0, errorReply(msgNotInt)
	case n > int64(len(x.args)-3):
		return 0, errorReply("ERR Number of keys can't be greater than number of args")
	case n < 0:
		return 0, errorReply("ERR Number of keys can't be negative")
	}
	return int(n), reply{}
}

// runScript executes a cached script with the first n of its arguments as keys.
func (x *call) runScript(sha string, n int) reply {
	s := &x.srv.scripts
	proto, ok := s.cache[sha]
	if !ok {
		return errorReply(msgNoScript)
	}
	if s.lua == nil {
		s.lua = newInterpreter(x.srv.ctx)
	}
	x.script = &scriptRun{db: x.db}
	r, broken := s.lua.run(x, sha, proto, x.args[3:3+n], x.args[3+n:])
	if broken {
		s.lua = nil
	}
	return r
}

// call executes a command for a script.
func (x *call) call(args [][]byte) reply {
	s := x.srv
	cmd, _ := s.lookup(args)
	if cmd == nil {
		return errorReply("ERR Unknown Redis command called from script")
	}
	inner := &call{srv: s, client: x.client, cmd: cmd, args: args, db: x.script.db, now: x.now, script: x.script}
	switch {
	case !inner.arityOK():
		return errorReply("ERR Wrong number of args calling Redis command from script")
	case cmd.flags&noscript != 0:
		return errorReply("ERR This Redis command is not allowed from script")
	case s.faults.forbids(cmd.name):
		return errorReply("ERR The user executing the script can't run this command or subcommand")
	case s.faults.oom && cmd.flags&denyoom != 0 && !x.script.wrote:
		return replyOOM
	}
	if cmd.flags&write != 0 {
		x.script.wrote = true
	}
	return cmd.run(inner)
}
