package engine

import "time"

// What a master still owes after a lock's end: a release that it could not be
// sent, or has not answered with an integer. It is sent when the connection is
// back, before any new round, and again with back-off after an error reply. It
// is forgotten when the key must be gone by itself.

// debt is one release that is owed to one master.
type debt struct {
	key, value string
	ttl        time.Duration // the longest that a command gave the key
	expires    instant       // when the key is gone; counted anew after a silent loss
	due        instant       // not before
	tries      int
}

// owe notes that master m is owed the release r, which it has answered with an
// error so many times. e.mu is held.
func (e *Engine) owe(m *master, r *Round, tries int, now instant) {
	if !r.May.Has(m.index) {
		return
	}
	if m.owed.len >= maxReleases {
		m.owed.pop()
	}
	d := debt{key: r.Key, value: string(r.Value), ttl: r.TTL, expires: r.expires, tries: tries}
	if d.tries > 0 {
		d.due = now + backOff(d.tries, slowestRelease, e.random())
		m.due = min(m.due, d.due)
	}
	if tries == 1 {
		d.expires = now + d.ttl // what it has answered late it may have executed late
	}
	m.owed.push(d)
}

// payDebts queues the owed releases of a connected master that are due, and
// forgets those that have expired. e.mu is held.
func (e *Engine) payDebts(m *master, now instant) {
	if now < m.due {
		return
	}
	m.due = now + slowestRelease
	for range m.owed.len {
		switch d := m.owed.pop(); {
		case d.expires <= now:
		case d.due > now:
			m.due = min(m.due, d.due)
			m.owed.push(d)
		default:
			r := e.newRound()
			r.Op, r.Key, r.TTL = &Release, d.key, d.ttl
			r.Value = append(r.Value[:0], d.value...)
			r.May.add(m.index)
			r.expires, r.tries = d.expires, d.tries
			e.pushOwn(m, r, now)
		}
	}
	m.owed.trim()
}

// pushOwn queues a round of the engine's own for one master. Nobody waits for
// it. The Op is the engine's, so it may be encoded under e.mu.
func (e *Engine) pushOwn(m *master, r *Round, now instant) {
	r.tally = Tally{Masters: len(e.masters)}
	f := m.form[r.Op.Kind]
	r.encode(1 << f)
	var at [forms]span
	e.push(m, r, f, &at, now)
}
