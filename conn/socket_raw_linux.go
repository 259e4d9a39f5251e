//go:build !race

package conn

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Raw system calls do not tell the scheduler: 1.1 × in p50 and 1.2 × in CPU, measured
// over the whole of acquire and release. They may not wait, hence MSG_DONTWAIT although
// the descriptor is non-blocking, and may not take long, hence maxSend.

// sysSend sends p, which is not empty.
func sysSend(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// sysRecv receives into p, which is not empty.
func sysRecv(fd int, p []byte) (int, syscall.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
		uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}
