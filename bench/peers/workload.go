package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// task is what a caller does again and again.
type task string

const (
	pairing   task = "pair"      // acquire and release
	refusing  task = "refused"   // an attempt at what another holds
	extending task = "extend"    // an extension of a lock
	contended task = "contended" // acquire, hold, release one key that all want
	checking  task = "check"     // prove that it locks, once
)

// fault is what one master suffers while a workload is measured.
type fault string

const (
	healthy fault = ""
	frozen  fault = "frozen" // SIGSTOP
	slow    fault = "slow"   // its replies come slowFor later
	killed  fault = "killed" // SIGKILL
)

// workload is one table of the result: what is done, and by how many.
type workload struct {
	Name    string `json:"name"` // unique: b128
	Title   string `json:"title"`
	Unit    string `json:"unit"` // what is counted
	Task    task   `json:"task"`
	Fault   fault  `json:"fault,omitempty"`
	Masters int    `json:"masters"`
	Callers int    `json:"callers"` // in each process
	Clients int    `json:"processes"`
	KeySize int    `json:"key_bytes"`
}

const (
	standardMasters   = 5
	standardKeySize   = 20
	contendingClients = 4
	contendingCallers = 2
)

// groups are what -workloads can name, in order. The letters are one comparison;
// the words behind them show how the cost grows.
var groups = []struct {
	name   string
	about  string
	expand func(callers []int) []workload
}{
	{"a", "one caller, acquire + release", func([]int) []workload { return []workload{pairs("a", 1)} }},
	{"b", "many callers on keys of their own (-callers)", func(callers []int) (all []workload) {
		for _, n := range callers {
			all = append(all, pairs("b"+strconv.Itoa(n), n))
		}
		return all
	}},
	{"c", "one caller is refused what another holds", func([]int) []workload {
		w := pairs("c", 1)
		w.Title, w.Task, w.Unit = "one caller, refused", refusing, "refusals"
		return []workload{w}
	}},
	{"d", "one caller extends", func([]int) []workload {
		w := pairs("d", 1)
		w.Title, w.Task, w.Unit = "one caller, extend", extending, "extensions"
		return []workload{w}
	}},
	{"e", "one master is frozen (SIGSTOP)", func([]int) []workload {
		return []workload{pairs("e", 1).with(frozen, "one caller, one master frozen (SIGSTOP)")}
	}},
	{"f", "one master is slow", func([]int) []workload {
		return []workload{pairs("f", 1).with(slow, fmt.Sprintf("one caller, one master %v slow", slowFor))}
	}},
	{"g", "one master is killed (SIGKILL)", func([]int) []workload {
		return []workload{pairs("g", 1).with(killed, "one caller, one master killed (SIGKILL)")}
	}},
	{"h", "one key that callers of several processes want", func([]int) []workload {
		w := pairs("h", contendingCallers)
		w.Task, w.Unit, w.Clients = contended, "handovers", contendingClients
		w.Title = fmt.Sprintf("contended key, %d processes with %d callers each", w.Clients, w.Callers)
		return []workload{w}
	}},
	{"masters", "one caller and 128, on 1 to 9 masters", func([]int) (all []workload) {
		for _, masters := range []int{1, 3, 5, 7, 9} {
			for _, callers := range []int{1, 128} {
				w := pairs(fmt.Sprintf("masters%d-callers%d", masters, callers), callers)
				w.Masters = masters
				all = append(all, w)
			}
		}
		return all
	}},
	{"callers", "1 to 1024 callers", func([]int) (all []workload) {
		for n := 1; n <= 1024; n *= 2 {
			all = append(all, pairs(fmt.Sprintf("callers%d", n), n))
		}
		return all
	}},
	{"keys", "one caller and 128, keys of 10 B to 1 KiB", func([]int) (all []workload) {
		for _, size := range []int{10, 32, 100, 320, 1024} {
			for _, callers := range []int{1, 128} {
				w := pairs(fmt.Sprintf("keys%d-callers%d", size, callers), callers)
				w.KeySize = size
				all = append(all, w)
			}
		}
		return all
	}},
}

// pairs is a workload of acquire and release, all masters in good health.
func pairs(name string, callers int) workload {
	title := "one caller, acquire + release"
	if callers > 1 {
		title = fmt.Sprintf("%d callers, acquire + release", callers)
	}
	return workload{
		Name: name, Title: title, Unit: "locks", Task: pairing,
		Masters: standardMasters, Callers: callers, Clients: 1, KeySize: standardKeySize,
	}
}

func (w workload) with(f fault, title string) workload {
	w.Fault, w.Title = f, title
	return w
}

// chooseWorkloads returns those of the groups named.
func chooseWorkloads(names string, callers []int) (all []workload, err error) {
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		i := slices.IndexFunc(groups, func(g struct {
			name   string
			about  string
			expand func([]int) []workload
		}) bool {
			return g.name == name
		})
		if i < 0 {
			return nil, fmt.Errorf("there is no workload %q", name)
		}
		for _, w := range groups[i].expand(callers) {
			if !slices.ContainsFunc(all, func(o workload) bool { return o.Name == w.Name }) {
				all = append(all, w)
			}
		}
	}
	return all, nil
}

// measures reports whether the workload says anything about the implementation.
func (w workload) measures(impl implementation) bool {
	if slices.Contains(impl.lacks, w.Task) {
		return false
	}
	// What happens to one master of five says nothing about a lock on one.
	return !impl.single() || w.Fault == healthy && w.Masters == standardMasters
}

// key is what caller i locks, of exactly size bytes (but for numbers that need
// more).
func key(i, size int) string {
	k := "lock" + strconv.Itoa(i) + ":"
	return k + strings.Repeat("k", max(size-len(k), 0))
}
