package redlock_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"
)

// TestMain checks that no goroutine is left at the end. The binary is also the
// program that the tests of mutual exclusion run in other processes.
func TestMain(m *testing.M) {
	if job := os.Getenv(contenderJob); job != "" {
		os.Exit(contend(job))
	}
	before := runtime.NumGoroutine()
	code := m.Run()
	for end := time.Now().Add(10 * time.Second); code == 0 && runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", stacks[:runtime.Stack(stacks, true)])
			code = 1
		}
	}
	os.Exit(code)
}
