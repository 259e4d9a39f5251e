package redlock

import (
	"math"
	"time"
)

// The rules of time and of trying again. They are functions of what is passed
// in: no clock, no randomness of their own.

// clockGrain is the constant part of the drift: Redis expires keys with a
// precision of 1 ms, and clocks are read in whole milliseconds on both sides.
const clockGrain = 2 * time.Millisecond

// drift is what the clocks of masters and client may differ by over a ttl.
func drift(ttl time.Duration, factor float64) time.Duration {
	return time.Duration(math.Ceil(float64(ttl)*factor)) + clockGrain
}

// wireTTL is the ttl as it is sent: in whole milliseconds, rounded up.
func wireTTL(ttl time.Duration) time.Duration {
	if rest := ttl % time.Millisecond; rest > 0 {
		return ttl - rest + time.Millisecond
	}
	return ttl
}

// maxTTL bounds a ttl. With it, and with waits bounded by it, no sum of times
// overflows.
const maxTTL = 100 * 365 * 24 * time.Hour

// smallestTTL is the smallest ttl, in whole milliseconds, of which more than
// min is left after the drift; 0 if there is none. It searches, because a
// formula would have to get the rounding of drift right for every factor.
func smallestTTL(factor float64, min time.Duration) time.Duration {
	if maxTTL-drift(maxTTL, factor) <= min {
		return 0
	}
	low, high := time.Duration(0), time.Duration(maxTTL) // too small, large enough
	for high-low > time.Millisecond {
		middle := low + ((high - low) / 2).Truncate(time.Millisecond)
		if middle-drift(middle, factor) > min {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// elapsed is the time from start to now by the clock on which more has passed:
// the monotonic one stands still while the machine is suspended, and the wall
// clock may be set back.
func elapsed(start, now time.Time) time.Duration {
	return max(now.Sub(start), now.Round(0).Sub(start.Round(0)))
}

// left is the time from now until the instant given, by the clock on which
// less is left.
func left(until, now time.Time) time.Duration { return -elapsed(until, now) }

// roundDeadline is when the votes of a round that are still owed fail: the
// earliest of timeout, a quarter of the ttl (so that most of a ttl is left for
// the holder), and the caller's own deadline.
func roundDeadline(start time.Time, timeout, ttl time.Duration, callers time.Time, ok bool) time.Time {
	deadline := start.Add(min(timeout, ttl/4))
	if ok && callers.Before(deadline) {
		return callers
	}
	return deadline
}

// retryPause is how long Acquire waits after an attempt that took so long:
// always longer than that, so that the other side of a split vote has finished
// before we come again, and random (0 ≤ random < 1), so that both do not come
// at once.
func retryPause(mean, took time.Duration, random float64) time.Duration {
	if mean == 0 {
		return max(took+time.Duration(random*float64(took)), time.Millisecond)
	}
	return took + time.Duration((0.5+random)*float64(mean))
}

// earlier moves the instant a down to b, by the clock on which b is earlier by
// more; where b is not earlier on either, a stays. Both readings of a only fall:
// to take b's as they are could put the other one up.
func earlier(a, b time.Time) time.Time {
	if down := elapsed(b, a); down > 0 {
		return a.Add(-down)
	}
	return a
}
