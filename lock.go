package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/goredlock/redlock/engine"
)

// Lock is a resource that a quorum of masters has granted. It is valid until
// Until; what it protects must not be touched after that. All methods are safe
// for concurrent use. A Lock must not be copied.
type Lock struct {
	client   *Client
	resource string
	value    value

	// mu orders the lock's commands: it is held from the decision to send one
	// until its bytes are queued, and never while anything waits.
	mu      sync.Mutex
	until   time.Time
	longest time.Duration  // the longest ttl that a command gave the key
	sent    engine.Masters // the masters that may hold the key
	order   engine.Order
	newest  uint64 // the number of extensions sent
	ended   bool   // released, or found lost: nothing but the release may follow
}

// Resource returns what is locked.
func (l *Lock) Resource() string { return l.resource }

// Value returns the random string that the masters hold under the resource.
// Who knows it can release the lock: do not log it.
func (l *Lock) Value() string { return string(l.value[:]) }

// Until returns the end of the lock's validity: the time of the attempt, plus
// the ttl, minus the drift. It carries a monotonic and a wall clock reading; the
// lock is valid while both clocks are before it. After the lock's end Until is
// not later than that end.
func (l *Lock) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Extend sets the time to live of the lock to ttl from now. It needs a quorum
// of masters that still hold the lock, and the old validity must not have ended
// before they answer; it never creates a key. It waits as TryAcquire does.
//
// On success Until has moved up, unless another Extend was sent after this one
// (the newest decides) or this one ends earlier than the lock did: then Until
// moves down, before anything is sent, and stays there even if Extend fails,
// because masters may have obeyed.
//
// On failure the error is a *QuorumError. ErrNotHeld (the masters say that it
// is gone, or it was released) and ErrExpired (the validity ended first) are
// final: the lock has ended and a release was sent. With ErrNoQuorum, also when
// ctx ended the wait, the lock is what it was, and Extend may be called again
// while Until lasts.
func (l *Lock) Extend(ctx context.Context, ttl time.Duration) error {
	c := l.client
	if err := c.check(ctx, l.resource, ttl); err != nil {
		return err
	}
	op := engine.Extend.Name
	ttl = wireTTL(ttl)
	start := time.Now()
	if err := endedBy(ctx, start); err != nil {
		return c.failure(op, l.resource, ErrNoQuorum, engine.Outcome{}, 0, err)
	}
	if err := c.engine.Enter(); err != nil {
		return c.failure(op, l.resource, ErrClosed, engine.Outcome{}, 0, nil)
	}
	defer c.engine.Leave()

	x, release, kind := l.extend(ctx, start, ttl)
	var o engine.Outcome
	if kind == nil {
		o = c.engine.Wait(ctx, x.round)
		release, kind = l.extended(x, o)
	}
	if release != nil {
		_ = c.engine.Send(release) // on a closed client nothing can be done any more
	}
	if kind == nil {
		return nil
	}
	now := time.Now()
	var ended error
	if kind == ErrNoQuorum {
		ended = endedBy(ctx, now)
	}
	return c.failure(op, l.resource, kind, o, elapsed(start, now), ended)
}

// extension is one Extend that has been queued.
type extension struct {
	round  *engine.Round
	number uint64    // among the extensions of its lock
	until  time.Time // where it moves Until
}

// extend queues an extension; or returns the sentinel that says why there can be
// none, and the release to be sent, if there is one.
func (l *Lock) extend(ctx context.Context, start time.Time, ttl time.Duration) (extension, *engine.Round, error) {
	c := l.client
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return extension{}, nil, ErrNotHeld
	}
	if left(l.until, start) <= 0 {
		return extension{}, l.abandon(), ErrExpired
	}
	until := start.Add(ttl - drift(ttl, c.cfg.DriftFactor))
	l.until = earlier(l.until, until)
	l.longest = max(l.longest, ttl)
	l.newest++

	callers, bounded := ctx.Deadline()
	r := c.engine.NewRound(&engine.Extend)
	r.Key, r.TTL, r.Order = l.resource, ttl, &l.order
	r.Deadline = roundDeadline(start, c.cfg.RoundTimeout, ttl, callers, bounded)
	r.SetValue(l.value[:])
	c.engine.Queue(r)
	return extension{r, l.newest, until}, nil, nil
}

// extended takes in what became of an extension. If it failed it returns the
// sentinel, and the release to be sent, if there is one.
func (l *Lock) extended(x extension, o engine.Outcome) (*engine.Round, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		return nil, ErrNotHeld
	case o.Decision == engine.Lost:
		return l.abandon(), ErrNotHeld
	case o.Decision != engine.Won:
		return nil, ErrNoQuorum
	case left(l.until, time.Now()) <= 0:
		return l.abandon(), ErrExpired
	}
	if x.number == l.newest && x.until.After(l.until) {
		l.until = x.until
	}
	return nil, nil
}

// Release gives the lock up. Its validity ends at once, before anything is
// sent; the key is then deleted on every master where it still holds the lock's
// value. Release waits for a quorum of answers, for at most one RoundTimeout,
// and takes no context, so that it works in a defer after a cancellation.
//
// It returns nil when a quorum deleted the key. Otherwise the error is a
// *QuorumError: ErrNotHeld when the lock had expired, was another's or was
// released before, ErrNoQuorum when too few masters answered, ErrClosed after
// Client.Close. The masters that did not answer are sent the release as soon as
// they can be reached, until the key must have expired by itself; there is
// nothing to repeat.
func (l *Lock) Release() error {
	c := l.client
	start := time.Now()
	r, kind := l.end(start)
	if kind == nil {
		defer c.engine.Leave()
		o := c.engine.Wait(context.Background(), r)
		switch o.Decision {
		case engine.Won:
			return nil
		case engine.Lost:
			kind = ErrNotHeld
		default:
			kind = ErrNoQuorum
		}
		return c.failure(engine.Release.Name, l.resource, kind, o, time.Since(start), nil)
	}
	return c.failure(engine.Release.Name, l.resource, kind, engine.Outcome{}, 0, nil)
}

// ReleaseAsync is Release without waiting for answers, and without learning of
// them: the release is queued behind the lock's other commands and written as
// far as the sockets take it.
func (l *Lock) ReleaseAsync() {
	if r, kind := l.end(time.Now()); kind == nil {
		_ = l.client.engine.Send(r)
		l.client.engine.Leave()
	}
}

// end ends the validity and queues the release, after which the caller is
// inside the engine; or says why there is nothing to release.
func (l *Lock) end(now time.Time) (*engine.Round, error) {
	entered := l.client.engine.Enter()
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := l.ended
	l.ended = true
	l.until = earlier(l.until, now)
	switch {
	case entered != nil:
		return nil, ErrClosed
	case ended:
		l.client.engine.Leave()
		return nil, ErrNotHeld
	}
	return l.queueRelease(), nil
}

// abandon ends a lock that was found lost or expired, and queues the release of
// what may be left of it. mu is held; the caller sends it when it is not.
func (l *Lock) abandon() *engine.Round {
	l.ended = true
	l.until = earlier(l.until, time.Now())
	return l.queueRelease()
}

// queueRelease puts the release behind everything that was queued for the lock.
// mu is held.
func (l *Lock) queueRelease() *engine.Round {
	r := l.client.release(l.resource, &l.value, l.longest, l.sent)
	r.Order = &l.order
	l.client.engine.Queue(r)
	return r
}
