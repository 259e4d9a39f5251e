package fakeredis

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

const (
	msgSyntax    = "ERR syntax error"
	msgNotInt    = "ERR value is not an integer or out of range"
	msgWrongType = "WRONGTYPE Operation against a key holding the wrong kind of value"
)

// find returns the live entry of a key.
func (x *call) find(key []byte) (entry, bool) { return x.srv.find(x.db, key, x.now) }

// put stores an entry.
func (x *call) put(key []byte, e entry) { x.srv.dbs[x.db][string(key)] = e }

// remove deletes a key.
func (x *call) remove(key []byte) { delete(x.srv.dbs[x.db], string(key)) }

// word returns an argument in lower case, for options.
func (x *call) word(i int) string {
	switch arg := x.args[i]; string(arg) { // the hot path of SET allocates nothing for these
	case "NX", "nx":
		return "nx"
	case "PX", "px":
		return "px"
	default:
		return strings.ToLower(string(arg))
	}
}

func del(x *call) reply {
	n := int64(0)
	for _, key := range x.args[1:] {
		if _, ok := x.find(key); ok {
			x.remove(key)
			n++
		}
	}
	return intReply(n)
}

func exists(x *call) reply {
	n := int64(0)
	for _, key := range x.args[1:] {
		if _, ok := x.find(key); ok {
			n++
		}
	}
	return intReply(n)
}

func typeOf(x *call) reply {
	e, ok := x.find(x.args[1])
	if !ok {
		return statusReply("none")
	}
	return statusReply(e.typ.String())
}

func pttl(x *call) reply {
	e, ok := x.find(x.args[1])
	switch {
	case !ok:
		return intReply(-2)
	case e.expire == 0:
		return intReply(-1)
	}
	return intReply(e.expire - x.now)
}

func ttl(x *call) reply {
	r := pttl(x)
	if r.n >= 0 {
		r.n = r.n/1000 + (r.n%1000+500)/1000 // rounded to the nearest, as Redis does
	}
	return r
}

func persist(x *call) reply {
	e, ok := x.find(x.args[1])
	if !ok || e.expire == 0 {
		return intReply(0)
	}
	e.expire = 0
	x.put(x.args[1], e)
	return intReply(1)
}

func expire(x *call) reply    { return x.expire(1000, x.now) }
func pexpire(x *call) reply   { return x.expire(1, x.now) }
func pexpireAt(x *call) reply { return x.expire(1, 0) }

// expire is EXPIRE and its relatives: the unit of the argument in milliseconds, and what it counts from.
func (x *call) expire(unit, base int64) reply {
	var nx, xx, gt, lt bool
	if len(x.args) > 3 && !since6.has(x.srv.cfg.Flavor) {
		return errorReply(fmt.Sprintf("ERR wrong number of arguments for '%s' command", x.cmd.name))
	}
	for i := 3; i < len(x.args); i++ {
		switch x.word(i) {
		case "nx":
			nx = true
		case "xx":
			xx = true
		case "gt":
			gt = true
		case "lt":
			lt = true
		default:
			return errorReply("ERR Unsupported option " + string(x.args[i]))
		}
	}
	switch {
	case nx && (xx || gt || lt):
		return errorReply("ERR NX and XX, GT or LT options at the same time are not compatible")
	case gt && lt:
		return errorReply("ERR GT and LT options at the same time are not compatible")
	}
	n, ok := parseInt(x.args[2])
	if !ok {
		return errorReply(msgNotInt)
	}
	when, ok := addTime(n, unit, base)
	if !ok {
		return x.badExpire()
	}
	e, ok := x.find(x.args[1])
	if !ok {
		return intReply(0)
	}
	stays := e.expire == 0
	if nx && !stays || xx && stays || gt && (stays || when <= e.expire) || lt && !stays && when >= e.expire {
		return intReply(0)
	}
	if when <= x.now { // in the past: gone at once
		x.remove(x.args[1])
		return intReply(1)
	}
	e.expire = when
	x.put(x.args[1], e)
	return intReply(1)
}

// addTime returns n units after base in milliseconds, unless that cannot be represented.
func addTime(n, unit, base int64) (int64, bool) {
	if unit > 1 && (n > math.MaxInt64/unit || n < math.MinInt64/unit) {
		return 0, false
	}
	n *= unit
	if n > 0 && n > math.MaxInt64-base {
		return 0, false
	}
	return n + base, true
}

func (x *call) badExpire() reply {
	return errorReply(fmt.Sprintf("ERR invalid expire time in '%s' command", x.cmd.name))
}

func keysMatching(x *call) reply {
	x.srv.purge(x.db, x.now)
	pattern := string(x.args[1])
	var names []string
	for k := range x.srv.dbs[x.db] {
		if glob(pattern, k) {
			names = append(names, k)
		}
	}
	slices.Sort(names) // Redis has no order; a test likes one
	return arrayReply(bulkList(names...)...)
}

func dbSize(x *call) reply {
	x.srv.purge(x.db, x.now)
	return intReply(int64(len(x.srv.dbs[x.db])))
}

func flushAll(x *call) reply {
	if !x.flushOption() {
		return errorReply(msgSyntax)
	}
	x.srv.flush()
	return replyOK
}

func flushDB(x *call) reply {
	if !x.flushOption() {
		return errorReply(msgSyntax)
	}
	x.srv.dbs[x.db] = make(map[string]entry)
	return replyOK
}

// flushOption checks that there is nothing but SYNC or ASYNC, which mean the same here.
func (x *call) flushOption() bool {
	switch len(x.args) {
	case 1:
		return true
	case 2:
		return x.word(1) == "sync" || x.word(1) == "async"
	}
	return false
}
