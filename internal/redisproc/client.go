package redisproc

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// commandTimeout bounds one Do or Raw, from dialing to the reply's last byte.
const commandTimeout = 5 * time.Second

// maxReply bounds a bulk or an array, so that a broken reply is an error and
// not an attempt to allocate it.
const maxReply = 64 << 20

// Do sends one command on a connection of its own and returns the text of the
// reply: a string as it is, a number in decimal, null as "", the elements of an
// array, set or map one per line. An error reply is returned as an error whose
// text ends with the reply's. With "--requirepass" among the server's options
// it authenticates first. It waits for at most 5 seconds: a stopped server is
// an error.
func (p *Process) Do(args ...string) (string, error) {
	c, err := dial(p.Addr(), p.password, commandTimeout)
	if err != nil {
		return "", p.fail("do", err)
	}
	defer c.close()
	text, err := c.text(args...)
	return text, p.fail("do", err)
}

// Raw is Do with the exact bytes of the reply, an error reply's as well.
func (p *Process) Raw(args ...string) ([]byte, error) {
	c, err := dial(p.Addr(), p.password, commandTimeout)
	if err != nil {
		return nil, p.fail("raw", err)
	}
	defer c.close()
	r, err := c.exchange(args...)
	return r.raw, p.fail("raw", err)
}

type client struct {
	conn net.Conn
	r    *bufio.Reader
}

// dial connects and, given a password, authenticates. The connection's whole
// life is bounded by timeout.
func dial(addr, password string, timeout time.Duration) (*client, error) {
	deadline := time.Now().Add(timeout)
	conn, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return nil, err
	}
	c := &client{conn: conn, r: bufio.NewReader(conn)}
	err = conn.SetDeadline(deadline)
	if err == nil && password != "" {
		_, err = c.text("AUTH", password)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *client) close() { _ = c.conn.Close() }

func (c *client) text(args ...string) (string, error) {
	r, err := c.exchange(args...)
	if err != nil {
		return "", err
	}
	if r.failed {
		return "", errors.New(r.text)
	}
	return r.text, nil
}

func (c *client) exchange(args ...string) (reply, error) {
	var b bytes.Buffer
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := c.conn.Write(b.Bytes()); err != nil {
		return reply{}, err
	}
	return readReply(c.r)
}

type reply struct {
	raw    []byte
	text   string
	failed bool // an error reply
}

// readReply reads one RESP2 or RESP3 reply, with everything nested in it.
func readReply(r *bufio.Reader) (reply, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return reply{}, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return reply{}, fmt.Errorf("not a reply: %q", line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	out := reply{raw: []byte(line), text: rest, failed: kind == '-' || kind == '!'}
	switch kind {
	case '+', '-', ':', ',', '(', '#':
		return out, nil
	case '_':
		return out, nil // rest is empty
	case '$', '=', '!', '*', '~', '>', '%', '|':
	default:
		return reply{}, fmt.Errorf("not a reply: %q", line)
	}
	n, err := strconv.Atoi(rest)
	if err != nil || n < -1 || n > maxReply {
		return reply{}, fmt.Errorf("not a length: %q", line)
	}
	out.text = ""
	switch {
	case n == -1:
		return out, nil
	case kind == '$' || kind == '=' || kind == '!':
		return readBulk(r, out, n)
	case kind == '%':
		n *= 2
	case kind == '|':
		return readAttribute(r, out, n)
	}
	texts := make([]string, 0, min(n, 1024))
	for range n {
		e, err := readReply(r)
		if err != nil {
			return reply{}, err
		}
		out.raw = append(out.raw, e.raw...)
		texts = append(texts, e.text)
	}
	out.text = strings.Join(texts, "\n")
	return out, nil
}

func readBulk(r *bufio.Reader, out reply, n int) (reply, error) {
	b := make([]byte, n+2)
	if _, err := io.ReadFull(r, b); err != nil {
		return reply{}, err
	}
	if string(b[n:]) != "\r\n" {
		return reply{}, fmt.Errorf("a bulk of %d bytes ends with %q", n, b[n:])
	}
	out.raw = append(out.raw, b...)
	out.text = string(b[:n])
	return out, nil
}

// readAttribute reads n pairs that belong to the reply which follows them;
// their bytes count, their text does not.
func readAttribute(r *bufio.Reader, out reply, n int) (reply, error) {
	for range 2 * n {
		e, err := readReply(r)
		if err != nil {
			return reply{}, err
		}
		out.raw = append(out.raw, e.raw...)
	}
	e, err := readReply(r)
	e.raw = append(out.raw, e.raw...)
	return e, err
}
