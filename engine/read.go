package engine

import (
	"context"
	"slices"
	"time"

	"github.com/goredlock/redlock/conn"
)

// Who reads. At any time at most one goroutine holds the reader role; it alone
// reads from the sockets, takes replies off the masters' queues and takes a
// connection away, so none of that is ever seen half done. The role is a field
// under the lock. A caller that finds it free reads for itself until its own
// round is settled; if somebody still waits then, a goroutine takes the role
// and lives until nobody does. What is left when nobody waits (late replies, a
// connection that ends) is for the tick.
type role uint8

const (
	free       role = iota
	caller          // a caller, for itself
	background      // the goroutine, for a crowd
	ticking         // the tick, or a caller's look after a pause: does not park
	closer          // Close, for good
)

const (
	// idleTick is how late the end of a connection is noticed that nobody uses.
	idleTick = 250 * time.Millisecond
	// busyTick is how late replies are read that nobody waits for: what
	// stragglers owe, and the answers to releases.
	busyTick = 10 * time.Millisecond
	// stale is the pause after which a caller looks before it writes.
	stale = 5 * time.Millisecond
	// longestPark bounds a sleep in any case; it is also how often masters are
	// checked for silence.
	longestPark = 100 * time.Millisecond
	// lookEvery is how often a caller that reads for itself looks whether its
	// context has ended.
	lookEvery = time.Millisecond
)

// Wait writes what is queued and waits until the round is settled or ctx ends;
// then it gives the round back. A cancelled ctx ends it within 2 ms.
func (e *Engine) Wait(ctx context.Context, r *Round) Outcome {
	done := ctx.Done()
	e.mu.Lock()
	e.flush(callersBatches)
	if !r.settled() {
		e.await(r)
		if e.role == free {
			e.readFor(done, r)
		} else if r.deadline < e.parked {
			e.waiter.kick() // it sleeps past this round's deadline
		}
		if !r.settled() {
			e.parkFor(done, r)
		}
	} else {
		e.rest() // masters that did not decide may have been sent it
	}
	o := e.leave(r)
	e.unlock()
	if o.Decision == Undecided && o.Err == nil {
		o.Err = ctx.Err()
	}
	return o
}

// Send writes what is queued and gives the round back without waiting. The
// replies are read by whoever reads next, at the latest by the tick.
func (e *Engine) Send(r *Round) error {
	e.mu.Lock()
	e.flush(callersBatches)
	var err error
	if r.closed {
		err = ErrClosed
	}
	r.caller = absent
	e.recycle(r)
	e.rest()
	e.unlock()
	return err
}

// await puts a round on the list of those whose callers wait.
func (e *Engine) await(r *Round) {
	if e.waiting.len == 0 || r.deadline < e.earliest {
		e.earliest = r.deadline
	}
	e.waiting.add(r)
}

// leave ends the caller's part in a round.
func (e *Engine) leave(r *Round) Outcome {
	o := e.outcome(r)
	e.waiting.remove(r)
	r.caller = absent
	e.recycle(r)
	return o
}

// readFor reads in the caller's own goroutine until its round is settled or done
// is closed. While it may be, the caller looks every lookEvery: that costs a
// lone caller a wake-up now and then while it waits for slow masters, and no
// goroutine and no allocation. e.mu is held on entry and on return.
func (e *Engine) readFor(done <-chan struct{}, r *Round) {
	e.role = caller
	for !r.settled() && !closed(done) {
		until := e.horizon()
		if done != nil {
			until = min(until, e.now()+lookEvery)
		}
		e.pass(until)
	}
	e.role = free
	e.rest()
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// parkFor waits for the token of a round that somebody else reads for, or until
// done is closed. e.mu is held on entry and on return.
func (e *Engine) parkFor(done <-chan struct{}, r *Round) {
	r.caller = parked
	e.unlock()
	if done == nil {
		<-r.wake
		e.mu.Lock()
		return
	}
	select {
	case <-r.wake:
		e.mu.Lock()
	case <-done:
		e.mu.Lock()
		if r.caller == woken { // the token is under way: take it along
			e.unlock()
			<-r.wake
			e.mu.Lock()
		}
	}
}

// background reads for the crowd. It is crew.
func (e *Engine) background() {
	defer e.crew.Done()
	e.mu.Lock()
	for e.needsReader() {
		e.pass(e.horizon())
	}
	e.role = free
	e.rest()
	e.unlock()
}

// look reads what has come and does not wait, unless somebody reads anyway.
func (e *Engine) look() {
	e.mu.Lock()
	if e.role == free {
		e.role = ticking
		e.pass(0)
		e.role = free
		e.rest()
	}
	e.unlock()
}

// tick does what nobody waits for. It is crew unless the engine is closed.
func (e *Engine) tick() {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return
	}
	e.crew.Add(1)
	defer e.crew.Done()
	e.mu.Unlock()
	e.look()
	e.mu.Lock()
	defer e.unlock()
	now := e.now()
	for _, m := range e.masters {
		if m.conn != nil && m.owed.len > 0 {
			e.payDebts(m, now)
		}
	}
	if !e.soon && e.debts == 0 && e.callers.Load() == 0 {
		e.trim() // nothing has happened for a while
	}
	e.flush(firstBatch)
	e.soon = false
	if !e.closed {
		e.timer.Reset(idleTick)
	}
	e.rest()
}

