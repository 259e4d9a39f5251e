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
	mu     sync.Mutex
	tenure tenure
	order  engine.Order
	sent   engine.Masters // the masters that may hold the key; not changed
}

// Resource returns what is locked.
func (l *Lock) Resource() string { return l.resource }

// Value returns the random string that the masters hold under the resource.
// Who knows it can release the lock: do not log it.
func (l *Lock) Value() string { return string(l.value[:]) }

// Until returns the end of the lock's validity: the time of the attempt, plus
// the ttl, minus the drift. After the lock's end it is not later than that end.
//
// It carries a monotonic and a wall clock reading, and the lock is valid while
// both clocks are before theirs. Most of the time package compares the monotonic
// clock only, which stands still while the machine is suspended; where that can
// happen, compare both:
//
//	now, until := time.Now(), lock.Until()
//	valid := now.Before(until) && now.Round(0).Before(until.Round(0))
func (l *Lock) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tenure.until
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

	r, number, kind := l.extend(ctx, start, ttl)
	var o engine.Outcome
	if kind == nil {
		o = c.engine.Wait(ctx, r)
		r, kind = l.extended(number, start.Add(l.validity(ttl)), o.Decision)
	}
	if r != nil {
		_ = c.engine.Send(r) // the release; on a closed client nothing can be done any more
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

func (l *Lock) validity(ttl time.Duration) time.Duration {
	return ttl - drift(ttl, l.client.cfg.DriftFactor)
}

// extend queues an extension and returns its round and its number. If there can
// be none it returns the sentinel that says why; the round is then the lock's
// release, or nil.
func (l *Lock) extend(ctx context.Context, start time.Time, ttl time.Duration) (*engine.Round, uint64, error) {
	c := l.client
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := l.tenure.ended
	number, err := l.tenure.extend(start, start.Add(l.validity(ttl)), ttl)
	if err != nil {
		return l.releaseIfJustEnded(ended), 0, err
	}
	callers, bounded := ctx.Deadline()
	r := c.engine.NewRound(&engine.Extend)
	r.Key, r.TTL, r.Order = l.resource, ttl, &l.order
	r.Deadline = roundDeadline(start, c.cfg.RoundTimeout, ttl, callers, bounded)
	r.SetValue(l.value[:])
	c.engine.Queue(r)
	return r, number, nil
}

// extended takes in the decision on an extension that would have moved Until to
// the time given. It returns the sentinel of its error, if it failed, and the
// lock's release, if that has ended the lock.
func (l *Lock) extended(number uint64, until time.Time, d engine.Decision) (*engine.Round, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ended := l.tenure.ended
	err := l.tenure.extended(time.Now(), number, until, d)
	return l.releaseIfJustEnded(ended), err
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
	first := l.tenure.end(now)
	switch {
	case entered != nil:
		return nil, ErrClosed
	case !first:
		l.client.engine.Leave()
		return nil, ErrNotHeld
	}
	return l.releaseIfJustEnded(false), nil
}

// releaseIfJustEnded queues the release of a lock that has ended, unless it had
// ended before, behind everything that was queued for the lock. The caller sends
// it when it does not hold mu any more, which it does here.
func (l *Lock) releaseIfJustEnded(before bool) *engine.Round {
	if before || !l.tenure.ended {
		return nil
	}
	r := l.client.release(l.resource, &l.value, l.tenure.longest, l.sent)
	r.Order = &l.order
	l.client.engine.Queue(r)
	return r
}
