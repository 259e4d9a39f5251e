package resp_test

import (
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"

	"github.com/goredlock/redlock/resp"
)

func TestAppendCommandEncodesAnArrayOfBulkStrings(t *testing.T) {
	type name string
	type secret []byte
	const ping = "*1\r\n$4\r\nPING\r\n"
	require.Equal(t, ping, string(resp.AppendCommand(nil, "PING")))
	require.Equal(t, ping, string(resp.AppendCommand(nil, []byte("PING"))))
	require.Equal(t, ping, string(resp.AppendCommand(nil, name("PING"))))
	require.Equal(t, ping, string(resp.AppendCommand(nil, secret("PING"))))
	require.Equal(t, "before"+ping, string(resp.AppendCommand([]byte("before"), "PING")))
	require.Equal(t, "*0\r\n", string(resp.AppendCommand[string](nil)))
	require.Equal(t, "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$4\r\n\r\n\r\n\r\n", string(resp.AppendCommand(nil, "SET", "", "\r\n\r\n")))
}

func TestAppendedPiecesEqualTheWholeCommand(t *testing.T) {
	whole := resp.AppendCommand(nil, "SET", "key", "value", "NX", "PX", "30000")
	pieces := resp.AppendArray(nil, 6)
	pieces = resp.AppendBulk(pieces, "SET")
	pieces = resp.AppendBulk(pieces, []byte("key"))
	pieces = resp.AppendBulk(pieces, "value")
	pieces = resp.AppendBulk(pieces, "NX")
	pieces = resp.AppendBulk(pieces, "PX")
	pieces = resp.AppendInt(pieces, 30000)
	require.Equal(t, string(whole), string(pieces))
}

func TestAppendWritesLengthsOfAnyNumberOfDigits(t *testing.T) {
	for _, n := range []int{0, 1, 9, 10, 11, 19, 20, 99, 100, 101, 999, 1000, 65535, 1 << 20} {
		digits := strconv.Itoa(n)
		require.Equal(t, "*"+digits+"\r\n", string(resp.AppendArray(nil, n)))
		s := strings.Repeat("x", n)
		require.Equal(t, "$"+digits+"\r\n"+s+"\r\n", string(resp.AppendBulk(nil, s)))
	}
}

func TestAppendIntWritesABulkString(t *testing.T) {
	for n, want := range map[int64]string{
		0:             "$1\r\n0\r\n",
		9:             "$1\r\n9\r\n",
		12:            "$2\r\n12\r\n",
		-1:            "$2\r\n-1\r\n",
		math.MaxInt64: "$19\r\n9223372036854775807\r\n",
		math.MinInt64: "$20\r\n-9223372036854775808\r\n",
	} {
		require.Equal(t, want, string(resp.AppendInt(nil, n)))
	}
}

func TestAppendDoesNotAllocateWhenThereIsRoom(t *testing.T) {
	dst := make([]byte, 0, 4096)
	long := strings.Repeat("x", 1000)
	bytes := [][]byte{[]byte("SET"), []byte(long)}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		d := resp.AppendCommand(dst, "SET", long, "NX")
		d = resp.AppendCommand(d, bytes...)
		d = resp.AppendBulk(d, bytes[1])
		d = resp.AppendInt(d, math.MinInt64)
		_ = resp.AppendArray(d, 123456)
	}))
}

func TestRedconReadsWhatIsEncoded(t *testing.T) {
	for _, args := range [][]string{
		{"PING"},
		{"SET", "orders:42", "q7mX2sR9dLkP0aZtYbEw", "NX", "PX", "30000"},
		{"SET", "", ""},
		{"SET", "\r\n", "$5\r\nhello\r\n"},
		{"SET", "\x00\xff", strings.Repeat("x", 100_000)},
		strings.Split(strings.Repeat("arg ", 300), " "),
	} {
		requireRedconReads(t, resp.AppendCommand(nil, args...), args)
	}
}

// requireRedconReads checks that redcon reads exactly one command of these arguments,
// alone and with another behind it.
func requireRedconReads(t *testing.T, encoded []byte, want []string) {
	t.Helper()
	for _, behind := range []string{"", "*1\r\n$4\r\nPING\r\n"} {
		packet := append(encoded[:len(encoded):len(encoded)], behind...)
		complete, args, kind, rest, err := redcon.ReadNextCommand(packet, nil)
		require.NoError(t, err)
		require.True(t, complete)
		require.Equal(t, redcon.Redis, kind)
		require.Equal(t, behind, string(rest))
		got := make([]string, len(args))
		for i, arg := range args {
			got[i] = string(arg)
		}
		require.Equal(t, want, got)
	}
	cmd, err := redcon.Parse(encoded)
	require.NoError(t, err)
	require.Len(t, cmd.Args, len(want))
	require.Equal(t, encoded, cmd.Raw)
}
