package engine

import (
	"time"

	"github.com/goredlock/redlock/conn"
)

// Round is one command to the masters and the votes that come back. It is
// taken from the engine with NewRound, filled in, queued once, and given back
// by Wait or Send; after that the caller may not touch it.
type Round struct {
	// Set by the caller before Queue, and only read from then on.
	Op       *Op
	Key      string
	Value    []byte        // copied in with SetValue; the array stays with the round
	TTL      time.Duration // for the wire in whole milliseconds; for a release, how long the key may live on
	Deadline time.Time     // when owed votes fail; zero: after Config.RoundTimeout
	Order    *Order        // the queue order of the commands of one lock; nil: none
	May      Masters       // Releasing: the masters that may hold the key and are owed the release

	next, prev *Round // in the list of waiting rounds, or of free ones
	wake       chan struct{}
	enc        []byte      // the command in the forms of encoded, one after another
	span       [forms]span // where each form stands in enc
	encoded    formSet

	// Guarded by Engine.mu.
	seq      uint64 // place in Order
	deadline instant
	expires  instant // Releasing: when the key is gone by itself
	tries    int     // a release owed to one master: times that it has been answered with an error
	votes    []Vote
	errs     []error // why a vote failed; nil until the first round in which one did
	tally    Tally
	decision Decision
	sent     Masters
	debts    int // masters that owe it a reply
	caller   callerState
	overdue  bool // decided by the deadline
	closed   bool // decided by Close
}

// callerState says where the caller of a round is.
type callerState uint8

const (
	absent callerState = iota // gone, or there was none: nobody will look at the decision
	around                    // has the round in hand and looks at it under the lock
	parked                    // waits for a token in Round.wake
	woken                     // a token is under way: it must be received before the round is left
)

// Order numbers the commands of one lock in the order in which they were
// queued. The zero value is ready.
type Order struct {
	newest uint64 // guarded by Engine.mu
}

// Masters is a set of masters by their index in Config.Masters.
type Masters uint64

// MaxMasters is the largest N.
const MaxMasters = 64

// Has says whether master i is in the set.
func (s Masters) Has(i int) bool { return s&(1<<i) != 0 }

func (s *Masters) add(i int) { *s |= 1 << i }

type span struct{ from, to int }

// formSet is a set of conn.Form.
type formSet uint8

func (s formSet) has(f conn.Form) bool { return s&(1<<f) != 0 }

// SetValue copies the value of a lock into the round.
func (r *Round) SetValue(v []byte) { r.Value = append(r.Value[:0], v...) }

// encode writes the command in those of the forms that it is not written in
// yet. It calls into the Op, so no lock is held.
func (r *Round) encode(want formSet) {
	for f := conn.Form(0); want>>f != 0; f++ {
		if !want.has(f) || r.encoded.has(f) {
			continue
		}
		from := len(r.enc)
		r.enc = r.Op.Append(r.enc, f, r)
		r.span[f] = span{from, len(r.enc)}
		r.encoded |= 1 << f
	}
}

func (r *Round) bytes(f conn.Form) []byte { return r.enc[r.span[f].from:r.span[f].to] }

// Outcome is what became of a round by the time its caller left it.
type Outcome struct {
	Tally    Tally
	Decision Decision // Undecided when Err ended the wait
	Sent     Masters  // the masters whose queue took the command
	Failures []Failure
	Err      error // ErrClosed, or the context's error: the caller left before the decision
}

// Failure says why the vote of one master failed.
type Failure struct {
	Master int
	Err    error
}

// outcome copies what the caller may keep. e.mu is held.
func (e *Engine) outcome(r *Round) Outcome {
	o := Outcome{Tally: r.tally, Decision: r.decision, Sent: r.sent}
	if r.closed {
		o.Err = ErrClosed
	}
	if r.decision == Won {
		return o
	}
	for i, v := range r.votes {
		switch {
		case v != Owed && r.errs != nil && r.errs[i] != nil:
			o.Failures = append(o.Failures, Failure{i, step(r.errs[i])})
		case v == Owed && r.overdue:
			o.Failures = append(o.Failures, Failure{i, errNoAnswer})
		}
	}
	if r.overdue {
		o.Tally = r.tally.Overdue()
	}
	return o
}

// NewRound takes a round from the engine's pool.
func (e *Engine) NewRound(op *Op) *Round {
	e.mu.Lock()
	r := e.newRound()
	e.mu.Unlock()
	r.Op = op
	return r
}

func (e *Engine) newRound() *Round {
	r := e.free
	if r == nil {
		buf := make([]byte, usualValue+usualCommand)
		return &Round{
			wake:  make(chan struct{}, 1),
			votes: make([]Vote, len(e.masters)),
			Value: buf[:0:usualValue],
			enc:   buf[usualValue:usualValue],
		}
	}
	e.free, r.next = r.next, nil
	e.freeLen--
	return r
}

