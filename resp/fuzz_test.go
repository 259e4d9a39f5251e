package resp_test

import (
	"bytes"
	"errors"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tidwall/redcon"

	"github.com/goredlock/redlock/resp"
)

func FuzzDecode(f *testing.F) {
	for _, c := range golden {
		f.Add([]byte(c.in))
	}
	for _, c := range invalid {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, buf []byte) {
		before := bytes.Clone(buf)
		v, n, err := resp.Decode(buf)
		require.Equal(t, before, buf, "the buffer was written to")
		switch {
		case err == nil:
			requireWhole(t, buf, v, n)
			return
		case errors.Is(err, resp.ErrInvalid):
			require.NotEqual(t, resp.ErrPartial, err)
			for _, suffix := range []string{"\r", "\n", "\r\n", "0", "1\r\n", "_\r\n"} {
				_, _, err := resp.Decode(append(buf[:len(buf):len(buf)], suffix...))
				require.ErrorIs(t, err, resp.ErrInvalid, "bytes behind it made it valid: %q", suffix)
			}
		default:
			require.Equal(t, resp.ErrPartial, err)
			if len(buf) < resp.MaxSize/2 {
				requireContinuable(t, buf)
			}
		}
		require.Zero(t, n)
		require.Equal(t, resp.Value{}, v)
	})
}

// requireWhole checks everything that Decode promises of a whole reply.
func requireWhole(t *testing.T, buf []byte, v resp.Value, n int) {
	require.Positive(t, n)
	require.LessOrEqual(t, n, min(len(buf), resp.MaxSize))
	require.NotZero(t, v.Kind)
	requireElements(t, v)
	reply := buf[:n:n]
	for _, suffix := range []string{"", "\r", "\n", "\r\n", "0", "1\r\n", "+OK\r\n"} {
		v2, n2, err := resp.Decode(append(reply, suffix...))
		require.NoError(t, err)
		require.Equal(t, n, n2)
		require.Equal(t, v, v2)
	}
	if n < 4096 { // quadratic
		requirePartialPrefixes(t, reply)
	}

	// redcon knows the types of version 2 only, and says 0 to the others.
	n2, other := redcon.ReadNextRESP(reply)
	if n2 == 0 {
		return
	}
	require.Equal(t, n, n2)
	switch v.Kind {
	case resp.SimpleString, resp.Error, resp.Bulk:
		require.Equal(t, string(other.Data), string(v.Data))
	case resp.Integer:
		require.Equal(t, strconv.FormatInt(v.Int, 10), string(other.Data))
	case resp.Array:
		require.EqualValues(t, other.Count, v.Int)
	}
}

// requireContinuable checks that a partial reply is not an invalid one that was found
// out too late: some next byte keeps it from being invalid.
func requireContinuable(t *testing.T, buf []byte) {
	next := append(buf[:len(buf):len(buf)], 0)
	for _, c := range []byte("\r\n0123456789-+:ftinax_") {
		next[len(buf)] = c
		if _, _, err := resp.Decode(next); !errors.Is(err, resp.ErrInvalid) {
			return
		}
	}
	require.Fail(t, "partial, but no byte continues it", "%q", buf)
}

func FuzzCommand(f *testing.F) {
	f.Add("SET", []byte("key"), "value", int64(30000), uint8(0))   // an acquisition
	f.Add("", []byte{}, "", int64(0), uint8(0))                    // empty arguments
	f.Add("\r\n", []byte("$1\r\n"), "*1\r\n", int64(-1), uint8(3)) // text that looks like RESP
	f.Add("\x00", []byte("\xff"), "é", int64(-1<<63), uint8(8))    // bytes that are no text
	f.Add("EVALSHA", bytes.Repeat([]byte("x"), 99), string(bytes.Repeat([]byte("y"), 100)), int64(1<<63-1), uint8(97))
	f.Fuzz(func(t *testing.T, name string, key []byte, value string, number int64, more uint8) {
		want := []string{name, string(key), value, strconv.FormatInt(number, 10)}
		dst := resp.AppendArray(nil, len(want)+int(more))
		dst = resp.AppendBulk(dst, name)
		dst = resp.AppendBulk(dst, key)
		dst = resp.AppendBulk(dst, value)
		dst = resp.AppendInt(dst, number)
		for range more {
			dst = resp.AppendBulk(dst, value)
			want = append(want, value)
		}
		require.Equal(t, resp.AppendCommand(nil, want...), dst)
		requireRedconReads(t, dst, want)

		// A command is a valid reply as well, as long as it is short enough.
		v, n, err := resp.Decode(dst)
		if len(dst) > resp.MaxSize {
			require.Equal(t, resp.ErrTooLarge, err)
			return
		}
		require.NoError(t, err)
		require.Equal(t, len(dst), n)
		for _, arg := range want {
			elem, ok := v.Next()
			require.True(t, ok)
			require.Equal(t, resp.Bulk, elem.Kind)
			require.Equal(t, arg, string(elem.Data))
		}
	})
}
