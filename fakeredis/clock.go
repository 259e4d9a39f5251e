package fakeredis

import (
	"sync"
	"time"
)

// ManualClock is a clock that stands still until a test moves it. Pass its Now in Config.Now; several servers may
// share one. It is safe for concurrent use.
type ManualClock struct {
	mu  sync.Mutex
	now time.Time
}

// NewManualClock returns a clock that stands at start.
func NewManualClock(start time.Time) *ManualClock { return &ManualClock{now: start} }

// Now returns where the clock stands.
func (c *ManualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock by d, which may be negative, as a wall clock that is set back is.
func (c *ManualClock) Advance(d time.Duration) {
	c.mu.Lock()
	c.now = c.now.Add(d)
	c.mu.Unlock()
}
