package fakeredis

import (
	"math"
	"strconv"
)

func get(x *call) reply {
	e, ok := x.find(x.args[1])
	switch {
	case !ok:
		return replyNull
	case e.typ != typeString:
		return errorReply(msgWrongType)
	}
	return bulkReply(e.str)
}

func incr(x *call) reply {
	e, ok := x.find(x.args[1])
	if ok && e.typ != typeString {
		return errorReply(msgWrongType)
	}
	n := int64(0)
	if ok {
		if n, ok = parseInt([]byte(e.str)); !ok {
			return errorReply(msgNotInt)
		}
	}
	if n == math.MaxInt64 {
		return errorReply("ERR increment or decrement would overflow")
	}
	e.str = strconv.FormatInt(n+1, 10)
	x.put(x.args[1], e)
	return intReply(n + 1)
}

// setOptions is what SET was told besides key and value.
type setOptions struct {
	nx, xx, get, keepTTL bool

	cond    string // "ifeq" …, or empty
	operand []byte // what cond compares with

	expiry string // "ex", "px", "exat", "pxat", or empty
	amount []byte
}

// parseSet reads the options of SET, or says that the syntax is wrong.
func (x *call) parseSet() (o setOptions, ok bool) {
	flavor := x.srv.cfg.Flavor
	for i := 3; i < len(x.args); i++ {
		more := i+1 < len(x.args)
		switch word := x.word(i); word {
		case "nx":
			o.nx = true
		case "xx":
			o.xx = true
		case "get":
			if !since6.has(flavor) {
				return o, false
			}
			o.get = true
		case "keepttl":
			if !since6.has(flavor) {
				return o, false
			}
			o.keepTTL = true
		case "exat", "pxat", "ex", "px":
			if !more || o.expiry != "" && o.expiry != word || len(word) == 4 && !since6.has(flavor) {
				return o, false
			}
			i++
			o.expiry, o.amount = word, x.args[i]
		case "ifeq", "ifne", "ifdeq", "ifdne":
			known := inRedis84.has(flavor) || word == "ifeq" && inValkey9.has(flavor)
			if !known || !more || o.cond != "" {
				return o, false
			}
			i++
			o.cond, o.operand = word, x.args[i]
		default:
			return o, false
		}
		if btoi(o.nx)+btoi(o.xx)+btoi(o.cond != "") > 1 || o.keepTTL && o.expiry != "" {
			return o, false
		}
	}
	return o, true
}

func set(x *call) reply {
	o, ok := x.parseSet()
	if !ok {
		return errorReply(msgSyntax)
	}
	key, when := x.args[1], int64(0)
	if o.expiry != "" {
		n, ok := parseInt(o.amount)
		if !ok {
			return errorReply(msgNotInt)
		}
		unit, base := int64(1), int64(0)
		if o.expiry[0] == 'e' {
			unit = 1000
		}
		if len(o.expiry) == 2 {
			base = x.now
		}
		if when, ok = addTime(n, unit, base); !ok || n <= 0 {
			return x.badExpire()
		}
	}
	old, found := x.find(key)
	if found && old.typ != typeString && (o.get || o.cond != "") {
		return errorReply(msgWrongType)
	}
	met := !(o.nx && found || o.xx && !found)
	if o.cond != "" {
		var bad reply
		if met, bad = compare(o.cond, o.operand, old, found); bad.isError() {
			return bad
		}
	}
	if met {
		e := entry{str: string(x.args[2]), expire: when}
		if o.keepTTL {
			e.expire = old.expire
		}
		x.put(key, e)
	}
	switch {
	case o.get && found:
		return bulkReply(old.str)
	case o.get || !met:
		return replyNull
	}
	return replyOK
}

// compare evaluates a condition of SET or DELEX on a key that holds a string or does not exist. A key that does not
// exist equals nothing. Digests (XXH3) are the one thing of these two commands that the fake does not do, and it
// says so rather than answer something plausible.
func compare(cond string, operand []byte, e entry, found bool) (met bool, bad reply) {
	switch cond {
	case "ifeq":
		return found && e.str == string(operand), reply{}
	case "ifne":
		return !found || e.str != string(operand), reply{}
	}
	return false, errorReply("ERR fakeredis computes no digests: IFDEQ and IFDNE are not supported")
}

// delEx is DELEX of Redis 8.4: DEL of one key, on a condition.
func delEx(x *call) reply {
	switch {
	case len(x.args) == 2:
		return del(x)
	case len(x.args) != 4:
		return errorReply("ERR wrong number of arguments for 'delex' command")
	}
	e, ok := x.find(x.args[1])
	switch {
	case !ok:
		return intReply(0)
	case e.typ != typeString:
		return errorReply("ERR Key should be of string type if conditions are specified")
	}
	switch cond := x.word(2); cond {
	case "ifeq", "ifne", "ifdeq", "ifdne":
		met, bad := compare(cond, x.args[3], e, true)
		if bad.isError() {
			return bad
		}
		if met {
			x.remove(x.args[1])
		}
		return boolReply(met)
	}
	return errorReply("ERR Invalid condition. Use IFEQ, IFNE, IFDEQ, or IFDNE")
}

// delIfEq is DELIFEQ of Valkey 9.
func delIfEq(x *call) reply {
	e, ok := x.find(x.args[1])
	switch {
	case !ok:
		return intReply(0)
	case e.typ != typeString:
		return errorReply(msgWrongType)
	case e.str != string(x.args[2]):
		return intReply(0)
	}
	x.remove(x.args[1])
	return intReply(1)
}
