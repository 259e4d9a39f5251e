//go:build race

package engine

import "golang.org/x/sys/unix"

// epollWait is the same through x/sys: the race detector cannot see what a raw
// system call writes.
func epollWait(fd int, events []unix.EpollEvent) int {
	for {
		n, err := unix.EpollWait(fd, events, 0)
		switch err {
		case nil:
			return n
		case unix.EINTR:
		default:
			return 0
		}
	}
}
