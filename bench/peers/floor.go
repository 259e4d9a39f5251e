package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goredlock/redlock/resp"
)

// floor is what is left of a lock when there is no library: one thread writes
// the bytes that redlock sends to all masters, polls, reads, counts the votes and
// goes on at the quorum. Many callers are one batch. It has no time-outs, no
// reconnects, no clean-up and no safety; nothing can be much faster.
//
// It must be used by one goroutine at a time.
type floor struct {
	masters []*floorMaster
	quorum  int
	ttl     time.Duration
	forms   floorForms
	out     []byte // the commands of a round, once for all masters

	votes     []floorVotes // of this round, by command
	undecided int          // how many of them
	failure   error        // the first that a vote failed for
}

// floorMaster is one connection. Everything in it is the floor's.
type floorMaster struct {
	sock   floorSocket
	err    error  // the connection is lost
	unsent []byte // what the socket would not take
	in     []byte // what has been read and not decoded
	stale  int    // replies still to come to earlier rounds
	due    int    // replies still to come to this one
}

// floorSocket does not block: read and write return errAgain instead.
type floorSocket interface {
	read(b []byte) (int, error)
	write(b []byte) (int, error)
	close()
}

var errAgain = errors.New("would block")

type floorVotes struct{ granted, refused, failed int }

const (
	// floorPatience is how long a round may take; then there is no quorum.
	floorPatience = 10 * time.Second
	// maxUnsent is more than a frozen master is sent in any turn.
	maxUnsent = 64 << 20
	// minRead is room for the replies to a batch of a thousand.
	minRead = 16 << 10
)

func openFloor(s setup) (locker, error) { return newFloor(s) }

func newFloor(s setup) (*floor, error) {
	f := &floor{quorum: len(s.addrs)/2 + 1, ttl: s.ttl}
	native := [...]bool{nativeDELEX: true, nativeDELIFEQ: true, nativeSET: true}
	var shas [2]string
	for _, addr := range s.addrs {
		err := probeFloor(addr, &native, &shas)
		var sock floorSocket
		if err == nil {
			sock, err = dialFloor(addr)
		}
		if err != nil {
			f.close()
			return nil, fmt.Errorf("%s: %w", addr, err)
		}
		f.masters = append(f.masters, &floorMaster{sock: sock})
	}
	f.forms = formsFor(native, shas[0], shas[1])
	return f, nil
}

// floorLock is a lock of the floor, alone or in a batch.
type floorLock struct {
	floor      *floor
	key, value string
}

func (f *floor) try(_ context.Context, key string) (lock, error) {
	l := floorLock{f, key, floorValue()}
	if err := f.acquire([]floorLock{l}); err != nil {
		return nil, err
	}
	return l, nil
}

func (f *floor) wait(context.Context, string) (lock, error) { return nil, errNotOffered }

func (l floorLock) release(context.Context) error { return l.floor.releaseAll([]floorLock{l}) }

func (l floorLock) extend(_ context.Context, ttl time.Duration) error {
	l.floor.out = l.floor.forms.extend(l.floor.out[:0], l.key, l.value, ttl)
	return l.floor.round(1)
}

// acquire takes all of the locks. If it cannot, it releases what it may have got
// of them, behind the attempt and without waiting, as redlock does.
func (f *floor) acquire(locks []floorLock) error {
	f.out = f.out[:0]
	for _, l := range locks {
		f.out = appendSet(f.out, l.key, l.value, f.ttl)
	}
	err := f.round(len(locks))
	if err != nil {
		f.appendReleases(locks)
		f.send(len(locks))
	}
	return err
}

func (f *floor) releaseAll(locks []floorLock) error {
	f.appendReleases(locks)
	err := f.round(len(locks))
	if errors.Is(err, errRefused) {
		return errors.New("the lock was not held any more")
	}
	return err
}

func (f *floor) appendReleases(locks []floorLock) {
	f.out = f.out[:0]
	for _, l := range locks {
		f.out = f.forms.release(f.out, l.key, l.value)
	}
}

