package conn

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"

	"github.com/goredlock/redlock/resp"
)

// handshake logs in on a new connection and finds out what the master can do. All
// commands go out in one write, so that it costs one round trip; two on servers
// without HELLO.
type handshake struct {
	nc   net.Conn
	in   *input // what comes behind the last reply stays here, for the Conn
	info Info
	op   string // the step under way, for the error
	sent bool   // a byte may have reached the master

	delex, delifeq bool // what the probes found

	// What the commands are made of.
	username, password, clientName string
	db                             int
	scripts                        []string
}

// step is one command and what to do with its reply. An error of on ends the
// handshake, but errNoHello.
type step struct {
	op   string
	args []string
	on   func(resp.Value) error
}

// errNoHello is how onHello asks for the login without HELLO.
var errNoHello = errors.New("conn: no HELLO")

func newHandshake(a Address, o Options, nc net.Conn) *handshake {
	h := &handshake{
		nc: nc, in: newInput(), op: "hello",
		username: o.Username, password: o.Password, clientName: o.ClientName, db: o.DB, scripts: o.Scripts,
	}
	if a.HasAuth {
		h.username, h.password = a.Username, a.Password
	}
	if a.HasDB {
		h.db = a.DB
	}
	if local := nc.LocalAddr(); local != nil {
		h.info.LocalAddr = local.String()
	}
	if a.Network == "unix" {
		h.info.LocalAddr = a.Addr + ":0" // how Redis calls clients of its socket
	}
	return h
}

// run does the handshake. A server without HELLO gets it all a second time: it has
// answered the first time without knowing us.
func (h *handshake) run() error {
	err := h.exchange(append([]step{h.hello()}, h.rest()...))
	if err == errNoHello {
		h.info.Proto = 2
		err = h.exchange(append(h.login(), h.rest()...))
	}
	if err != nil {
		return err
	}
	switch {
	case h.delex:
		h.info.Release = FormDELEX
	case h.delifeq:
		h.info.Release = FormDELIFEQ
	}
	return nil
}

// exchange writes the commands of steps at once and takes their replies. If it
// returns errNoHello, all replies have come and none but the first has counted.
func (h *handshake) exchange(steps []step) error {
	var batch []byte
	for _, s := range steps {
		batch = resp.AppendCommand(batch, s.args...)
	}
	// Written by a goroutine: a master behind an unbuffered connection, such as
	// net.Pipe, may answer the first command before it reads the last. The deadline
	// that is set for the reads, or the Close after a failed handshake, ends it.
	h.sent = true
	wrote := make(chan error, 1)
	go func() {
		_, err := h.nc.Write(batch)
		wrote <- err
	}()
	var noHello error
	for _, s := range steps {
		if noHello == nil {
			h.op = s.op
		}
		v, err := h.reply()
		if err != nil {
			return err
		}
		if noHello != nil {
			continue
		}
		if string(v.Code()) == "NOAUTH" {
			return h.noAuth(v)
		}
		if err := s.on(v); err == errNoHello {
			noHello = err
		} else if err != nil {
			return err
		}
	}
	if err := <-wrote; err != nil {
		return err
	}
	return noHello
}

// reply waits for the next reply. Pushes do not count as one.
func (h *handshake) reply() (resp.Value, error) {
	for {
		v, ok, err := h.in.next()
		if err != nil {
			return v, err
		}
		if ok && v.Kind != resp.Push {
			return v, nil
		}
		if ok {
			continue
		}
		n, err := h.nc.Read(h.in.space())
		h.in.added(n)
		if n == 0 && err != nil {
			return v, err
		}
	}
}

func (h *handshake) hello() step {
	args := []string{"HELLO", "3"}
	if h.authenticates() {
		user := h.username
		if user == "" {
			user = "default"
		}
		args = append(args, "AUTH", user, h.password)
	}
	if h.clientName != "" {
		args = append(args, "SETNAME", h.clientName)
	}
	return step{"hello", args, h.onHello}
}

func (h *handshake) authenticates() bool { return h.username != "" || h.password != "" }

