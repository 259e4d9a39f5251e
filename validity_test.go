package redlock

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
)

func TestDrift(t *testing.T) {
	for _, tc := range []struct {
		ttl    time.Duration
		factor float64
		want   time.Duration
	}{
		{10 * time.Second, 0.01, 102 * time.Millisecond},
		{time.Second, 0.01, 12 * time.Millisecond},
		{time.Millisecond, 0.01, 2*time.Millisecond + 10*time.Microsecond},
		{10 * time.Second, 0, 2 * time.Millisecond},
		{10 * time.Second, 0.5, 5*time.Second + 2*time.Millisecond},
		{1, 0.01, 2*time.Millisecond + 1}, // rounded up
		{time.Hour, 0.1, 6*time.Minute + 2*time.Millisecond},
	} {
		require.Equal(t, tc.want, drift(tc.ttl, tc.factor), "%v × %v", tc.ttl, tc.factor)
	}
}

func TestWireTTL(t *testing.T) {
	for _, tc := range []struct{ ttl, want time.Duration }{
		{1, time.Millisecond},
		{time.Millisecond, time.Millisecond},
		{time.Millisecond + 1, 2 * time.Millisecond},
		{2*time.Millisecond - 1, 2 * time.Millisecond},
		{time.Second, time.Second},
		{maxTTL, maxTTL},
		{maxTTL - 1, maxTTL},
	} {
		require.Equal(t, tc.want, wireTTL(tc.ttl), "%v", tc.ttl)
	}
}

func TestSmallestTTL(t *testing.T) {
	for _, tc := range []struct {
		factor    float64
		min, want time.Duration
	}{
		{0, 0, 3 * time.Millisecond}, // 2 ms leave exactly nothing
		{0.01, 0, 3 * time.Millisecond},
		{0.5, 0, 5 * time.Millisecond},
		{0.9, 0, 21 * time.Millisecond},
		{0.01, time.Second, 1013 * time.Millisecond},
		{0, time.Second, 1003 * time.Millisecond},
		{0, maxTTL - 3*time.Millisecond, maxTTL},
		{0, maxTTL - 2*time.Millisecond, 0},
		{0, math.MaxInt64, 0},
		{math.Nextafter(1, 0), 0, 0},
		{1 - 1e-15, 0, 0},
	} {
		require.Equal(t, tc.want, smallestTTL(tc.factor, tc.min), "factor %v, min %v", tc.factor, tc.min)
	}
}

func TestSmallestTTLIsSmallestAndEnough(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		factor := rng.Float64()
		if rng.IntN(4) == 0 {
			factor = 1 - math.Pow(10, -1-11*rng.Float64()) // close to 1
		}
		least := time.Duration(math.Pow(10, 16*rng.Float64())) - 1
		ttl := smallestTTL(factor, least)
		if ttl == 0 {
			require.LessOrEqual(t, float64(maxTTL)*(1-factor)*(1-1e-9)-float64(clockGrain), float64(least)+1,
				"factor %v, min %v: there is one", factor, least)
			continue
		}
		require.Zero(t, ttl%time.Millisecond)
		require.Greater(t, ttl-drift(ttl, factor), least, "factor %v, min %v: enough", factor, least)
		less := ttl - time.Millisecond
		require.LessOrEqual(t, less-drift(less, factor), least, "factor %v, min %v: smallest", factor, least)
	}
}

// at is a time at which the wall and the monotonic clock have gone on by
// different amounts since start, as after a suspend or when somebody sets the
// clock. Only the runtime makes such times, hence the look into time.Time; the
// test checks both readings.
func at(start time.Time, wall, monotonic time.Duration) time.Time {
	const hasMonotonic, nanoseconds = 1 << 63, 1<<30 - 1
	now := start.Add(monotonic)
	raw := (*uint64)(unsafe.Pointer(&now)) // a flag, 33 bits of seconds since 1885, 30 bits of nanoseconds
	ns := int64(*raw&^hasMonotonic>>30)*1e9 + int64(*raw&nanoseconds) + int64(wall-monotonic)
	*raw = hasMonotonic | uint64(ns/1e9)<<30 | uint64(ns%1e9)
	return now
}

