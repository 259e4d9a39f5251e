package fakeredis

import (
	"context"
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// interpreter is a Lua state that is closed in as Redis' is: a few base functions, math, string, table and redis;
// no files, no operating system, and no globals of a script's own, so that nothing passes from one script to the
// next.
type interpreter struct {
	state     *lua.LState
	globals   *lua.LTable // what scripts can see
	env       *lua.LTable // what they get: empty, read-only, and falling back on globals
	handler   *lua.LFunction
	functions map[*lua.FunctionProto]*lua.LFunction

	x *call // the EVAL that is being executed
}

var baseFunctions = []string{
	"assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget", "select",
	"setmetatable", "tonumber", "tostring", "type", "unpack", "xpcall",
}

func newInterpreter(ctx context.Context) *interpreter {
	l := lua.NewState(lua.Options{
		SkipOpenLibs:        true,
		RegistrySize:        1 << 10,
		RegistryMaxSize:     1 << 20,
		CallStackSize:       200, // LUAI_MAXCCALLS
		MinimizeStackMemory: true,
	})
	l.SetContext(ctx) // looked at before every instruction: Close ends an endless script
	in := &interpreter{
		state: l, globals: l.NewTable(), functions: make(map[*lua.FunctionProto]*lua.LFunction),
	}
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenTable, lua.OpenString, lua.OpenMath} {
		l.Push(l.NewFunction(open))
		l.Call(0, 0)
	}
	for _, name := range baseFunctions {
		in.globals.RawSetString(name, l.GetGlobal(name))
	}
	in.globals.RawSetString("pcall", l.NewFunction(basePCall(l.GetGlobal("pcall").(*lua.LFunction).GFunction)))
	for _, name := range []string{"math", "string", "table"} {
		in.globals.RawSetString(name, in.protect(l.GetGlobal(name)))
	}
	api := l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{
		"call":         in.call,
		"pcall":        in.pcall,
		"error_reply":  in.errorReply,
		"status_reply": in.statusReply,
		"sha1hex":      in.sha1hex,
	})
	in.globals.RawSetString("redis", in.protect(api))
	in.globals.Metatable = l.SetFuncs(l.NewTable(), map[string]lua.LGFunction{"__index": noGlobal})
	in.env = in.protect(in.globals)
	in.globals.RawSetString("_G", in.env)
	in.handler = l.NewFunction(in.onError)
	return in
}

// protect returns an empty table that shows t and cannot be written to.
func (in *interpreter) protect(t lua.LValue) *lua.LTable {
	meta := in.state.NewTable()
	meta.RawSetString("__index", t)
	meta.RawSetString("__newindex", in.state.NewFunction(readOnly))
	meta.RawSetString("__metatable", lua.LFalse)
	proxy := in.state.NewTable()
	proxy.Metatable = meta
	return proxy
}

func readOnly(l *lua.LState) int {
	l.RaiseError("Attempt to modify a readonly table")
	return 0
}

func noGlobal(l *lua.LState) int {
	l.RaiseError("Script attempted to access nonexistent global variable '%s'", l.ToString(2))
	return 0
}

// basePCall makes Lua's pcall return the message of an error that redis.call has raised, as Redis' does, instead of
// the table.
func basePCall(pcall lua.LGFunction) lua.LGFunction {
	return func(l *lua.LState) int {
		n := pcall(l)
		if n == 2 && l.Get(-2) == lua.LFalse {
			if t, ok := l.Get(-1).(*lua.LTable); ok {
				if text, ok := t.RawGetString("err").(lua.LString); ok {
					l.Pop(1)
					l.Push(text)
				}
			}
		}
		return n
	}
}

// run executes a script. broken means that the interpreter must not be used again.
func (in *interpreter) run(x *call, sha string, proto *lua.FunctionProto, keys, argv [][]byte) (r reply, broken bool) {
	l := in.state
	l.SetTop(0)
	in.x = x
	in.globals.RawSetString("KEYS", in.list(keys))
	in.globals.RawSetString("ARGV", in.list(argv))
	fn := in.functions[proto]
	if fn == nil {
		fn = l.NewFunctionFromProto(proto)
		fn.Env = in.env
		in.functions[proto] = fn
	}
	l.Push(fn)
	if err := l.PCall(0, 1, in.handler); err != nil {
		e, ok := err.(*lua.ApiError)
		return scriptError(err, sha), !ok || e.Type != lua.ApiErrorRun
	}
	r = toReply(l.Get(-1), 0)
	l.Pop(1)
	return r, false
}

