package engine

import (
	"cmp"
	"strconv"
	"time"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/resp"
)

// master is what the engine knows of one master. It is up exactly while conn is
// set. Guarded by Engine.mu; only the holder of the reader role takes replies
// off fifo and takes conn away.
type master struct {
	index int
	addr  conn.Address
	contact

	conn   *conn.Conn
	number uint32       // of the connection, from 1
	err    error        // why there is none
	fifo   queue[entry] // replies owed, in the order of the bytes sent
	out    []span       // its part of the batch
	unsent bool         // the socket did not take everything
	form   [kinds]conn.Form

	owed queue[debt]
	due  instant // none of owed is due before it

	silenced bool          // a connection went down with commands unanswered
	ghosts   []conn.Info   // connections gone down in that way: the server may still execute what they sent
	killed   int           // how many of ghosts the present connection has asked to be killed
	lingers  time.Duration // the longest ttl among the commands that ghosts have left unanswered
	haunted  instant       // a kill was refused: until then a ghost's command may still come
}

// maxGhosts bounds what is remembered of a master that takes commands and never
// answers.
const maxGhosts = 16

func (m *master) socket() socket { return socket{m.index, m.number} }

// obstacle says why a round of that kind cannot be sent to the master now. A
// release always can; anything else not to a master that owes too much or whose
// socket takes no more, which bounds the bytes that wait as well. A new lock
// needs room for its release, in the queue and, should the connection be lost,
// among the debts.
func (m *master) obstacle(k Kind) error {
	switch {
	case m.conn == nil:
		return m.err
	case k == Releasing:
		return nil
	case m.unsent, m.fifo.len >= maxOwed, k == Acquiring && m.fifo.len+m.owed.len+2 > maxReleases:
		return errFull
	default:
		return nil
	}
}

// connect dials until the master is up or the engine closes.
func (e *Engine) connect(m *master) {
	defer e.crew.Done()
	opts := e.cfg.Dial
	if e.signals != nil {
		opts.Ready = func() { e.signals.signal(m.index) }
	}
	for {
		if !e.pause(m) {
			return
		}
		c, err := conn.Dial(e.dialing, m.addr, opts)
		if err == nil {
			if err = e.install(m, c); err == nil {
				return
			}
			c.Close()
			<-c.Done()
		}
		if e.dialing.Err() != nil {
			return // Close has ended it, which says nothing of the master
		}
		e.mu.Lock()
		m.err = err
		m.dialFailed()
		e.announce()
		e.mu.Unlock()
	}
}

// pause waits before the next dial; false: the engine closes.
func (e *Engine) pause(m *master) bool {
	e.mu.Lock()
	d := m.contact.pause(e.random())
	e.mu.Unlock()
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-e.dialing.Done():
		}
	}
	return e.dialing.Err() == nil
}

// install brings the master up. What goes first on the new connection: the end
// of the old ones, as far as the server still has them; then the releases that
// are owed; then rounds.
func (e *Engine) install(m *master, c *conn.Conn) error {
	// What has come behind the handshake's last reply would be taken for the
	// first round's.
	if _, ok, err := next(c); err != nil || ok {
		return cmp.Or(err, errUnasked)
	}
	info := c.Info()
	now := e.now()
	e.mu.Lock()
	defer e.unlock()
	if e.closing.Load() {
		return ErrClosed
	}
	m.number++
	if err := e.waiter.add(c, m.socket()); err != nil {
		return err
	}
	m.conn, m.err = c, nil
	m.cameUp(now)
	m.form = [kinds]conn.Form{Extending: info.Extend, Releasing: info.Release}
	for k, f := range m.form {
		e.forms[k].Or(1 << f)
	}
	e.up++

	e.killGhosts(m, info, now)
	for range m.owed.len {
		d := m.owed.pop()
		d.due = 0
		if m.silenced {
			d.expires = now + d.ttl
		}
		m.owed.push(d)
	}
	m.silenced, m.due = false, 0
	e.payDebts(m, now)
	e.announce()
	e.flush(firstBatch)
	e.rest()
	return nil
}

// A reset does not stop a command that the server's socket already holds: it
// runs when the server comes to it, maybe after the release on a new
// connection. CLIENT KILL does stop it. Ids start again when a server
// restarts, so the address must match as well, and the run id.
var kill = Op{
	Name: "kill",
	Append: func(dst []byte, _ conn.Form, r *Round) []byte {
		dst = resp.AppendArray(dst, 6)
		dst = append(dst, "$6\r\nCLIENT\r\n$4\r\nKILL\r\n$2\r\nID\r\n"...)
		dst = resp.AppendBulk(dst, r.Value)
		dst = append(dst, "$4\r\nADDR\r\n"...)
		return resp.AppendBulk(dst, r.Key)
	},
	Vote: func(_ conn.Form, v resp.Value) Vote {
		if v.Kind != resp.Integer {
			return Broken
		}
		return Granted
	},
	Decide: Tally.Confirmation,
}

func (e *Engine) killGhosts(m *master, now conn.Info, at instant) {
	kept := m.ghosts[:0]
	for _, g := range m.ghosts {
		if g.RunID != now.RunID {
			continue // its server is gone, and what its sockets held
		}
		if g.ClientID == 0 {
			m.haunted = at + m.lingers
			continue
		}
		kept = append(kept, g)
		r := e.newRound()
		r.Op, r.Key = &kill, g.LocalAddr
		r.Value = strconv.AppendInt(r.Value[:0], g.ClientID, 10)
		e.pushOwn(m, r, at)
	}
	m.ghosts, m.killed = kept, len(kept)
	if len(kept) == 0 {
		m.lingers = 0
	}
}

// lose takes a master down. The caller holds the reader role and e.mu, and
// closes e.dead when it has released the lock.
func (e *Engine) lose(m *master, err error, now instant) {
	c := m.conn
	m.conn, m.err = nil, err
	e.up--
	e.waiter.remove(c)
	e.dead = append(e.dead, c)
	m.out = m.out[:0]
	if m.unsent {
		m.unsent = false
		e.unsent--
	}
	m.wentDown(now)
	if m.fifo.len > 0 {
		m.silenced = true
		if len(m.ghosts) == maxGhosts {
			m.ghosts = append(m.ghosts[:0], m.ghosts[1:]...)
			m.ghosts[0].ClientID = 0 // for the one that cannot be named any more
		}
		m.ghosts = append(m.ghosts, c.Info())
	}
	for m.fifo.len > 0 {
		r := e.answered(m).round
		m.lingers = max(m.lingers, r.TTL)
		if r.Op.Kind == Releasing {
			e.owe(m, r, r.tries, now)
		}
		e.vote(r, m.index, Failed, err)
		e.recycle(r)
	}
	e.announce()
	if !e.closing.Load() {
		e.crew.Add(1)
		go e.connect(m)
	}
}

// answered takes the oldest entry off the master's queue. e.mu is held, by the
// holder of the reader role.
func (e *Engine) answered(m *master) entry {
	en := m.fifo.pop()
	en.round.debts--
	e.debts--
	if en.round.Op.Kind == Releasing {
		e.releases--
	}
	return en
}
