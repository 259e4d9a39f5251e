package fakeredis

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"
)

const tooLong = "9223372036854775807" // 2^63-1, which redcon believes

// protocolCases are bytes that a client may send, and everything that comes back until the server closes the
// connection, or, where it does not, until it is asked to.
var protocolCases = []struct{ send, want string }{
	{"PING\r\n", "+PONG\r\n"},
	{"PING\n", "+PONG\r\n"},
	{" PING\r\n", "+PONG\r\n"},
	{"\r\n\r\n  \r\nPING\r\n\r\nPING\r\n", "+PONG\r\n+PONG\r\n"},
	{"ECHO \"a b\"\r\n", "$3\r\na b\r\n"},
	{"*1\r\n$4\r\nPING\r\n", "+PONG\r\n"},
	{"*1\r\n$4\r\nPING\r\nPING\r\n*1\r\n$4\r\nPING\r\n", "+PONG\r\n+PONG\r\n+PONG\r\n"},
	{"*0\r\n*-1\r\n*-5\r\n*1\r\n$4\r\nPING\r\n*0\r\n", "+PONG\r\n"},
	{"*2\r\n$4\r\nECHO\r\n$0\r\n\r\n", "$0\r\n\r\n"},
	{"*2\r\n$4\r\nECHO\r\n$4\r\n\r\n*1\r\n", "$4\r\n\r\n*1\r\n"},
	{"PING 'a\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"},
	{"*1\r\n$" + tooLong + "\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
	{"*2\r\n$3\r\nGET\r\n$" + tooLong + "\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
	{"*1\r\n$4\r\nPING\r\n*1\r\n$" + tooLong + "\r\n", "+PONG\r\n-ERR Protocol error: invalid bulk length\r\n"},
	{"*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
	{"*1\r\n$-1\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
	{"*1\r\n$04\r\nPING\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
	{"*1\r\n$x\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
	{"*1\r\n$\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
	{"*" + tooLong + "\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
	{"*" + tooLong + "0\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
	{"*2147483648\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
	{"PING\r\n*" + tooLong + "\r\n", "+PONG\r\n-ERR Protocol error: invalid multibulk length\r\n"},
	{"*x\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
	{"*01\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
	{"*\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
	{"*1\nPING\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
	{"*1\r\n#4\r\n", "-ERR Protocol error: expected '$', got '#'\r\n"},
	{"*1\r\n\r\n", "-ERR Protocol error: expected '$', got ' '\r\n"},
	{strings.Repeat("x", 70000), "-ERR Protocol error: too big inline request\r\n"},
	{"*" + strings.Repeat("1", 70000), "-ERR Protocol error: too big mbulk count string\r\n"},
	{"*1\r\n$" + strings.Repeat("1", 70000), "-ERR Protocol error: too big bulk count string\r\n"},
}

func TestProtocolIsReadAsRedisDoes(t *testing.T) {
	t.Run("fake", func(t *testing.T) { runProtocol(t, Start(t).Addr()) })
	t.Run("redis-server", func(t *testing.T) { runProtocol(t, startReal(t)) })
}

func runProtocol(t *testing.T, addr string) {
	for _, pc := range protocolCases {
		name := pc.send[:min(len(pc.send), 40)]
		t.Run(name, func(t *testing.T) {
			c := dial(t, "tcp", addr)
			_, err := c.Write([]byte(pc.send))
			require.NoError(t, err)
			if !strings.Contains(pc.want, "Protocol error") {
				c.send("QUIT")
				pc.want += "+OK\r\n"
			}
			got, _ := io.ReadAll(c.r) // a server that closes with bytes unread resets
			require.Equal(t, pc.want, string(got))
		})
	}
}

// TestProtocolByteByByte is the same on the fake, with every byte arriving alone.
func TestProtocolByteByByte(t *testing.T) {
	network := NewNetwork()
	srv := Start(t, Config{Network: network})
	for _, pc := range protocolCases {
		name := pc.send[:min(len(pc.send), 40)]
		t.Run(name, func(t *testing.T) {
			conn, err := network.Dial(t.Context(), "tcp", srv.Addr())
			require.NoError(t, err)
			c := newRawClient(t, conn)
			send := pc.send
			if !strings.Contains(pc.want, "Protocol error") {
				send, pc.want = send+"QUIT\r\n", pc.want+"+OK\r\n"
			}
			for i := range len(send) {
				if _, err := c.Write([]byte{send[i]}); err != nil {
					break // it has heard enough
				}
			}
			got, _ := io.ReadAll(c.r)
			require.Equal(t, pc.want, string(got))
		})
	}
}

// passThrough feeds a stream in pieces and returns what the guard hands on until it finds a fault.
func passThrough(stream string, size int) (passed, fault string) {
	var g guard
	for stream != "" && g.fault == "" {
		n := copy(g.room(), stream[:min(size, len(stream))])
		stream = stream[n:]
		g.feed(n)
		for g.more() {
			var p [7]byte
			passed += string(p[:g.read(p[:])])
		}
	}
	return passed, g.fault
}

// TestGuardHandsOnWholeCommands checks that valid commands pass whole, wherever the pieces are cut.
func TestGuardHandsOnWholeCommands(t *testing.T) {
	stream := string(encode("SET", "key", "value\r\n*1\r\n$9\r\n")) + "PING\r\n" + "\r\n" + "*0\r\n" +
		string(encode("GET", "")) + string(encode("DEL", strings.Repeat("k", 300)))
	want := strings.Replace(stream, "PING\r\n\r\n*0\r\n", "PING\r\n", 1)
	for size := 1; size <= len(stream); size++ {
		passed, fault := passThrough(stream, size)
		require.Empty(t, fault)
		require.Equal(t, want, passed, "in pieces of %d", size)
	}
	passed, _ := passThrough(stream[:len(stream)-1], 5)
	require.Equal(t, want[:strings.Index(want, "*2\r\n$3\r\nDEL")], passed, "the last command is not complete")
}

// TestGuardIsLinear sends a large value in small pieces: neither the guard nor redcon may look at all of it again for
// each of them.
func TestGuardIsLinear(t *testing.T) {
	srv := Start(t)
	c := dial(t, "tcp", srv.Addr())
	value := strings.Repeat("v", 32<<20)
	whole := encode("SET", "k", value)
	go func() {
		for len(whole) > 0 {
			n := min(1<<10, len(whole))
			if _, err := c.Write(whole[:n]); err != nil {
				return
			}
			whole = whole[n:]
		}
	}()
	start := time.Now()
	require.Equal(t, "+OK\r\n", c.reply())
	require.Less(t, time.Since(start), 20*time.Second)
	got, ok := srv.Get("k")
	require.True(t, ok)
	require.Len(t, got, len(value))
}

// FuzzGuard checks that what passes does not depend on where the stream is cut, and that redcon survives it.
func FuzzGuard(f *testing.F) {
	for _, pc := range protocolCases {
		f.Add([]byte(pc.send), 3)
	}
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		if size < 1 || len(stream) > 1<<16 {
			return
		}
		passed, fault := passThrough(string(stream), size)
		again, same := passThrough(string(stream), 1)
		require.Equal(t, again, passed)
		require.Equal(t, same, fault)
		commands := redcon.NewReader(strings.NewReader(passed))
		for {
			if _, err := commands.ReadCommand(); err != nil {
				return
			}
		}
	})
}