const (
	// maxFreeRounds bounds the pool: as many as one master may owe replies to.
	// When nothing is under way the tick leaves idleFreeRounds.
	maxFreeRounds  = maxOwed
	idleFreeRounds = 64
	// usualValue and usualCommand are enough for most rounds, in bytes.
	usualValue   = 32
	usualCommand = 256
	// maxFreeBytes keeps the buffers of very long keys out of the pool.
	maxFreeBytes = 1 << 10
)

// trim lets go of what a burst has left behind. e.mu is held.
func (e *Engine) trim() {
	for _, m := range e.masters {
		m.fifo.trim()
		if m.conn != nil {
			m.conn.Trim()
		}
	}
	for e.freeLen > idleFreeRounds {
		r := e.free
		e.free, r.next = r.next, nil
		e.freeLen--
	}
}

// recycle puts a round back when no master owes it a reply and its caller has
// left: only then can nobody write into the next user's round. e.mu is held.
func (e *Engine) recycle(r *Round) {
	if r.debts > 0 || r.caller != absent {
		return
	}
	if e.freeLen >= maxFreeRounds || cap(r.enc) > maxFreeBytes {
		return
	}
	clear(r.votes)
	clear(r.errs)
	*r = Round{wake: r.wake, votes: r.votes, errs: r.errs, enc: r.enc[:0], Value: r.Value[:0]}
	r.next, e.free = e.free, r
	e.freeLen++
}

// vote counts what master i said and decides the round when that settles it.
// e.mu is held.
func (e *Engine) vote(r *Round, i int, v Vote, err error) {
	r.votes[i] = v
	r.tally.count(v)
	if err != nil && r.caller != absent {
		if r.errs == nil {
			r.errs = make([]error, len(e.masters))
		}
		r.errs[i] = err
	}
	if r.settled() {
		return // a straggler
	}
	d := r.Op.Decide(r.tally)
	if d == Undecided && r.tally.Owed() == 0 {
		d = NoQuorum
	}
	if d != Undecided {
		r.decision = d
		e.settle(r)
	}
}

// expired decides a round whose deadline has passed: what is owed has failed.
// e.mu is held.
func (e *Engine) expired(r *Round) {
	r.overdue = true
	if r.decision = r.Op.Decide(r.tally.Overdue()); r.decision == Undecided {
		r.decision = NoQuorum
	}
	e.settle(r)
}

// settle takes a round whose caller need not wait any longer off the list and
// wakes the caller. e.mu is held; unlock sends the token.
func (e *Engine) settle(r *Round) {
	e.waiting.remove(r)
	if r.caller == parked {
		r.caller = woken
		r.next, e.woken = e.woken, r
	}
}

// unlock releases e.mu and then wakes the callers of the rounds that were
// settled under it: a caller that wakes earlier only runs into the lock. A
// woken round stays ours until its token is sent, because its caller cannot
// leave without the token.
func (e *Engine) unlock() {
	r := e.woken
	e.woken = nil
	e.mu.Unlock()
	wake(r)
}

// unlockInPass is unlock for the reader while it takes in replies: it keeps the
// woken rounds for the end of the pass. Callers that wake together queue
// together, and their writer finds more in the batch: 1.2 × the locks per second
// at 128 callers.
func (e *Engine) unlockInPass() {
	for e.woken != nil {
		r := e.woken
		e.woken = r.next
		r.next, e.held = e.held, r
	}
	e.mu.Unlock()
}

// wakeHeld ends what unlockInPass began. e.mu is not held.
func (e *Engine) wakeHeld() {
	r := e.held
	e.held = nil
	wake(r)
}

// wake sends the tokens of a chain of rounds.
func wake(r *Round) {
	for r != nil {
		next := r.next
		r.next = nil
		r.wake <- struct{}{}
		r = next
	}
}

func (r *Round) settled() bool { return r.decision != Undecided || r.closed }

// roundList is a list of rounds, linked through them.
type roundList struct {
	first *Round
	len   int
}

func (l *roundList) add(r *Round) {
	r.prev, r.next = nil, l.first
	if l.first != nil {
		l.first.prev = r
	}
	l.first = r
	l.len++
}

func (l *roundList) has(r *Round) bool { return r.prev != nil || l.first == r }

func (l *roundList) remove(r *Round) {
	if !l.has(r) {
		return
	}
	if r.prev != nil {
		r.prev.next = r.next
	} else {
		l.first = r.next
	}
	if r.next != nil {
		r.next.prev = r.prev
	}
	r.prev, r.next = nil, nil
	l.len--
}
