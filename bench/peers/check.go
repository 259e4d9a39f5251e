package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// goneWithin is how long a release may take to reach the masters that the
// caller did not wait for.
const goneWithin = 2 * time.Second

// check proves that an implementation locks: a second client is refused, the
// lock's keys are on a quorum of the masters (or of the keys, where one master
// has several), they are gone after the release, and then the second client gets
// the lock.
//
// A library that does not wait for all answers and has several connections to a
// master may be overtaken by its own release, and leave a key behind until its ttl
// ends. Fewer than a quorum of them do not stop the next one: they are shown in the
// report, and are no reason to leave it out.
func check(impl implementation, j job) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
	defer cancel()
	var clients [2]locker
	for i := range clients {
		l, err := impl.open(j.setup())
		if err != nil {
			return err
		}
		defer l.close()
		clients[i] = l
	}
	name := key(0, j.KeySize)
	places := impl.places(j.Addrs, name)
	held, err := clients[0].try(ctx, name)
	if err != nil {
		return fmt.Errorf("cannot lock: %w", err)
	}
	if _, err := clients[1].try(ctx, name); !errors.Is(err, errRefused) {
		return fmt.Errorf("a second client was not refused: %v", err)
	}
	if err := places.await(func(n int) bool { return n > len(places)/2 }); err != nil {
		return fmt.Errorf("held, but not on a quorum: %w", err)
	}
	if err := held.extend(ctx, j.TTL); err != nil && !errors.Is(err, errNotOffered) {
		return fmt.Errorf("cannot extend: %w", err)
	}
	if err := held.release(ctx); err != nil {
		return fmt.Errorf("cannot release: %w", err)
	}
	if err := places.await(func(n int) bool { return n == 0 || impl.kind == peer && n < len(places)-len(places)/2 }); err != nil {
		return fmt.Errorf("released, but not gone: %w", err)
	}
	if held, err = clients[1].try(ctx, name); err != nil {
		return fmt.Errorf("cannot lock what was released: %w", err)
	}
	return held.release(ctx)
}

// place is where a part of a lock is stored.
type place struct{ addr, key string }

type places []place

func (impl implementation) places(addrs []string, name string) (all places) {
	for _, addr := range impl.masters(addrs) {
		for _, key := range impl.writes(name) {
			all = append(all, place{addr, key})
		}
	}
	return all
}

// await waits until enough is satisfied with the number of places that have a
// key.
func (p places) await(enough func(int) bool) error {
	deadline := time.Now().Add(goneWithin)
	for {
		n, err := p.count()
		if err != nil {
			return err
		}
		if enough(n) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%d of %d keys are there", n, len(p))
		}
		time.Sleep(time.Millisecond)
	}
}

func (p places) count() (n int, err error) {
	for _, place := range p {
		w, err := dialWire(place.addr)
		if err != nil {
			return 0, err
		}
		found, err := w.number("EXISTS", place.key)
		w.close()
		if err != nil {
			return 0, err
		}
		n += int(found)
	}
	return n, nil
}
