package fakeredis

import (
	"bytes"
	"fmt"
	"math"
)

const (
	maxInline = 64 << 10  // Redis' limit for an inline command and for every line with a length
	maxBulk   = 512 << 20 // Redis' proto-max-bulk-len
	maxArray  = math.MaxInt32
	maxQuery  = 1 << 30 // Redis' client-query-buffer-limit
	readSize  = 16 << 10
)

// tooBig is the fault of a command beyond maxQuery, at which Redis hangs up without a word.
const tooBig = "too big"

// guard stands between the socket and redcon. redcon believes every length that a client sends: 2^63-1 as a bulk
// length panics it, and as an array length keeps it busy for ever; and it parses a command anew with every piece
// that arrives. The guard looks at each byte of a header once, wherever the pieces are cut, checks the lengths
// against Redis' own limits, and hands on whole commands only.
type guard struct {
	buf   []byte
	start int // buf[:start] has been handed on
	ready int // buf[start:ready] is whole commands that have passed
	pos   int // buf[ready:pos] is the part of the next command that has passed
	seen  int // no line end in buf[pos:seen]

	args  int    // bulk strings that the command still lacks
	fault string // the error reply that ends the connection; ready bytes are still good
}

// room returns where to read more bytes into.
func (g *guard) room() []byte {
	if g.start > 0 {
		g.buf = g.buf[:copy(g.buf, g.buf[g.start:])]
		g.ready, g.pos, g.seen = g.ready-g.start, g.pos-g.start, g.seen-g.start
		g.start = 0
	}
	if len(g.buf) == 0 && cap(g.buf) > maxSpare {
		g.buf = nil
	}
	if cap(g.buf)-len(g.buf) < readSize/4 {
		g.buf = append(make([]byte, 0, 2*cap(g.buf)+readSize), g.buf...)
	}
	return g.buf[len(g.buf):cap(g.buf)]
}

// more reports whether there is something to read.
func (g *guard) more() bool { return g.ready > g.start }

// read moves ready bytes to p.
func (g *guard) read(p []byte) int {
	n := copy(p, g.buf[g.start:g.ready])
	g.start += n
	return n
}

// skip drops what lies between the last whole command and pos.
func (g *guard) skip() {
	g.buf = append(g.buf[:g.ready], g.buf[g.pos:]...)
	g.pos = g.ready
}

// feed takes in n bytes that were read into room.
func (g *guard) feed(n int) {
	g.buf = g.buf[:len(g.buf)+n]
	for g.fault == "" && g.step() {
	}
	if len(g.buf)-g.ready > maxQuery {
		g.fault = tooBig
	}
}

// step passes one line, or one line and the bulk string that it announces. It reports whether it could.
func (g *guard) step() bool {
	if g.pos >= len(g.buf) {
		return false
	}
	inline := g.args == 0 && g.buf[g.pos] != '*'
	line, next, ok := g.line(inline)
	if !ok {
		return false
	}
	switch {
	case inline:
		g.pos = next
		if len(bytes.TrimSpace(line)) == 0 { // Redis skips empty lines
			g.skip()
		}
		g.ready = g.pos
	case g.args == 0:
		n, ok := parseInt(line[1:])
		if !ok || n > maxArray {
			g.fault = "ERR Protocol error: invalid multibulk length"
			return false
		}
		g.pos = next
		if n <= 0 { // Redis skips empty and null arrays
			g.skip()
		} else {
			g.args = int(n)
		}
	default:
		return g.bulk(line, next)
	}
	g.seen = g.pos
	return true
}

// bulk passes a bulk string if all of it is there.
func (g *guard) bulk(line []byte, next int) bool {
	if len(line) == 0 || line[0] != '$' {
		got := byte(' ')
		if len(line) > 0 {
			got = line[0]
		}
		g.fault = fmt.Sprintf("ERR Protocol error: expected '$', got '%c'", got)
		return false
	}
	n, ok := parseInt(line[1:])
	if !ok || n < 0 || n > maxBulk {
		g.fault = "ERR Protocol error: invalid bulk length"
		return false
	}
	end := next + int(n) + 2
	if end > len(g.buf) {
		return false
	}
	g.pos, g.seen = end, end
	if g.args--; g.args == 0 {
		g.ready = end
	}
	return true
}

// line returns the line at pos without its end, and where the next one begins. Redis finds the end of a header by
// its CR and that of an inline command by its LF.
func (g *guard) line(inline bool) (line []byte, next int, ok bool) {
	end := byte('\r')
	if inline {
		end = '\n'
	}
	i := bytes.IndexByte(g.buf[g.seen:], end)
	if i >= 0 {
		i += g.seen
		if inline {
			return g.buf[g.pos:i], i + 1, true
		}
		if i+1 < len(g.buf) { // with the LF, which redcon insists on
			g.seen = i
			return g.buf[g.pos:i], i + 2, true
		}
		g.seen = i
	} else {
		g.seen = len(g.buf)
	}
	if len(g.buf)-g.pos > maxInline {
		g.fault = "ERR Protocol error: too big " + g.what(inline)
	}
	return nil, 0, false
}

func (g *guard) what(inline bool) string {
	switch {
	case inline:
		return "inline request"
	case g.args == 0:
		return "mbulk count string"
	}
	return "bulk count string"
}
