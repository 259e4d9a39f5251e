//go:build !race

package redlock_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/internal/redisproc"
)

// What a client costs, counted with the masters in other processes. The race
// detector allocates for itself, so this is for plain runs.

func TestALockIsOneAllocation(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)
	ctx := context.Background() // cannot be cancelled
	var failed error
	note := func(err error) {
		if err != nil && failed == nil {
			failed = err
		}
	}
	for _, tc := range []struct {
		name string
		run  func(*redlock.Lock)
	}{
		{"TryAcquire and Release", func(l *redlock.Lock) { note(l.Release()) }},
		{"TryAcquire and ReleaseAsync", (*redlock.Lock).ReleaseAsync},
		{"TryAcquire, Extend and Release", func(l *redlock.Lock) { note(l.Extend(ctx, time.Minute)); note(l.Release()) }},
		{"TryAcquire, 10 × Extend and Release", func(l *redlock.Lock) {
			for range 10 {
				note(l.Extend(ctx, time.Minute))
			}
			note(l.Release())
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			once := func() {
				lock, err := client.TryAcquire(ctx, key, time.Minute)
				if err != nil {
					note(err)
					return
				}
				tc.run(lock)
			}
			// A master that lags keeps rounds from being used again, and on a busy
			// machine one always does now and then; in the best of many batches none
			// does. A real allocation is in all of them.
			const batches, runs = 40, 100
			least := math.Inf(1)
			for i := 0; i < batches && least > 1.04; i++ {
				least = min(least, mallocs(runs, once))
			}
			require.NoError(t, failed)
			require.InDelta(t, 1, least, 0.05, "the Lock, and nothing else")
		})
	}
}

// mallocs returns how many allocations the whole process makes while f runs,
// for each time that it does.
func mallocs(runs int, f func()) float64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.Mallocs-before.Mallocs) / float64(runs)
}

func TestAnIdleClientIsSmall(t *testing.T) {
	const clients, callers, limit = 8, 200, 256 << 10
	masters := redisproc.Start(t, 5)
	inUse := func() uint64 {
		runtime.GC()
		runtime.GC() // what pools held is gone after the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc + m.StackInuse
	}
	// crowd runs f in many goroutines at a time.
	crowd := func(f func(caller int)) {
		var all sync.WaitGroup
		start := make(chan struct{})
		for j := range callers {
			all.Go(func() { <-start; f(j) })
		}
		close(start)
		all.Wait()
	}
	realClient(t, masters, nil) // the first brings up what is made once
	crowd(func(int) {})         // the runtime keeps the descriptors of goroutines
	before := inUse()
	cs := make([]*redlock.Client, clients)
	for i := range cs {
		cs[i] = realClient(t, masters, nil)
	}
	fresh := (int64(inUse()) - int64(before)) / clients
	t.Logf("a fresh client: %d KiB", fresh>>10)
	require.Less(t, fresh, int64(limit))

	for i, c := range cs {
		for j := range 100 {
			lock, err := c.TryAcquire(t.Context(), fmt.Sprint(i, " ", j), time.Minute)
			require.NoError(t, err)
			require.NoError(t, lock.Release())
		}
	}
	used := (int64(inUse()) - int64(before)) / clients
	t.Logf("a client that has been used: %d KiB", used>>10)
	require.Less(t, used, int64(limit))

	for _, tc := range []struct{ name, resource string }{
		{"a crowd", ""},
		{"a crowd with long keys", strings.Repeat("k", 15<<10)},
	} {
		for i, c := range cs {
			crowd(func(j int) {
				if lock, err := c.Acquire(t.Context(), fmt.Sprint(tc.resource, i, " ", j), time.Minute); err == nil {
					_ = lock.Release()
				}
			})
		}
		var after int64
		eventually(t, "a client is small again after "+tc.name, func() bool {
			after = (int64(inUse()) - int64(before)) / clients
			return after < limit
		})
		t.Logf("a client after %s: %d KiB", tc.name, after>>10)
	}
	runtime.KeepAlive(cs)
}

func TestGoroutines(t *testing.T) {
	masters := redisproc.Start(t, 5)
	before := runtime.NumGoroutine()
	client := realClient(t, masters, func(cfg *redlock.Config) { cfg.RoundTimeout = time.Minute })
	idle := func() {
		t.Helper()
		eventually(t, "an idle client has no goroutine", func() bool { return runtime.NumGoroutine() == before })
	}
	idle()
	lock, err := client.TryAcquire(t.Context(), key, time.Minute)
	require.NoError(t, err)
	idle()

	t.Run("none per waiting caller", func(t *testing.T) {
		before := runtime.NumGoroutine()
		for _, m := range masters[:3] {
			require.NoError(t, m.Stop())
		}
		const callers = 100
		ctx, cancel := context.WithCancel(t.Context())
		var calls []<-chan outcome
		for i := range callers {
			calls = append(calls, start(func() (*redlock.Lock, error) {
				return client.TryAcquire(ctx, fmt.Sprint("resource ", i), time.Hour)
			}))
		}
		eventually(t, "all wait in a round", func() bool {
			n := 0
			for _, m := range masters[3:] {
				n += size(t, m)
			}
			return n == 2*(callers+1)
		})
		eventually(t, "one goroutine reads for all", func() bool { return runtime.NumGoroutine() == before+callers+1 })
		cancel()
		for _, call := range calls {
			require.ErrorIs(t, (<-call).err, context.Canceled)
		}
		for _, m := range masters[:3] {
			require.NoError(t, m.Continue())
		}
	})
	require.NoError(t, lock.Release())
	waitForNoKeys(t, masters)
	idle()

	t.Run("none per caller that pauses", func(t *testing.T) {
		before := runtime.NumGoroutine()
		foreignLock(t, masters, key, other)
		const callers = 50
		ctx, cancel := context.WithCancel(t.Context())
		var calls []<-chan outcome
		for range callers {
			calls = append(calls, start(func() (*redlock.Lock, error) { return client.Acquire(ctx, key, time.Hour) }))
		}
		for range 50 {
			// The reader, and what a timer or the end of a wait starts for a moment.
			require.Less(t, runtime.NumGoroutine(), before+callers+callers/5)
			time.Sleep(time.Millisecond)
		}
		cancel()
		for _, call := range calls {
			require.ErrorIs(t, (<-call).err, context.Canceled)
		}
	})
	idle()
	require.NoError(t, client.Close())
	idle()
}

func TestACancelledCallOnAFrozenQuorumEndsPromptly(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, func(cfg *redlock.Config) { cfg.RoundTimeout = time.Minute })
	for _, m := range masters[2:] {
		require.NoError(t, m.Stop())
	}
	var lags []time.Duration
	for i := range 40 {
		ctx, cancel := context.WithCancel(t.Context())
		var canceled time.Time
		time.AfterFunc(time.Duration(i)*250*time.Microsecond, func() {
			canceled = time.Now()
			cancel()
		})
		_, err := client.TryAcquire(ctx, fmt.Sprint("resource ", i), time.Hour)
		now := time.Now()
		require.ErrorIs(t, err, context.Canceled)
		lags = append(lags, now.Sub(canceled))
	}
	t.Logf("after the cancellation: p50 %v, p99 %v", percentile(lags, 50), percentile(lags, 99))
	require.Less(t, percentile(lags, 50), 2*time.Millisecond)
	for _, m := range masters[2:] {
		require.NoError(t, m.Continue())
	}
	waitForNoKeys(t, masters)
}
