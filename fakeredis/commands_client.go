package fakeredis

import (
	"crypto/subtle"
	"fmt"
	"strings"
)

const (
	defaultUser  = "default"
	msgWrongPass = "WRONGPASS invalid username-password pair or user is disabled."
	badName      = " cannot contain spaces, newlines or special characters."
)

func ping(x *call) reply {
	switch len(x.args) {
	case 1:
		return statusReply("PONG")
	case 2:
		return bulkReply(string(x.args[1]))
	}
	return errorReply("ERR wrong number of arguments for 'ping' command")
}

func echo(x *call) reply { return bulkReply(string(x.args[1])) }

func quit(x *call) reply {
	x.client.quit()
	return replyOK
}

func selectDB(x *call) reply {
	n, ok := parseInt(x.args[1])
	switch {
	case !ok && x.srv.cfg.Flavor == Redis5:
		return errorReply("ERR invalid DB index")
	case !ok:
		return errorReply(msgNotInt)
	case n < 0 || n >= databases:
		return errorReply("ERR DB index is out of range")
	}
	if x.script != nil { // holds for the rest of the script only
		x.script.db = int(n)
		return replyOK
	}
	x.client.db = int(n)
	return replyOK
}

// login checks a name and a password and notes the success.
func (x *call) login(user, password string) bool {
	cfg := &x.srv.cfg
	if user == defaultUser && cfg.Password == "" { // Redis' "nopass"
		return true
	}
	same := subtle.ConstantTimeCompare([]byte(password), []byte(cfg.Password)) == 1
	if user != cfg.Username || cfg.Password == "" || !same {
		return false
	}
	x.client.authed = true
	return true
}

func auth(x *call) reply {
	old := x.srv.cfg.Flavor == Redis5
	user, password := defaultUser, string(x.args[1])
	switch {
	case len(x.args) > 3:
		return errorReply(msgSyntax)
	case len(x.args) == 3 && old:
		return errorReply("ERR wrong number of arguments for 'auth' command")
	case len(x.args) == 3:
		user, password = password, string(x.args[2])
	case x.srv.cfg.Password == "" && old:
		return errorReply("ERR Client sent AUTH, but no password is set")
	case x.srv.cfg.Password == "":
		return errorReply("ERR AUTH <password> called without any password configured for the default user. " +
			"Are you sure your configuration is correct?")
	}
	if x.login(user, password) {
		return replyOK
	}
	if old {
		return errorReply("ERR invalid password")
	}
	return errorReply(msgWrongPass)
}

// hello is HELLO [version [AUTH user password] [SETNAME name]].
func hello(x *call) reply {
	proto := int64(0) // keep
	if len(x.args) > 1 {
		var ok bool
		if proto, ok = parseInt(x.args[1]); !ok {
			return errorReply("ERR Protocol version is not an integer or out of range")
		}
		if proto < 2 || proto > 3 {
			return errorReply("NOPROTO unsupported protocol version")
		}
	}
	var login, name []string
	for i := 2; i < len(x.args); i++ {
		more := len(x.args) - 1 - i
		switch word := x.word(i); {
		case word == "auth" && more >= 2:
			login = []string{string(x.args[i+1]), string(x.args[i+2])}
			i += 2
		case word == "setname" && more >= 1:
			name = []string{string(x.args[i+1])}
			if !validName(name[0]) {
				return errorReply("ERR Client names" + badName)
			}
			i++
		default:
			return errorReply(fmt.Sprintf("ERR Syntax error in HELLO option '%s'", x.args[i]))
		}
	}
	if login != nil && !x.login(login[0], login[1]) {
		return errorReply(msgWrongPass)
	}
	if !x.client.authed {
		syntax := "HELLO <proto> AUTH"
		if x.srv.cfg.Flavor == Redis70 {
			syntax = "HELLO AUTH"
		}
		return errorReply("NOAUTH HELLO must be called with the client already authenticated, otherwise the " + syntax +
			" <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time")
	}
	if name != nil {
		x.client.name = name[0]
	}
	if proto != 0 {
		x.client.proto = int(proto)
	}
	flavor := x.srv.cfg.Flavor
	return mapReply(
		bulkReply("server"), bulkReply(flavor.product()),
		bulkReply("version"), bulkReply(flavor.version()),
		bulkReply("proto"), intReply(int64(x.client.proto)),
		bulkReply("id"), intReply(x.client.id),
		bulkReply("mode"), bulkReply("standalone"),
		bulkReply("role"), bulkReply("master"),
		bulkReply("modules"), arrayReply(),
	)
}

