package engine

import "time"

const (
	firstBackOff   = 10 * time.Millisecond
	slowestDial    = time.Second
	slowestRelease = 10 * time.Second // a master that may not delete is asked for a whole ttl
)

// backOff is the pause before the next try at something that failed n times
// (from 1): it doubles up to the slowest, and a random (0 ≤ random < 1) half of
// it is taken off, so that the clients of a master that comes back do not
// arrive together.
func backOff(n int, slowest time.Duration, random float64) time.Duration {
	d := slowest
	if n < 16 {
		d = min(d, firstBackOff<<max(n-1, 0))
	}
	return d - time.Duration(random*float64(d/2))
}
