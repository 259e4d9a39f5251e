package fakeredis

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// rawClient speaks to a server in bytes, with an encoder and a reader of its own.
type rawClient struct {
	net.Conn
	t testing.TB
	r *bufio.Reader
}

// dial connects, by TCP or a unix socket; the connection is closed when the test ends.
func dial(t testing.TB, network, addr string) *rawClient {
	conn, err := net.Dial(network, addr)
	require.NoError(t, err)
	require.NoError(t, conn.SetDeadline(time.Now().Add(30*time.Second))) // a test that fails must not hang
	return newRawClient(t, conn)
}

func newRawClient(t testing.TB, conn net.Conn) *rawClient {
	t.Cleanup(func() { _ = conn.Close() })
	return &rawClient{conn, t, bufio.NewReader(conn)}
}

// encode returns the bytes of a command.
func encode(args ...string) []byte {
	b := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		b = fmt.Appendf(b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b
}

// send writes a command.
func (c *rawClient) send(args ...string) {
	_, err := c.Write(encode(args...))
	require.NoError(c.t, err)
}

// do sends a command and returns the bytes of its reply.
func (c *rawClient) do(args ...string) string {
	c.t.Helper()
	c.send(args...)
	return c.reply()
}

// reply reads one reply.
func (c *rawClient) reply() string {
	c.t.Helper()
	b, err := readReply(c.r)
	require.NoError(c.t, err, "after %q", b)
	return b
}

// readReply reads the bytes of exactly one reply.
func readReply(r *bufio.Reader) (string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return line, err
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	switch {
	case strings.IndexByte("$=*%~>", line[0]) < 0 || n < 0:
		return line, nil
	case err != nil:
		return line, fmt.Errorf("no length in %q", line)
	}
	switch line[0] {
	case '$', '=':
		body := make([]byte, n+2)
		_, err := io.ReadFull(r, body)
		return line + string(body), err
	case '%':
		n *= 2
	}
	for ; n > 0 && err == nil; n-- {
		var part string
		part, err = readReply(r)
		line += part
	}
	return line, err
}

// words splits a line of the command table: at spaces, except within double quotes.
func words(line string) []string {
	var list []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		if line[0] == '"' {
			body, rest, _ := strings.Cut(line[1:], `"`)
			list, line = append(list, body), rest
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		list, line = append(list, word), rest
	}
	return list
}
