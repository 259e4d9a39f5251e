package resp_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/resp"
)

// Walks every string over a small alphabet that no shorter prefix has decided. So a
// whole reply must end exactly where it became whole, and a partial one must have a
// byte that continues it: if all bytes make it invalid, it was invalid already.
func TestEveryShortReplyIsDecidedAtItsEarliestByte(t *testing.T) {
	for _, c := range []struct {
		name, alphabet string
		depth          int
	}{
		{"nesting", "*%|_1\r\n", 15},
		{"lengths", "$=-*012a:\r\n", 6},
		{"integers", ":-+019a\r\n", 6},
		{"doubles", ",-+.1einfa\r\n", 6},
		{"big numbers", "(-+01a\r\n", 7},
		{"booleans and nulls", "#_tfT*-1\r\n", 6},
		{"lines", "+-a\r\n", 7},
		{"pushes", ">*|1_\r\n", 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			counts := map[string]int{}
			buf := make([]byte, 0, c.depth)
			var walk func()
			walk = func() {
				continued := false
				for _, next := range []byte(c.alphabet) {
					buf = append(buf, next)
					v, n, err := resp.Decode(buf)
					switch {
					case err == nil:
						counts["whole"]++
						if n != len(buf) {
							require.Failf(t, "whole before its last byte", "%q: %d", buf, n)
						}
						requireElements(t, v)
						continued = true
					case errors.Is(err, resp.ErrInvalid):
						counts["invalid"]++
					default:
						counts["partial"]++
						continued = true
						if len(buf) < c.depth {
							walk()
						}
					}
					buf = buf[:len(buf)-1]
				}
				if !continued {
					require.Failf(t, "partial, but no byte continues it", "%q", buf)
				}
			}
			walk()
			require.NotZero(t, counts["whole"])
			t.Log(counts)
		})
	}
}
