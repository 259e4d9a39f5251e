package engine

import (
	"crypto/sha1"
	"encoding/hex"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/resp"
)

// formSource is the form that carries a script's whole source. It is not a
// feature of a master: it follows the answer NOSCRIPT, and OOM to a native
// extension.
const formSource = conn.FormSETIFEQ + 1

const forms = int(formSource) + 1

// Kind says which rules a round is sent by.
type Kind uint8

const (
	Plain     Kind = iota // sent when a quorum can be written to
	Acquiring             // the same; and a master takes it only with room kept for its release
	Extending             // sent when a quorum can be written to; sent again only while nothing newer is queued
	Releasing             // always sent; owed to masters that cannot be reached or do not answer with an integer
	kinds     = int(Releasing) + 1
)

// Op is one kind of round: how its command is written, what a reply to it
// means, and how votes decide it. An Op is made once and shared by all rounds.
// Its functions are called without any lock held and must be pure.
type Op struct {
	Name   string
	Kind   Kind
	Append func(dst []byte, form conn.Form, r *Round) []byte // the command in that form
	Vote   func(form conn.Form, reply resp.Value) Vote       // never called with an error reply
	Decide func(Tally) Decision
	Script *Script // what is sent as source after NOSCRIPT; nil: an error is an error
}

// Script is a Lua script that masters load at the handshake.
type Script struct {
	source string
	sha    string
}

// NewScript prepares a script with one key.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source))
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// AppendHead appends the head of a call of the script: EVALSHA sha 1, or EVAL
// source 1 in the form of the source. The key and then args−1 more arguments,
// as bulks, must follow.
func (s *Script) AppendHead(dst []byte, form conn.Form, args int) []byte {
	dst = resp.AppendArray(dst, 3+args)
	if form == formSource {
		dst = resp.AppendBulk(dst, "EVAL")
		dst = resp.AppendBulk(dst, s.source)
	} else {
		dst = resp.AppendBulk(dst, "EVALSHA")
		dst = resp.AppendBulk(dst, s.sha)
	}
	return append(dst, "$1\r\n1\r\n"...)
}

// The scripts are those of the Redlock specification. That they compare first
// is what keeps a late command away from another holder's key.
var (
	releaseScript = NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`)
	extendScript  = NewScript(`if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("pexpire",KEYS[1],ARGV[2]) else return 0 end`)
)

// The commands of a lock. Acquire is written as every Redlock client writes
// it, so that old and new clients exclude each other.
var (
	Acquire = Op{Name: "acquire", Kind: Acquiring, Append: appendAcquire, Vote: voteAcquire, Decide: Tally.Acquisition}
	Extend  = Op{Name: "extend", Kind: Extending, Append: appendExtend, Vote: voteExtend, Decide: Tally.Confirmation, Script: extendScript}
	Release = Op{Name: "release", Kind: Releasing, Append: appendRelease, Vote: voteCount, Decide: Tally.Confirmation, Script: releaseScript}
)

// SET key value NX PX ttl → +OK, or null when the key is there.
func appendAcquire(dst []byte, _ conn.Form, r *Round) []byte {
	dst = append(dst, "*6\r\n$3\r\nSET\r\n"...)
	dst = resp.AppendBulk(dst, r.Key)
	dst = resp.AppendBulk(dst, r.Value)
	dst = append(dst, "$2\r\nNX\r\n$2\r\nPX\r\n"...)
	return resp.AppendInt(dst, r.TTL.Milliseconds())
}

// SET key value IFEQ value PX ttl → +OK, or null when the key is gone or
// another's; or the script, → 1 or 0.
func appendExtend(dst []byte, form conn.Form, r *Round) []byte {
	if form == conn.FormSETIFEQ {
		dst = append(dst, "*7\r\n$3\r\nSET\r\n"...)
		dst = resp.AppendBulk(dst, r.Key)
		dst = resp.AppendBulk(dst, r.Value)
		dst = append(dst, "$4\r\nIFEQ\r\n"...)
		dst = resp.AppendBulk(dst, r.Value)
		dst = append(dst, "$2\r\nPX\r\n"...)
		return resp.AppendInt(dst, r.TTL.Milliseconds())
	}
	dst = extendScript.AppendHead(dst, form, 3)
	dst = resp.AppendBulk(dst, r.Key)
	dst = resp.AppendBulk(dst, r.Value)
	return resp.AppendInt(dst, r.TTL.Milliseconds())
}

// DELEX key IFEQ value, DELIFEQ key value, or the script; each → 1 or 0.
func appendRelease(dst []byte, form conn.Form, r *Round) []byte {
	switch form {
	case conn.FormDELEX:
		dst = append(dst, "*4\r\n$5\r\nDELEX\r\n"...)
		dst = resp.AppendBulk(dst, r.Key)
		dst = append(dst, "$4\r\nIFEQ\r\n"...)
	case conn.FormDELIFEQ:
		dst = append(dst, "*3\r\n$7\r\nDELIFEQ\r\n"...)
		dst = resp.AppendBulk(dst, r.Key)
	default:
		dst = releaseScript.AppendHead(dst, form, 2)
		dst = resp.AppendBulk(dst, r.Key)
	}
	return resp.AppendBulk(dst, r.Value)
}

func voteAcquire(_ conn.Form, v resp.Value) Vote {
	switch {
	case v.IsOK():
		return Granted
	case v.Kind == resp.Null:
		return Refused
	default:
		return Broken
	}
}

func voteExtend(form conn.Form, v resp.Value) Vote {
	if form == conn.FormSETIFEQ {
		return voteAcquire(form, v)
	}
	return voteCount(form, v)
}

func voteCount(_ conn.Form, v resp.Value) Vote {
	switch {
	case v.Kind == resp.Integer && v.Int == 1:
		return Granted
	case v.Kind == resp.Integer && v.Int == 0:
		return Refused
	default:
		return Broken
	}
}

// sendAsSource says whether an error reply asks for the command again with the
// script's source: the master has forgotten the script; or its memory is full,
// which stops a SET but not the script's PEXPIRE.
func (op *Op) sendAsSource(form conn.Form, code string) bool {
	if op.Script == nil || form == formSource {
		return false
	}
	return code == "NOSCRIPT" && form == conn.FormScript ||
		code == "OOM" && form == conn.FormSETIFEQ
}
