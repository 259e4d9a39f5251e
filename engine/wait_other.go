//go:build !linux

package engine

import (
	"sync/atomic"
	"time"
)

// newWaiter returns the waiter for the portable pump, the only one here.
func newWaiter(epoch time.Time, _ bool, parks *atomic.Uint64) (waiter, error) {
	return newSignals(epoch, parks), nil
}
