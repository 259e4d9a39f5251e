package conn

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/resp"
)

// serve accepts connections and calls f with each of them, in a goroutine, until the
// test ends.
func (w wire) serve(t *testing.T, f func(*peer)) (Address, Options) {
	t.Helper()
	ln, a, o := w.listen(t)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			nc, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer nc.Close()
				_ = nc.SetDeadline(time.Now().Add(30 * time.Second)) // no test may hang
				f(newPeer(nc))
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		running.Wait()
	})
	o.Timeout = 10 * time.Second
	return a, o
}

// dial serves f after a good handshake and returns a connection to it.
func (w wire) dial(t *testing.T, f func(*peer)) *client {
	t.Helper()
	a, o := w.serve(t, func(p *peer) {
		if p.handshake(redis7) {
			f(p)
		}
	})
	return dial(t, a, o)
}

// client is a Conn and what is needed to wait for it.
type client struct {
	*Conn
	t     *testing.T
	ready chan struct{}
}

func dial(t *testing.T, a Address, o Options) *client {
	t.Helper()
	c := &client{t: t, ready: make(chan struct{}, 1)}
	o.Ready = func() {
		select {
		case c.ready <- struct{}{}:
		default:
		}
	}
	var err error
	c.Conn, err = Dial(context.Background(), a, o)
	require.NoError(t, err)
	require.Equal(t, NeedsPump(a, o), c.FD() == -1)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		<-c.Done()
	})
	return c
}

// await waits until the connection may have made progress.
func (c *client) await(writable bool) {
	c.t.Helper()
	if c.FD() >= 0 {
		poll(c.t, c.FD(), writable)
		return
	}
	select {
	case <-c.ready:
	case <-time.After(20 * time.Second):
		require.FailNow(c.t, "nothing happens")
	}
}

// next waits for the next reply.
func (c *client) next() resp.Value {
	c.t.Helper()
	v, err := c.nextOrError()
	require.NoError(c.t, err)
	return v
}

func (c *client) nextOrError() (resp.Value, error) {
	c.t.Helper()
	for {
		v, ok, err := c.Next()
		if ok || err != nil {
			return v, err
		}
		n, err := c.Fill()
		if err != nil {
			return v, err
		}
		if n == 0 {
			c.await(false)
		}
	}
}

// send appends s in a Buffer of its own and flushes.
func (c *client) send(s string) {
	c.t.Helper()
	b := newCounted(s)
	c.Append(&b.Buffer, 0, len(s))
	b.Release()
	c.flush()
}

// flush waits until everything is sent.
func (c *client) flush() {
	c.t.Helper()
	for {
		pending, err := c.Flush()
		require.NoError(c.t, err)
		if !pending {
			return
		}
		c.await(true)
	}
}

// counted is a Buffer, held by its maker, that knows how often it was recycled.
type counted struct {
	Buffer
	mu       sync.Mutex
	recycled int
}

func newCounted(s string) *counted {
	b := &counted{}
	b.B = []byte(s)
	b.Recycle = func(got *Buffer) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.recycled++
		if got != &b.Buffer {
			panic("recycled another Buffer")
		}
	}
	b.Retain()
	return b
}

func (b *counted) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.recycled
}

// peer is the master's end of a connection.
type peer struct {
	net.Conn
	r *bufio.Reader
}

func newPeer(nc net.Conn) *peer { return &peer{Conn: nc, r: bufio.NewReader(nc)} }

// command reads the next command; nil at the end.
func (p *peer) command() []string {
	n, err := p.number('*')
	if err != nil {
		return nil
	}
	args := make([]string, n)
	for i := range args {
		size, err := p.number('$')
		if err != nil {
			return nil
		}
		arg := make([]byte, size+2)
		if _, err := io.ReadFull(p.r, arg); err != nil {
			return nil
		}
		args[i] = string(arg[:size])
	}
	return args
}

func (p *peer) number(kind byte) (int, error) {
	line, err := p.r.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		panic(fmt.Sprintf("malformed command: %q", line))
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

func (p *peer) say(s string) { _, _ = io.WriteString(p.Conn, s) }

// handshake answers commands until the last of a handshake with one script.
func (p *peer) handshake(answer func(args []string) string) bool {
	for {
		args := p.command()
		if args == nil {
			return false
		}
		p.say(answer(args))
		if args[0] == "SET" {
			return true
		}
	}
}

// answers makes a script of a table; keys are the first words of commands. The empty
// reply closes the connection. What is not in the table is answered as Redis 7 does.
type answers map[string]string

func (a answers) script(args []string) string {
	for n := len(args); n > 0; n-- {
		if s, ok := a[strings.Join(args[:n], " ")]; ok {
			return s
		}
	}
	return redis7(args)
}

// redis7 answers a handshake as Redis 7.0 does.
func redis7(args []string) string {
	switch strings.ToUpper(args[0]) {
	case "HELLO":
		return "%7\r\n" + bulk("server") + bulk("redis") + bulk("version") + bulk("7.0.15") + bulk("proto") + ":3\r\n" +
			bulk("id") + ":7\r\n" + bulk("mode") + bulk("standalone") + bulk("role") + bulk("master") + bulk("modules") + "*0\r\n"
	case "SELECT", "AUTH":
		return "+OK\r\n"
	case "INFO":
		if args[1] == "server" {
			return verbatim("# Server\r\nredis_version:7.0.15\r\nrun_id:0123456789abcdef0123456789abcdef01234567\r\n")
		}
		return verbatim("# Replication\r\nrole:master\r\nconnected_slaves:0\r\n")
	case "SCRIPT":
		return bulk("e0e1f9fabfc9d4800c877a703b823ac0578ff8db")
	case "CLIENT":
		switch args[1] {
		case "ID":
			return ":7\r\n"
		case "INFO":
			return verbatim("id=7 addr=192.0.2.1:5000 laddr=127.0.0.1:6379 fd=8 name=\n")
		case "SETNAME":
			return "+OK\r\n"
		}
		return "-ERR unknown subcommand '" + args[1] + "'. Try CLIENT HELP.\r\n"
	case "SET":
		return "-ERR syntax error\r\n"
	case "PING":
		return "+PONG\r\n"
	}
	return unknown(args)
}

// unknown is the refusal that quotes the arguments.
func unknown(args []string) string {
	s := "-ERR unknown command '" + args[0] + "', with args beginning with: "
	for _, arg := range args[1:] {
		s += "'" + arg + "' "
	}
	return s + "\r\n"
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func verbatim(s string) string { return fmt.Sprintf("=%d\r\ntxt:%s\r\n", len(s)+4, s) }