// login is what HELLO does, for servers without it.
func (h *handshake) login() (steps []step) {
	if h.authenticates() {
		args := []string{"AUTH", h.username, h.password}
		if h.username == "" || h.username == "default" {
			args = []string{"AUTH", h.password} // servers before Redis 6 know no users
		}
		steps = append(steps, step{"auth", args, h.mustBeOK})
	}
	if h.clientName != "" {
		steps = append(steps, step{"handshake", []string{"CLIENT", "SETNAME", h.clientName}, ignore})
	}
	return steps
}

// rest is everything but the login.
func (h *handshake) rest() (steps []step) {
	if h.db != 0 {
		steps = append(steps, step{"select", []string{"SELECT", strconv.Itoa(h.db)}, h.mustBeOK})
	}
	optional := func(on func(resp.Value), args ...string) {
		steps = append(steps, step{"handshake", args, func(v resp.Value) error {
			if !v.IsError() {
				on(v)
			}
			return nil
		}})
	}
	optional(func(resp.Value) {}, "CLIENT", "SETINFO", "LIB-NAME", "redlock")
	optional(func(resp.Value) {}, "CLIENT", "SETINFO", "LIB-VER", libVersion())
	optional(h.onClientID, "CLIENT", "ID")
	optional(h.onClientInfo, "CLIENT", "INFO")
	optional(h.onInfo, "INFO", "server") // one INFO takes two sections only since Redis 7
	optional(h.onInfo, "INFO", "replication")
	// Probes, on a key that cannot exist. A server that does not know the command, or
	// this option of SET, or does not let us use it, answers with an error.
	key := "redlock:probe:" + rand.Text()[:20]
	optional(func(v resp.Value) { h.delex = isZero(v) }, "DELEX", key, "IFEQ", "x")
	optional(func(v resp.Value) { h.delifeq = isZero(v) }, "DELIFEQ", key, "x")
	optional(func(v resp.Value) {
		if v.Kind == resp.Null {
			h.info.Extend = FormSETIFEQ
		}
	}, "SET", key, "x", "IFEQ", "y", "PX", "1") // PX 1: should any server set it after all
	for _, source := range h.scripts {
		optional(func(resp.Value) {}, "SCRIPT", "LOAD", source)
	}
	return steps
}

func isZero(v resp.Value) bool { return v.Kind == resp.Integer && v.Int == 0 }

func ignore(resp.Value) error { return nil }

func (h *handshake) mustBeOK(v resp.Value) error {
	if v.IsOK() {
		return nil
	}
	return replyError(v, h.password)
}

func (h *handshake) noAuth(v resp.Value) error {
	err := replyError(v, h.password)
	if !h.authenticates() {
		err = fmt.Errorf("the master wants a password and none is configured: %w", err)
	}
	return err
}

func (h *handshake) onHello(v resp.Value) error {
	if v.IsError() {
		if string(v.Code()) == "NOPROTO" || bytes.Contains(bytes.ToLower(v.Data), []byte("unknown command")) {
			return errNoHello
		}
		return replyError(v, h.password)
	}
	if v.Kind != resp.Map && v.Kind != resp.Array {
		return replyError(v, h.password)
	}
	h.info.Proto = 3
	for {
		key, _ := v.Next()
		value, ok := v.Next()
		if !ok {
			return nil
		}
		switch string(key.Data) {
		case "version":
			h.info.Version = string(value.Data)
		case "proto":
			h.info.Proto = int(value.Int)
		case "id":
			h.info.ClientID = value.Int
		case "role":
			h.info.Role = role(string(value.Data))
		}
	}
}

// libVersion is the version of this module in the program, for CLIENT SETINFO, which
// takes no spaces.
var libVersion = sync.OnceValue(func() string {
	const module = "github.com/goredlock/redlock"
	version := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range append(info.Deps, &info.Main) {
			if m.Path == module {
				version = m.Version
			}
		}
	}
	if version == "" {
		version = "devel"
	}
	return strings.Trim(version, "()")
})
