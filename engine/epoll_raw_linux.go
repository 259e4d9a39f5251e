//go:build !race

package engine

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// epollWait looks for events and does not wait, hence the raw system call: the
// scheduler need not hear of it.
func epollWait(fd int, events []unix.EpollEvent) int {
	for {
		n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd),
			uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
		switch errno {
		case 0:
			return int(n)
		case unix.EINTR:
		default:
			return 0
		}
	}
}
