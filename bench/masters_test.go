package main

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func requireUp(t *testing.T, m *masters) {
	t.Helper()
	for _, addr := range m.dial {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		c.Close()
	}
}

func requireDown(t *testing.T, m *masters) {
	t.Helper()
	for _, addr := range m.dial {
		_, err := net.Dial("tcp", addr)
		require.Error(t, err)
	}
}

func TestMastersInAnotherProcess(t *testing.T) {
	m, err := startChild(3)
	require.NoError(t, err)
	defer m.stop()
	require.True(t, m.embedded)
	require.False(t, m.inProcess)
	require.Len(t, m.dial, 3)
	require.Equal(t, m.dial, m.shown())
	requireUp(t, m)
	m.stop()
	m.stop()
	requireDown(t, m)
}

func TestMastersInThisProcess(t *testing.T) {
	m, err := startHere(3)
	require.NoError(t, err)
	require.True(t, m.embedded)
	require.True(t, m.inProcess)
	require.Len(t, m.dial, 3)
	requireUp(t, m)
	m.stop()
	requireDown(t, m)
}

// However the benchmark ends, the system closes its end of the pipe.
func TestTheMastersEndWithTheirParent(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), mastersEnv+"=2")
	in, out := io.Pipe()
	var stdout bytes.Buffer
	cmd.Stdin, cmd.Stdout = in, &stdout
	require.NoError(t, cmd.Start())
	require.NoError(t, out.Close())
	require.NoError(t, cmd.Wait())
	require.Len(t, strings.Fields(stdout.String()), 2)
}

func TestMastersWithoutAProcess(t *testing.T) {
	require.Equal(t, exitFailed, serveMasters(1, strings.NewReader(""), full{}), "nobody to tell the addresses to")
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, io.ErrShortWrite }
