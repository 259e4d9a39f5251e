package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/bsm/redislock"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// The libraries of this file lock on one master: faster than a quorum, and gone
// with that master.

type rueidislockLocker struct{ locker rueidislock.Locker }

// rueidislockLock is the function that ends the lock, and waits until it has.
type rueidislockLock context.CancelFunc

func openRueidislock(s setup) (locker, error) {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: s.addrs[:1]},
		KeyValidity:    s.ttl,
		NoLoopTracking: true,
	})
	if err != nil {
		return nil, err
	}
	return rueidislockLocker{l}, nil
}

// rueidislockKeys are 2·KeyMajority − 1, with the default prefix.
func rueidislockKeys(key string) (keys []string) {
	for i := range 3 {
		keys = append(keys, "rueidislock:"+strconv.Itoa(i)+":"+key)
	}
	return keys
}

func (l rueidislockLocker) try(ctx context.Context, key string) (lock, error) {
	_, release, err := l.locker.TryWithContext(ctx, key)
	return asRueidislockLock(release, err)
}

func (l rueidislockLocker) wait(ctx context.Context, key string) (lock, error) {
	_, release, err := l.locker.WithContext(ctx, key)
	return asRueidislockLock(release, err)
}

func (l rueidislockLocker) close() { l.locker.Close() }

func asRueidislockLock(release context.CancelFunc, err error) (lock, error) {
	switch {
	case err == nil:
		return rueidislockLock(release), nil
	case errors.Is(err, rueidislock.ErrNotLocked):
		return nil, errRefused
	}
	return nil, err
}

// extend is not offered: the library extends by itself.
func (l rueidislockLock) extend(context.Context, time.Duration) error { return errNotOffered }

func (l rueidislockLock) release(context.Context) error {
	l()
	return nil
}

type bsmLocker struct {
	redis  *goredis.Client
	locker *redislock.Client
	ttl    time.Duration
}

type bsmLock struct{ *redislock.Lock }

func openBSM(s setup) (locker, error) {
	client := goredis.NewClient(&goredis.Options{Addr: s.addrs[0]})
	return &bsmLocker{redis: client, locker: redislock.New(client), ttl: s.ttl}, nil
}

func (l *bsmLocker) try(ctx context.Context, key string) (lock, error) {
	return asBSMLock(l.locker.Obtain(ctx, key, l.ttl, nil))
}

// wait tries for a ttl at most: that is the library's own limit.
func (l *bsmLocker) wait(ctx context.Context, key string) (lock, error) {
	return asBSMLock(l.locker.Obtain(ctx, key, l.ttl, &redislock.Options{
		RetryStrategy: redislock.LinearBackoff(100 * time.Millisecond),
	}))
}

func (l *bsmLocker) close() { _ = l.redis.Close() }

func asBSMLock(held *redislock.Lock, err error) (lock, error) {
	switch {
	case err == nil:
		return bsmLock{held}, nil
	case errors.Is(err, redislock.ErrNotObtained):
		return nil, errRefused
	}
	return nil, err
}

func (l bsmLock) extend(ctx context.Context, ttl time.Duration) error {
	return l.Refresh(ctx, ttl, nil)
}

func (l bsmLock) release(ctx context.Context) error { return l.Release(ctx) }
