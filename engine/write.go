package engine

import (
	"runtime"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/goredlock/redlock/conn"
)

// Write combining. Callers append to one batch under the lock; who finds
// nobody writing becomes the writer, takes the batch, and writes it to every
// master outside the lock, until no new batch has gathered meanwhile. A batch
// is one buffer: a command that all masters get stands in it once, and each
// master has a list of the spans that are for it. So a master that is left
// out, one that speaks another form, and a command for one master only are all
// the same case; where every master gets everything, its list is one span.

// write is one master's part of a batch.
type write struct {
	m     *master
	c     *conn.Conn // nil: nothing for this master
	spans []span
}

// Queue gives the round to every master that can take it, behind all that was
// queued before. It neither waits nor writes: the caller must go on to Wait or
// Send, and may hold the lock that orders the commands of its own object. A
// round that cannot be sent is settled at once, and Wait says why.
func (e *Engine) Queue(r *Round) {
	now := e.now()
	r.encode(e.wanted(r.Op.Kind))
	e.mu.Lock()
	for want := e.wanted(r.Op.Kind); r.encoded&want != want; want = e.wanted(r.Op.Kind) {
		e.mu.Unlock() // a master has come up that wants another form
		r.encode(want)
		e.mu.Lock()
	}
	defer e.unlock()

	r.caller = around
	r.tally = Tally{Masters: len(e.masters)}
	r.deadline = now + e.cfg.RoundTimeout
	if !r.Deadline.IsZero() {
		// By its distance, since a context's deadline may have a wall clock
		// reading only.
		r.deadline = min(r.deadline, now+time.Until(r.Deadline))
	}
	r.expires = now + r.TTL
	if e.closed || e.closing.Load() && r.Op.Kind != Releasing {
		r.closed = true
		return
	}
	if r.Order != nil {
		r.Order.newest++
		r.seq = r.Order.newest
	}
	send := r.Op.Kind == Releasing || e.writable(r.Op.Kind) >= r.tally.Quorum()
	var at [forms]span
	for i, m := range e.masters {
		if r.Op.Kind == Releasing && !r.May.Has(i) {
			e.vote(r, i, Refused, nil) // what was never sent there is not there
			continue
		}
		err := m.obstacle(r.Op.Kind)
		if err == nil && send {
			e.push(m, r, m.form[r.Op.Kind], &at, now)
			continue
		}
		if r.Op.Kind == Releasing {
			e.owe(m, r, 0, now)
		}
		e.vote(r, i, Failed, err)
	}
}

func (e *Engine) wanted(k Kind) formSet { return formSet(e.forms[k].Load()) }

// writable counts the masters that a round of that kind can be sent to.
func (e *Engine) writable(k Kind) int {
	n := 0
	for _, m := range e.masters {
		if m.obstacle(k) == nil {
			n++
		}
	}
	return n
}

// push appends the round to master m's queue and to its part of the batch; at
// remembers where in the batch each form stands. e.mu is held.
func (e *Engine) push(m *master, r *Round, f conn.Form, at *[forms]span, now instant) {
	if at[f] == (span{}) {
		at[f] = e.toBatch(r.bytes(f))
	}
	e.expect(m, entry{r, f}, at[f], now)
	r.sent.add(m.index)
	r.debts++
}

// expect notes that master m gets a part of the batch and owes a reply to it:
// the queue of replies and the bytes are in the same order because both grow
// here, under e.mu.
func (e *Engine) expect(m *master, en entry, s span, now instant) {
	if last := len(m.out) - 1; last >= 0 && m.out[last].to == s.from {
		m.out[last].to = s.to
	} else {
		m.out = append(m.out, s)
	}
	if m.fifo.len == 0 {
		m.beganToOwe(now)
	}
	m.fifo.push(en)
	e.debts++
	if en.round.Op.Kind == Releasing {
		e.releases++
	}
}

func (e *Engine) toBatch(p []byte) span {
	if e.batch == nil {
		e.batch = e.buffer()
	}
	from := len(e.batch.B)
	e.batch.B = append(e.batch.B, p...)
	return span{from, len(e.batch.B)}
}

