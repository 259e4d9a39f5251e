package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// locker is one implementation, connected. Its methods are safe for concurrent
// use, except those of the floor.
type locker interface {
	// try makes one attempt. It returns errRefused if another holds the key.
	try(ctx context.Context, key string) (lock, error)
	// wait takes the lock as soon as it can be had, the implementation's own way.
	wait(ctx context.Context, key string) (lock, error)
	close()
}

// lock is what a locker has granted.
type lock interface {
	extend(ctx context.Context, ttl time.Duration) error
	release(ctx context.Context) error
}

var (
	errRefused    = errors.New("another holds the lock")
	errNotOffered = errors.New("not offered")
)

// setup is what a locker is made from.
type setup struct {
	addrs   []string      // of the masters
	callers int           // how many will use it at a time
	ttl     time.Duration // of every lock
	patient bool          // our own time-out must not make an error of a slow machine
}

// implementation is one column of the comparison.
type implementation struct {
	name   string
	kind   kind
	mark   string // what sets its locks apart from those on a quorum of masters
	settle string // its settings, in one line
	open   func(setup) (locker, error)
	keys   func(key string) []string // what it writes for one lock; nil: the key itself
	lacks  []task
	needs  string // what only real masters have
}

// kind says what an implementation may be compared with.
type kind int

const (
	another kind = iota // shown, and compared with nobody
	ours
	peer // locks on a quorum of masters, as ours does
)

const (
	nameOurs  = "redlock"
	nameFloor = "floor"

	needsTracking = "CLIENT TRACKING"
)

// implementations is all there are, in the order of the tables.
var implementations = append(append([]implementation{{
	name: nameOurs, kind: ours, open: openRedlock,
	settle: "Config{Masters}; everything else at its default",
}}, redsyncs()...), implementation{
	name: "rueidislock", mark: "one master, three keys", open: openRueidislock, keys: rueidislockKeys,
	settle: "NoLoopTracking (as its README says for Redis 7.0.5 and later), KeyValidity = ttl; KeyMajority 2, its default",
	lacks:  []task{extending},
	needs:  needsTracking,
}, implementation{
	name: "bsm-redislock", mark: "one master", open: openBSM,
	settle: "New(go-redis client with default Options); waits with LinearBackoff(100ms), as its example does",
	needs:  "GETRANGE",
}, implementation{
	name: nameFloor, mark: "no library: raw sockets, one thread", open: openFloor,
	settle: "the bytes that redlock sends; write to all, poll, read, go on at the quorum; many callers are one batch",
	lacks:  []task{contended},
})

// find returns the implementation of that name.
func find(name string) (implementation, bool) {
	for _, impl := range implementations {
		if impl.name == name {
			return impl, true
		}
	}
	return implementation{}, false
}

// choose returns the implementations that the names mean, in the order of the
// tables. A name means all that begin with it.
func choose(names string) ([]implementation, error) {
	if names == "" || names == "all" {
		return implementations, nil
	}
	wanted := make(map[string]bool)
	for name := range strings.SplitSeq(names, ",") {
		name = strings.TrimSpace(name)
		found := false
		_, exact := find(name)
		for _, impl := range implementations {
			if impl.name == name || !exact && name != "" && strings.HasPrefix(impl.name, name) {
				wanted[impl.name], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no implementation %q", name)
		}
	}
	var chosen []implementation
	for _, impl := range implementations {
		if wanted[impl.name] {
			chosen = append(chosen, impl)
		}
	}
	return chosen, nil
}

// single reports whether the implementation locks on one master only.
func (impl implementation) single() bool { return strings.HasPrefix(impl.mark, "one master") }

// masters returns those of the addresses that the implementation uses.
func (impl implementation) masters(addrs []string) []string {
	if impl.single() {
		return addrs[:1]
	}
	return addrs
}

// writes returns the keys that one lock consists of on each of its masters.
func (impl implementation) writes(key string) []string {
	if impl.keys == nil {
		return []string{key}
	}
	return impl.keys(key)
}
