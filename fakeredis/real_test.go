package fakeredis

import (
	"fmt"
	"regexp"
	"testing"

	"github.com/goredlock/redlock/internal/redisproc"
)

// startReal starts a real server for one test and returns its address.
func startReal(t *testing.T) string { return redisproc.Start(t, 1)[0].Addr() }

// realFlavor asks a real server what it is. exact means that it is the very version that the flavor plays, so that
// it lacks what the flavor lacks.
func realFlavor(t *testing.T, addr string) (f Flavor, exact bool) {
	c := dial(t, "tcp", addr)
	text := c.do("INFO", "server")
	version := func(field string) (major, minor int) {
		m := regexp.MustCompile(field + `:(\d+)\.(\d+)`).FindStringSubmatch(text)
		if m == nil {
			return 0, 0
		}
		_, _ = fmt.Sscan(m[1]+" "+m[2], &major, &minor)
		return major, minor
	}
	if major, minor := version("valkey_version"); major > 0 {
		if major >= 9 {
			return Valkey9, major == 9 && minor == 0
		}
	} else if major, minor := version("redis_version"); major == 7 && minor == 0 {
		return Redis70, true
	} else if major > 8 || major == 8 && minor >= 4 {
		return Redis84, major == 8 && minor == 4
	}
	t.Skipf("no flavor plays the server at %s:\n%s", addr, text)
	return 0, false
}
