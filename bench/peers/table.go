package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"
)

// text is the report for people.
func (r *report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "machine   %s\nservers   %s\nversions  %s\n", r.Machine, r.Servers, strings.Join(r.Versions, ", "))
	fmt.Fprintf(&b, "medians over %d turns of %v, ttl %v; a turn ends when all servers have answered everything\n\nsettings\n", r.Turns, r.Duration, r.TTL)
	for _, s := range r.Settings {
		fmt.Fprintf(&b, "  %s\n", s)
	}
	if r.Limit != nil {
		fmt.Fprintf(&b, "\nthe servers' own limit (redis-benchmark -P %d -c %d, on all at once): SET NX PX %.0f/s, EVALSHA %.0f/s; both: %.0f locks/s\n",
			limitPipeline, limitConnections, r.Limit.Set, r.Limit.Release, r.Limit.Pairs)
	}
	for _, t := range r.Workloads {
		t.text(&b)
	}
	b.WriteString("\ntargets\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, t := range r.Targets {
		fmt.Fprintf(w, "  %v\n", t)
	}
	_ = w.Flush() // a strings.Builder never fails
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "\n%s\n", n)
	}
	if r.Interrupted {
		b.WriteString("\ninterrupted: turns are missing\n")
	}
	return b.String()
}

// text is one table, and what is to be said about its rows.
func (t table) text(b *strings.Builder) {
	fmt.Fprintf(b, "\n%s: %s (%d masters, keys of %d bytes)\n", t.Name, t.Title, t.Masters, t.KeySize)
	unit := strings.TrimSuffix(t.Unit, "s")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	width := utf8.RuneCountInString("implementation")
	for _, r := range t.Rows {
		width = max(width, len(r.Impl)+2) // with a footnote
	}
	fmt.Fprintf(w, "%-*s\t%s/s\tp50\tp99\tp99.9\tmax\terrors\tCPU/%s\tallocs\tbytes\tgoroutines\trate ×\tp50 ×\t\n",
		width, "implementation", t.Unit, unit)
	var marks []string
	for _, r := range t.Rows {
		name := r.Impl
		if r.Mark != "" {
			marks = append(marks, r.Mark)
			name += " " + footnote(len(marks))
		}
		name = fmt.Sprintf("%-*s", width, name) // the numbers are aligned to the right, the names are not
		if r.Ops == 0 {
			fmt.Fprintf(w, "%s\t0\t-\t-\t-\t%s\t%d\t-\t-\t-\t%d\t-\t-\t\n", name, unknown(short(r.Max)), r.Errors, r.Goroutines)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%v\t%v\t%d\t%s\t%.1f\t%.0f\t%d\t%s\t%s\t\n", name,
			number(r.PerSecond), short(r.P50), short(r.P99), short(r.P999), short(r.Max), r.Errors,
			unknown(short(r.CPU)), r.Allocs, r.Bytes, r.Goroutines, digits(r.RateRatio), digits(r.P50Ratio))
	}
	_ = w.Flush() // a strings.Builder never fails
	for i, m := range marks {
		fmt.Fprintf(b, "  %s %s\n", footnote(i+1), m)
	}
	for _, r := range t.Rows {
		r.remarks(b)
	}
}

// remarks says what has no column.
func (r row) remarks(w io.Writer) {
	if r.FailedTurns > 0 {
		fmt.Fprintf(w, "  %s: %s could not be measured: %s\n", r.Impl, count(r.FailedTurns, "turn"), r.FirstError)
	} else if r.Errors > 0 {
		fmt.Fprintf(w, "  %s: %s, %d not finished when the turn was over; the first: %s\n", r.Impl, count(r.Errors, "error"), r.Unfinished, r.FirstError)
	}
	if r.Left > 0 {
		fmt.Fprintf(w, "  %s: left %s behind that nobody owns\n", r.Impl, count(r.Left, "key"))
	}
}

// count is a number and what it is the number of.
func count[N int | int64](n N, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// footnote is a small number.
func footnote(n int) string {
	const digits = "⁰¹²³⁴⁵⁶⁷⁸⁹"
	var b strings.Builder
	for _, d := range strconv.Itoa(n) {
		b.WriteRune([]rune(digits)[d-'0'])
	}
	return b.String()
}

// number is a rate: as a whole, or with what makes a small one readable.
func number(v float64) string {
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return digits(v)
}

// digits is v with three digits, or "-" for what is not known.
func digits(v float64) string {
	switch {
	case v == 0:
		return "-"
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
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

// unknown is d, or "-" for 0.
func unknown(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.String()
}
