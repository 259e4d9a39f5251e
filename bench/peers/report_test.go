package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	require.Zero(t, median[float64](nil))
	require.Equal(t, 3.0, median([]float64{3}))
	require.Equal(t, 2.5, median([]float64{3, 2}))
	values := []time.Duration{9, 1, 5}
	require.Equal(t, time.Duration(5), median(values))
	require.Equal(t, []time.Duration{9, 1, 5}, values, "the order of the turns is kept")
	require.Equal(t, time.Duration(4), median([]time.Duration{100, 3, 5, 1}))
}

// turnOf is a turn of that many locks, all of which took as long as each other.
func turnOf(ops int, each time.Duration) sample {
	s := sample{total: new(histogram), drained: 10 * time.Millisecond}
	for range ops {
		s.total.add(each)
	}
	s.Ops, s.Elapsed = int64(ops), 990*time.Millisecond
	s.CPU, s.Mallocs, s.Bytes, s.Goroutines = time.Duration(ops)*time.Microsecond, uint64(2*ops), uint64(100*ops), 7
	return s
}

func TestARowIsTheMedianOfItsTurns(t *testing.T) {
	impl, _ := find("redsync-goredis")
	bad := turnOf(10, time.Second)
	bad.Errors, bad.Unfinished, bad.FirstError, bad.left, bad.Goroutines = 3, 1, "it broke", 2, 99
	r := newRow(impl, []sample{turnOf(1000, 100), turnOf(3000, 300), bad}, nil)
	require.Equal(t, row{
		Impl: impl.name, kind: peer, Turns: 3, Ops: 4010, PerSecond: 1000,
		P50: 300, P99: 300, P999: 300, Max: time.Second,
		Errors: 3, Unfinished: 1, FirstError: "it broke", CPU: time.Microsecond, Allocs: 2, Bytes: 100,
		Goroutines: 99, Drained: 10 * time.Millisecond, Left: 2,
		Rates: []float64{1000, 3000, 10}, P50s: []time.Duration{100, 300, time.Second}, P99s: []time.Duration{100, 300, time.Second},
	}, r)

	lost := newRow(impl, nil, []error{errors.New("no\nserver")})
	require.Equal(t, 1, lost.FailedTurns)
	require.Equal(t, "no server", lost.FirstError)
	require.Zero(t, lost.PerSecond)
}

// fixed is a bench whose turns are known: redlock, the two peers that have
// something, and two that no ratio may be about.
func fixed(t *testing.T) *bench {
	opts, err := parse([]string{"-workloads", "a,b,c,e,f", "-impl", "redlock,redsync-goredis,redsync-rueidis,bsm-redislock,floor", "-turns", "1"})
	require.NoError(t, err)
	b := &bench{opts: opts, masters: fakeMasters{}, samples: make(map[cell][]sample), failures: make(map[cell][]error)}
	set := func(workload, impl string, s sample) { b.samples[cell{workload, impl}] = []sample{s} }
	set("a", "redlock", turnOf(8000, 100))
	set("a", "redsync-goredis", turnOf(2000, 400))
	set("a", "redsync-rueidis", turnOf(1000, 200))
	set("a", "bsm-redislock", turnOf(20000, 30))
	set("a", "floor", turnOf(9000, 90))
	set("b128", "redlock", turnOf(90000, 1000))
	set("b128", "redsync-goredis", turnOf(10000, 9000))
	set("b512", "redlock", turnOf(95000, 5000))
	set("b512", "redsync-goredis", turnOf(5000, 90000))
	set("c", "redlock", turnOf(8000, 110))
	set("c", "redsync-goredis", turnOf(8000, 220))
	stuck := turnOf(0, 0)
	stuck.total.add(2 * time.Second)
	stuck.Errors, stuck.Unfinished, stuck.FirstError = 1, 1, "too late"
	set("e", "redlock", turnOf(8000, 120))
	set("e", "redsync-goredis", stuck)
	b.failures[cell{"e", "redsync-rueidis"}] = []error{errors.New("it hangs")}
	b.limits = []limit{{200000, 200000, 100000}}
	return b
}

func TestRatiosAreToTheBestLibraryWithAQuorum(t *testing.T) {
	r := fixed(t).report()
	a := r.Workloads[0]
	require.Equal(t, "a", a.Name)
	ratios := make(map[string][2]float64)
	for _, row := range a.Rows {
		ratios[row.Impl] = [2]float64{row.RateRatio, row.P50Ratio}
	}
	require.Equal(t, map[string][2]float64{
		"redlock": {4, 0.5}, "redsync-goredis": {1, 2}, "redsync-rueidis": {0.5, 1},
		"bsm-redislock": {10, 0.15}, "floor": {4.5, 0.45},
	}, ratios)
}

