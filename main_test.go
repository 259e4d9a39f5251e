package redlock_test

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain checks that no goroutine of this module is left at the end. The
// binary is also the program that the tests of mutual exclusion run in other
// processes.
func TestMain(m *testing.M) {
	if job := os.Getenv(contenderJob); job != "" {
		os.Exit(contend(job))
	}
	code := m.Run()
	end := time.Now().Add(10 * time.Second)
	for left := goroutines(); code == 0 && len(left) > 0; left = goroutines() {
		if time.Now().After(end) {
			fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", strings.Join(left, "\n\n"))
			code = 1
		}
		time.Sleep(time.Millisecond)
	}
	os.Exit(code)
}

// goroutines returns the stacks of all but the one that asks and those of the
// test framework (a fuzzing process catches signals).
func goroutines() []string {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	return slices.DeleteFunc(strings.Split(string(all), "\n\n"), func(stack string) bool {
		return !strings.Contains(stack, "created by github.com/")
	})
}
