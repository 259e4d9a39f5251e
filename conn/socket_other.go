//go:build !linux

package conn

import (
	"errors"
	"net"
)

// haveSocket: this system has no raw sockets, every connection has a pump.
const haveSocket = false

func newSocket(nc net.Conn) (transport, error) {
	_ = nc.Close()
	return nil, errors.ErrUnsupported
}
