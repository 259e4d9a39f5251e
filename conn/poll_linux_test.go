package conn

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// poll waits until the descriptor can make progress.
func poll(t *testing.T, fd int, writable bool) {
	t.Helper()
	events := int16(unix.POLLIN)
	if writable {
		events = unix.POLLOUT
	}
	for {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, 20_000)
		if err == unix.EINTR {
			continue
		}
		require.NoError(t, err)
		require.Equal(t, 1, n, "nothing happens")
		return
	}
}

// localAddr is the client's own address.
func localAddr(t *testing.T, c *client) string {
	sa, err := unix.Getsockname(c.FD())
	require.NoError(t, err)
	in := sa.(*unix.SockaddrInet4)
	return netip.AddrPortFrom(netip.AddrFrom4(in.Addr), uint16(in.Port)).String()
}

// isReset reports whether the peer closed with bytes of ours unread.
func isReset(err error) bool { return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) }
