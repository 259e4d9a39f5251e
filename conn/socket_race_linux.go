//go:build race

package conn

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// The race detector cannot see through raw system calls: neither what they read and
// write, nor that a reply comes after its command. unix.Read and unix.Write tell it;
// the descriptor is non-blocking, and Go's runtime ignores SIGPIPE for sockets.

func sysSend(fd int, p []byte) (int, syscall.Errno) {
	n, err := unix.Write(fd, p)
	return n, errno(err)
}

func sysRecv(fd int, p []byte) (int, syscall.Errno) {
	n, err := unix.Read(fd, p)
	return n, errno(err)
}

func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	return err.(syscall.Errno) // what x/sys/unix returns
}
