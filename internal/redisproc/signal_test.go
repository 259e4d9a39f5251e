//go:build unix

package redisproc

import (
	"bufio"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStoppedServerTakesBytesAndAnswersAfterContinue(t *testing.T) {
	p := Start(t, 1)[0]
	for range 20 { // a race between the signal and a reply would show here
		conn, err := net.Dial("tcp", p.Addr())
		require.NoError(t, err)
		reply := make([]byte, 7)
		ping := func() { _, err := io.WriteString(conn, "PING\r\n"); require.NoError(t, err) }
		ping()
		_, err = io.ReadFull(conn, reply)
		require.NoError(t, err)

		require.NoError(t, p.Stop())
		ping()
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
		_, err = conn.Read(reply)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)

		require.NoError(t, p.Continue())
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(5*time.Second)))
		_, err = io.ReadFull(conn, reply)
		require.NoError(t, err)
		require.Equal(t, "+PONG\r\n", string(reply))
		require.NoError(t, conn.Close())
	}
	require.NoError(t, p.Continue(), "continuing twice does nothing")
}

func TestStoppedServerCanBeKilledAndRestarted(t *testing.T) {
	p := Start(t, 1)[0]
	require.NoError(t, p.Stop())
	require.ErrorContains(t, p.Restart(true), "stopped")
	require.NoError(t, p.Restart(false))
	requireText(t, p, "PONG", "PING")
	require.NoError(t, p.Restart(true), "a new process is not stopped")
	require.NoError(t, p.Stop())
	require.NoError(t, p.Kill())
	require.ErrorIs(t, p.Stop(), errNotRunning)
	require.ErrorIs(t, p.Continue(), errNotRunning)
	require.NoError(t, p.Close())
	require.ErrorIs(t, p.Stop(), errClosed)
}

func TestCrashOfAServerIsReported(t *testing.T) {
	p := Start(t, 1)[0]
	require.Empty(t, p.crash())
	done := p.run.done
	require.NoError(t, syscall.Kill(p.PID(), syscall.SIGKILL))
	<-done
	require.Contains(t, p.crash(), "killed")
	require.Zero(t, p.PID())
	require.ErrorIs(t, p.Stop(), errNotRunning)
	require.NoError(t, p.Restart(false), "and it can be started again")
	require.Empty(t, p.crash())
}

// A Linux "parent death" signal is sent when the thread ends that started the
// process. A goroutine that ends while it is locked to its thread takes the
// thread with it.
func TestServersOutliveTheThreadThatAskedForThem(t *testing.T) {
	requireBinary(t)
	var ps []*Process
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlocked
		ps, err = Launch(3, t.TempDir())
	}()
	<-done
	require.NoError(t, err)
	for _, p := range ps {
		defer p.Close()
	}
	// Every idle thread is taken, all of them at a time, and ended.
	var locked, ended sync.WaitGroup
	end := make(chan struct{})
	for range 64 {
		locked.Add(1)
		ended.Go(func() { runtime.LockOSThread(); locked.Done(); <-end })
	}
	locked.Wait()
	close(end)
	ended.Wait()
	for _, p := range ps {
		requireText(t, p, "PONG", "PING")
		require.Empty(t, p.crash())
	}
}

const helperEnv = "REDISPROC_HELPER_DIR"

// TestHelperLaunches is no test: it is the program that the next test kills.
func TestHelperLaunches(t *testing.T) {
	dir := os.Getenv(helperEnv)
	if dir == "" {
		return
	}
	ps, err := Launch(3, dir)
	require.NoError(t, err)
	require.NoError(t, ps[2].Stop())
	line := "launched"
	for _, p := range ps {
		line += " " + p.Addr() + " " + strconv.Itoa(p.PID())
	}
	_, _ = io.WriteString(os.Stdout, line+"\n")
	_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
}

func TestServersDieWithAKilledProgram(t *testing.T) {
	requireBinary(t)
	if dieWithUs() == nil {
		return // not on this system, as Launch's comment says
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestHelperLaunches$")
	cmd.Env = append(os.Environ(), helperEnv+"="+t.TempDir())
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())

	var launched []string
	for lines := bufio.NewScanner(stdout); launched == nil && lines.Scan(); {
		if list, ok := strings.CutPrefix(lines.Text(), "launched "); ok {
			launched = strings.Fields(list)
		}
	}
	killErr := cmd.Process.Kill()
	_ = cmd.Wait()
	require.NoError(t, killErr)
	require.Len(t, launched, 2*3)
	for server := range slices.Chunk(launched, 2) {
		addr := server[0]
		gone := func() bool { return !accepts(addr) }
		if !assert.Eventually(t, gone, 5*time.Second, pollEvery, "the server at %s lives on", addr) {
			pid, err := strconv.Atoi(server[1])
			require.NoError(t, err)
			_ = syscall.Kill(pid, syscall.SIGKILL) // or it would, for ever
		}
	}
}
