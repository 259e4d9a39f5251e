package resp_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/resp"
)

var nested8 = strings.Repeat("*1\r\n", resp.MaxDepth)

// invalid holds inputs that are invalid at their last byte: every proper prefix is
// still partial, so the decision could not come earlier.
var invalid = []struct {
	name string
	in   string
	want error
}{
	{"unknown type byte", "?", resp.ErrType},
	{"type byte zero", "\x00", resp.ErrType},
	{"LF for a type byte", "\n", resp.ErrType},
	{"CR for a type byte", "\r", resp.ErrType},
	{"digit for a type byte", "1", resp.ErrType},
	{"text of another protocol", "H", resp.ErrType},
	{"unknown type byte of an element", "*2\r\n:1\r\n?", resp.ErrType},
	{"chunk of a streamed string", ";", resp.ErrType},
	{"end of a streamed aggregate", ".", resp.ErrType},

	{"simple string with LF alone", "+OK\n", resp.ErrTerminator},
	{"simple string with CR alone", "+OK\rx", resp.ErrTerminator},
	{"simple string with two CR", "+OK\r\r", resp.ErrTerminator},
	{"error with LF alone", "-ERR\n", resp.ErrTerminator},
	{"integer with LF alone", ":1\n", resp.ErrTerminator},
	{"integer with CR alone", ":1\r1", resp.ErrTerminator},
	{"length with LF alone", "$1\n", resp.ErrTerminator},
	{"length with CR alone", "$1\ra", resp.ErrTerminator},
	{"null with LF alone", "_\n", resp.ErrTerminator},
	{"null with CR alone", "_\r_", resp.ErrTerminator},
	{"null of version 2 with CR alone", "$-1\r+", resp.ErrTerminator},
	{"boolean with LF alone", "#t\n", resp.ErrTerminator},
	{"double with CR alone", ",1\r,", resp.ErrTerminator},
	{"infinite double with LF alone", ",inf\n", resp.ErrTerminator},
	{"big number with LF alone", "(1\n", resp.ErrTerminator},
	{"bulk longer than its length", "$2\r\nabc", resp.ErrTerminator},
	{"bulk without CR", "$2\r\nab\n", resp.ErrTerminator},
	{"bulk without LF", "$2\r\nab\ra", resp.ErrTerminator},
	{"empty bulk with a byte", "$0\r\na", resp.ErrTerminator},
	{"verbatim longer than its length", "=5\r\ntxt:ab", resp.ErrTerminator},

	{"length missing", "$\r", resp.ErrLength},
	{"length with plus", "$+", resp.ErrLength},
	{"length minus zero", "$-0", resp.ErrLength},
	{"length minus two", "$-2", resp.ErrLength},
	{"length minus ten", "$-10", resp.ErrLength},
	{"length with a leading zero", "$00", resp.ErrLength},
	{"length with a leading zero and a digit", "*01", resp.ErrLength},
	{"length with a space", "$ ", resp.ErrLength},
	{"length with a space behind", "$1 ", resp.ErrLength},
	{"length in hexadecimal", "$0x", resp.ErrLength},
	{"count missing", "*\r", resp.ErrLength},
	{"null as a bulk error", "!-", resp.ErrLength},
	{"null as a verbatim", "=-", resp.ErrLength},
	{"null as a map", "%-", resp.ErrLength},
	{"null as a set", "~-", resp.ErrLength},
	{"null as a push", ">-", resp.ErrLength},
	{"null as an attribute", "|-", resp.ErrLength},
	{"null array below the deepest level, wrong", nested8 + "*-2", resp.ErrLength},

	{"streamed string", "$?", resp.ErrStreamed},
	{"streamed array", "*?", resp.ErrStreamed},
	{"streamed map", "%?", resp.ErrStreamed},
	{"streamed set", "~?", resp.ErrStreamed},
	{"streamed push", ">?", resp.ErrStreamed},

	{"integer empty", ":\r", resp.ErrInteger},
	{"integer with plus", ":+", resp.ErrInteger},
	{"integer minus zero", ":-0", resp.ErrInteger},
	{"integer of a sign only", ":-\r", resp.ErrInteger},
	{"integer with two signs", ":--", resp.ErrInteger},
	{"integer with a leading zero", ":00", resp.ErrInteger},
	{"integer with a fraction", ":1.", resp.ErrInteger},
	{"integer with a space", ": ", resp.ErrInteger},
	{"integer with a letter", ":1a", resp.ErrInteger},
	{"integer too large by one", ":9223372036854775808", resp.ErrInteger},
	{"integer too small by one", ":-9223372036854775809", resp.ErrInteger},
	{"integer of 20 digits", ":10000000000000000000", resp.ErrInteger},
	{"integer that would wrap to a small one", ":18446744073709551617", resp.ErrInteger},
	{"integer negative of 20 digits", ":-10000000000000000000", resp.ErrInteger},

	{"null with text", "_n", resp.ErrNull},
	{"boolean empty", "#\r", resp.ErrBoolean},
	{"boolean of another letter", "#T", resp.ErrBoolean},
	{"boolean with text", "#tr", resp.ErrBoolean},

	{"double empty", ",\r", resp.ErrDouble},
	{"double without digits before the point", ",.", resp.ErrDouble},
	{"double without digits behind the point", ",1.\r", resp.ErrDouble},
	{"double with two points", ",1.2.", resp.ErrDouble},
	{"double with two signs", ",--", resp.ErrDouble},
	{"double without exponent", ",1e\r", resp.ErrDouble},
	{"double with an exponent of a sign only", ",1e+\r", resp.ErrDouble},
	{"double with a fractional exponent", ",1e2.", resp.ErrDouble},
	{"double in hexadecimal", ",0x", resp.ErrDouble},
	{"double plus infinite", ",+i", resp.ErrDouble},
	{"double infinite, spelled out", ",infi", resp.ErrDouble},
	{"double infinite, cut", ",in\r", resp.ErrDouble},
	{"double infinite in capitals", ",I", resp.ErrDouble},
	{"double not a number, misspelled", ",nax", resp.ErrDouble},

	{"big number empty", "(\r", resp.ErrBigNumber},
	{"big number of a sign only", "(-\r", resp.ErrBigNumber},
	{"big number with a point", "(1.", resp.ErrBigNumber},
	{"big number with a letter", "(a", resp.ErrBigNumber},

	{"verbatim of length zero", "=0", resp.ErrVerbatim},
	{"verbatim of length three", "=3\r", resp.ErrVerbatim},
	{"verbatim without a colon", "=8\r\ntxt;", resp.ErrVerbatim},
	{"verbatim with a short format", "=8\r\ntx:", resp.ErrVerbatim},
	{"verbatim with a format of another byte", "=8\r\n\r", resp.ErrVerbatim},

	{"push in an array", "*1\r\n>", resp.ErrNestedPush},
	{"push in a push", ">1\r\n>", resp.ErrNestedPush},
	{"push in an attribute", "|1\r\n>", resp.ErrNestedPush},

	{"array too deep", nested8 + "*0", resp.ErrTooDeep},
	{"map too deep", nested8 + "%", resp.ErrTooDeep},
	{"set too deep", nested8 + "~", resp.ErrTooDeep},
	{"attribute too deep", nested8 + "|", resp.ErrTooDeep},
	{"attributes nested too deep", strings.Repeat("|1\r\n", resp.MaxDepth) + "|", resp.ErrTooDeep},

	{"bulk length over the limit", "$65527", resp.ErrTooLarge},
	{"bulk length of far too many digits", "$92233", resp.ErrTooLarge},
	{"bulk error length over the limit", "!65527", resp.ErrTooLarge},
	{"verbatim length over the limit", "=65527", resp.ErrTooLarge},
	{"array count over the limit", "*21843", resp.ErrTooLarge},
	{"set count over the limit", "~21843", resp.ErrTooLarge},
	{"push count over the limit", ">21843", resp.ErrTooLarge},
	{"map count over the limit", "%10922", resp.ErrTooLarge},
	{"attribute count over the limit", "|10922", resp.ErrTooLarge},
	{"bulk in an array over the limit", "*1\r\n$65523", resp.ErrTooLarge},
	{"bulk that leaves no room for the next element", "*2\r\n$65520", resp.ErrTooLarge},
	{"count that leaves no room for the next element", "*3\r\n:1\r\n*21840", resp.ErrTooLarge},
}

