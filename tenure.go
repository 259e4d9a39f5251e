package redlock

import (
	"time"

	"github.com/goredlock/redlock/engine"
)

// tenure is the life of one lock: until when it is valid, and what may still be
// sent for it. It has no clock, no goroutine and no socket: times and decisions
// are passed in.
//
// The order of a lock's commands follows from it: the tenure is asked before a
// command is queued, under the mutex that is held until it is. Once it has
// ended, only the release follows.
type tenure struct {
	until   time.Time
	longest time.Duration // the longest ttl that a command gave the key
	newest  uint64        // the number of extensions
	ended   bool          // released, or found lost; for good
}

// extend begins an extension that sets the ttl and would end at until, and
// returns its number; or the sentinel that says why there can be none. If it
// ends earlier than the lock does, the lock ends then from now on: masters may
// obey, whatever they answer.
func (t *tenure) extend(now, until time.Time, ttl time.Duration) (number uint64, err error) {
	if t.ended {
		return 0, ErrNotHeld
	}
	if left(t.until, now) <= 0 {
		t.end(now)
		return 0, ErrExpired
	}
	t.until = earlier(t.until, until)
	t.longest = max(t.longest, ttl)
	t.newest++
	return t.newest, nil
}

// extended takes in the decision on an extension, and returns its sentinel or
// nil. Until moves up only if the extension is the newest one and the lock has
// been valid without a break.
func (t *tenure) extended(now time.Time, number uint64, until time.Time, d engine.Decision) error {
	switch {
	case t.ended:
		return ErrNotHeld
	case d == engine.Lost:
		t.end(now)
		return ErrNotHeld
	case d != engine.Won:
		return ErrNoQuorum
	case left(t.until, now) <= 0:
		t.end(now)
		return ErrExpired
	}
	if number == t.newest && until.After(t.until) {
		t.until = until
	}
	return nil
}

// end ends the validity, and says whether it had not ended before.
func (t *tenure) end(now time.Time) bool {
	first := !t.ended
	t.ended = true
	t.until = earlier(t.until, now)
	return first
}
