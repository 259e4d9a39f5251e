package engine

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// gate is a relay in front of a server. While it is shut it takes no bytes from
// clients, so that their sockets fill up as those of a stopped server do.
type gate struct {
	ln     net.Listener
	server string

	mu     sync.Mutex
	opened sync.Cond
	isShut bool
	conns  []net.Conn
	bytes  int // taken from clients
}

func newGate(t testing.TB, server string) *gate {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{ln: ln, server: server}
	g.opened.L = &g.mu
	var relays sync.WaitGroup
	relays.Go(func() {
		for {
			client, err := ln.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", g.server)
			if err != nil {
				client.Close()
				continue
			}
			g.mu.Lock()
			g.conns = append(g.conns, client, server)
			g.mu.Unlock()
			relays.Go(func() {
				_, _ = io.Copy(client, server)
				client.Close()
			})
			relays.Go(func() {
				g.pass(client, server)
				server.Close()
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		g.open()
		g.mu.Lock()
		for _, c := range g.conns {
			c.Close()
		}
		g.mu.Unlock()
		relays.Wait()
	})
	return g
}

// pass relays what a client sends, while the gate is open.
func (g *gate) pass(client, server net.Conn) {
	buf := make([]byte, 4<<10)
	for {
		n, err := client.Read(buf)
		g.mu.Lock()
		g.bytes += n
		for g.isShut {
			g.opened.Wait()
		}
		g.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

func (g *gate) addr() string { return g.ln.Addr().String() }

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = true
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.isShut = false
	g.opened.Broadcast()
}
