package engine

import (
	"cmp"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/resp"
)

// maxReplies is how many replies are read at a time: the lock is taken once
// for so many.
const maxReplies = 64

// reply is an entry with the answer to it.
type reply struct {
	entry
	vote  Vote
	err   error
	again span // in Engine.again: the command to be sent once more
}

// receive takes in what one connection has brought.
func (e *Engine) receive(s socket, now instant) {
	m := e.masters[s.master]
	e.mu.Lock()
	c, unsent := m.conn, m.unsent
	gone := c == nil || m.number != s.number
	e.mu.Unlock()
	if gone {
		return
	}
	var failed error
	if unsent {
		_, failed = c.Flush()
	}
	e.counts.reads.Add(1)
	n, err := c.Fill()
	err = cmp.Or(err, failed)
	if n > 0 {
		if e.signals != nil {
			e.signals.again(s.master)
		}
		e.mu.Lock()
		m.brought(now)
		e.mu.Unlock()
		if err2 := e.digest(m, c, now); err2 != nil {
			err = err2
		}
	}
	if err == nil && !unsent {
		return
	}
	e.mu.Lock()
	if err != nil {
		e.lose(m, err, now)
	} else {
		e.watchUnsent(m, c)
	}
	e.unlock()
}

// digest reads replies off the connection's buffer. Their entries are copied
// out under the lock, turned into votes outside of it, and counted under it
// again: the entries stay on the queue until then, so their rounds cannot be
// used for anything else, and nobody but this goroutine takes them off.
func (e *Engine) digest(m *master, c *conn.Conn, now instant) error {
	for {
		e.mu.Lock()
		owed := min(m.fifo.len, maxReplies)
		for i := range owed {
			e.replies[i].entry = m.fifo.at(i)
		}
		e.mu.Unlock()

		e.again = e.again[:0]
		n, err := 0, error(nil)
		for n < owed {
			v, ok, err2 := next(c)
			if err = err2; err != nil || !ok {
				break
			}
			e.judge(&e.replies[n], v)
			n++
			if e.replies[n-1].vote == Broken {
				err = errWrongKind
				break
			}
		}
		if n == owed && err == nil {
			if owed == maxReplies {
				e.count(m, e.replies[:n], now)
				clear(e.replies[:owed])
				continue
			}
			if _, ok, err2 := next(c); ok {
				err = errUnasked
			} else {
				err = err2
			}
		}
		if err != nil {
			// Where the stream left its step is not known: it may have been
			// before any of these.
			for i := range n {
				e.replies[i].vote, e.replies[i].err, e.replies[i].again = Broken, err, span{}
			}
		}
		e.count(m, e.replies[:n], now)
		clear(e.replies[:owed]) // they would keep rounds from being collected
		return err
	}
}

// next returns the next reply, pushes passed over: nobody here asked for any.
func next(c *conn.Conn) (resp.Value, bool, error) {
	for {
		v, ok, err := c.Next()
		if !ok || err != nil || v.Kind != resp.Push {
			return v, ok, err
		}
	}
}

// judge turns a reply into a vote. No lock is held.
func (e *Engine) judge(r *reply, v resp.Value) {
	op := r.round.Op
	r.err, r.again = nil, span{}
	if !v.IsError() {
		if r.vote = op.Vote(r.form, v); r.vote == Broken {
			r.err = errWrongKind
		}
		return
	}
	r.vote = Failed
	err := serverError(v.Data)
	r.err = err
	if op.sendAsSource(r.form, err.Code()) {
		from := len(e.again)
		e.again = op.Append(e.again, formSource, r.round)
		r.again = span{from, len(e.again)}
	}
}

// count takes the entries of the replies off the queue and counts the votes.
func (e *Engine) count(m *master, replies []reply, now instant) {
	if len(replies) == 0 {
		return
	}
	e.mu.Lock()
	defer e.unlockInPass()
	for i := range replies {
		rep := &replies[i]
		r := e.answered(m).round
		if m.killed > 0 && rep.vote != Broken {
			// The first replies on a connection are to the kills, in their order.
			m.ghosts = append(m.ghosts[:0], m.ghosts[1:]...)
			m.killed--
			if rep.vote == Failed {
				m.haunted = now + m.lingers // not allowed to, most likely
			}
		}
		if rep.again != (span{}) && e.mayRepeat(r) {
			s := e.toBatch(e.again[rep.again.from:rep.again.to])
			r.debts++
			e.repeat = true
			e.expect(m, entry{r, formSource}, s, now)
			continue
		}
		if r.Op.Kind == Releasing && (rep.vote >= Failed || rep.vote == Refused && now < m.haunted) {
			e.owe(m, r, r.tries+1, now)
		}
		e.vote(r, m.index, rep.vote, rep.err)
		e.recycle(r)
	}
}

// mayRepeat says whether a command may be sent once more: a release always, it
// can only delete what is to be deleted; an extension only if no newer command
// of that lock has been queued, which it might undo.
func (e *Engine) mayRepeat(r *Round) bool {
	return r.Op.Kind != Extending || r.Order == nil || r.Order.newest == r.seq
}
