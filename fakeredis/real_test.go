package fakeredis

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// startReal starts a real server from a binary on a free port of loopback, kills it when the test ends, and returns
// its address.
func startReal(t *testing.T, bin string) string {
	for try := 0; ; try++ {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := ln.Addr().String()
		_, port, _ := net.SplitHostPort(addr)
		require.NoError(t, ln.Close())

		cmd := exec.Command(bin, "--save", "", "--appendonly", "no", "--bind", "127.0.0.1", "--port", port)
		cmd.Dir = t.TempDir()
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		var said []string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			said = append(said, lines.Text())
			if strings.Contains(lines.Text(), "Ready to accept connections") {
				go func() { // the pipe must not fill up
					for lines.Scan() {
					}
				}()
				return addr
			}
		}
		require.Less(t, try, 5, "%s does not start:\n%s", bin, strings.Join(said, "\n"))
	}
}

// realFlavor asks a real server what it is. exact means that it is the very version that the flavor plays, so that
// it lacks what the flavor lacks.
func realFlavor(t *testing.T, addr string) (f Flavor, exact bool) {
	c := dial(t, "tcp", addr)
	text := c.do("INFO", "server")
	version := func(field string) (major, minor int) {
		m := regexp.MustCompile(field + `:(\d+)\.(\d+)`).FindStringSubmatch(text)
		if m == nil {
			return 0, 0
		}
		_, _ = fmt.Sscan(m[1]+" "+m[2], &major, &minor)
		return major, minor
	}
	if major, minor := version("valkey_version"); major > 0 {
		if major >= 9 {
			return Valkey9, major == 9 && minor == 0
		}
	} else if major, minor := version("redis_version"); major == 7 && minor == 0 {
		return Redis70, true
	} else if major > 8 || major == 8 && minor >= 4 {
		return Redis84, major == 8 && minor == 4
	}
	t.Skipf("no flavor plays the server at %s:\n%s", addr, text)
	return 0, false
}