// needsReader says whether somebody has to hold the role. e.mu is held.
func (e *Engine) needsReader() bool {
	return !e.closed && (e.waiting.len > 0 || e.unsent > 0 || e.drained != nil)
}

// rest is called by whoever leaves the role free, or queues something without
// waiting for it: what must have a reader gets one. e.mu is held.
func (e *Engine) rest() {
	switch {
	case e.role != free:
	case e.freed != nil:
		e.role = closer
		close(e.freed)
		e.freed = nil
	case e.needsReader():
		e.role = background
		e.crew.Add(1)
		go e.read()
	case !e.soon && !e.closed && e.busy():
		e.soon = true
		e.timer.Reset(busyTick)
	}
}

// busy says whether the next tick should come soon.
func (e *Engine) busy() bool {
	if e.debts > 0 {
		return true
	}
	for _, m := range e.masters {
		if m.conn != nil && m.owed.len > 0 {
			return true
		}
	}
	return false
}

// horizon is how long the reader may sleep. e.mu is held.
func (e *Engine) horizon() instant {
	h := instant(e.looked.Load()) + longestPark
	if e.waiting.len > 0 {
		h = min(h, e.earliest)
	}
	return h
}

// pass waits until a socket makes progress, or until the instant given (0: not
// at all), and takes in what has come. The caller holds the role; e.mu is held
// on entry and on return, not in between.
func (e *Engine) pass(until instant) {
	e.parked = until
	e.unlock()
	if until > 0 {
		e.ready = e.waiter.park(until, e.ready[:0])
	} else {
		e.ready = e.waiter.poll(e.ready[:0])
	}
	now := e.now()
	for _, s := range e.ready {
		e.receive(s, now)
	}
	e.wakeHeld()
	e.mu.Lock()
	e.parked = 0
	e.looked.Store(int64(now))
	e.expire(now)
	if e.repeat {
		e.repeat = false
		e.flush(firstBatch)
	}
	if e.closing.Load() {
		e.drain()
	}
	if len(e.dead) > 0 {
		e.bury()
	}
}

// bury closes the connections that were given up, outside the lock. e.mu is
// held on entry and on return.
func (e *Engine) bury() {
	e.unlock()
	e.buried = slices.DeleteFunc(e.buried, func(c *conn.Conn) bool {
		select {
		case <-c.Done():
			return true
		default:
			return false
		}
	})
	for i, c := range e.dead {
		c.Close()
		e.dead[i] = nil
		e.buried = append(e.buried, c)
	}
	e.dead = e.dead[:0]
	e.mu.Lock()
}

// expire fails what is overdue: rounds past their deadline, and masters that
// owe and are silent. e.mu is held.
func (e *Engine) expire(now instant) {
	if e.waiting.len > 0 && now >= e.earliest {
		e.earliest = now + longestPark
		for r := e.waiting.first; r != nil; {
			next := r.next
			if now >= r.deadline {
				e.expired(r)
			} else {
				e.earliest = min(e.earliest, r.deadline)
			}
			r = next
		}
	}
	if now < e.watch {
		return
	}
	e.watch = now + min(longestPark, e.cfg.Silence/4)
	for _, m := range e.masters {
		if m.conn != nil && m.silent(now, m.fifo.len > 0, e.cfg.Silence) {
			e.lose(m, errSilent, now)
		}
	}
}
