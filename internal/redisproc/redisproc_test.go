package redisproc

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStartedServersAnswerAtAddressesOfTheirOwn(t *testing.T) {
	ps := Start(t, 5)
	require.Len(t, ps, 5)
	addrs, pids := map[string]bool{}, map[int]bool{}
	for i, p := range ps {
		require.Equal(t, p.Addr(), Addrs(ps)[i])
		host, _, err := net.SplitHostPort(p.Addr())
		require.NoError(t, err)
		require.Equal(t, "127.0.0.1", host)
		addrs[p.Addr()], pids[p.PID()] = true, true

		pong, err := p.Do("PING")
		require.NoError(t, err)
		require.Equal(t, "PONG", pong)
		size, err := p.Do("DBSIZE")
		require.NoError(t, err)
		require.Equal(t, "0", size)
	}
	require.Len(t, addrs, 5)
	require.Len(t, pids, 5)
	require.NotContains(t, pids, 0)
}

func TestServersSaveNothingUnlessAsked(t *testing.T) {
	p := Start(t, 1)[0]
	for _, name := range []string{"save", "appendonly"} {
		got, err := p.Do("CONFIG", "GET", name)
		require.NoError(t, err)
		require.Contains(t, []string{"save\n", "appendonly\nno"}, got)
	}
	dir, err := p.Do("CONFIG", "GET", "dir")
	require.NoError(t, err)
	require.Equal(t, "dir\n"+p.Dir(), dir)
}

func TestServersAreGoneAfterTheTest(t *testing.T) {
	var ps []*Process
	t.Run("inner", func(t *testing.T) { ps = Start(t, 2) })
	requireBinary(t)
	require.Len(t, ps, 2)
	for _, p := range ps {
		require.Zero(t, p.PID())
		requireNobodyAt(t, p.Addr())
	}
}

func TestKillFreesThePortAndResetsConnections(t *testing.T) {
	p := Start(t, 1)[0]
	conn, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	defer conn.Close()

	require.NoError(t, p.Kill())
	require.Zero(t, p.PID())
	requireNobodyAt(t, p.Addr())
	require.NoError(t, conn.SetDeadline(time.Now().Add(5*time.Second)))
	_, err = conn.Read(make([]byte, 1))
	require.Error(t, err)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)

	require.NoError(t, p.Kill(), "killing twice is not an error")
	_, err = p.Do("PING")
	require.ErrorContains(t, err, p.Addr())
}

func TestRestartWithoutDataStartsEmptyAtTheSameAddress(t *testing.T) {
	for _, args := range [][]string{nil, {"--appendonly", "yes", "--appendfsync", "always"}} {
		p := Start(t, 1, args...)[0]
		addr, pid := p.Addr(), p.PID()
		requireOK(t, p, "SET", "k", "v")

		require.NoError(t, p.Restart(false))
		require.Equal(t, addr, p.Addr())
		require.NotEqual(t, pid, p.PID())
		requireText(t, p, "0", "EXISTS", "k")

		require.NoError(t, p.Kill())
		require.NoError(t, p.Restart(false))
		requireText(t, p, "PONG", "PING")
	}
}

func TestRestartWithDataKeepsKeysAndTTLs(t *testing.T) {
	p := Start(t, 1)[0]
	requireOK(t, p, "SET", "k", "v", "PX", "100000")
	require.NoError(t, p.Restart(true))
	requireText(t, p, "v", "GET", "k")
	text, err := p.Do("PTTL", "k")
	require.NoError(t, err)
	pttl, err := strconv.Atoi(text)
	require.NoError(t, err)
	require.Positive(t, pttl)
	require.LessOrEqual(t, pttl, 100_000)

	requireOK(t, p, "SET", "k", "w")
	require.NoError(t, p.Restart(true))
	requireText(t, p, "w", "GET", "k")
}

