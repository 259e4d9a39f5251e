package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The benchmarks run in this process, on masters in others. They have the names that benchstat can make a table of:
//
//	go test -C bench/peers -run '^$' -bench Pair -count 10 | benchstat -col /impl -
const (
	benchMasters = 9
	benchTTL     = 10 * time.Second
)

var benched struct {
	once    sync.Once
	masters masters
	err     error
}

// benchmarkMasters starts what any benchmark needs, once. Masters that one does
// not use cost it nothing.
func benchmarkMasters(b *testing.B) masters {
	b.Helper()
	benched.once.Do(func() { benched.masters, benched.err = startMasters(benchMasters) })
	require.NoError(b, benched.err)
	return benched.masters
}

// eachImpl runs a benchmark for all implementations that the workload says
// something about.
func eachImpl(b *testing.B, w workload) {
	for _, impl := range implementations {
		if !w.measures(impl) || impl.name == nameFloor && w.Callers > 1 { // it has one thread
			continue
		}
		b.Run(fmt.Sprintf("impl=%s/masters=%d/callers=%d", impl.name, w.Masters, w.Callers), func(b *testing.B) {
			m := benchmarkMasters(b)
			if impl.needs != "" && !m.real() {
				b.Skip("the embedded masters have no " + impl.needs)
			}
			j := job{Impl: impl.name, Task: w.Task, Addrs: m.addrs()[:w.Masters], Callers: w.Callers, KeySize: w.KeySize, TTL: benchTTL, Patient: true}
			l, err := impl.open(j.setup())
			require.NoError(b, err)
			defer l.close()
			crew := newCrew(l, j)
			undo, err := crew.prepare(b.Context(), impl)
			require.NoError(b, err)
			share(b, crew, m, impl)
			undo()
		})
	}
}

// share lets the crew do its task b.N times.
func share(b *testing.B, crew *crew, m masters, impl implementation) {
	b.Helper()
	var list []int
	for i := range impl.masters(crew.job.Addrs) {
		list = append(list, i)
	}
	var taken atomic.Int64
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	b.ReportAllocs()
	cpu := cpuTime()
	b.ResetTimer()
	start := time.Now()
	for _, c := range crew.callers {
		wg.Go(func() {
			for taken.Add(1) <= int64(b.N) {
				begin := time.Now()
				if err := c.once(ctx); err != nil {
					c.fail(err)
					continue
				}
				c.latency.add(time.Since(begin))
				c.ops++
			}
		})
	}
	wg.Wait()
	// The drain is this process's work here, so that only the rate includes it.
	b.StopTimer()
	cpu = cpuTime() - cpu
	last, err := drain(ctx, m, list, func() bool { return false })
	require.NoError(b, err)
	r := crew.result()
	all := r.Latency.dense()
	b.ReportMetric(float64(r.Ops)/last.Sub(start).Seconds(), "ops/s")
	b.ReportMetric(float64(all.quantile(500)), "p50-ns")
	b.ReportMetric(float64(all.quantile(990)), "p99-ns")
	b.ReportMetric(float64(cpu)/float64(b.N), "cpu-ns/op")
	if r.Errors > 0 {
		b.ReportMetric(float64(r.Errors), "errors")
		b.Logf("the first error: %s", r.FirstError)
	}
	for i := range list {
		require.NoError(b, m.clear(i))
	}
}

// BenchmarkPair is an acquire and its release.
func BenchmarkPair(b *testing.B) {
	for _, tc := range []struct{ masters, callers int }{{5, 1}, {5, 8}, {5, 64}, {5, 128}, {5, 512}, {1, 1}, {3, 1}, {7, 1}, {9, 1}} {
		w := pairs("", tc.callers)
		w.Masters = tc.masters
		eachImpl(b, w)
	}
}

// BenchmarkRefused is an attempt at what another client holds.
func BenchmarkRefused(b *testing.B) {
	w := pairs("", 1)
	w.Task = refusing
	eachImpl(b, w)
}

func BenchmarkExtend(b *testing.B) {
	w := pairs("", 1)
	w.Task = extending
	eachImpl(b, w)
}
