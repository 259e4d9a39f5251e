package engine

import "time"

// contact is the state of a master as far as it can be reached: connecting → up
// → (error, or silent too long) → backing off → connecting. It has no clock and
// no socket: times are passed in.
type contact struct {
	tried    bool    // it has been up, or a dial has failed
	failures int     // dials, and connections that did not live long, in a row
	since    instant // when it came up
	heard    instant // when it last brought a byte, or began to owe one
	suspect  bool    // was found silent at the last look
}

// settledAfter is the life after which a connection's end is no sign that the
// next one will end as well.
const settledAfter = time.Second

func (c *contact) cameUp(now instant) {
	c.tried, c.suspect = true, false
	c.since, c.heard = now, now
}

func (c *contact) dialFailed() {
	c.tried = true
	c.failures++
}

func (c *contact) wentDown(now instant) {
	if now-c.since > settledAfter {
		c.failures = 0
	}
	c.failures++
}

// pause is how long to wait before the next dial, with a random part
// (0 ≤ random < 1). The first dial does not wait.
func (c *contact) pause(random float64) time.Duration {
	if c.failures == 0 {
		return 0
	}
	return backOff(c.failures, slowestDial, random)
}

// beganToOwe and brought are why a connection is not silent.
func (c *contact) beganToOwe(now instant) { c.heard = now }
func (c *contact) brought(now instant)    { c.heard = now }

// silent says whether a connection that owes replies, or not, is to be given up
// because no byte has come for the limit. It takes two looks, because it may be
// we who were stopped: then the bytes are there, and will have been read by the
// second.
func (c *contact) silent(now instant, owes bool, limit time.Duration) bool {
	if !owes || now-c.heard <= limit {
		c.suspect = false
		return false
	}
	first := !c.suspect
	c.suspect = true
	return !first
}
