package main

import (
	"context"
	"fmt"
	"time"
)

const (
	// stillFor is how many looks in a row, lookEvery apart, must find the same
	// before the masters are taken to stand still.
	stillFor  = 4
	lookEvery = 2 * time.Millisecond
	// drainWithin is more than any backlog takes.
	drainWithin = 60 * time.Second
)

// drain waits until the masters that are listed have answered everything that
// was sent, and onTheWay reports that nothing is held up elsewhere. It returns
// the time of the last change that it saw: what it waited longer, to be sure, is
// nobody's time.
func drain(ctx context.Context, m masters, list []int, onTheWay func() bool) (last time.Time, err error) {
	begin := time.Now()
	last = begin
	counts := make(map[int]int64)
	for looks, same := 0, 0; same < stillFor; looks++ {
		busy := onTheWay()
		for _, i := range list {
			moved, err := look(m, i, counts)
			if err != nil {
				return last, fmt.Errorf("master %d: %w", i, err)
			}
			busy = busy || moved
		}
		switch {
		case looks == 0: // there is nothing yet to compare with
		case busy:
			same, last = 0, time.Now()
		default:
			same++
		}
		if time.Since(begin) > drainWithin {
			return last, fmt.Errorf("the masters do not come to rest within %v", drainWithin)
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
	return last, nil
}

// look reports whether master i has moved since the last look, or has something
// left to do.
func look(m masters, i int, counts map[int]int64) (busy bool, err error) {
	n, err := m.executed(i)
	if err != nil {
		return false, err
	}
	last, seen := counts[i]
	counts[i] = n
	if !seen || n != last {
		return true, nil // that is enough: CLIENT LIST is long
	}
	idle, err := m.idle(i)
	return !idle, err
}
