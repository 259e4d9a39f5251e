package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestProgressRewritesOneLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		p := &progress{w: &b, terminal: true}
		p.row(2, 3, 16)
		stop := p.watch(500*time.Millisecond, func() int64 { return 50 })
		time.Sleep(progressEvery * 5 / 2)
		stop()
		p.clear()
		require.NotContains(t, b.String(), "\n")
		var lines []string
		for line := range strings.SplitSeq(strings.TrimSuffix(b.String(), "\r"), "\r") {
			if line != "" {
				require.Len(t, line, lineWidth, "it covers the line before")
				lines = append(lines, strings.TrimRight(line, " "))
			}
		}
		require.Equal(t, []string{
			"row 2 of 3, callers: 16, connecting and warming up",
			"row 2 of 3, callers: 16, 0.1 of 0.5 s, 500 locks/s",
			"row 2 of 3, callers: 16, 0.2 of 0.5 s, 250 locks/s",
			"",
		}, lines)
	})
}

func TestLongProgressIsCut(t *testing.T) {
	var b bytes.Buffer
	(&progress{w: &b}).line(strings.Repeat("x", 200))
	require.Len(t, b.String(), lineWidth+2)
}

func TestProgressIsSilentElsewhere(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	require.NoError(t, err)
	defer file.Close()
	p := newProgress(file)
	p.row(1, 1, 1)
	stop := p.watch(time.Second, func() int64 { panic("nobody looks") })
	stop()
	p.clear()
	info, err := file.Stat()
	require.NoError(t, err)
	require.Zero(t, info.Size())

	require.False(t, isTerminal(&bytes.Buffer{}))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.False(t, isTerminal(w))
}