func TestDecodeRefusesInvalidRepliesAtTheFirstWrongByte(t *testing.T) {
	for _, c := range invalid {
		t.Run(c.name, func(t *testing.T) {
			requirePartialPrefixes(t, []byte(c.in))
			for _, suffix := range []string{"", "\r\n", "0\r\n", strings.Repeat("x", resp.MaxSize)} {
				v, n, err := resp.Decode([]byte(c.in + suffix))
				require.Equal(t, c.want, err)
				require.ErrorIs(t, err, resp.ErrInvalid)
				require.NotErrorIs(t, err, resp.ErrPartial)
				require.Zero(t, n)
				require.Equal(t, resp.Value{}, v)
			}
		})
	}
}

func TestDecodeCallsAnEmptyBufferPartial(t *testing.T) {
	for _, buf := range [][]byte{nil, {}} {
		_, n, err := resp.Decode(buf)
		require.Equal(t, resp.ErrPartial, err)
		require.NotErrorIs(t, err, resp.ErrInvalid)
		require.Zero(t, n)
	}
}

func TestDecodeRefusesEveryOtherTypeByte(t *testing.T) {
	const types = "+-:$*_#,(!=%~|>"
	for c := range 256 {
		_, _, err := resp.Decode([]byte{byte(c)})
		if strings.IndexByte(types, byte(c)) >= 0 {
			require.Equal(t, resp.ErrPartial, err, "%q", c)
		} else {
			require.Equal(t, resp.ErrType, err, "%q", c)
		}
	}
}

