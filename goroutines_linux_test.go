//go:build !race

package redlock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/internal/redisproc"
)

// slowReply is what each reply comes later by on the slow path.
const slowReply = 3 * time.Millisecond

const slowPathEnv = "REDLOCK_SLOW_PATH_TO"

// slowPaths returns addresses from which the masters answer later. The delay is
// in another process, so that its goroutines do not count with ours.
func slowPaths(t *testing.T, masters []*redisproc.Process) []string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperDelaysReplies$")
	cmd.Env = append(os.Environ(), slowPathEnv+"="+strings.Join(redisproc.Addrs(masters), ","))
	stdin, err := cmd.StdinPipe() // at its end the process ends
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if list, ok := strings.CutPrefix(lines.Text(), "paths "); ok {
			return strings.Fields(list)
		}
	}
	require.FailNow(t, "the other process has not started")
	return nil
}

// TestHelperDelaysReplies is no test: it is the program that slowPaths runs.
func TestHelperDelaysReplies(t *testing.T) {
	to := os.Getenv(slowPathEnv)
	if to == "" {
		return
	}
	line := "paths"
	for target := range strings.SplitSeq(to, ",") {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		line += " " + ln.Addr().String()
		go func() {
			for {
				client, err := ln.Accept()
				if err != nil {
					return
				}
				go delayReplies(client, target)
			}
		}()
	}
	_, _ = io.WriteString(os.Stdout, line+"\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(0)
}

func delayReplies(client net.Conn, target string) {
	defer client.Close()
	server, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		time.Sleep(slowReply)
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// Whoever is alone reads for itself, also while it must notice the end of its
// context.
func TestALoneCallOfAContextThatMayEndStartsNoGoroutine(t *testing.T) {
	sample := []metrics.Sample{{Name: "/sched/goroutines-created:goroutines"}}
	created := func() uint64 {
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	if metrics.Read(sample); sample[0].Value.Kind() == metrics.KindBad {
		t.Skipf("this version of Go does not tell %s", sample[0].Name)
	}
	masters := redisproc.Start(t, 5)
	paths := slowPaths(t, masters)
	client := realClient(t, masters, func(cfg *redlock.Config) { cfg.Masters = paths })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()

	const locks = 150
	before, began := created(), time.Now()
	for i := range locks {
		lock, err := client.TryAcquire(ctx, fmt.Sprint("resource ", i), time.Minute)
		require.NoError(t, err)
		require.NoError(t, lock.Extend(ctx, time.Minute))
		lock.ReleaseAsync()
	}
	const operations = 2 * locks
	took := time.Since(began)
	require.GreaterOrEqual(t, took, operations*slowReply, "the path is slow")
	// A timer that fires starts one: for late replies every 10 ms.
	ticks := uint64(took / (10 * time.Millisecond))
	n := created() - before
	t.Logf("%d goroutines in %d operations that took %v", n, operations, took)
	require.Less(t, n, ticks+operations/4)
	waitForNoKeys(t, masters)
}
