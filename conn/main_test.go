package conn

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestMain checks that no goroutine is left at the end.
func TestMain(m *testing.M) {
	code := m.Run()
	end := time.Now().Add(10 * time.Second)
	for left := ours(); code == 0 && len(left) > 0; left = ours() {
		if time.Now().After(end) {
			fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", strings.Join(left, "\n\n"))
			code = 1
		}
		runtime.Gosched()
	}
	os.Exit(code)
}

// ours returns the stacks of the goroutines that this package has started.
func ours() (stacks []string) {
	all := make([]byte, 1<<20)
	all = all[:runtime.Stack(all, true)]
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if strings.Contains(stack, "created by github.com/goredlock/redlock/conn.") {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}