// largest holds replies of exactly MaxSize bytes.
func largest() map[string]string {
	pad := func(head string, tail int) string {
		return head + strings.Repeat("x", resp.MaxSize-len(head)-tail) + strings.Repeat("\r\n", tail/2)
	}
	digits := "(" + strings.Repeat("7", resp.MaxSize-3) + "\r\n"
	return map[string]string{
		"simple string":          pad("+", 2),
		"error":                  pad("-ERR ", 2),
		"big number":             digits,
		"double":                 "," + digits[1:],
		"bulk":                   pad("$65526\r\n", 2),
		"bulk in an array":       pad("*1\r\n$65522\r\n", 2),
		"bulk before an element": pad("*2\r\n$65519\r\n", 2+3)[:resp.MaxSize-5] + "\r\n_\r\n",
		"bulk behind an element": pad("*2\r\n_\r\n$65519\r\n", 2),
		"smallest elements":      "*21842\r\n" + strings.Repeat("_\r\n", 21841) + "+zz\r\n",
		"attributes":             "*1\r\n" + strings.Repeat("|0\r\n", 16382) + ":1\r\n",
	}
}

func TestDecodeAcceptsRepliesOfExactlyMaxSize(t *testing.T) {
	for name, in := range largest() {
		t.Run(name, func(t *testing.T) {
			require.Len(t, in, resp.MaxSize)
			v, n, err := resp.Decode([]byte(in + "+OK\r\n"))
			require.NoError(t, err)
			require.Equal(t, resp.MaxSize, n)
			requireElements(t, v)
			for i := 1; i < len(in); i++ {
				if i > 16 && i < len(in)-16 && i%9973 != 0 {
					continue // each costs a scan of what there is
				}
				_, _, err := resp.Decode([]byte(in[:i]))
				require.Equal(t, resp.ErrPartial, err, i)
			}
		})
	}
}

func TestDecodeRefusesLinesThatReachTheLimit(t *testing.T) {
	for _, head := range []string{"+", "-", "(", ",", "*1\r\n+", "*1\r\n|1\r\n(", "*3\r\n:1\r\n+"} {
		t.Run(fmt.Sprintf("%q", head), func(t *testing.T) {
			buf := []byte(head + strings.Repeat("1", resp.MaxSize))
			_, _, err := resp.Decode(buf[:resp.MaxSize-64])
			require.Equal(t, resp.ErrPartial, err)
			for _, n := range []int{resp.MaxSize, resp.MaxSize + 1, len(buf)} {
				_, _, err = resp.Decode(buf[:n])
				require.Equal(t, resp.ErrTooLarge, err)
			}
			_, _, err = resp.Decode([]byte(string(buf) + "\r\n"))
			require.Equal(t, resp.ErrTooLarge, err, "the line end comes too late")
		})
	}
}

func TestDecodeRefusesAttributesWithoutEnd(t *testing.T) {
	_, _, err := resp.Decode([]byte("*1\r\n" + strings.Repeat("|0\r\n", 16384)))
	require.Equal(t, resp.ErrTooLarge, err)
}
