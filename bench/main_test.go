package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/fakeredis"
)

// programEnv makes the test binary the program.
const programEnv = "REDLOCK_BENCH_PROGRAM"

func TestMain(m *testing.M) {
	_, embedded := asMasters()
	if embedded || os.Getenv(programEnv) != "" {
		main() // exits
	}
	code := m.Run()
	stopServers()
	os.Exit(code)
}

func TestEmbeddedMastersNeedNoArguments(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-duration", "100ms", "-json"}, &stdout, &stderr), stderr.String())
	require.Empty(t, stderr.String(), "no progress: this is not a terminal")

	r := decode(t, stdout.Bytes())
	require.True(t, r.Embedded)
	require.False(t, r.InProcess)
	require.False(t, r.Interrupted)
	require.Equal(t, runtime.Version(), r.Go)
	require.Equal(t, 10*time.Second, r.TTL)
	require.Len(t, r.Rows, 3)
	for i, callers := range []int{1, 16, 128} {
		row := r.Rows[i]
		require.Equal(t, callers, row.Callers)
		requireSane(t, row, 100*time.Millisecond)
	}

	require.Len(t, r.Masters, 5)
	for _, addr := range r.Masters {
		_, err := net.Dial("tcp", addr)
		require.Error(t, err, "the masters' process is still there")
	}
}

// requireSane checks what must hold on the slowest machine as well: there many
// callers may well get nothing but time-outs in so short a row.
func requireSane(t *testing.T, r row, d time.Duration) {
	t.Helper()
	require.GreaterOrEqual(t, r.Elapsed, d)
	if r.Locks == 0 {
		require.Positive(t, r.Errors)
		require.Contains(t, r.FirstError, "i/o timeout")
		return
	}
	require.InEpsilon(t, float64(r.Locks)/r.Elapsed.Seconds(), r.LocksPerSecond, 1e-9)
	require.Positive(t, r.P50)
	require.LessOrEqual(t, r.P50, r.P99)
	require.LessOrEqual(t, r.P99, r.P999)
	require.LessOrEqual(t, r.P999, r.Max)
	require.LessOrEqual(t, r.Max, r.Elapsed)
	require.GreaterOrEqual(t, r.AllocsPerLock, 1.0, "the Lock itself")
	require.Equal(t, r.Errors > 0, r.FirstError != "")
}

func TestGivenMastersAreUsedAsTheyAre(t *testing.T) {
	var addrs, urls []string
	var servers []*fakeredis.Server
	for range 3 {
		s := fakeredis.Start(t, fakeredis.Config{Password: "hush"})
		servers = append(servers, s)
		addrs = append(addrs, s.Addr())
		urls = append(urls, "redis://:hush@"+s.Addr())
	}
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-masters", strings.Join(urls, ", "), "-callers", "2", "-duration", "20ms", "-ttl", "7s"}, &stdout, &stderr), stderr.String())
	require.Contains(t, stdout.String(), "3 masters: "+strings.Join(addrs, ", ")+"\n")
	require.Contains(t, stdout.String(), "20ms per row, ttl 7s\n")
	require.NotContains(t, stdout.String(), "hush")
	for _, s := range servers {
		require.Positive(t, s.Count("set"))
		require.Empty(t, s.Keys(), "everything is released")
		require.Eventually(t, func() bool { return s.Connections() == 0 }, 10*time.Second, time.Millisecond)
	}
}

func TestUnreachableMastersAreTheLibrarysError(t *testing.T) {
	gone := fakeredis.Start(t)
	gone.Close()
	opts, err := parse([]string{"-masters", gone.Addr()})
	require.NoError(t, err)
	opts.ready = 100 * time.Millisecond
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, opts.run(t.Context(), &stdout, &stderr))
	require.Empty(t, stdout.String())
	require.Contains(t, stderr.String(), "redlock: no quorum of masters answered: ready: 0 of 1 masters")
	require.Contains(t, stderr.String(), gone.Addr()+": dial")
}

func TestErrorsAreCountedAndTheFirstIsShown(t *testing.T) {
	s := fakeredis.Start(t)
	s.SetOOM(true)
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"-masters", s.Addr(), "-callers", "3", "-duration", "10ms"}, &stdout, &stderr))
	require.Regexp(t, `(?m)^ +3 +0( +-){5} +[1-9]\d*$`, stdout.String())
	require.Regexp(t, `first error \(callers: 3\): .*OOM`, stdout.String())
	require.Contains(t, stderr.String(), "no lock could be taken")
}

func TestWrongFlagsExitWithTwo(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitUsage, run(t.Context(), []string{"-callers", "none"}, &stdout, &stderr))
	require.Empty(t, stdout.String())
	require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line")
	require.Contains(t, stderr.String(), "-callers")
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-h"}, &stdout, &stderr))
	require.Empty(t, stderr.String())
	for _, name := range []string{"-masters addresses", "-callers numbers", "-duration time", "-ttl time", "-json"} {
		require.Contains(t, stdout.String(), name)
	}
}

// measuredOn starts a master and returns a channel that closes when a row has
// got beyond its warm-up and taken locks on it.
func measuredOn(t *testing.T) (s *fakeredis.Server, measured <-chan struct{}) {
	s = fakeredis.Start(t)
	done := make(chan struct{})
	var mu sync.Mutex
	var first time.Time
	left := 100
	s.Hook("set", func(c fakeredis.Command) (none fakeredis.Action) {
		mu.Lock()
		defer mu.Unlock()
		if first.IsZero() {
			first = c.At
		}
		// What the warm-up sends arrives within a RoundTimeout of its end, or is
		// given up.
		if c.At.Sub(first) > 2*maxWarmUp {
			if left--; left == 0 {
				close(done)
			}
		}
		return none
	})
	return s, done
}

func TestInterruptedRunPrintsWhatThereIs(t *testing.T) {
	s, measured := measuredOn(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-measured
		cancel()
	}()
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(ctx, []string{"-masters", s.Addr(), "-callers", "4,1", "-duration", "1h", "-json"}, &stdout, &stderr), stderr.String())
	require.Empty(t, s.Keys(), "everything is released")
	r := decode(t, stdout.Bytes())
	require.True(t, r.Interrupted)
	require.Len(t, r.Rows, 1)
	requireSane(t, r.Rows[0], 0)
	require.NotContains(t, r.Rows[0].FirstError, context.Canceled.Error(), "an interruption is not an error")
}

func TestInterruptedBeforeAnythingWasMeasured(t *testing.T) {
	s := fakeredis.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run(ctx, []string{"-masters", s.Addr()}, &stdout, &stderr))
	require.Empty(t, stdout.String())
	require.Contains(t, stderr.String(), "interrupted before anything was measured")
}

func TestSignalEndsTheProgram(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be sent an interrupt there")
	}
	s, measured := measuredOn(t)
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-masters", s.Addr(), "-duration", "1h")
	cmd.Env = append(os.Environ(), programEnv+"=1")
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Start())
	<-measured
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.NoError(t, cmd.Wait(), stderr.String())
	require.Empty(t, s.Keys(), "everything is released")
	require.Contains(t, stdout.String(), "\ninterrupted")
	require.Empty(t, stderr.String())
}

func decode(t *testing.T, text []byte) (r report) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&r), string(text))
	return r
}
