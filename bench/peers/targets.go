package main

import (
	"fmt"
	"math"
)

// target is something that redlock wants to show.
type target struct {
	Text     string  `json:"text"`
	Bound    float64 `json:"bound"`
	Least    bool    `json:"least"`    // the bound is the least and not the most
	Measured float64 `json:"measured"` // 0: not measured
	Met      bool    `json:"met"`
}

func (t target) judge() target {
	t.Met = t.Measured > 0 && (t.Least && t.Measured >= t.Bound || !t.Least && t.Measured <= t.Bound)
	return t
}

func (t target) String() string {
	sign, verdict := "≤", "NOT met"
	if t.Least {
		sign = "≥"
	}
	switch {
	case t.Measured == 0:
		return fmt.Sprintf("%s\t%s %s\t-\tnot measured", t.Text, sign, digits(t.Bound))
	case t.Met:
		verdict = "met"
	}
	return fmt.Sprintf("%s\t%s %s\t%s\t%s", t.Text, sign, digits(t.Bound), digits(t.Measured), verdict)
}

// targets compares redlock with the fastest peer of each row, whatever its
// driver and setting, or with itself.
func (r *report) targets() []target {
	at := func(name string, of func(row) (float64, bool)) (we, best float64) { return r.pick(name, of) }
	ratioAt := func(name string, of func(row) (float64, bool)) float64 {
		we, best := at(name, of)
		return ratio(we, best)
	}
	own := func(name string, of func(row) (float64, bool)) float64 {
		we, _ := at(name, of)
		return we
	}
	p99 := func(r row) (float64, bool) { return float64(r.P99), false }
	allocs := func(r row) (float64, bool) { return r.Allocs, false }
	limited := 0.0
	if r.Limit != nil {
		limited = ratio(own("b512", highestRate), r.Limit.Pairs)
	}
	all := []target{
		{Text: "one caller, acquire + release: p50, × the fastest redsync", Bound: 0.45, Measured: ratioAt("a", lowestP50)},
		{Text: "128 callers: locks/s, × the fastest redsync", Bound: 10, Least: true, Measured: ratioAt("b128", highestRate)},
		{Text: "512 callers: locks/s, × the fastest redsync", Bound: 11, Least: true, Measured: ratioAt("b512", highestRate)},
		{Text: "512 callers: locks/s, × the servers' own limit", Bound: 0.9, Least: true, Measured: limited},
		{Text: "128 callers: client CPU per lock, × the thriftiest redsync", Bound: 1.0 / 15, Measured: ratioAt("b128", lowestCPU)},
		// To one decimal: the run-time itself allocates now and then.
		{Text: "one caller: allocations per lock", Bound: 1, Measured: math.Round(10*own("a", allocs)) / 10},
		{Text: "one caller, one master frozen: p99, × the own with all healthy", Bound: 1.25, Measured: ratio(own("e", p99), own("a", p99))},
		{Text: "one caller, one master slow: p50, × the own with all healthy", Bound: 1.1, Measured: ratio(own("f", lowestP50), own("a", lowestP50))},
		{Text: "one caller, refused: p50, × the fastest redsync", Bound: 0.5, Measured: ratioAt("c", lowestP50)},
	}
	for i := range all {
		all[i] = all[i].judge()
	}
	return all
}

// pick returns redlock's value and the best peer's at a workload; 0 is unknown.
func (r *report) pick(name string, of func(row) (float64, bool)) (we, bestPeer float64) {
	for _, t := range r.Workloads {
		if t.Name != name {
			continue
		}
		for _, row := range t.Rows {
			if row.kind == ours && row.Ops > 0 {
				we, _ = of(row)
			}
		}
		return we, best(t.Rows, of)
	}
	return 0, 0
}
