package redisproc

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

const stopTimeout = 5 * time.Second

// awaitStopped waits until every thread of the process has stopped. kill(2)
// returns before that: a thread in the middle of a write still finishes it.
// Nothing announces the moment without taking the exit status away from
// os.Process, so it is polled for.
func awaitStopped(r *run) error {
	deadline := time.Now().Add(stopTimeout)
	for {
		stopped, err := allStopped(r.pid)
		if err != nil || stopped {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("not stopped after %v", stopTimeout)
		}
		select {
		case <-r.done:
			return errNotRunning
		case <-time.After(pollEvery):
		}
	}
}

func allStopped(pid int) (bool, error) {
	stats, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/stat")
	if err != nil {
		return false, err
	}
	if len(stats) == 0 {
		return false, errNotRunning
	}
	for _, path := range stats {
		stat, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // a thread that ended meanwhile
		}
		if err != nil {
			return false, err
		}
		// "pid (name) state …", where the name may hold anything, ')' too.
		i := bytes.LastIndexByte(stat, ')')
		if i < 0 || i+2 >= len(stat) || stat[i+2] != 'T' {
			return false, nil
		}
	}
	return true, nil
}
