package redisproc

import (
	"bufio"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadReply(t *testing.T) {
	for _, tc := range []struct{ raw, text string }{
		{"+OK\r\n", "OK"},
		{":-42\r\n", "-42"},
		{"$0\r\n\r\n", ""},
		{"$4\r\na\r\nb\r\n", "a\r\nb"},
		{"$-1\r\n", ""},
		{"*-1\r\n", ""},
		{"*0\r\n", ""},
		{"*3\r\n$1\r\na\r\n:2\r\n$-1\r\n", "a\n2\n"},
		{"*2\r\n*1\r\n+a\r\n*1\r\n+b\r\n", "a\nb"},
		{"_\r\n", ""},
		{"#t\r\n", "t"},
		{",1.5\r\n", "1.5"},
		{"(12345678901234567890\r\n", "12345678901234567890"},
		{"%1\r\n+k\r\n:1\r\n", "k\n1"},
		{"~1\r\n+k\r\n", "k"},
		{">2\r\n+a\r\n+b\r\n", "a\nb"},
		{"=5\r\ntxt:a\r\n", "txt:a"},
		{"|1\r\n+ttl\r\n:9\r\n+OK\r\n", "OK"},
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(tc.raw + "+next\r\n")))
		require.NoError(t, err, "%q", tc.raw)
		require.Equal(t, tc.text, got.text, "%q", tc.raw)
		require.Equal(t, tc.raw, string(got.raw))
		require.False(t, got.failed, "%q", tc.raw)

		for i := range tc.raw {
			_, err := readReply(bufio.NewReader(strings.NewReader(tc.raw[:i])))
			require.Error(t, err, "%q", tc.raw[:i])
		}
	}
	for _, raw := range []string{"-ERR no\r\n", "!6\r\nERR no\r\n"} {
		got, err := readReply(bufio.NewReader(strings.NewReader(raw)))
		require.NoError(t, err)
		require.Equal(t, "ERR no", got.text)
		require.Equal(t, raw, string(got.raw))
		require.True(t, got.failed)
	}
	for _, raw := range []string{"\r\n", "hello\r\n", "+OK\n", "$x\r\n", "$-2\r\n", "$1\r\nabc", "*9223372036854775807\r\n", "$99999999999999999999\r\n"} {
		_, err := readReply(bufio.NewReader(strings.NewReader(raw)))
		require.Error(t, err, "%q", raw)
	}
}

func TestDoAndRaw(t *testing.T) {
	p := Start(t, 1)[0]
	requireOK(t, p, "SET", "k", "two\r\nlines")
	requireText(t, p, "two\r\nlines", "GET", "k")
	requireText(t, p, "", "GET", "missing")
	requireText(t, p, "-1", "PTTL", "k")
	requireText(t, p, "two\r\nlines\n", "MGET", "k", "missing")

	raw, err := p.Raw("GET", "missing")
	require.NoError(t, err)
	require.Equal(t, "$-1\r\n", string(raw))

	_, err = p.Do("INCR", "k")
	require.ErrorContains(t, err, "not an integer")
	raw, err = p.Raw("INCR", "k")
	require.NoError(t, err)
	require.Equal(t, "-ERR value is not an integer or out of range\r\n", string(raw))

	hello, err := p.Raw("HELLO", "3") // servers before Redis 6 answer with an error
	require.NoError(t, err)
	require.Contains(t, "%-", string(hello[0]))
}
