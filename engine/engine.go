package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/bytebufferpool"

	"github.com/goredlock/redlock/conn"
)

// Config says which masters the engine talks to, and how. All durations must
// be positive.
type Config struct {
	Masters      []conn.Address
	Dial         conn.Options  // Scripts, Pump and Ready are the engine's to set, except that Pump may ask for the pump
	RoundTimeout time.Duration // how long a round waits for votes when it has no deadline of its own
	Silence      time.Duration // a connection that owes replies and brings no byte for so long is given up
	Scripts      []*Script     // loaded by the masters beside those of the lock
}

// ErrClosed is what a caller meets instead of a decision after Close.
var ErrClosed = errors.New("client is closed")

// Why a vote failed, or a connection was given up.
var (
	errNoAnswer  = fmt.Errorf("no answer in time: %w", os.ErrDeadlineExceeded)
	errSilent    = fmt.Errorf("no byte while replies were owed: %w", os.ErrDeadlineExceeded)
	errFull      = errors.New("too many replies owed")
	errUnasked   = errors.New("a reply that nobody asked for")
	errWrongKind = errors.New("a reply that the command cannot have")
	errDialing   = errors.New("not connected yet")
)

// Limits of one master's queue. Both count rounds, not bytes.
const (
	// maxOwed bounds the replies that a master may owe before it gets no more
	// new locks; 512 callers were not slowed by it.
	maxOwed = 8192
	// maxReleases bounds the releases that wait for a master to come back. A
	// lock is only taken on a master whose queue, were it lost now, would
	// still fit in here. Locks that are held for long can be more than that; if
	// all of them are released while a master is away, the oldest release is
	// given up, which is the one whose ttl ends first unless ttls differ much.
	maxReleases = 8 * maxOwed
)

// Engine runs rounds over one connection to each master. All its methods are
// safe for concurrent use.
type Engine struct {
	cfg     Config
	epoch   time.Time
	waiter  waiter
	signals *signals // waiter, if that is what it is
	pool    bytebufferpool.Pool
	stop    context.CancelFunc // ends the dialing
	dialing context.Context
	crew    sync.WaitGroup // goroutines of the engine
	read    func()         // (*Engine).background, made once: a method value per use would allocate
	write   func()         // (*Engine).writeOn, likewise
	counts  counters
	random  func() float64

	callers atomic.Int32                // between Enter and Leave
	closing atomic.Bool                 // no caller may enter; set under mu
	spare   atomic.Pointer[conn.Buffer] // the head of a batch, free
	looked  atomic.Int64                // the instant of the last look at the sockets
	forms   [kinds]atomic.Uint32        // formSet: the forms that masters have wanted so far

	mu      sync.Mutex
	masters []*master
	up      int
	changed chan struct{} // closed and forgotten when a master's state changes; nil: nobody waits for it
	closed  bool          // nothing may be queued

	// Writing; see write.go.
	batch   *conn.Buffer // what is queued and not yet written; nil: nothing
	writing bool         // somebody is the writer
	writes  []write      // owned by the writer, one per master

	// Reading; see read.go.
	role     role
	freed    chan struct{} // closed when the role becomes free; nil: nobody waits for it
	waiting  roundList     // undecided rounds whose callers wait
	woken    *Round        // settled rounds whose tokens unlock has to send
	earliest instant       // no waiting round is overdue before it
	parked   instant       // until when the holder of the role sleeps; 0: it is awake
	watch    instant       // when to look for silent masters again
	unsent   int           // masters with bytes that their socket did not take
	debts    int           // replies that masters owe
	releases int           // those of them that answer a release
	drained  chan struct{} // Close waits for it; nil: it does not
	timer    *time.Timer   // the tick
	soon     bool          // the tick comes within busyTick
	free     *Round
	freeLen  int

	// Owned by the holder of the reader role.
	ready   []socket
	held    *Round // settled rounds whose tokens are sent at the end of the pass
	replies [maxReplies]reply
	repeat  bool         // something of again is in the batch
	again   []byte       // commands to be sent once more, as source
	dead    []*conn.Conn // given up, to be closed outside the lock
	buried  []*conn.Conn // closed, but their pumps may not have ended
}

// Stats counts what the engine has asked of the system.
type Stats struct {
	Writes uint64 // flushes of one connection: one system call each, unless the socket is full
	Reads  uint64 // reads of one connection
	Parks  uint64 // times that a goroutine went to sleep for the sockets
}

type counters struct{ writes, reads, parks atomic.Uint64 }

// Stats returns the counts since New.
func (e *Engine) Stats() Stats {
	return Stats{e.counts.writes.Load(), e.counts.reads.Load(), e.counts.parks.Load()}
}

