package redisproc

import "os"

// TB is the part of testing.TB that Start needs.
type TB interface {
	Helper()
	Cleanup(func())
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
	TempDir() string
}

// Start is Launch for tests: it starts n servers at once, in a temporary
// directory of the test, returns when all of them answer, and closes them when
// the test is over. A server that crashed by itself is mentioned in the
// test's log.
//
// Without a server binary the test is skipped, with the reason. It fails
// instead where the environment variable CI or REDLOCK_REQUIRE_REDIS is set
// (there nothing may be skipped unnoticed), or where $REDLOCK_SERVER_BIN names
// something that cannot be run. It must be called from the test's goroutine.
func Start(tb TB, n int, args ...string) []*Process {
	tb.Helper()
	bin, ok := Find()
	if !ok {
		if bin != "" || os.Getenv("CI") != "" || os.Getenv("REDLOCK_REQUIRE_REDIS") != "" {
			tb.Fatalf("redisproc: %s", missing(bin))
		}
		tb.Skipf("redisproc: %s", missing(bin))
	}
	// The directory comes before the cleanup below and is thus removed after it.
	ps, err := launch(bin, n, tb.TempDir(), args, ports.take)
	if err != nil {
		tb.Fatalf("%v", err)
	}
	tb.Cleanup(func() {
		for _, p := range ps {
			if how := p.crash(); how != "" {
				tb.Logf("redisproc: the server at %s ended by itself: %s", p.Addr(), how)
			}
			if err := p.Close(); err != nil {
				tb.Logf("%v", err)
			}
		}
	})
	return ps
}
