package resp_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/resp"
)

// golden holds one reply of every form, and how it decodes.
var golden = []struct {
	name string
	in   string
	want resp.Value
}{
	{"simple string OK", "+OK\r\n", text(resp.SimpleString, "OK")},
	{"simple string longer than OK", "+OKAY\r\n", text(resp.SimpleString, "OKAY")},
	{"simple string empty", "+\r\n", text(resp.SimpleString, "")},
	{"simple string of any bytes", "+\x00\xff +-:$\r\n", text(resp.SimpleString, "\x00\xff +-:$")},
	{"error", "-ERR no\r\n", text(resp.Error, "ERR no")},
	{"error empty", "-\r\n", text(resp.Error, "")},
	{"integer zero", ":0\r\n", number(0)},
	{"integer one", ":1\r\n", number(1)},
	{"integer of two digits", ":42\r\n", number(42)},
	{"integer negative", ":-1\r\n", number(-1)},
	{"integer negative of two digits", ":-10\r\n", number(-10)},
	{"integer largest", ":9223372036854775807\r\n", number(1<<63 - 1)},
	{"integer smallest", ":-9223372036854775808\r\n", number(-1 << 63)},
	{"bulk", "$5\r\nhello\r\n", text(resp.Bulk, "hello")},
	{"bulk empty", "$0\r\n\r\n", text(resp.Bulk, "")},
	{"bulk that contains CR LF", "$4\r\n\r\n\r\n\r\n", text(resp.Bulk, "\r\n\r\n")},
	{"bulk of ten bytes", "$10\r\n0123456789\r\n", text(resp.Bulk, "0123456789")},
	{"null of version 2, bulk", "$-1\r\n", resp.Value{Kind: resp.Null}},
	{"null of version 2, array", "*-1\r\n", resp.Value{Kind: resp.Null}},
	{"null of version 3", "_\r\n", resp.Value{Kind: resp.Null}},
	{"boolean true", "#t\r\n", resp.Value{Kind: resp.Boolean, Int: 1}},
	{"boolean false", "#f\r\n", resp.Value{Kind: resp.Boolean}},
	{"double", ",1.25\r\n", text(resp.Double, "1.25")},
	{"double without fraction", ",10\r\n", text(resp.Double, "10")},
	{"double negative", ",-0.5\r\n", text(resp.Double, "-0.5")},
	{"double with plus", ",+0.5\r\n", text(resp.Double, "+0.5")},
	{"double with exponent", ",1e+20\r\n", text(resp.Double, "1e+20")},
	{"double with everything", ",-12.50E-07\r\n", text(resp.Double, "-12.50E-07")},
	{"double infinite", ",inf\r\n", text(resp.Double, "inf")},
	{"double minus infinite", ",-inf\r\n", text(resp.Double, "-inf")},
	{"double not a number", ",nan\r\n", text(resp.Double, "nan")},
	{"double not a number, as old servers print it", ",-nan\r\n", text(resp.Double, "-nan")},
	{"big number", "(3492890328409238509324850943850943825024385\r\n",
		text(resp.BigNumber, "3492890328409238509324850943850943825024385")},
	{"big number negative", "(-1\r\n", text(resp.BigNumber, "-1")},
	{"big number with plus", "(+1\r\n", text(resp.BigNumber, "+1")},
	{"bulk error", "!10\r\nERR a\r\nbad\r\n", text(resp.BulkError, "ERR a\r\nbad")},
	{"bulk error empty", "!0\r\n\r\n", text(resp.BulkError, "")},
	{"verbatim", "=8\r\ntxt:some\r\n", text(resp.Verbatim, "some")},
	{"verbatim empty", "=4\r\nmkd:\r\n", text(resp.Verbatim, "")},
	{"verbatim of a longer length", "=12\r\nmd5:12345678\r\n", text(resp.Verbatim, "12345678")},
	{"array empty", "*0\r\n", aggregate(resp.Array, 0, "")},
	{"array", "*2\r\n:1\r\n$1\r\na\r\n", aggregate(resp.Array, 2, ":1\r\n$1\r\na\r\n")},
	{"array of nulls", "*3\r\n$-1\r\n*-1\r\n_\r\n", aggregate(resp.Array, 3, "$-1\r\n*-1\r\n_\r\n")},
	{"array of empty arrays", "*2\r\n*0\r\n*0\r\n", aggregate(resp.Array, 2, "*0\r\n*0\r\n")},
	{"array nested", "*2\r\n*1\r\n:1\r\n%1\r\n+a\r\n~0\r\n", aggregate(resp.Array, 2, "*1\r\n:1\r\n%1\r\n+a\r\n~0\r\n")},
	{"map empty", "%0\r\n", aggregate(resp.Map, 0, "")},
	{"map", "%1\r\n+a\r\n:1\r\n", aggregate(resp.Map, 2, "+a\r\n:1\r\n")},
	{"set", "~1\r\n:1\r\n", aggregate(resp.Set, 1, ":1\r\n")},
	{"push", ">2\r\n+invalidate\r\n_\r\n", aggregate(resp.Push, 2, "+invalidate\r\n_\r\n")},
	{"push with an attribute inside", ">1\r\n|0\r\n+x\r\n", aggregate(resp.Push, 1, "|0\r\n+x\r\n")},
	{"attribute", "|1\r\n+ttl\r\n:3600\r\n", aggregate(resp.Attribute, 2, "+ttl\r\n:3600\r\n")},
	{"attribute empty", "|0\r\n", aggregate(resp.Attribute, 0, "")},
	{"attribute before an element", "*2\r\n|1\r\n+a\r\n+b\r\n:1\r\n:2\r\n",
		aggregate(resp.Array, 2, "|1\r\n+a\r\n+b\r\n:1\r\n:2\r\n")},
	{"attribute before each element", "*2\r\n|0\r\n:1\r\n|0\r\n|0\r\n:2\r\n",
		aggregate(resp.Array, 2, "|0\r\n:1\r\n|0\r\n|0\r\n:2\r\n")},
	{"attribute inside an attribute", "|1\r\n|1\r\n+a\r\n+b\r\n+c\r\n+d\r\n",
		aggregate(resp.Attribute, 2, "|1\r\n+a\r\n+b\r\n+c\r\n+d\r\n")},
	{"deepest", strings.Repeat("*1\r\n", resp.MaxDepth) + "_\r\n",
		aggregate(resp.Array, 1, strings.Repeat("*1\r\n", resp.MaxDepth-1)+"_\r\n")},
	{"null array below the deepest level", strings.Repeat("*1\r\n", resp.MaxDepth) + "*-1\r\n",
		aggregate(resp.Array, 1, strings.Repeat("*1\r\n", resp.MaxDepth-1)+"*-1\r\n")},
}