func TestRestartWithDataThatNobodySavedFails(t *testing.T) {
	p := Start(t, 1)[0]
	require.NoError(t, p.Restart(true)) // leaves no file behind that the next one would load
	requireOK(t, p, "SET", "k", "v")
	require.NoError(t, p.Kill())
	require.ErrorContains(t, p.Restart(true), "--appendonly")
	require.Zero(t, p.PID())
	require.NoError(t, p.Restart(false))
	requireText(t, p, "0", "EXISTS", "k")
}

func TestRestartWithDataAfterAKillNeedsAnAppendOnlyFile(t *testing.T) {
	p := Start(t, 1, "--appendonly", "yes", "--appendfsync", "always")[0]
	requireOK(t, p, "SET", "k", "v")
	require.NoError(t, p.Kill())
	require.NoError(t, p.Restart(true))
	requireText(t, p, "v", "GET", "k")
}

func TestPasswordOfTheServerIsUsed(t *testing.T) {
	p := Start(t, 1, "--requirepass", "secret")[0]
	requireText(t, p, "PONG", "PING")
	require.NoError(t, p.Restart(true))
	requireText(t, p, "PONG", "PING")

	p.password = ""
	_, err := p.Do("PING")
	require.ErrorContains(t, err, "NOAUTH")
}

func TestClosedProcessStaysClosed(t *testing.T) {
	requireBinary(t)
	ps, err := Launch(1, "")
	require.NoError(t, err)
	p := ps[0]
	require.DirExists(t, p.Dir())
	require.NoError(t, p.Close())
	require.NoError(t, p.Close())
	require.NoDirExists(t, p.Dir())
	require.ErrorIs(t, p.Restart(false), errClosed)
	require.NoError(t, p.Kill())
	require.Zero(t, p.PID())
}

func TestLaunchLeavesTheCallersDirectory(t *testing.T) {
	requireBinary(t)
	dir := t.TempDir()
	for range 2 { // twice with one directory
		ps, err := Launch(2, dir)
		require.NoError(t, err)
		for _, p := range ps {
			rel, err := filepath.Rel(dir, p.Dir())
			require.NoError(t, err)
			require.True(t, filepath.IsLocal(rel), rel)
			require.NoError(t, p.Close())
			require.DirExists(t, p.Dir())
		}
	}
}

func TestLaunchReportsWhyAServerDidNotStart(t *testing.T) {
	requireBinary(t)
	begin := time.Now()
	ps, err := Launch(3, t.TempDir(), "--no-such-option", "1")
	require.Empty(t, ps)
	require.ErrorContains(t, err, "ended at once")
	require.ErrorContains(t, err, "no-such-option")
	require.Less(t, time.Since(begin), startTimeout, "an exit is noticed, not waited for")

	_, err = launch(filepath.Join(t.TempDir(), "nothing-here"), 1, t.TempDir(), nil, ports.take)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestLaunchTriesAnotherPortWhenOneIsTaken(t *testing.T) {
	requireBinary(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	foreign := Start(t, 1)[0] // answers PING, but is not the server that was launched

	busy := []int{listener.Addr().(*net.TCPAddr).Port, foreign.port}
	pick := func() (int, error) {
		if len(busy) == 0 {
			return ports.take()
		}
		port := busy[0]
		busy = busy[1:]
		return port, nil
	}
	bin, _ := Find()
	ps, err := launch(bin, 1, t.TempDir(), nil, pick)
	require.NoError(t, err)
	defer ps[0].Close()
	require.Empty(t, busy)
	require.NotEqual(t, foreign.Addr(), ps[0].Addr())
	requireText(t, ps[0], "PONG", "PING")
}

// requireBinary skips like Start, for tests that call Launch.
func requireBinary(t *testing.T) {
	t.Helper()
	Start(t, 0)
}

func requireOK(t *testing.T, p *Process, args ...string) {
	t.Helper()
	requireText(t, p, "OK", args...)
}

func requireText(t *testing.T, p *Process, want string, args ...string) {
	t.Helper()
	got, err := p.Do(args...)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func requireNobodyAt(t *testing.T, addr string) {
	t.Helper()
	require.False(t, accepts(addr), "somebody listens at %s", addr)
}

func accepts(addr string) bool {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}
