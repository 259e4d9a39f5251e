package fakeredis

import (
	"fmt"
	"strings"
)

// Flavor is the server to play. What that server lacks is answered as it does.
type Flavor uint8

const (
	// Redis70 plays Redis 7.0: no DELEX, no DELIFEQ, no SET IFEQ, no CLIENT SETINFO.
	Redis70 Flavor = iota
	// Redis84 plays Redis 8.4: DELEX, and SET with IFEQ, IFNE, IFDEQ and IFDNE.
	Redis84
	// Valkey9 plays Valkey 9.0: DELIFEQ, and SET with IFEQ.
	Valkey9
	// Redis5 plays Redis 5.0 as far as a handshake can tell: no HELLO (so RESP2 only), no user names, and SET
	// without GET, EXAT, PXAT and KEEPTTL.
	Redis5
)

// flavors is a set of flavors, for the command table.
type flavors uint8

const (
	inAll     flavors = 1<<Redis70 | 1<<Redis84 | 1<<Valkey9 | 1<<Redis5
	since6            = inAll &^ (1 << Redis5)
	since72           = since6 &^ (1 << Redis70)
	inRedis84 flavors = 1 << Redis84
	inValkey9 flavors = 1 << Valkey9
)

func (fs flavors) has(f Flavor) bool { return fs&(1<<f) != 0 }

// String returns the name that tests and logs show.
func (f Flavor) String() string {
	switch f {
	case Redis84:
		return "redis-8.4"
	case Valkey9:
		return "valkey-9.0"
	case Redis5:
		return "redis-5.0"
	}
	return "redis-7.0"
}

// product and version are what HELLO tells.
func (f Flavor) product() string {
	if f == Valkey9 {
		return "valkey"
	}
	return "redis"
}

func (f Flavor) version() string {
	switch f {
	case Redis84:
		return "8.4.0"
	case Valkey9:
		return "9.0.0"
	case Redis5:
		return "5.0.14"
	}
	return "7.0.15"
}

// maxEcho is how much of the arguments an "unknown command" error repeats.
const maxEcho = 128

// unknownCommand is the answer to a command that the server does not know.
func (f Flavor) unknownCommand(args [][]byte) reply {
	format, quoted := "ERR unknown command '%s', with args beginning with: %s", "'%s' "
	if f == Redis5 {
		format, quoted = "ERR unknown command `%s`, with args beginning with: %s", "`%s`, "
	}
	var b strings.Builder
	for _, a := range args[1:] {
		if b.Len() >= maxEcho {
			break
		}
		fmt.Fprintf(&b, quoted, a[:min(len(a), maxEcho-b.Len())])
	}
	return errorReply(fmt.Sprintf(format, args[0][:min(len(args[0]), maxEcho)], b.String()))
}

// unknownSubcommand is the answer to a subcommand that the server does not know.
func (f Flavor) unknownSubcommand(container string, sub []byte) reply {
	sub = sub[:min(len(sub), maxEcho)]
	container = strings.ToUpper(container)
	if f == Redis5 {
		return errorReply(fmt.Sprintf("ERR Unknown subcommand or wrong number of arguments for '%s'. Try %s HELP", sub, container))
	}
	return errorReply(fmt.Sprintf("ERR unknown subcommand '%s'. Try %s HELP.", sub, container))
}

// noPermission is the answer to a command that the user may not run.
func (f Flavor) noPermission(user, name string) reply {
	if f == Redis70 || f == Redis5 {
		return errorReply(fmt.Sprintf("NOPERM this user has no permissions to run the '%s' command", name))
	}
	return errorReply(fmt.Sprintf("NOPERM User %s has no permissions to run the '%s' command", user, name))
}