// validName reports whether Redis takes s as the name of a client or a library: printable, without spaces.
func validName(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < '!' || r > '~' }) < 0
}

func clientID(x *call) reply { return intReply(x.client.id) }

func clientGetName(x *call) reply {
	if x.client.name == "" {
		return replyNull
	}
	return bulkReply(x.client.name)
}

func clientSetName(x *call) reply {
	name := string(x.args[2])
	if !validName(name) {
		return errorReply("ERR Client names" + badName)
	}
	x.client.name = name
	return replyOK
}

func clientSetInfo(x *call) reply {
	field := x.word(2)
	value := string(x.args[3])
	switch {
	case field != "lib-name" && field != "lib-ver":
		return errorReply(fmt.Sprintf("ERR Unrecognized option '%s'", x.args[2]))
	case !validName(value):
		return errorReply("ERR " + field + badName)
	case field == "lib-name":
		x.client.libName = value
	default:
		x.client.libVer = value
	}
	return replyOK
}

// clientKill is CLIENT KILL addr, and CLIENT KILL with filters, of which all must hold.
func clientKill(x *call) reply {
	if len(x.args) == 3 {
		for _, c := range x.srv.clients {
			if c.addr == string(x.args[2]) {
				x.end(c)
				return replyOK
			}
		}
		return errorReply("ERR No such client")
	}
	match, bad := x.killFilter()
	if bad.isError() {
		return bad
	}
	n := int64(0)
	for _, c := range x.srv.clients {
		if match(c) {
			x.end(c)
			n++
		}
	}
	return intReply(n)
}

// killFilter reads the filters of CLIENT KILL.
func (x *call) killFilter() (match func(*client) bool, bad reply) {
	skipMe := true
	var tests []func(*client) bool
	for i := 2; i < len(x.args); i += 2 {
		if i+1 == len(x.args) {
			return nil, errorReply(msgSyntax)
		}
		value := string(x.args[i+1])
		switch x.word(i) {
		case "id":
			id, ok := parseInt(x.args[i+1])
			if !ok || id < 1 {
				return nil, errorReply("ERR client-id should be greater than 0")
			}
			tests = append(tests, func(c *client) bool { return c.id == id })
		case "addr":
			tests = append(tests, func(c *client) bool { return c.addr == value })
		case "laddr":
			tests = append(tests, func(c *client) bool { return c.wire.LocalAddr().String() == value })
		case "type":
			switch strings.ToLower(value) {
			case "normal":
			case "master", "replica", "slave", "pubsub":
				tests = append(tests, func(*client) bool { return false })
			default:
				return nil, errorReply(fmt.Sprintf("ERR Unknown client type '%s'", value))
			}
		case "user":
			if value != x.srv.cfg.Username && value != defaultUser {
				return nil, errorReply(fmt.Sprintf("ERR No such user '%s'", value))
			}
			tests = append(tests, func(c *client) bool { return c.authed && value == x.srv.cfg.Username })
		case "skipme":
			switch strings.ToLower(value) {
			case "yes":
				skipMe = true
			case "no":
				skipMe = false
			default:
				return nil, errorReply(msgSyntax)
			}
		default:
			return nil, errorReply(msgSyntax)
		}
	}
	return func(c *client) bool {
		for _, t := range tests {
			if !t(c) {
				return false
			}
		}
		return c != x.client || !skipMe
	}, reply{}
}

// end kills a client at once, but lets the caller see the reply if it killed itself.
func (x *call) end(c *client) {
	if c == x.client {
		c.quit()
		return
	}
	x.srv.kill(c, false)
}
