//go:build !race

package engine

import (
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/internal/redisproc"
)

// What can only be counted without the race detector, which allocates for itself.

func TestALoneCallerAllocatesNothing(t *testing.T) {
	c := startReal(t, 5)
	for _, ops := range [][]*Op{{&Acquire, &Release}, {&Acquire, &Extend, &Extend, &Release}} {
		run := func(times int) {
			for range times {
				for _, op := range ops {
					if d := c.lone(op); d != Won {
						require.Equal(t, Won, d)
					}
				}
			}
		}
		const times = 5000
		per := 1e9
		for range 10 { // until no master lags: that takes more rounds than the pool has
			run(500)
			c.settled()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			run(times)
			runtime.ReadMemStats(&after)
			per = min(per, float64(after.Mallocs-before.Mallocs)/times)
			t.Logf("%d rounds: %.4f allocations, %.1f bytes", len(ops), per, float64(after.TotalAlloc-before.TotalAlloc)/times)
			if per < 0.05 {
				break
			}
		}
		require.Less(t, per, 0.05)
	}
}

func TestAnIdleEngineIsSmallAndHasNoGoroutine(t *testing.T) {
	const engines = 50
	addrs := redisproc.Addrs(redisproc.Start(t, 5))
	warm := connectReal(t, addrs)
	require.Equal(t, Won, warm.lone(&Acquire))
	collect := func() uint64 {
		for range 3 {
			runtime.GC()
		}
		return heap()
	}
	before := collect()
	var all []*cluster
	for i := range engines {
		c := connectReal(t, addrs)
		require.NotEqual(t, NoQuorum, c.lone(&Acquire), fmt.Sprint(i))
		all = append(all, c)
	}
	until(t, func() bool { return len(ours()) == 0 }, "goroutines without anything to do")
	each := (collect() - before) / engines
	t.Logf("%d KiB for each idle engine with 5 masters", each>>10)
	require.Less(t, each, uint64(256<<10))
	runtime.KeepAlive(all)
}

// A master that is down costs its vote in every round, and that is no reason to
// allocate.
func TestALoneCallerAllocatesNothingWhileAMasterIsDown(t *testing.T) {
	servers := redisproc.Start(t, 5)
	c := connectReal(t, redisproc.Addrs(servers))
	require.NoError(t, servers[4].Kill())
	c.awaitUp(4)
	least := math.Inf(1)
	for range 20 {
		const times = 200
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range times {
			require.Equal(t, Won, c.lone(&Acquire))
			require.Equal(t, Won, c.lone(&Release))
		}
		runtime.ReadMemStats(&after)
		least = min(least, float64(after.Mallocs-before.Mallocs)/times)
	}
	// lone says that every master may have been sent the key: the release is owed
	// to the one that is down, with a copy of the value.
	t.Logf("%.2f allocations", least)
	require.Less(t, least, 1.5)
}
