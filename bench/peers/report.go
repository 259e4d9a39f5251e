package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// report is the whole result. The package comment describes its JSON.
type report struct {
	Machine     string        `json:"machine"`
	Servers     string        `json:"servers"`
	Real        bool          `json:"real"`
	Versions    []string      `json:"versions"`
	Settings    []string      `json:"settings"`
	Turns       int           `json:"turns"`
	Duration    time.Duration `json:"duration_ns"`
	TTL         time.Duration `json:"ttl_ns"`
	Interrupted bool          `json:"interrupted"`
	Limit       *limit        `json:"limit"`
	Workloads   []table       `json:"workloads"`
	Targets     []target      `json:"targets"`
	Notes       []string      `json:"notes"`
}

// table is a workload and its rows.
type table struct {
	workload
	Rows []row `json:"rows"`
}

// row is what an implementation did at a workload.
type row struct {
	Impl        string        `json:"impl"`
	Mark        string        `json:"mark,omitempty"`
	Turns       int           `json:"turns"`
	Ops         int64         `json:"ops"`
	PerSecond   float64       `json:"per_second"`
	P50         time.Duration `json:"p50_ns"`
	P99         time.Duration `json:"p99_ns"`
	P999        time.Duration `json:"p99_9_ns"`
	Max         time.Duration `json:"max_ns"`
	Errors      int64         `json:"errors"`
	Unfinished  int64         `json:"unfinished"`
	FirstError  string        `json:"first_error,omitempty"`
	FailedTurns int           `json:"failed_turns"`
	CPU         time.Duration `json:"cpu_ns"`
	Allocs      float64       `json:"allocs"`
	Bytes       float64       `json:"bytes"`
	Goroutines  int           `json:"goroutines"`
	Drained     time.Duration `json:"drained_ns"`
	Left        int64         `json:"left"`
	RateRatio   float64       `json:"rate_ratio"`
	P50Ratio    float64       `json:"p50_ratio"`

	Rates []float64       `json:"rates"`
	P50s  []time.Duration `json:"p50s_ns"`
	P99s  []time.Duration `json:"p99s_ns"`

	kind kind
}

func (b *bench) report() *report {
	r := &report{
		Machine: machine(), Servers: b.servers(), Real: b.masters.real(), Versions: versions(),
		Turns: b.opts.turns, Duration: b.opts.duration, TTL: b.opts.ttl, Limit: medianLimit(b.limits),
		Notes: b.notes,
	}
	for _, impl := range b.opts.impls {
		r.Settings = append(r.Settings, impl.name+": "+impl.settle)
	}
	if b.opts.short {
		r.Settings = append(r.Settings, "short run: redlock waits ttl/4 for a round, so that a slow machine makes no errors")
	}
	for _, w := range b.opts.workloads {
		t := table{workload: w}
		for _, impl := range b.opts.impls {
			c := cell{w.Name, impl.name}
			if len(b.samples[c])+len(b.failures[c]) > 0 {
				t.Rows = append(t.Rows, newRow(impl, b.samples[c], b.failures[c]))
			}
		}
		if len(t.Rows) > 0 {
			t.compare()
			r.Workloads = append(r.Workloads, t)
		}
	}
	if r.Limit == nil && slices.ContainsFunc(b.opts.workloads, workload.nearLimit) {
		r.Notes = append(r.Notes, "the servers' own limit was not measured: no redis-benchmark, or no real servers")
	}
	r.Targets = r.targets()
	return r
}

func (b *bench) servers() string {
	return fmt.Sprintf("%d × %s, on loopback", len(b.masters.addrs()), b.masters.about())
}

// newRow sums up the turns.
func newRow(impl implementation, samples []sample, failures []error) row {
	r := row{Impl: impl.name, Mark: impl.mark, kind: impl.kind, Turns: len(samples), FailedTurns: len(failures)}
	var p999s, cpus, drained []time.Duration
	var allocs, bytes []float64
	for _, s := range samples {
		r.Ops += s.Ops
		r.Errors += s.Errors
		r.Unfinished += s.Unfinished
		r.Left += s.left
		r.Max = max(r.Max, s.total.max)
		r.Goroutines = max(r.Goroutines, s.Goroutines)
		if r.FirstError == "" {
			r.FirstError = s.FirstError
		}
		r.Rates = append(r.Rates, s.rate())
		r.P50s = append(r.P50s, s.total.quantile(500))
		r.P99s = append(r.P99s, s.total.quantile(990))
		p999s = append(p999s, s.total.quantile(999))
		drained = append(drained, s.drained)
		if s.Ops > 0 {
			cpus = append(cpus, s.CPU/time.Duration(s.Ops))
			allocs = append(allocs, float64(s.Mallocs)/float64(s.Ops))
			bytes = append(bytes, float64(s.Bytes)/float64(s.Ops))
		}
	}
	r.PerSecond = median(r.Rates)
	r.P50, r.P99, r.P999 = median(r.P50s), median(r.P99s), median(p999s)
	r.CPU, r.Allocs, r.Bytes, r.Drained = median(cpus), median(allocs), median(bytes), median(drained)
	if len(failures) > 0 {
		r.FirstError = oneLine(failures[0])
	}
	return r
}

// rate is how many a second there were, until the servers stood still.
func (s sample) rate() float64 {
	return float64(s.Ops) / max((s.Elapsed+s.drained).Seconds(), 1e-9)
}

// median is the middle one, or between the two in the middle; 0 if there is none.
func median[T ~int64 | ~float64](values []T) T {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	i := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[i]
	}
	return sorted[i-1] + (sorted[i]-sorted[i-1])/2
}

func medianLimit(limits []limit) *limit {
	if len(limits) == 0 {
		return nil
	}
	var sets, releases, pairs []float64
	for _, l := range limits {
		sets, releases, pairs = append(sets, l.Set), append(releases, l.Release), append(pairs, l.Pairs)
	}
	return &limit{median(sets), median(releases), median(pairs)}
}

// compare fills in the ratios to the best peer: the highest rate, and the lowest
// latency, which need not be the same one's.
func (t *table) compare() {
	rate, p50 := best(t.Rows, highestRate), best(t.Rows, lowestP50)
	for i := range t.Rows {
		r := &t.Rows[i]
		r.RateRatio = ratio(r.PerSecond, rate)
		r.P50Ratio = ratio(float64(r.P50), p50)
	}
}

func highestRate(r row) (float64, bool) { return r.PerSecond, true }
func lowestP50(r row) (float64, bool)   { return float64(r.P50), false }
func lowestCPU(r row) (float64, bool)   { return float64(r.CPU), false }

// best is the best value among the peers that have one; 0 if none has.
func best(rows []row, of func(row) (value float64, high bool)) (value float64) {
	for _, r := range rows {
		if v, high := of(r); r.kind == peer && r.Ops > 0 && v > 0 && (value == 0 || (v > value) == high) {
			value = v
		}
	}
	return value
}

// ratio is a / b, or 0 if it cannot be told.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func (r *report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

// compared are the modules whose versions the report names.
var compared = []string{
	"github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9", "github.com/redis/rueidis",
	"github.com/redis/rueidis/rueidiscompat", "github.com/gomodule/redigo", "github.com/bsm/redislock",
}

func versions() (all []string) {
	all = append(all, runtime.Version())
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return all
	}
	for _, m := range info.Deps {
		if !slices.Contains(compared, m.Path) {
			continue
		}
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
	}
	return all
}