func TestElapsedIsTheLongerOfTwoClocks(t *testing.T) {
	start := time.Now()
	until := start.Add(10 * time.Second)
	for _, tc := range []struct {
		name            string
		wall, monotonic time.Duration
		elapsed         time.Duration
	}{
		{"both the same", 3 * time.Second, 3 * time.Second, 3 * time.Second},
		{"suspended for a minute", 63 * time.Second, 3 * time.Second, 63 * time.Second},
		{"wall clock set forward", time.Hour, 3 * time.Second, time.Hour},
		{"wall clock set back", -time.Hour, 3 * time.Second, 3 * time.Second},
		{"wall clock stands", 0, 3 * time.Second, 3 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			now := at(start, tc.wall, tc.monotonic)
			require.Equal(t, tc.monotonic, now.Sub(start), "the monotonic reading")
			require.Equal(t, tc.wall, now.Round(0).Sub(start.Round(0)), "the wall reading")

			require.Equal(t, tc.elapsed, elapsed(start, now))
			require.Equal(t, 10*time.Second-tc.elapsed, left(until, now))
		})
	}
	t.Run("no monotonic clock", func(t *testing.T) {
		start := start.Round(0)
		require.Equal(t, time.Second, elapsed(start, start.Add(time.Second)))
		require.Equal(t, -time.Second, left(start, start.Add(time.Second)))
	})
}

func TestEarlierMovesBothClocksDownOrNone(t *testing.T) {
	start := time.Now()
	for _, tc := range []struct {
		name            string
		wall, monotonic time.Duration // of b, from a
		want            time.Duration // how far a moves down, on both clocks
	}{
		{"earlier", -time.Second, -time.Second, time.Second},
		{"the same", 0, 0, 0},
		{"later", time.Second, time.Second, 0},
		{"earlier by the wall clock only", -time.Hour, time.Second, time.Hour},
		{"earlier by the monotonic clock only", time.Hour, -time.Second, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := start.Add(time.Minute)
			got := earlier(a, at(a, tc.wall, tc.monotonic))
			require.Equal(t, -tc.want, got.Sub(a))
			require.Equal(t, -tc.want, got.Round(0).Sub(a.Round(0)))
		})
	}
}

func TestRoundDeadline(t *testing.T) {
	start := time.Now()
	in := func(d time.Duration) time.Time { return start.Add(d) }
	for _, tc := range []struct {
		name         string
		timeout, ttl time.Duration
		callers      time.Time
		want         time.Duration
	}{
		{"the timeout", 50 * time.Millisecond, time.Second, time.Time{}, 50 * time.Millisecond},
		{"a quarter of the ttl", 50 * time.Millisecond, 100 * time.Millisecond, time.Time{}, 25 * time.Millisecond},
		{"the caller's", 50 * time.Millisecond, time.Second, in(time.Millisecond), time.Millisecond},
		{"the caller's is later", 50 * time.Millisecond, time.Second, in(time.Hour), 50 * time.Millisecond},
		{"the caller's has passed", 50 * time.Millisecond, time.Second, in(-time.Hour), -time.Hour},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := roundDeadline(start, tc.timeout, tc.ttl, tc.callers, !tc.callers.IsZero())
			require.Equal(t, tc.want, got.Sub(start))
		})
	}
}

func TestRetryPauseIsLongerThanTheRoundTook(t *testing.T) {
	for _, mean := range []time.Duration{0, time.Millisecond, 20 * time.Millisecond, maxTTL / 4} {
		for _, took := range []time.Duration{0, 1, time.Millisecond, time.Second, maxTTL / 4} {
			sum := time.Duration(0)
			const steps = 100
			for i := range steps {
				pause := retryPause(mean, took, float64(i)/steps)
				require.Positive(t, pause)
				require.GreaterOrEqual(t, pause, took, "mean %v, took %v", mean, took)
				if mean == 0 {
					require.LessOrEqual(t, pause, max(2*took, time.Millisecond))
				}
				sum += (pause - took) / steps
			}
			if mean > 0 {
				require.InEpsilon(t, mean, sum, 0.02, "RetryDelay is the mean")
			}
		}
	}
	require.NotEqual(t, retryPause(0, time.Second, 0.1), retryPause(0, time.Second, 0.2))
	require.NotEqual(t, retryPause(time.Second, 0, 0.1), retryPause(time.Second, 0, 0.2))
}

func TestValuesAreRandomAndPrintable(t *testing.T) {
	seen := make(map[value]bool)
	for range 10_000 {
		v := newValue()
		require.False(t, seen[v])
		seen[v] = true
		for _, b := range v {
			require.True(t, b > ' ' && b <= '~', "%q", v)
		}
	}
}