// round sends the n commands in f.out and returns when a quorum has decided each
// of them. The error is about the first that was not granted.
func (f *floor) round(n int) error {
	f.send(n)
	deadline := time.Now().Add(floorPatience)
	for {
		for _, m := range f.masters {
			if m.err == nil {
				f.take(m)
			}
		}
		if f.undecided == 0 {
			return f.verdict()
		}
		if err := pollFloor(f.masters, time.Until(deadline)); err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no quorum in %v", floorPatience)
		}
	}
}

// send begins a round of the n commands in f.out.
func (f *floor) send(n int) {
	f.votes = slices.Grow(f.votes[:0], n)[:n]
	clear(f.votes)
	f.undecided = n
	for _, m := range f.masters {
		m.stale += m.due
		m.due = n
		if m.err == nil {
			m.unsent = append(m.unsent, f.out...)
			m.err = m.flush()
		}
		if m.err != nil {
			f.lose(m)
		}
	}
}

// flush writes as much as the socket takes.
func (m *floorMaster) flush() error {
	sent, err := 0, error(nil)
	for sent < len(m.unsent) && err == nil {
		var n int
		n, err = m.sock.write(m.unsent[sent:])
		sent += n
	}
	m.unsent = m.unsent[:copy(m.unsent, m.unsent[sent:])]
	switch {
	case errors.Is(err, errAgain) && len(m.unsent) > maxUnsent:
		return fmt.Errorf("%d bytes unsent", len(m.unsent))
	case errors.Is(err, errAgain):
		return nil
	}
	return err
}

// take reads what is there, and counts the votes in it.
func (f *floor) take(m *floorMaster) {
	if m.err = m.flush(); m.err == nil {
		m.err = m.fill()
	}
	read := 0
	for m.due+m.stale > 0 {
		v, n, err := resp.Decode(m.in[read:])
		if errors.Is(err, resp.ErrPartial) {
			break
		}
		if err != nil {
			m.err = err
			break
		}
		read += n
		if m.stale > 0 {
			m.stale--
			continue
		}
		f.count(len(f.votes)-m.due, v)
		m.due--
	}
	m.in = m.in[:copy(m.in, m.in[read:])]
	if m.err != nil {
		f.lose(m)
	}
}

func (m *floorMaster) fill() error {
	for {
		m.in = slices.Grow(m.in, minRead)
		n, err := m.sock.read(m.in[len(m.in):cap(m.in)])
		m.in = m.in[:len(m.in)+n]
		switch {
		case errors.Is(err, errAgain):
			return nil
		case err != nil:
			return err
		case len(m.in) < cap(m.in): // a short read: there is no more
			return nil
		}
	}
}

// lose counts the votes that the master will not cast in this round.
func (f *floor) lose(m *floorMaster) {
	if f.failure == nil {
		f.failure = m.err
	}
	for i := len(f.votes) - m.due; i < len(f.votes); i++ {
		f.vote(i, func(v *floorVotes) { v.failed++ })
	}
	m.due, m.stale = 0, 0
}

// count counts one reply.
func (f *floor) count(i int, v resp.Value) {
	f.vote(i, func(votes *floorVotes) {
		switch {
		case v.IsOK(), v.Kind == resp.Integer && v.Int == 1:
			votes.granted++
		case v.Kind == resp.Null, v.Kind == resp.Integer && v.Int == 0:
			votes.refused++
		default:
			votes.failed++
			if f.failure == nil {
				f.failure = fmt.Errorf("unexpected reply: %s %q", v.Kind, v.Data)
			}
		}
	})
}

func (f *floor) vote(i int, cast func(*floorVotes)) {
	votes := &f.votes[i]
	before := f.decided(*votes)
	cast(votes)
	if !before && f.decided(*votes) {
		f.undecided--
	}
}

// decided reports whether no further vote can change the outcome.
func (f *floor) decided(v floorVotes) bool {
	return v.granted >= f.quorum || v.refused+v.failed > len(f.masters)-f.quorum
}

func (f *floor) verdict() error {
	for _, v := range f.votes {
		switch {
		case v.granted >= f.quorum:
		case v.failed > len(f.masters)-f.quorum:
			return fmt.Errorf("%w: %w", errNoQuorum, f.failure)
		default:
			return errRefused
		}
	}
	return nil
}

func (f *floor) close() {
	for _, m := range f.masters {
		m.sock.close()
	}
}
