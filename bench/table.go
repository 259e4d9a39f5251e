package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"
)

// report is the whole result. The package comment describes its JSON.
type report struct {
	Embedded    bool          `json:"embedded"`
	InProcess   bool          `json:"in_process"`
	Masters     []string      `json:"masters"`
	Go          string        `json:"go"`
	OS          string        `json:"os"`
	Arch        string        `json:"arch"`
	CPUs        int           `json:"cpus"`
	GOMAXPROCS  int           `json:"gomaxprocs"`
	TTL         time.Duration `json:"ttl_ns"`
	Duration    time.Duration `json:"duration_ns"`
	Interrupted bool          `json:"interrupted"`
	Rows        []row         `json:"rows"`

	dial []string // Masters, with credentials
}

// row is the result for one number of callers.
type row struct {
	Callers        int           `json:"callers"`
	Locks          int64         `json:"locks"`
	Elapsed        time.Duration `json:"elapsed_ns"`
	LocksPerSecond float64       `json:"locks_per_second"`
	P50            time.Duration `json:"p50_ns"`
	P99            time.Duration `json:"p99_ns"`
	P999           time.Duration `json:"p99_9_ns"`
	Max            time.Duration `json:"max_ns"`
	AllocsPerLock  float64       `json:"allocs_per_lock"`
	Errors         int64         `json:"errors"`
	FirstError     string        `json:"first_error,omitempty"`
}

func newReport(opts options, m *masters) *report {
	return &report{
		Embedded: m.embedded, InProcess: m.inProcess, Masters: m.shown(), dial: m.dial,
		Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
		CPUs: runtime.NumCPU(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		TTL: opts.ttl, Duration: opts.duration,
	}
}

// locks is how many were taken in all rows.
func (r *report) locks() (n int64) {
	for _, row := range r.Rows {
		n += row.Locks
	}
	return n
}

func (r *report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	_, err := io.WriteString(w, r.text())
	return err
}

// text is the report for people.
func (r *report) text() string {
	var b strings.Builder
	b.WriteString(r.head())
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "callers\tlocks/s\tp50\tp99\tp99.9\tmax\tallocs/lock\terrors\t")
	for _, row := range r.Rows {
		if row.Locks == 0 {
			fmt.Fprintf(t, "%d\t0\t-\t-\t-\t-\t-\t%d\t\n", row.Callers, row.Errors)
			continue
		}
		fmt.Fprintf(t, "%d\t%.0f\t%v\t%v\t%v\t%v\t%.2f\t%d\t\n", row.Callers, row.LocksPerSecond,
			short(row.P50), short(row.P99), short(row.P999), short(row.Max), row.AllocsPerLock, row.Errors)
	}
	_ = t.Flush() // a strings.Builder never fails
	for _, row := range r.Rows {
		if row.Errors > 0 {
			fmt.Fprintf(&b, "\nfirst error (callers: %d): %s\n", row.Callers, row.FirstError)
		}
	}
	if r.Interrupted {
		b.WriteString("\ninterrupted: the last row is shorter, or rows are missing\n")
	}
	return b.String()
}

// head says what was measured, and where.
func (r *report) head() string {
	masters := fmt.Sprintf("%d embedded masters (fakeredis), in a process of their own", len(r.Masters))
	switch {
	case r.InProcess:
		masters = fmt.Sprintf("%d embedded masters (fakeredis), in this process: allocations are theirs too", len(r.Masters))
	case !r.Embedded:
		masters = fmt.Sprintf("%d masters: %s", len(r.Masters), strings.Join(r.Masters, ", "))
	}
	cpus := fmt.Sprintf("%d CPUs", r.CPUs)
	if r.GOMAXPROCS != r.CPUs {
		cpus += fmt.Sprintf(" (GOMAXPROCS %d)", r.GOMAXPROCS)
	}
	return fmt.Sprintf("%s\n%s %s/%s, %s, %v per row, ttl %v\nlatency: one TryAcquire and its Release\n\n",
		masters, r.Go, r.OS, r.Arch, cpus, r.Duration, r.TTL)
}

// short is d with three digits: more of them would pretend a precision that
// there is not.
func short(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