func (in *interpreter) list(args [][]byte) *lua.LTable {
	t := in.state.CreateTable(len(args), 0)
	for _, a := range args {
		t.Append(lua.LString(a))
	}
	return t
}

// onError turns whatever a script raised into a table with the message and the line, as Redis does.
func (in *interpreter) onError(l *lua.LState) int {
	t, ok := l.Get(1).(*lua.LTable)
	if !ok {
		t = l.NewTable()
		t.RawSetString("err", lua.LString("ERR "+lua.LVAsString(l.Get(1))))
	}
	if t.RawGetString("line") == lua.LNil {
		t.RawSetString("line", lua.LNumber(scriptLine(l)))
	}
	l.Push(t)
	return 1
}

// scriptLine returns the line that the innermost function of the script is at.
func scriptLine(l *lua.LState) int {
	for level := 0; ; level++ {
		d, ok := l.GetStack(level)
		if !ok {
			return 1
		}
		if _, err := l.GetInfo("Sl", d, lua.LNil); err == nil && d.Source == sourceName && d.CurrentLine > 0 {
			return d.CurrentLine
		}
	}
}

// scriptError is the reply to a script that raised an error.
func scriptError(err error, sha string) reply {
	text, line := err.Error(), 1
	if e, ok := err.(*lua.ApiError); ok {
		if t, ok := e.Object.(*lua.LTable); ok {
			text = lua.LVAsString(t.RawGetString("err"))
			line = int(lua.LVAsNumber(t.RawGetString("line")))
		}
	}
	return errorReply(fmt.Sprintf("%s script: %s, on @%s:%d.", text, sha, sourceName, line))
}

// call is redis.call: an error reply is raised.
func (in *interpreter) call(l *lua.LState) int {
	r := in.command(l)
	v := in.toLua(r)
	if r.isError() {
		v.(*lua.LTable).RawSetString("line", lua.LNumber(scriptLine(l)))
		l.Error(v, 0)
	}
	l.Push(v)
	return 1
}

// pcall is redis.pcall: an error reply is returned as a table.
func (in *interpreter) pcall(l *lua.LState) int {
	l.Push(in.toLua(in.command(l)))
	return 1
}

// command executes the command that the arguments of redis.call are.
func (in *interpreter) command(l *lua.LState) reply {
	n := l.GetTop()
	if n == 0 {
		return errorReply("ERR Please specify at least one argument for this redis lib call")
	}
	args := make([][]byte, n)
	for i := range args {
		switch v := l.Get(i + 1).(type) {
		case lua.LString:
			args[i] = []byte(v)
		case lua.LNumber:
			args[i] = []byte(formatNumber(float64(v)))
		default:
			return errorReply("ERR Lua redis lib command arguments must be strings or integers")
		}
	}
	return in.x.call(args)
}

func (in *interpreter) errorReply(l *lua.LState) int {
	text, ok := l.Get(1).(lua.LString)
	if !ok || l.GetTop() != 1 {
		return wrongArgs(l)
	}
	s := strings.TrimPrefix(string(text), "-")
	if !strings.Contains(s, " ") { // no code, only a message
		s = "ERR " + s
	}
	return field(l, "err", s)
}

func (in *interpreter) statusReply(l *lua.LState) int {
	text, ok := l.Get(1).(lua.LString)
	if !ok || l.GetTop() != 1 {
		return wrongArgs(l)
	}
	return field(l, "ok", string(text))
}

func wrongArgs(l *lua.LState) int { return field(l, "err", "ERR wrong number or type of arguments") }

func field(l *lua.LState, name, value string) int {
	t := l.NewTable()
	t.RawSetString(name, lua.LString(value))
	l.Push(t)
	return 1
}

func (in *interpreter) sha1hex(l *lua.LState) int {
	if l.GetTop() != 1 {
		t := l.NewTable()
		t.RawSetString("err", lua.LString("ERR wrong number of arguments"))
		l.Error(t, 0)
	}
	l.Push(lua.LString(sha1hex([]byte(l.ToString(1)))))
	return 1
}
