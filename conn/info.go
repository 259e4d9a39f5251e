package conn

import (
	"strings"

	"github.com/goredlock/redlock/resp"
)

// Form is how a master takes a compare-and-delete or a compare-and-extend. The zero
// Form works everywhere.
type Form uint8

const (
	FormScript  Form = iota // EVALSHA
	FormDELEX               // DELEX key IFEQ value: Redis 8.4, Valkey 9.2
	FormDELIFEQ             // DELIFEQ key value: Valkey 9.0
	FormSETIFEQ             // SET key value IFEQ value PX ttl: Redis 8.4, Valkey 8.1
)

// String returns the name of the form, for messages.
func (f Form) String() string {
	switch f {
	case FormDELEX:
		return "DELEX"
	case FormDELIFEQ:
		return "DELIFEQ"
	case FormSETIFEQ:
		return "SET IFEQ"
	}
	return "script"
}

// Info is what the handshake found out about a connection. Zero fields are what the
// master did not tell.
type Info struct {
	RunID     string // of the server's process; a restart changes it
	ClientID  int64  // of this connection; ids start again after a restart
	LocalAddr string // of this connection, as CLIENT KILL ADDR takes it
	Version   string // redis_version: for messages; Valkey calls itself 7.2.4
	Proto     int    // 3, or 2 on a server without HELLO 3
	Role      string // "master" or "replica"
	Release   Form   // FormScript, FormDELEX or FormDELIFEQ
	Extend    Form   // FormScript or FormSETIFEQ
}

func (h *handshake) onClientID(v resp.Value) {
	if v.Kind == resp.Integer {
		h.info.ClientID = v.Int
	}
}

// onClientInfo takes our address as the master sees it: behind a NAT or a proxy it
// is not the socket's.
func (h *handshake) onClientInfo(v resp.Value) {
	if !v.IsText() {
		return
	}
	_, addr, ok := strings.Cut(string(v.Data), " addr=")
	if !ok {
		return
	}
	if before, _, ok := strings.Cut(addr, " laddr="); ok { // a unix path may have spaces
		h.info.LocalAddr = before
	} else {
		h.info.LocalAddr, _, _ = strings.Cut(addr, " ")
	}
}

func (h *handshake) onInfo(v resp.Value) {
	if !v.IsText() {
		return
	}
	for line := range strings.Lines(string(v.Data)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch key {
		case "run_id":
			h.info.RunID = value
		case "redis_version":
			h.info.Version = value
		case "role":
			h.info.Role = role(value)
		}
	}
}

// role gives a role one name; INFO has the old one.
func role(s string) string {
	if s == "slave" {
		return "replica"
	}
	return s
}
