package engine

import "time"

// Close ends every wait with ErrClosed, gives the releases that are under way,
// or that the ended callers still queue, at most one RoundTimeout to be
// answered, and closes the connections. It returns when the engine's last
// goroutine has ended. A second Close does nothing.
func (e *Engine) Close() {
	e.mu.Lock()
	if e.closing.Load() {
		e.mu.Unlock()
		return
	}
	e.closing.Store(true)
	e.stop()
	e.settleAll()
	e.announce()
	drained := make(chan struct{})
	e.drained = drained
	e.drain()
	e.rest() // what drains needs a reader
	e.unlock()
	e.waiter.kick()

	limit := time.NewTimer(e.cfg.RoundTimeout)
	select {
	case <-drained:
	case <-limit.C:
	}
	limit.Stop()
	e.shut()
}

// settleAll ends every wait. e.mu is held.
func (e *Engine) settleAll() {
	for e.waiting.first != nil {
		r := e.waiting.first
		r.closed = true
		e.settle(r)
	}
}

// drain lets Close go on when nothing is left that it waits for. e.mu is held.
func (e *Engine) drain() {
	if e.drained != nil && e.callers.Load() == 0 && e.releases == 0 && e.batch == nil && !e.writing && e.unsent == 0 {
		close(e.drained)
		e.drained = nil
	}
}

// shut takes the reader role for good and ends everything.
func (e *Engine) shut() {
	e.mu.Lock()
	e.closed = true
	e.drained = nil
	e.settleAll() // releases that nobody has answered
	if e.role == free {
		e.role = closer
	} else {
		freed := make(chan struct{})
		e.freed = freed
		e.unlock()
		e.waiter.kick()
		<-freed // closed by rest, which also sets the role
		e.mu.Lock()
	}
	e.timer.Stop()
	now := e.now()
	for _, m := range e.masters {
		if m.conn != nil {
			e.lose(m, ErrClosed, now)
		}
	}
	e.bury()
	e.unlock()
	e.crew.Wait()
	e.waiter.close()
	limit := time.NewTimer(e.cfg.RoundTimeout) // the Close of a net.Conn that a user gave may hang
	defer limit.Stop()
	for _, c := range e.buried {
		select {
		case <-c.Done():
		case <-limit.C:
			return
		}
	}
}
