package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"time"
)

const (
	// holdFor is how long a caller keeps the contended key. By then all others
	// have found it taken, and wait.
	holdFor = 5 * time.Millisecond
	// lastTenure is how long before the end of a turn tenures cease to count: then
	// processes stop, a moment apart, and rueidislock ends a lock with the context
	// of its wait.
	lastTenure = 20 * time.Millisecond
)

// board is where the callers of all processes see that the key was acquired: a
// file with one byte for each time. Whoever has released stays away until another
// has acquired. Without that it would take the key again before any other learns
// of the release, and the numbers would be about that; with a pause of any fixed
// length they would be about those who come fresh, and not about those who wait.
type board struct{ file *os.File }

func openBoard(path string) (board, error) {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_RDWR, 0)
	return board{f}, err
}

// acquired adds to the number of acquisitions, and returns it.
func (b board) acquired() (int64, error) {
	if _, err := b.file.Write([]byte{'.'}); err != nil {
		return 0, err
	}
	return b.count()
}

func (b board) count() (int64, error) {
	info, err := b.file.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// awaitNext waits until there have been more acquisitions than n, or ctx ends.
func (b board) awaitNext(ctx context.Context, n int64) error {
	for {
		now, err := b.count()
		if err != nil || now > n || ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// contend takes, holds and releases the key that everybody wants until the time
// given. It then gives up what it waits for.
func (c *caller) contend(ctx context.Context, until time.Time) {
	board, err := openBoard(c.crew.job.Board)
	if err != nil {
		c.fail(err)
		return
	}
	defer board.file.Close()
	// Not a deadline: rueidislock would shorten the ttl to it.
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	defer time.AfterFunc(time.Until(until), cancel).Stop()
	for time.Now().Before(until) {
		if err := c.reign(waiting, ctx, board); err != nil && waiting.Err() == nil {
			c.fail(err)
			time.Sleep(errorPause)
		}
	}
}

// reign is one tenure, from the wait for it until somebody else has the next.
func (c *caller) reign(waiting, ctx context.Context, board board) error {
	l, err := c.crew.locker.wait(waiting, c.key)
	begin := time.Now().UnixNano()
	if err != nil {
		return err
	}
	n, boardErr := board.acquired()
	time.Sleep(holdFor)
	c.tenures = append(c.tenures, tenure{Begin: begin, End: time.Now().UnixNano()})
	if err := l.release(ctx); err != nil || boardErr != nil {
		return errors.Join(err, boardErr)
	}
	c.ops++
	return board.awaitNext(waiting, n)
}

// handovers is what the tenures of all processes show.
type handovers struct {
	latency  histogram // from a release to the next acquire
	overlaps int64     // two held the key at once: it does not lock
}

// handoversOf looks at the tenures that ended before the time given.
func handoversOf(tenures []tenure, before int64) (h handovers) {
	tenures = slices.DeleteFunc(tenures, func(t tenure) bool { return t.End >= before })
	slices.SortFunc(tenures, func(a, b tenure) int { return cmp.Compare(a.Begin, b.Begin) })
	for i := 1; i < len(tenures); i++ {
		if wait := tenures[i].Begin - tenures[i-1].End; wait < 0 {
			h.overlaps++
		} else {
			h.latency.add(time.Duration(wait))
		}
	}
	return h
}
