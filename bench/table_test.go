package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func fixed() *report {
	return &report{
		Embedded: true, Masters: []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"},
		Go: "go1.25.0", OS: "linux", Arch: "arm64", CPUs: 8, GOMAXPROCS: 8,
		TTL: 10 * time.Second, Duration: 2 * time.Second,
		Rows: []row{
			{Callers: 1, Locks: 15000, Elapsed: 2 * time.Second, LocksPerSecond: 7500, P50: 126123, P99: 251999, P999: 1004999, Max: 12345678, AllocsPerLock: 1.004},
			{Callers: 128, Locks: 170000, Elapsed: 2 * time.Second, LocksPerSecond: 85000.4, P50: 1512345, P99: 3 * time.Millisecond, P999: 9999999, Max: 1234567890, AllocsPerLock: 12.346, Errors: 17, FirstError: "redlock: it broke"},
		},
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, fixed().write(&b, false))
	require.Equal(t, strings.TrimPrefix(`
3 embedded masters (fakeredis), in a process of their own
go1.25.0 linux/arm64, 8 CPUs, 2s per row, ttl 10s
latency: one TryAcquire and its Release

  callers  locks/s     p50    p99  p99.9     max  allocs/lock  errors
        1     7500   126µs  252µs    1ms  12.3ms         1.00       0
      128    85000  1.51ms    3ms   10ms   1.23s        12.35      17

first error (callers: 128): redlock: it broke
`, "\n"), b.String())
}

func TestTableSaysWhatIsUnusual(t *testing.T) {
	r := fixed()
	r.InProcess, r.GOMAXPROCS, r.Interrupted = true, 2, true
	r.Rows = []row{{Callers: 1, Errors: 3, FirstError: "redlock: it broke"}}
	require.Equal(t, strings.TrimPrefix(`
3 embedded masters (fakeredis), in this process: allocations are theirs too
go1.25.0 linux/arm64, 8 CPUs (GOMAXPROCS 2), 2s per row, ttl 10s
latency: one TryAcquire and its Release

  callers  locks/s  p50  p99  p99.9  max  allocs/lock  errors
        1        0    -    -      -    -            -       3

first error (callers: 1): redlock: it broke

interrupted: the last row is shorter, or rows are missing
`, "\n"), r.text())

	r.Embedded, r.InProcess = false, false
	require.True(t, strings.HasPrefix(r.text(), "3 masters: 127.0.0.1:1, 127.0.0.1:2, 127.0.0.1:3\n"), r.text())
}

func TestJSON(t *testing.T) {
	r := fixed()
	r.Masters = []string{"127.0.0.1:1"}
	r.dial = []string{"redis://:hush@127.0.0.1:1"}
	r.Rows = r.Rows[1:]
	var b bytes.Buffer
	require.NoError(t, r.write(&b, true))
	require.Equal(t, `{
  "embedded": true,
  "in_process": false,
  "masters": [
    "127.0.0.1:1"
  ],
  "go": "go1.25.0",
  "os": "linux",
  "arch": "arm64",
  "cpus": 8,
  "gomaxprocs": 8,
  "ttl_ns": 10000000000,
  "duration_ns": 2000000000,
  "interrupted": false,
  "rows": [
    {
      "callers": 128,
      "locks": 170000,
      "elapsed_ns": 2000000000,
      "locks_per_second": 85000.4,
      "p50_ns": 1512345,
      "p99_ns": 3000000,
      "p99_9_ns": 9999999,
      "max_ns": 1234567890,
      "allocs_per_lock": 12.346,
      "errors": 17,
      "first_error": "redlock: it broke"
    }
  ]
}
`, b.String())
}

func TestShortDurationsHaveThreeDigits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 999: "999ns", 1004: "1µs", 123456: "123µs", 999999: "1ms", 1234567: "1.23ms", 45 * time.Second: "45s",
	} {
		require.Equal(t, want, short(d).String())
	}
}
