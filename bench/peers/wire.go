package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/goredlock/redlock/resp"
)

// wireTimeout bounds one question of the instrument's own.
const wireTimeout = 5 * time.Second

// wire is a connection to a master on which the instrument asks its own
// questions. It reads replies of any size, as CLIENT LIST has them.
type wire struct {
	conn net.Conn
	r    *bufio.Reader
	id   string // of the connection, as the master counts them
}

func dialWire(addr string) (*wire, error) {
	conn, err := net.DialTimeout("tcp", addr, wireTimeout)
	if err != nil {
		return nil, err
	}
	w := &wire{conn: conn, r: bufio.NewReader(conn)}
	if w.id, err = w.do("CLIENT", "ID"); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *wire) close() { _ = w.conn.Close() }

// do returns the text of a simple reply: a string, a number in decimal, or ""
// for null.
func (w *wire) do(args ...string) (string, error) {
	if err := w.conn.SetDeadline(time.Now().Add(wireTimeout)); err != nil {
		return "", err
	}
	if _, err := w.conn.Write(resp.AppendCommand(nil, args...)); err != nil {
		return "", err
	}
	line, err := w.r.ReadString('\n')
	if err != nil {
		return "", err
	}
	if len(line) < 3 {
		return "", fmt.Errorf("not a reply: %q", line)
	}
	text := strings.TrimSuffix(line[1:], "\r\n")
	switch line[0] {
	case '+', ':':
		return text, nil
	case '-':
		return "", errors.New(text)
	case '$':
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return "", err
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(w.r, b); err != nil {
			return "", err
		}
		return string(b[:n]), nil
	}
	return "", fmt.Errorf("not a simple reply: %q", line)
}

// number is do for a reply that is a number.
func (w *wire) number(args ...string) (int64, error) {
	text, err := w.do(args...)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}
