package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	redsyncgoredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncredigo "github.com/go-redsync/redsync/v4/redis/redigo"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	redigo "github.com/gomodule/redigo/redis"
	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

// redsyncDrivers are made as redsync's README, its examples and its tests make
// them: the drivers' defaults, but for redigo, which has none.
var redsyncDrivers = []struct {
	name   string
	settle string
	pool   func(addr string, callers int) (pool redsyncredis.Pool, closePool func(), err error)
}{
	{"goredis", "go-redis default Options (PoolSize 10 per CPU, ReadTimeout 5s)", goredisPool},
	{"rueidis", "rueidis default ClientOption (pipelining over 4 connections)", rueidisPool},
	{"redigo", "redigo Pool{IdleTimeout: 240s} as in its documentation, MaxIdle = callers (the documented 3 would dial for nearly every lock)", redigoPool},
}

// redsyncs are redsync's drivers, each in its default setting and WithFailFast.
func redsyncs() (all []implementation) {
	for _, failFast := range []bool{false, true} {
		for _, driver := range redsyncDrivers {
			impl := implementation{
				name: "redsync-" + driver.name, kind: peer,
				settle: "NewMutex(key, WithExpiry(ttl)) for each lock; one attempt is TryLockContext, waiting is LockContext; " + driver.settle,
			}
			if failFast {
				impl.name += "-failfast"
				impl.settle = "WithFailFast(true); otherwise as redsync-" + driver.name
			}
			if driver.name == "rueidis" {
				impl.needs = needsTracking
			}
			impl.open = func(s setup) (locker, error) { return openRedsync(s, driver.pool, failFast) }
			all = append(all, impl)
		}
	}
	return all
}

type redsyncLocker struct {
	redsync *redsync.Redsync
	options []redsync.Option
	closers []func()
}

type redsyncLock struct{ *redsync.Mutex }

func openRedsync(s setup, open func(string, int) (redsyncredis.Pool, func(), error), failFast bool) (locker, error) {
	l := &redsyncLocker{options: []redsync.Option{redsync.WithExpiry(s.ttl)}}
	if failFast {
		l.options = append(l.options, redsync.WithFailFast(true))
	}
	var pools []redsyncredis.Pool
	for _, addr := range s.addrs {
		pool, closePool, err := open(addr, s.callers)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("%s: %w", addr, err)
		}
		pools = append(pools, pool)
		l.closers = append(l.closers, closePool)
	}
	l.redsync = redsync.New(pools...)
	return l, nil
}

func goredisPool(addr string, _ int) (redsyncredis.Pool, func(), error) {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	return redsyncgoredis.NewPool(client), func() { _ = client.Close() }, nil
}

func rueidisPool(addr string, _ int) (redsyncredis.Pool, func(), error) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}})
	if err != nil {
		return nil, nil, err
	}
	return redsyncrueidis.NewPool(rueidiscompat.NewAdapter(client)), client.Close, nil
}

func redigoPool(addr string, callers int) (redsyncredis.Pool, func(), error) {
	pool := &redigo.Pool{
		MaxIdle:     max(callers, 3),
		IdleTimeout: 240 * time.Second,
		Dial:        func() (redigo.Conn, error) { return redigo.Dial("tcp", addr) },
	}
	return redsyncredigo.NewPool(pool), func() { _ = pool.Close() }, nil
}

func (l *redsyncLocker) try(ctx context.Context, key string) (lock, error) {
	mutex := l.redsync.NewMutex(key, l.options...)
	return asRedsyncLock(mutex, mutex.TryLockContext(ctx))
}

func (l *redsyncLocker) wait(ctx context.Context, key string) (lock, error) {
	mutex := l.redsync.NewMutex(key, l.options...)
	return asRedsyncLock(mutex, mutex.LockContext(ctx))
}

func (l *redsyncLocker) close() {
	for _, f := range l.closers {
		f()
	}
}

func asRedsyncLock(mutex *redsync.Mutex, err error) (lock, error) {
	if err == nil {
		return redsyncLock{mutex}, nil
	}
	if _, taken := err.(*redsync.ErrTaken); taken { // errors.As would cost redsync an allocation
		return nil, errRefused
	}
	return nil, err
}

var errNoQuorum = errors.New("no quorum")

// extend has the ttl from the mutex' expiry, which is the same.
func (l redsyncLock) extend(ctx context.Context, _ time.Duration) error {
	return confirmed(l.ExtendContext(ctx))
}

func (l redsyncLock) release(ctx context.Context) error { return confirmed(l.UnlockContext(ctx)) }

func confirmed(ok bool, err error) error {
	if ok {
		return nil
	}
	if err == nil {
		return errNoQuorum
	}
	return err
}
