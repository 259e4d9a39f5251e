package resp_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/resp"
)

// requireElements checks that a value has exactly v.Int elements if it is an
// aggregate, that they use up its data, and the same for each of them.
func requireElements(t *testing.T, v resp.Value) {
	t.Helper()
	if !v.IsAggregate() {
		_, ok := v.Next()
		require.False(t, ok)
		return
	}
	want, got := v.Int, int64(0)
	for elem, ok := v.Next(); ok; elem, ok = v.Next() {
		got++
		require.NotZero(t, elem.Kind)
		require.NotEqual(t, resp.Attribute, elem.Kind)
		requireElements(t, elem)
	}
	require.Equal(t, want, got)
	require.Equal(t, want, v.Int)
	require.Empty(t, v.Data)
}

func TestNextReturnsTheElementsInOrder(t *testing.T) {
	v, _, err := resp.Decode([]byte("%2\r\n+a\r\n|1\r\n+skip\r\n+me\r\n*2\r\n:1\r\n_\r\n$1\r\nb\r\n~0\r\n"))
	require.NoError(t, err)
	require.EqualValues(t, 4, v.Int)

	var got []resp.Value
	for elem, ok := v.Next(); ok; elem, ok = v.Next() {
		got = append(got, elem)
	}
	require.Equal(t, []resp.Value{
		text(resp.SimpleString, "a"),
		aggregate(resp.Array, 2, ":1\r\n_\r\n"),
		text(resp.Bulk, "b"),
		aggregate(resp.Set, 0, ""),
	}, got)
	_, ok := v.Next()
	require.False(t, ok)
}

func TestNextYieldsIntElements(t *testing.T) {
	for _, c := range golden {
		t.Run(c.name, func(t *testing.T) {
			v, _, err := resp.Decode([]byte(c.in))
			require.NoError(t, err)
			requireElements(t, v)
		})
	}
}

func TestNextDoesNotTakeTextForElements(t *testing.T) {
	v, _, err := resp.Decode([]byte("$4\r\n:1\r\n\r\n"))
	require.NoError(t, err)
	_, ok := v.Next()
	require.False(t, ok)
	require.Equal(t, ":1\r\n", string(v.Data))
}

func TestNextEndsWhenTheBytesHaveChanged(t *testing.T) {
	buf := []byte("*2\r\n:1\r\n:2\r\n")
	v, _, err := resp.Decode(buf)
	require.NoError(t, err)
	buf[4] = '?'
	elem, ok := v.Next()
	require.False(t, ok)
	require.Zero(t, elem)
	_, ok = v.Next()
	require.False(t, ok)
}

func TestCodeIsTheFirstWordOfAnError(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"-NOSCRIPT No matching script.\r\n", "NOSCRIPT"},
		{"-OOM\r\n", "OOM"},
		{"-\r\n", ""},
		{"- x\r\n", ""},
		{"!10\r\nBUSY Redis\r\n", "BUSY"},
		{"+OK then\r\n", ""},
		{"$6\r\nERR no\r\n", ""},
		{"_\r\n", ""},
	} {
		v, _, err := resp.Decode([]byte(c.in))
		require.NoError(t, err)
		require.Equal(t, c.want, string(v.Code()), c.in)
	}
}

func TestPredicatesTellTheKindsApart(t *testing.T) {
	for _, c := range golden {
		v, _, err := resp.Decode([]byte(c.in))
		require.NoError(t, err)
		require.Equal(t, strings.ContainsRune("-!", rune(v.Kind)), v.IsError(), c.name)
		require.Equal(t, strings.ContainsRune("+$=", rune(v.Kind)), v.IsText(), c.name)
		require.Equal(t, strings.ContainsRune("*%~|>", rune(v.Kind)), v.IsAggregate(), c.name)
		require.Equal(t, c.in == "+OK\r\n", v.IsOK(), c.name)
	}
	bulk := text(resp.Bulk, "OK")
	require.False(t, bulk.IsOK(), "SET answers with a simple string; a bulk OK is a stored value")
}

func TestEveryKindHasAName(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range "+-:$*_#,(!=%~|>" {
		name := resp.Kind(k).String()
		require.NotEqual(t, resp.Kind(0).String(), name)
		require.False(t, seen[name], name)
		seen[name] = true
	}
}

func TestDecodeOfGeneratedNestedReplies(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		in := generate(nil, rng, 1)
		v, n, err := resp.Decode(in)
		require.NoError(t, err, "seed %d: %q", seed, in)
		require.Equal(t, len(in), n)
		requireElements(t, v)
		if len(in) < 500 { // the others would take most of the time and show nothing new
			requirePartialPrefixes(t, in)
		}
	}
}

// generate appends a random reply that takes up to the levels of aggregates that are
// left below depth.
func generate(dst []byte, rng *rand.Rand, depth int) []byte {
	scalars := []string{"+OK\r\n", "-ERR x\r\n", ":-12\r\n", "$3\r\na\r\n\r\n", "$-1\r\n", "*-1\r\n", "_\r\n", "#t\r\n",
		",1.5e3\r\n", "(12\r\n", "!3\r\nERR\r\n", "=5\r\ntxt:x\r\n"}
	kinds := "*~%|>"
	if depth > 1 {
		kinds = "*~%" // an attribute alone is no element, and a push must not be one
	}
	if depth > resp.MaxDepth || depth > 1 && rng.IntN(3) > 0 {
		return append(dst, scalars[rng.IntN(len(scalars))]...)
	}
	kind := kinds[rng.IntN(len(kinds))]
	n := 1 + rng.IntN(3)
	dst = append(dst, kind)
	dst = strconv.AppendInt(dst, int64(n), 10)
	dst = append(dst, "\r\n"...)
	if kind == '%' || kind == '|' {
		n *= 2
	}
	for range n {
		if depth < resp.MaxDepth-1 && rng.IntN(6) == 0 {
			dst = append(dst, "|1\r\n"...)
			dst = generate(dst, rng, depth+2)
			dst = generate(dst, rng, depth+2)
		}
		dst = generate(dst, rng, depth+1)
	}
	return dst
}
