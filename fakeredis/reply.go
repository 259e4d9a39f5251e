package fakeredis

import (
	"math"
	"strconv"
	"strings"
)

// reply is what a command answers, before anybody knows which protocol the connection speaks. One place, encode,
// turns it into bytes; scripts turn it into Lua values.
type reply struct {
	kind kind
	str  string  // status, error, bulk, double, big number, verbatim ("txt:" first); raw bytes
	n    int64   // integer
	list []reply // array, set, push; a map holds keys and values in turn
}

// kind is RESP3's type byte, or one of ours.
type kind byte

const (
	kindNothing  kind = 0 // no bytes at all
	kindStatus   kind = '+'
	kindError    kind = '-'
	kindInt      kind = ':'
	kindBulk     kind = '$'
	kindArray    kind = '*'
	kindNull     kind = '_'
	kindDouble   kind = ','
	kindBig      kind = '('
	kindVerbatim kind = '='
	kindMap      kind = '%'
	kindSet      kind = '~'
	kindRaw      kind = 'r' // bytes as they are
)

var (
	replyOK   = reply{kind: kindStatus, str: "OK"}
	replyNull = reply{kind: kindNull}
)

func statusReply(s string) reply         { return reply{kind: kindStatus, str: s} }
func errorReply(s string) reply          { return reply{kind: kindError, str: s} }
func intReply(n int64) reply             { return reply{kind: kindInt, n: n} }
func bulkReply(s string) reply           { return reply{kind: kindBulk, str: s} }
func arrayReply(list ...reply) reply     { return reply{kind: kindArray, list: list} }
func mapReply(pairs ...reply) reply      { return reply{kind: kindMap, list: pairs} }
func verbatimReply(text string) reply    { return reply{kind: kindVerbatim, str: "txt:" + text} }
func rawReply(b []byte) reply            { return reply{kind: kindRaw, str: string(b)} }
func (r reply) isError() bool            { return r.kind == kindError }
func boolReply(b bool) reply             { return intReply(int64(btoi(b))) }
func setReply(list ...reply) reply       { return reply{kind: kindSet, list: list} }
func doubleReply(f float64) reply        { return reply{kind: kindDouble, str: formatDouble(f)} }
func bigReply(digits string) reply       { return reply{kind: kindBig, str: digits} }
func statusList(words ...string) []reply { return replies(statusReply, words) }
func bulkList(words ...string) []reply   { return replies(bulkReply, words) }

func replies(convert func(string) reply, words []string) []reply {
	list := make([]reply, len(words))
	for i, w := range words {
		list[i] = convert(w)
	}
	return list
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// encode appends r as protocol proto (2 or 3) writes it. RESP2 lacks null, map, set, double, big number and
// verbatim string; Redis falls back to the next best type there.
func (r reply) encode(dst []byte, proto int) []byte {
	k := r.kind
	if proto < 3 {
		switch k {
		case kindNull:
			return append(dst, "$-1\r\n"...)
		case kindDouble, kindBig:
			k = kindBulk
		case kindVerbatim:
			k, r.str = kindBulk, r.str[len("txt:"):]
		case kindMap, kindSet:
			k = kindArray
		}
	}
	switch k {
	case kindNothing:
		return dst
	case kindRaw:
		return append(dst, r.str...)
	case kindNull:
		return append(dst, "_\r\n"...)
	case kindInt:
		dst = strconv.AppendInt(append(dst, ':'), r.n, 10)
	case kindStatus, kindError, kindBig:
		dst = append(append(dst, byte(k)), oneLine(r.str)...)
	case kindDouble:
		dst = append(append(dst, ','), r.str...)
	case kindBulk, kindVerbatim:
		dst = append(header(dst, k, len(r.str)), r.str...)
	default:
		n := len(r.list)
		if k == kindMap {
			n /= 2
		}
		dst = header(dst, k, n)
		for _, e := range r.list {
			dst = e.encode(dst, proto)
		}
		return dst
	}
	return append(dst, '\r', '\n')
}

func header(dst []byte, k kind, n int) []byte {
	dst = strconv.AppendInt(append(dst, byte(k)), int64(n), 10)
	return append(dst, '\r', '\n')
}

// oneLine keeps a line break in a message from ending the reply early.
func oneLine(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.NewReplacer("\r", " ", "\n", " ").Replace(s)
}

// formatDouble writes a number as RESP3 wants it: "inf" and "nan" in words, at most 17 digits.
func formatDouble(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	return strconv.FormatFloat(f, 'g', 17, 64)
}
