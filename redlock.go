package redlock

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"sync"
	"time"

	"github.com/goredlock/redlock/engine"
)

// MaxResource is the longest resource in bytes. Redis would take 512 MiB; a
// key that long in every command is a mistake.
const MaxResource = 16 << 10

// Client takes locks on a quorum of masters, over one connection to each. All
// its methods are safe for concurrent use, and one Client is meant to be shared
// by a whole program: its callers' commands travel together.
type Client struct {
	cfg     Config
	addrs   []engine.Address
	engine  *engine.Engine
	done    chan struct{} // closed by Close, once
	closing sync.Once
}

// New checks cfg, starts to connect to the masters in the background and
// returns at once. A master that cannot be reached is tried again for as long
// as the Client lives, with pauses that grow to a second. The error names the
// field of cfg that is wrong; New does not fail because masters are down.
func New(cfg Config) (*Client, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	addrs, err := cfg.addresses()
	if err != nil {
		return nil, err
	}
	e, err := engine.New(cfg.engine(addrs))
	if err != nil {
		return nil, fmt.Errorf("redlock: %w", err)
	}
	return &Client{cfg: cfg, addrs: addrs, engine: e, done: make(chan struct{})}, nil
}

// Ready waits until a quorum of masters is connected, or ctx ends. There is no
// need to call it: the first TryAcquire waits for first connections, up to a
// RoundTimeout. The error is a *QuorumError that says of each master why it is
// not connected.
func (c *Client) Ready(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	start := time.Now()
	err := c.engine.Ready(ctx)
	if err == nil {
		return nil
	}
	down := c.engine.Down()
	o := engine.Outcome{Err: err, Failures: down}
	o.Tally.Granted = c.engine.N() - len(down)
	return c.failure("ready", "", ErrNoQuorum, o, time.Since(start), err)
}

// TryAcquire makes one attempt to lock the resource for ttl: one command to all
// masters, as the Redlock specification describes it. It waits for a quorum of
// answers, for at most Config.RoundTimeout and no longer than a quarter of ttl
// and ctx; a cancelled ctx ends it within 2 ms.
//
// The resource is any non-empty string of up to MaxResource bytes; it is the
// key in Redis as it is. ttl is rounded up to a millisecond and must be longer
// than the drift.
//
// On success the Lock is valid until Lock.Until, unless it is released. On
// failure the error is a *QuorumError, and nothing is left behind: whatever
// masters have granted, or may still grant, is released behind it, without
// waiting for that. It is ErrLocked when another has the resource or the votes
// were split, ErrNoQuorum when too many masters failed or ctx ended the wait,
// ErrExpired when the grants came too late, ErrClosed after Close. A success
// that comes after the end of ctx is undone.
func (c *Client) TryAcquire(ctx context.Context, resource string, ttl time.Duration) (*Lock, error) {
	if err := c.check(ctx, resource, ttl); err != nil {
		return nil, err
	}
	lock, err := c.attempt(ctx, resource, wireTTL(ttl))
	if err != nil {
		return nil, err
	}
	return lock, nil
}

// Acquire is TryAcquire again and again, with a fresh value and after a random
// pause (see Config.RetryDelay), until it succeeds, ctx ends or the Client is
// closed. It tries again also when no quorum of masters answers. The error is
// that of the last attempt that ctx did not cut short, if there was one, and
// matches ctx.Err() as well if ctx ended the wait.
func (c *Client) Acquire(ctx context.Context, resource string, ttl time.Duration) (*Lock, error) {
	if err := c.check(ctx, resource, ttl); err != nil {
		return nil, err
	}
	ttl = wireTTL(ttl)
	var timer *time.Timer
	var last *QuorumError
	for {
		start := time.Now()
		lock, err := c.attempt(ctx, resource, ttl)
		switch {
		case err == nil:
			return lock, nil
		case err.kind == ErrNoQuorum && err.ctx != nil && last != nil:
			// ctx cut this attempt short; the one before says more.
			last.ctx = err.ctx
			return nil, last
		case err.ctx != nil, err.kind == ErrClosed:
			return nil, err
		}
		last = err
		pause := retryPause(c.cfg.RetryDelay, time.Since(start), mathrand.Float64())
		if timer == nil {
			timer = time.NewTimer(pause)
			defer timer.Stop()
		} else {
			timer.Reset(pause)
		}
		select {
		case <-timer.C:
		case <-ctx.Done():
			err.ctx = ctx.Err()
			return nil, err
		case <-c.done:
			err.kind = ErrClosed
			return nil, err
		}
	}
}