func text(kind resp.Kind, data string) resp.Value {
	return resp.Value{Kind: kind, Data: []byte(data)}
}

func number(n int64) resp.Value { return resp.Value{Kind: resp.Integer, Int: n} }

func aggregate(kind resp.Kind, n int64, data string) resp.Value {
	return resp.Value{Kind: kind, Int: n, Data: []byte(data)}
}

func TestDecodeReturnsWholeReplies(t *testing.T) {
	for _, c := range golden {
		t.Run(c.name, func(t *testing.T) {
			v, n, err := resp.Decode([]byte(c.in))
			require.NoError(t, err)
			require.Equal(t, len(c.in), n)
			require.Equal(t, c.want, v)
		})
	}
}

func TestDecodeIgnoresWhatFollowsAWholeReply(t *testing.T) {
	for _, c := range golden {
		t.Run(c.name, func(t *testing.T) {
			for _, suffix := range []string{"\r", "\n", "\r\n", "0", "?", c.in, strings.Repeat("x", resp.MaxSize)} {
				v, n, err := resp.Decode([]byte(c.in + suffix))
				require.NoError(t, err)
				require.Equal(t, len(c.in), n)
				require.Equal(t, c.want, v)
			}
		})
	}
}

func TestDecodeCallsEveryProperPrefixPartial(t *testing.T) {
	for _, c := range golden {
		t.Run(c.name, func(t *testing.T) { requirePartialPrefixes(t, []byte(c.in)) })
	}
}

// requirePartialPrefixes checks every proper prefix of a whole reply.
func requirePartialPrefixes(t *testing.T, reply []byte) {
	t.Helper()
	for i := range reply {
		v, n, err := resp.Decode(reply[:i:i])
		if err != resp.ErrPartial || n != 0 || v.Kind != 0 {
			require.Failf(t, "prefix is not partial", "%q: %v, %d, %v", reply[:i], v.Kind, n, err)
		}
	}
}

func TestDecodeFillsAValueThatWasUsedBefore(t *testing.T) {
	dirty := resp.Value{Kind: resp.Push, Int: 7, Data: []byte("old")}
	for _, c := range golden {
		v := dirty
		n, err := v.Decode([]byte(c.in))
		require.NoError(t, err, c.name)
		require.Equal(t, len(c.in), n, c.name)
		require.Equal(t, c.want, v, c.name)
	}
	for _, in := range []string{"", "*1\r\n", "?", ":1x"} {
		v := dirty
		n, err := v.Decode([]byte(in))
		require.Error(t, err)
		require.Zero(t, n)
		require.Equal(t, resp.Value{}, v)
	}
}

func TestDecodeReturnsViewsThatCannotGrowIntoTheBuffer(t *testing.T) {
	for _, c := range golden {
		buf := []byte(c.in + "+next\r\n")
		v, _, err := resp.Decode(buf)
		require.NoError(t, err)
		_ = append(v.Data, "overwritten"...)
		require.Equal(t, c.in+"+next\r\n", string(buf), c.name)
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	for _, c := range golden {
		buf := []byte(c.in)
		require.Zero(t, testing.AllocsPerRun(100, func() {
			v, _, _ := resp.Decode(buf)
			for _, ok := v.Next(); ok; _, ok = v.Next() {
			}
			_, _, _ = resp.Decode(buf[:len(buf)-1])
		}), c.name)
	}
	for _, c := range invalid {
		buf := []byte(c.in)
		require.Zero(t, testing.AllocsPerRun(100, func() { _, _, _ = resp.Decode(buf) }), c.name)
	}
}
