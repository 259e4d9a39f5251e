//go:build unix

package main

import (
	"errors"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// unixSocket is a descriptor that Go's poller does not know.
type unixSocket struct {
	fd   int
	file *os.File // owns fd; its own Fd would make it block
}

func dialFloor(addr string) (floorSocket, error) {
	conn, err := net.DialTimeout("tcp", addr, wireTimeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	file, err := conn.(*net.TCPConn).File() // a copy; TCP_NODELAY is Go's default
	if err != nil {
		return nil, err
	}
	s := unixSocket{int(file.Fd()), file}
	if err := unix.SetNonblock(s.fd, true); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s unixSocket) read(b []byte) (int, error) {
	n, err := unix.Read(s.fd, b)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, errAgain
	case err != nil:
		return 0, err
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func (s unixSocket) write(b []byte) (int, error) {
	n, err := unix.Write(s.fd, b)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
		return 0, errAgain
	case err != nil:
		return 0, err
	}
	return n, nil
}

func (s unixSocket) close() { _ = s.file.Close() }

// pollFloor waits until a master has something to read, or takes what is unsent.
func pollFloor(masters []*floorMaster, wait time.Duration) error {
	var room [16]unix.PollFd
	fds := room[:0]
	for _, m := range masters {
		if m.err != nil {
			continue
		}
		events := int16(unix.POLLIN)
		if len(m.unsent) > 0 {
			events |= unix.POLLOUT
		}
		fds = append(fds, unix.PollFd{Fd: int32(m.sock.(unixSocket).fd), Events: events})
	}
	_, err := unix.Poll(fds, max(int(wait.Milliseconds()), 1))
	if errors.Is(err, unix.EINTR) {
		return nil
	}
	return err
}
