package redlock_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/internal/redisproc"
)

// foreign is a client that has nothing in common with ours.
type foreign struct {
	conn net.Conn
	r    *bufio.Reader
}

func dialForeign(addr string) (*foreign, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &foreign{conn, bufio.NewReader(conn)}, nil
}

func (f *foreign) close() { _ = f.conn.Close() }

// do sends a command and returns the text of the reply; null is "".
func (f *foreign) do(args ...string) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(f.conn, b.String()); err != nil {
		return "", err
	}
	line, err := f.line()
	if err != nil {
		return "", err
	}
	switch line[0] {
	case '+', ':':
		return line[1:], nil
	case '-':
		return "", errors.New(line[1:])
	case '$':
		n, err := strconv.Atoi(line[1:])
		if err != nil || n < 0 {
			return "", err
		}
		data := make([]byte, n+2)
		_, err = io.ReadFull(f.r, data)
		return string(data[:n]), err
	}
	return "", fmt.Errorf("unexpected reply %q", line)
}

func (f *foreign) line() (string, error) {
	line, err := f.r.ReadString('\n')
	if err == nil && len(line) < 3 {
		err = fmt.Errorf("unexpected line %q", line)
	}
	return strings.TrimRight(line, "\r\n"), err
}

// The scripts and commands of the Redlock specification, as other clients use
// them.
const compareAndDelete = `if redis.call("get",KEYS[1]) == ARGV[1] then return redis.call("del",KEYS[1]) else return 0 end`

// foreignLock is what another Redlock client does to take a lock: it returns
// how many masters granted.
func foreignLock(t *testing.T, masters []*redisproc.Process, resource, value string) (granted int) {
	t.Helper()
	for _, m := range masters {
		reply, err := m.Do("SET", resource, value, "NX", "PX", "60000")
		require.NoError(t, err)
		if reply == "OK" {
			granted++
		}
	}
	return granted
}

// foreignUnlock returns how many masters deleted it.
func foreignUnlock(t *testing.T, masters []*redisproc.Process, resource, value string) (deleted int) {
	t.Helper()
	for _, m := range masters {
		reply, err := m.Do("EVAL", compareAndDelete, "1", resource, value)
		require.NoError(t, err)
		n, err := strconv.Atoi(reply)
		require.NoError(t, err)
		deleted += n
	}
	return deleted
}
