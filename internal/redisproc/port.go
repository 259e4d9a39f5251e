package redisproc

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
)

// Ports are chosen below the range from which Linux (32768 up), macOS and
// Windows (49152 up) take the ports of outgoing connections. While a server is
// down between Kill and Restart, a client that keeps dialing would otherwise
// sooner or later be given that very port as its own: the server could not
// bind it again, or the client would be connected to itself.
const (
	firstPort = 16384
	lastPort  = 32767
)

// portSet holds the ports that processes of this program have, running or not.
// Other programs are not known; against them there is the retry in launchOne.
type portSet struct {
	mu    sync.Mutex
	taken map[int]bool // guarded by mu
}

var ports = portSet{taken: make(map[int]bool)}

// take reserves a port on which nobody listens.
func (s *portSet) take() (int, error) {
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		if s.reserve(port) {
			if free(port) {
				return port, nil
			}
			s.give(port)
		}
	}
	return 0, errors.New("no free loopback port found")
}

func (s *portSet) reserve(port int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.taken[port] {
		return false
	}
	s.taken[port] = true
	return true
}

func (s *portSet) give(port int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.taken, port)
}

func free(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	_ = l.Close()
	return true
}
