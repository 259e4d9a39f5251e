package main

import (
	"context"
	"errors"
	"time"

	"github.com/goredlock/redlock"
)

// readyTimeout is how long an implementation may take to connect.
const readyTimeout = 10 * time.Second

type redlockLocker struct {
	client *redlock.Client
	ttl    time.Duration
}

// redlockLock is no larger than a pointer, so that making a lock of it does not
// allocate: the allocations counted are the library's.
type redlockLock struct{ held *redlock.Lock }

func openRedlock(s setup) (locker, error) {
	cfg := redlock.Config{Masters: s.addrs}
	if s.patient {
		cfg.RoundTimeout = s.ttl / 4
	}
	client, err := redlock.New(cfg)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	if err := client.Ready(ctx); err != nil {
		_ = client.Close() // never fails
		return nil, err
	}
	return &redlockLocker{client: client, ttl: s.ttl}, nil
}

func (l *redlockLocker) try(ctx context.Context, key string) (lock, error) {
	held, err := l.client.TryAcquire(ctx, key, l.ttl)
	return asRedlockLock(held, err)
}

func (l *redlockLocker) wait(ctx context.Context, key string) (lock, error) {
	held, err := l.client.Acquire(ctx, key, l.ttl)
	return asRedlockLock(held, err)
}

func (l *redlockLocker) close() { _ = l.client.Close() } // never fails

func asRedlockLock(held *redlock.Lock, err error) (lock, error) {
	switch {
	case err == nil:
		return redlockLock{held}, nil
	case errors.Is(err, redlock.ErrLocked):
		return nil, errRefused
	}
	return nil, err
}

func (l redlockLock) extend(ctx context.Context, ttl time.Duration) error {
	return l.held.Extend(ctx, ttl)
}

func (l redlockLock) release(context.Context) error { return l.held.Release() }
