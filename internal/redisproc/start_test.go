package redisproc

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// fakeTB records how Start ends a test.
type fakeTB struct {
	*testing.T
	skipped, failed string
}

func (tb *fakeTB) Skipf(format string, args ...any) {
	tb.skipped = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (tb *fakeTB) Fatalf(format string, args ...any) {
	tb.failed = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func startWith(t *testing.T, n int) *fakeTB {
	tb := &fakeTB{T: t}
	done := make(chan struct{})
	go func() { // Goexit needs a goroutine to end
		defer close(done)
		Start(tb, n)
	}()
	<-done
	return tb
}

func clearEnv(t *testing.T) {
	for _, name := range []string{"CI", "REDLOCK_REQUIRE_REDIS", "REDLOCK_SERVER_BIN"} {
		t.Setenv(name, "")
	}
	t.Setenv("PATH", t.TempDir())
}

func TestStartWithoutABinarySkipsUnlessItMustNot(t *testing.T) {
	t.Run("plain", func(t *testing.T) {
		clearEnv(t)
		tb := startWith(t, 1)
		require.Contains(t, tb.skipped, "redis-server")
		require.Empty(t, tb.failed)
	})
	for _, name := range []string{"CI", "REDLOCK_REQUIRE_REDIS"} {
		t.Run(name, func(t *testing.T) {
			clearEnv(t)
			t.Setenv(name, "true")
			tb := startWith(t, 1)
			require.Contains(t, tb.failed, "redis-server")
			require.Empty(t, tb.skipped)
		})
	}
	t.Run("named in vain", func(t *testing.T) {
		clearEnv(t)
		t.Setenv("REDLOCK_SERVER_BIN", "/nothing/here")
		tb := startWith(t, 1)
		require.Contains(t, tb.failed, "/nothing/here")
		require.Empty(t, tb.skipped)
	})
}

func TestLaunchWithoutABinaryIsAnError(t *testing.T) {
	clearEnv(t)
	ps, err := Launch(1, t.TempDir())
	require.ErrorContains(t, err, "redis-server")
	require.Empty(t, ps)
}

func TestFindPrefersTheEnvironmentThenRedisThenValkey(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("what is executable is decided by the file's name there")
	}
	clearEnv(t)
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	binary := func(name string) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755))
		return path
	}
	requireFound := func(want string, wantOK bool) {
		t.Helper()
		got, ok := Find()
		require.Equal(t, want, got)
		require.Equal(t, wantOK, ok)
	}

	requireFound("", false)
	valkey := binary("valkey-server")
	requireFound(valkey, true)
	redis := binary("redis-server")
	requireFound(redis, true)
	own := binary("my-server")
	t.Setenv("REDLOCK_SERVER_BIN", own)
	requireFound(own, true)
	t.Setenv("REDLOCK_SERVER_BIN", "my-server")
	requireFound(own, true)
	t.Setenv("REDLOCK_SERVER_BIN", "other")
	requireFound("other", false)
}

func TestPortsAreReservedBelowTheEphemeralRange(t *testing.T) {
	set := portSet{taken: make(map[int]bool)}
	seen := map[int]bool{}
	for range 200 {
		port, err := set.take()
		require.NoError(t, err)
		require.False(t, seen[port], "port %d twice", port)
		require.GreaterOrEqual(t, port, firstPort)
		require.LessOrEqual(t, port, lastPort)
		seen[port] = true
	}
	for port := range seen {
		set.give(port)
	}
	require.Empty(t, set.taken)

	for port := firstPort; port <= lastPort; port++ {
		set.taken[port] = true
	}
	_, err := set.take()
	require.Error(t, err)
}
