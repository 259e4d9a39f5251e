package fakeredis

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// maxDepth is how deep a table may be nested that a script returns.
const maxDepth = 100

// toReply turns what a script returned into a reply by Redis' rules.
func toReply(v lua.LValue, depth int) reply {
	switch v := v.(type) {
	case lua.LString:
		return bulkReply(string(v))
	case lua.LNumber:
		return intReply(truncate(float64(v)))
	case lua.LBool:
		if v {
			return intReply(1)
		}
	case *lua.LTable:
		if depth >= maxDepth {
			return errorReply("ERR reached lua stack limit")
		}
		return tableReply(v, depth)
	}
	return replyNull
}

func tableReply(t *lua.LTable, depth int) reply {
	if s, ok := t.RawGetString("err").(lua.LString); ok {
		return errorReply(strings.TrimPrefix(string(s), "-"))
	}
	if s, ok := t.RawGetString("ok").(lua.LString); ok {
		return statusReply(string(s))
	}
	if n, ok := t.RawGetString("double").(lua.LNumber); ok {
		return doubleReply(float64(n))
	}
	if m, ok := t.RawGetString("map").(*lua.LTable); ok {
		var pairs []reply
		m.ForEach(func(k, v lua.LValue) { pairs = append(pairs, toReply(k, depth+1), toReply(v, depth+1)) })
		return mapReply(pairs...)
	}
	if m, ok := t.RawGetString("set").(*lua.LTable); ok {
		var list []reply
		m.ForEach(func(k, _ lua.LValue) { list = append(list, toReply(k, depth+1)) })
		return setReply(list...)
	}
	if s, ok := t.RawGetString("big_number").(lua.LString); ok {
		return bigReply(string(s))
	}
	if m, ok := t.RawGetString("verbatim_string").(*lua.LTable); ok {
		format, ok1 := m.RawGetString("format").(lua.LString)
		text, ok2 := m.RawGetString("string").(lua.LString)
		if ok1 && ok2 {
			return reply{kind: kindVerbatim, str: fmt.Sprintf("%-3.3s:%s", string(format), string(text))}
		}
	}
	var list []reply
	for i := 1; ; i++ { // up to the first hole
		v := t.RawGetInt(i)
		if v == lua.LNil {
			return arrayReply(list...)
		}
		list = append(list, toReply(v, depth+1))
	}
}

// truncate is C's conversion from double, as it works on amd64: what does not fit is the smallest number.
func truncate(f float64) int64 {
	if math.IsNaN(f) || f >= math.MaxInt64 || f <= math.MinInt64 {
		return math.MinInt64
	}
	return int64(f)
}

// toLua turns a reply into what redis.call returns, by Redis' rules for RESP2.
func (in *interpreter) toLua(r reply) lua.LValue {
	switch r.kind {
	case kindInt:
		return lua.LNumber(r.n)
	case kindBulk, kindDouble, kindBig:
		return lua.LString(r.str)
	case kindVerbatim:
		return lua.LString(r.str[len("txt:"):])
	case kindStatus, kindError:
		field := "ok"
		if r.isError() {
			field = "err"
		}
		t := in.state.CreateTable(0, 2)
		t.RawSetString(field, lua.LString(oneLine(r.str)))
		return t
	case kindArray, kindSet, kindMap:
		t := in.state.CreateTable(len(r.list), 0)
		for _, e := range r.list {
			t.Append(in.toLua(e))
		}
		return t
	}
	return lua.LFalse
}

// formatNumber is C's "%.17g", which Redis uses for numbers that a script passes to a command.
func formatNumber(f float64) string {
	switch {
	case math.IsInf(f, 0), math.IsNaN(f):
		return formatDouble(f)
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}
