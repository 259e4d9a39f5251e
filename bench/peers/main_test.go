package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	_, embedded := asMasters()
	if embedded || os.Getenv(jobEnv) != "" {
		main() // exits
	}
	code := m.Run()
	if benched.masters != nil {
		benched.masters.close()
	}
	os.Exit(code)
}

// onBoth runs a test on real servers, where the machine has them, and on embedded
// ones.
func onBoth(t *testing.T, n int, f func(t *testing.T, m masters)) {
	for name, start := range map[string]func(int) (masters, error){"found": startMasters, "embedded": startEmbedded} {
		t.Run(name, func(t *testing.T) {
			m, err := start(n)
			require.NoError(t, err)
			t.Cleanup(m.close)
			f(t, m)
		})
	}
}

func TestShortRun(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "latency.svg")
	var stdout, stderr bytes.Buffer
	args := []string{"-short", "-duration", "30ms", "-json", "-picture", picture}
	require.Zero(t, run(t.Context(), args, &stdout, &stderr), stderr.String())
	require.Empty(t, stderr.String(), "no progress: this is not a terminal")

	var r report
	require.NoError(t, json.Unmarshal(stdout.Bytes(), &r))
	require.Len(t, r.Workloads, 8)
	for _, table := range r.Workloads {
		for _, row := range table.Rows {
			require.Equal(t, 1, row.Turns, "%s, %s: %s", table.Name, row.Impl, row.FirstError)
			if row.Impl == nameOurs {
				require.Equal(t, row.Unfinished, row.Errors, "%s: %s", table.Name, row.FirstError)
				require.Positive(t, row.Goroutines)
				require.Zero(t, row.Left, "%s: keys are left behind", table.Name)
			}
		}
	}
	require.Len(t, r.Workloads[0].Rows, len(implementations))
	require.Len(t, r.Workloads[4].Rows, len(implementations)-2, "a frozen one of five says nothing about one")
	b, err := os.ReadFile(picture)
	require.NoError(t, err)
	require.Contains(t, string(b), "</svg>")
	require.Contains(t, string(b), "redsync-rueidis-failfast")
}

// clears tells how often masters were cleared: once for each of them after a
// check, and twice for each in a turn.
type clears struct {
	masters
	told func(n int)
	n    int
}

func (c *clears) clear(i int) error {
	c.n++
	c.told(c.n)
	return c.masters.clear(i)
}

func TestInterruptedRunPrintsWhatThereIs(t *testing.T) {
	m, err := startEmbedded(standardMasters)
	require.NoError(t, err)
	defer m.close()
	opts, err := parse([]string{"-workloads", "a", "-impl", "redlock", "-turns", "1000000", "-duration", "10ms"})
	require.NoError(t, err)
	run := func(after int) (string, error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var stdout, stderr bytes.Buffer
		c := &clears{masters: m, told: func(n int) {
			if n == after {
				cancel()
			}
		}}
		err := opts.runOn(ctx, c, &stdout, &stderr)
		return stdout.String(), err
	}
	text, err := run(standardMasters * 4) // in the second turn
	require.NoError(t, err)
	require.Contains(t, text, "interrupted: turns are missing")
	require.Contains(t, text, "a: one caller, acquire + release")

	text, err = run(1)
	require.ErrorContains(t, err, "interrupted before anything was measured")
	require.Empty(t, text)
}

func TestWithoutABinaryTheMastersAreEmbedded(t *testing.T) {
	t.Setenv("PATH", "")
	t.Setenv("REDLOCK_SERVER_BIN", "")
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-short", "-duration", "20ms", "-workloads", "a,b,e,f,g,h"}, &stdout, &stderr), stderr.String())
	require.Contains(t, stdout.String(), "5 × fakeredis, in a process of its own")
	require.Contains(t, stdout.String(), binaryMissing)
	require.Contains(t, stdout.String(), "rueidislock is left out: the embedded masters have no CLIENT TRACKING")
}

func TestHelp(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Zero(t, run(t.Context(), []string{"-h"}, &stdout, &stderr))
	for _, want := range []string{"-duration", "-turns", "-callers", "-workloads", "-impl", "-json", "-picture", "-short", "redsync-redigo-failfast", "masters"} {
		require.Contains(t, stdout.String(), want)
	}
	require.Equal(t, exitUsage, run(t.Context(), []string{"-impl", "none"}, &stdout, &stderr))
	require.Equal(t, 1, strings.Count(stderr.String(), "\n"), "one line")
}