// maxPooled is the largest buffer that goes back to the pool, which itself
// would keep any size until it has seen many.
const maxPooled = 256 << 10

// buffer returns an empty batch with one reference, the writer's.
func (e *Engine) buffer() *conn.Buffer {
	b := e.spare.Swap(nil)
	if b == nil {
		b = &conn.Buffer{Recycle: e.spent}
	}
	bytes := e.pool.Get()
	b.B, b.Owner = bytes.B[:0], bytes
	b.Retain()
	return b
}

// spent takes back a buffer that every connection has sent.
func (e *Engine) spent(b *conn.Buffer) {
	bytes := b.Owner.(*bytebufferpool.ByteBuffer)
	if cap(b.B) <= maxPooled {
		bytes.B = b.B
		e.pool.Put(bytes)
	}
	b.B, b.Owner = nil, nil
	e.spare.Store(b)
}

// How many batches a flush writes. The first holds what the writer itself has
// queued; in a crowd the next has gathered by then, and so on. A caller writes a
// few for the others, which is cheaper than to wake somebody; if there is still
// more, a goroutine goes on, so that nobody is kept from its own round for long.
// The reader writes the first only.
const (
	callersBatches = 8
	firstBatch     = 1
)

// flush writes what is queued, unless somebody is at it: a writer looks again
// before it stops. e.mu is held on entry and on return, not in between.
func (e *Engine) flush(batches int) {
	if e.writing {
		return
	}
	e.writing = true
	for n := 0; e.batch != nil; n++ {
		if n >= batches && !e.closed {
			e.crew.Add(1)
			go e.write()
			return // still writing
		}
		e.writeBatch()
	}
	e.wrote()
}

// writeOn writes until nothing is queued. It is crew.
func (e *Engine) writeOn() {
	defer e.crew.Done()
	e.mu.Lock()
	for e.batch != nil {
		e.writeBatch()
	}
	e.wrote()
	e.rest()
	e.unlock()
}

// wrote gives up the writer's role. e.mu is held.
func (e *Engine) wrote() {
	e.writing = false
	if e.closing.Load() {
		e.drain()
	}
}

// writeBatch writes one batch to every master that it is for. The caller is the
// writer; e.mu is held on entry and on return, not in between.
func (e *Engine) writeBatch() {
	if e.callers.Load() > 1 {
		// Others are about to queue, or have just been woken: with them in the
		// batch a write carries more. For a lone caller, yielding costs a
		// quarter of its latency.
		e.unlock()
		runtime.Gosched()
		e.mu.Lock()
	}
	b := e.take()
	e.unlock()
	for i := range e.writes {
		w := &e.writes[i]
		if w.c == nil {
			continue
		}
		for _, s := range w.spans {
			w.c.Append(b, s.from, s.to)
		}
		e.counts.writes.Add(1)
		if _, err := w.c.Flush(); err != nil {
			w.c.Shutdown() // whoever reads will see its end
		}
	}
	b.Release()
	e.mu.Lock()
	for i := range e.writes {
		if w := &e.writes[i]; w.c != nil {
			e.watchUnsent(w.m, w.c)
			w.c = nil
		}
	}
}

// take hands the batch to the writer: the buffer, and who gets what of it.
func (e *Engine) take() *conn.Buffer {
	b := e.batch
	e.batch = nil
	for i, m := range e.masters {
		w := &e.writes[i]
		w.m, w.c = m, nil
		if len(m.out) > 0 {
			w.c = m.conn
			w.spans, m.out = m.out, w.spans[:0]
		}
	}
	return b
}

// watchUnsent brings the watch for writability in line with whether the
// connection has unsent bytes. It asks under e.mu, because the writer and the
// reader may both have flushed since. e.mu is held.
func (e *Engine) watchUnsent(m *master, c *conn.Conn) {
	if m.conn != c {
		return
	}
	if unsent := c.Pending(); unsent != m.unsent {
		m.unsent = unsent
		if unsent {
			e.unsent++
		} else {
			e.unsent--
		}
		e.waiter.writable(c, m.socket(), unsent)
	}
}
