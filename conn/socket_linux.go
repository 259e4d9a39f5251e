package conn

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// haveSocket: this system has raw sockets.
const haveSocket = true

// socket is a descriptor that Go's poller does not know, so that its owner may poll
// it together with others. It stays non-blocking, with the options that net set.
type socket struct {
	n      int // −1 when closed
	closed chan struct{}
}

// newSocket takes over the connection of nc and closes nc, also when it fails.
func newSocket(nc net.Conn) (transport, error) {
	defer nc.Close() // after the dup: closing a descriptor of two does not end the connection
	sc, ok := nc.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return nil, err
	}
	n := -1
	if ctlErr := raw.Control(func(fd uintptr) {
		n, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0)
	}); ctlErr != nil {
		return nil, ctlErr
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return &socket{n: n, closed: make(chan struct{})}, nil
}

func (s *socket) send(p []byte) (int, error) {
	for {
		n, errno := sysSend(s.n, p)
		switch errno {
		case 0:
			return n, nil
		case unix.EAGAIN:
			return 0, errAgain
		case unix.EINTR:
			continue
		}
		return 0, os.NewSyscallError("send", errno)
	}
}

func (s *socket) recv(p []byte) (int, error) {
	for {
		n, errno := sysRecv(s.n, p)
		switch errno {
		case 0:
			if n == 0 {
				return 0, io.EOF
			}
			return n, nil
		case unix.EAGAIN:
			return 0, errAgain
		case unix.EINTR:
			continue
		}
		return 0, os.NewSyscallError("recv", errno)
	}
}

func (s *socket) shutdown() { _ = unix.Shutdown(s.n, unix.SHUT_RDWR) } // fails if the peer was faster

func (s *socket) close() error {
	n := s.n
	s.n = -1
	close(s.closed)
	return os.NewSyscallError("close", unix.Close(n))
}

func (s *socket) done() <-chan struct{} { return s.closed }

func (s *socket) fd() int { return s.n }