// New starts connecting to the masters and returns at once.
func New(cfg Config) (*Engine, error) {
	n := len(cfg.Masters)
	if n == 0 || n > MaxMasters {
		return nil, fmt.Errorf("%d masters: between 1 and %d are possible", n, MaxMasters)
	}
	for _, a := range cfg.Masters {
		cfg.Dial.Pump = cfg.Dial.Pump || conn.NeedsPump(a, cfg.Dial)
	}
	for _, s := range append([]*Script{releaseScript, extendScript}, cfg.Scripts...) {
		cfg.Dial.Scripts = append(cfg.Dial.Scripts, s.source)
	}
	// A moment ago, because the instant 0 means none.
	e := &Engine{cfg: cfg, epoch: time.Now().Add(-1), random: rand.Float64}
	w, err := newWaiter(e.epoch, cfg.Dial.Pump, &e.counts.parks)
	if err != nil {
		return nil, err
	}
	e.waiter = w
	e.signals, _ = w.(*signals)
	e.read, e.write = e.background, e.writeOn
	e.dialing, e.stop = context.WithCancel(context.Background())
	e.masters = make([]*master, n)
	for i, a := range cfg.Masters {
		e.masters[i] = &master{index: i, addr: a, err: errDialing}
	}
	e.writes = make([]write, n)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.timer = time.AfterFunc(idleTick, e.tick)
	for _, m := range e.masters {
		e.crew.Add(1)
		go e.connect(m)
	}
	return e, nil
}

// now is an instant that is later than 0.
func (e *Engine) now() instant { return time.Since(e.epoch) }

// N is the number of masters.
func (e *Engine) N() int { return len(e.masters) }

// Enter counts a caller in; it must Leave. While more than one is inside, a
// caller gives the others the chance to share its write. After a pause Enter
// looks at the sockets: the first write to a master that has restarted
// succeeds, and its vote would be lost.
func (e *Engine) Enter() error {
	e.callers.Add(1)
	// Close sets the flag before it looks at the number of callers: either it
	// sees this one, or this one sees the flag.
	if e.closing.Load() {
		e.Leave()
		return ErrClosed
	}
	if e.now()-instant(e.looked.Load()) > stale {
		e.look()
	}
	return nil
}

// Leave counts a caller out.
func (e *Engine) Leave() {
	if e.callers.Add(-1) == 0 && e.closing.Load() {
		e.mu.Lock()
		e.drain()
		e.mu.Unlock()
	}
}

// Ready waits until a quorum of masters is connected. Its error is ctx's, or
// ErrClosed.
func (e *Engine) Ready(ctx context.Context) error {
	e.mu.Lock()
	for {
		switch {
		case e.closing.Load():
			e.mu.Unlock()
			return ErrClosed
		case e.up >= Quorum(len(e.masters)):
			e.mu.Unlock()
			return nil
		}
		changed := e.change()
		e.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
		e.mu.Lock()
	}
}

// FirstContact waits while fewer than a quorum of masters is up and one of the
// others is being dialed for the first time, until the deadline or ctx's end.
func (e *Engine) FirstContact(ctx context.Context, deadline time.Time) {
	e.mu.Lock()
	if !e.mayComeUp() {
		e.mu.Unlock()
		return
	}
	limit := time.NewTimer(time.Until(deadline))
	defer limit.Stop()
	for e.mayComeUp() {
		changed := e.change()
		e.mu.Unlock()
		select {
		case <-changed:
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
		e.mu.Lock()
	}
	e.mu.Unlock()
}

// mayComeUp says whether waiting for first dials can make a quorum. e.mu is held.
func (e *Engine) mayComeUp() bool {
	if e.up >= Quorum(len(e.masters)) || e.closing.Load() {
		return false
	}
	for _, m := range e.masters {
		if !m.tried {
			return true
		}
	}
	return false
}

// change returns a channel that closes at the next change of a master's state.
// e.mu is held.
func (e *Engine) change() <-chan struct{} {
	if e.changed == nil {
		e.changed = make(chan struct{})
	}
	return e.changed
}

func (e *Engine) announce() {
	if e.changed != nil {
		close(e.changed)
		e.changed = nil
	}
}

// Down says of every master that is not connected why it is not.
func (e *Engine) Down() []Failure {
	e.mu.Lock()
	defer e.mu.Unlock()
	var down []Failure
	for i, m := range e.masters {
		if m.conn == nil {
			down = append(down, Failure{i, step(m.err)})
		}
	}
	return down
}

// What a Config is made of, so that its users need not import conn.
type (
	Address     = conn.Address
	DialOptions = conn.Options
)

// ParseAddress is conn.ParseAddress.
func ParseAddress(s string) (Address, error) { return conn.ParseAddress(s) }