// Close ends every call that waits with ErrClosed, gives releases that are
// under way at most one RoundTimeout to be answered, and closes the
// connections. Locks that are held stay held until their ttl ends: release them
// first. It returns nil; a second Close waits for the first to end. Config.Dial
// must not call it.
func (c *Client) Close() error {
	c.closing.Do(func() {
		close(c.done)
		c.engine.Close()
	})
	return nil
}

var errNilContext = errors.New("redlock: the context is nil")

// check refuses bad arguments before anything is sent.
func (c *Client) check(ctx context.Context, resource string, ttl time.Duration) error {
	switch {
	case ctx == nil:
		return errNilContext
	case resource == "":
		return errors.New("redlock: the resource is empty")
	case len(resource) > MaxResource:
		return fmt.Errorf("redlock: the resource has %d bytes: at most %d (MaxResource) are possible", len(resource), MaxResource)
	}
	return c.checkTTL(ttl)
}

func (c *Client) checkTTL(ttl time.Duration) error {
	switch {
	case ttl <= 0:
		return fmt.Errorf("redlock: the ttl is not positive: %v", ttl)
	case ttl > maxTTL:
		return fmt.Errorf("redlock: the ttl is too long: %v: at most %v is possible", ttl, time.Duration(maxTTL))
	}
	if rounded := wireTTL(ttl); rounded-drift(rounded, c.cfg.DriftFactor) <= c.cfg.MinValidity {
		return fmt.Errorf("redlock: the ttl %v leaves no validity after the drift: the smallest that does is %v",
			ttl, smallestTTL(c.cfg.DriftFactor, c.cfg.MinValidity))
	}
	return nil
}

// attempt is one pass of the algorithm.
func (c *Client) attempt(ctx context.Context, resource string, ttl time.Duration) (*Lock, *QuorumError) {
	start := time.Now()
	if err := endedBy(ctx, start); err != nil {
		return nil, c.failure(engine.Acquire.Name, resource, ErrNoQuorum, engine.Outcome{}, 0, err)
	}
	if err := c.engine.Enter(); err != nil {
		return nil, c.failure(engine.Acquire.Name, resource, ErrClosed, engine.Outcome{}, 0, nil)
	}
	defer c.engine.Leave()

	callers, bounded := ctx.Deadline()
	deadline := roundDeadline(start, c.cfg.RoundTimeout, ttl, callers, bounded)
	c.engine.FirstContact(ctx, deadline)
	v := newValue()
	r := c.engine.NewRound(&engine.Acquire)
	r.Key, r.TTL, r.Deadline = resource, ttl, deadline
	r.SetValue(v[:])
	c.engine.Queue(r)
	o := c.engine.Wait(ctx, r)

	now := time.Now()
	took := elapsed(start, now)
	kind, ended := ErrLocked, error(nil)
	if o.Decision != engine.Won || ctx.Err() != nil {
		ended = endedBy(ctx, now)
	}
	validity := ttl - drift(ttl, c.cfg.DriftFactor)
	switch {
	case o.Decision == engine.Lost: // known, whether or not ctx has ended since
	case ended != nil, o.Decision == engine.NoQuorum, o.Decision == engine.Undecided:
		kind = ErrNoQuorum
	case o.Decision == engine.Won && validity-took > c.cfg.MinValidity:
		return &Lock{
			client: c, resource: resource, value: v,
			tenure: tenure{until: start.Add(validity), longest: ttl}, sent: o.Sent,
		}, nil
	case o.Decision == engine.Won:
		kind = ErrExpired
	}
	if o.Sent != 0 {
		// Behind the SET on the same connection: it cannot be overtaken by it.
		undo := c.release(resource, &v, ttl, o.Sent)
		c.engine.Queue(undo)
		_ = c.engine.Send(undo) // on a closed client nothing can be done any more
	}
	return nil, c.failure(engine.Acquire.Name, resource, kind, o, took, ended)
}

// release makes the round that deletes a key where it holds the value: on the
// masters that may have been sent it.
func (c *Client) release(resource string, v *value, ttl time.Duration, sent engine.Masters) *engine.Round {
	r := c.engine.NewRound(&engine.Release)
	r.Key, r.TTL, r.May = resource, ttl, sent
	r.SetValue(v[:])
	return r
}

// value is what is stored under the key: 20 random bytes as 27 printable ones.
type value [27]byte

func newValue() (v value) {
	var raw [20]byte
	_, _ = rand.Read(raw[:]) // never fails
	base64.RawURLEncoding.Encode(v[:], raw[:])
	return v
}