func TestTargets(t *testing.T) {
	all := fixed(t).report().Targets
	measured := make([]float64, len(all))
	met := make([]bool, len(all))
	for i, target := range all {
		measured[i], met[i] = target.Measured, target.Met
	}
	require.Equal(t, []float64{0.5, 9, 19, 0.95, 1, 2, 1.2, 0, 0.5}, measured)
	require.Equal(t, []bool{false, false, true, true, false, false, true, false, true}, met)
	require.Equal(t, "x\t≤ 0.45\t0.5\tNOT met", target{Text: "x", Bound: 0.45, Measured: 0.5}.judge().String())
	require.Equal(t, "x\t≥ 10\t11.2\tmet", target{Text: "x", Bound: 10, Least: true, Measured: 11.234}.judge().String())
	require.Equal(t, "x\t≤ 1\t-\tnot measured", target{Text: "x", Bound: 1}.judge().String())
}

func TestTable(t *testing.T) {
	r := fixed(t).report()
	text := r.text()
	require.Contains(t, text, `
e: one caller, one master frozen (SIGSTOP) (5 masters, keys of 20 bytes)
  implementation     locks/s    p50    p99  p99.9    max  errors  CPU/lock  allocs  bytes  goroutines  rate ×  p50 ×
  redlock               8000  120ns  120ns  120ns  120ns       0       1µs     2.0    100           7       -      -
  redsync-goredis          0      -      -      -     2s       1         -       -      -           7       -      -
  redsync-rueidis          0      -      -      -      -       0         -       -      -           0       -      -
  redsync-goredis: 1 error, 1 not finished when the turn was over; the first: too late
  redsync-rueidis: 1 turn could not be measured: it hangs
`)
	require.Contains(t, text, "  bsm-redislock ¹      20000   30ns")
	require.Contains(t, text, "  ¹ one master\n  ² no library: raw sockets, one thread\n")
	require.Contains(t, text, "both: 100000 locks/s\n")
	require.Contains(t, text, "  redsync-goredis: NewMutex(", "the settings are shown")
	require.NotContains(t, text, "f: one caller", "there were no turns")
	require.NotContains(t, text, "interrupted")
	for line := range strings.Lines(text) {
		require.NotContains(t, line, "%!")
	}
}

func TestWithoutRealServersTheReportSaysSo(t *testing.T) {
	b := fixed(t)
	require.NoError(t, b.leaveOut())
	r := b.report()
	require.False(t, r.Real)
	require.Equal(t, []string{
		binaryMissing,
		"redsync-rueidis is left out: the embedded masters have no CLIENT TRACKING",
		"bsm-redislock is left out: the embedded masters have no GETRANGE",
	}, r.Notes[:3])
	require.Contains(t, r.text(), "\n"+binaryMissing+"\n")
	require.Len(t, implementations, 10, "nothing is taken out of those there are")

	b.opts.impls, _ = choose("rueidislock")
	b.notes = nil
	require.ErrorContains(t, b.leaveOut(), "rueidislock is left out")
}

func TestJSONIsTheReport(t *testing.T) {
	r := fixed(t).report()
	var b bytes.Buffer
	require.NoError(t, r.write(&b, true))
	var back report
	d := json.NewDecoder(&b)
	d.DisallowUnknownFields()
	require.NoError(t, d.Decode(&back))
	for i := range r.Workloads {
		for j := range r.Workloads[i].Rows {
			r.Workloads[i].Rows[j].kind = another // does not travel
		}
	}
	require.Equal(t, r, &back)
}

func TestFormats(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 999: "999ns", 1004: "1µs", 123456: "123µs", 1234567: "1.23ms"} {
		require.Equal(t, want, short(d).String())
	}
	for v, want := range map[float64]string{0: "-", 0.06666: "0.0667", 1: "1", 12.345: "12.3", 99999: "99999"} {
		require.Equal(t, want, digits(v))
	}
	require.Equal(t, "¹⁰", footnote(10))
}

func TestAShortRunFailsOnWhatMustNotFail(t *testing.T) {
	b := fixed(t)
	b.opts.short = true
	require.ErrorContains(t, b.verdict(), "e, redsync-rueidis: it hangs")
	b.failures = nil
	require.NoError(t, b.verdict(), "a peer may have errors")

	broken := turnOf(10, 100)
	broken.Errors, broken.FirstError = 1, "no quorum"
	b.samples[cell{"b128", "redlock"}] = []sample{broken}
	require.ErrorContains(t, b.verdict(), "b128, redlock: 1 errors; the first: no quorum")
	b.opts.short = false
	require.NoError(t, b.verdict(), "a long run shows errors, and that is all")

	b = fixed(t)
	b.failures, b.opts.short = nil, true
	b.samples[cell{"c", "redsync-goredis"}] = []sample{turnOf(0, 0)}
	require.ErrorContains(t, b.verdict(), "c, redsync-goredis: nothing succeeded")
}

// fakeMasters is what a report needs of masters.
type fakeMasters struct{ masters }

func (fakeMasters) addrs() []string { return make([]string, 5) }
func (fakeMasters) about() string   { return "known" }
func (fakeMasters) real() bool      { return false }
