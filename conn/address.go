package conn

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
)

// Address is where a master is, and what its URL said about how to log in. Two
// Addresses are of the same master if their String is equal.
type Address struct {
	Network string // "tcp" or "unix"
	Addr    string // "host:port", the host in lower case; or a path
	TLS     bool   // rediss

	HasAuth            bool // the URL named credentials, which win over the Options'
	Username, Password string

	HasDB bool // the URL named a database, which wins over the Options'
	DB    int
}

// defaultPort is the port of a URL that names none.
const defaultPort = "6379"

// ParseAddress parses the address of a master:
//
//	host:port
//	unix:///path
//	redis://[user[:password]@]host[:port][/db]      port 6379, if it names none
//	rediss://…                                      the same over TLS
//
// User and password are percent-encoded where they contain one of / ? # %. The error
// is one line and quotes the address without credentials, or anything that could be
// some.
func ParseAddress(s string) (Address, error) {
	a, err := parseAddress(s)
	if err != nil {
		return Address{}, fmt.Errorf("address %q: %w", redact(s), err)
	}
	return a, nil
}

// String returns where the master is, never credentials: "host:port" or
// "unix:///path".
func (a Address) String() string {
	if a.Network == "unix" {
		return "unix://" + a.Addr
	}
	return a.Addr
}

func parseAddress(s string) (a Address, err error) {
	if s == "" {
		return a, errors.New("empty")
	}
	scheme, rest, isURL := cutScheme(s)
	if !isURL {
		if strings.Contains(s, "@") {
			return a, errors.New("credentials need the form redis://user:password@host:port")
		}
		a.Network = "tcp"
		a.Addr, err = parseHostPort(s, "")
		return a, err
	}
	switch scheme {
	case "unix":
		return parseUnix(rest)
	case "redis", "rediss":
		a.Network, a.TLS = "tcp", scheme == "rediss"
	default:
		return a, fmt.Errorf("unknown scheme %q, want redis, rediss or unix", scheme)
	}
	// By hand, because the errors of url.Parse quote everything. The last @ ends the
	// credentials, as it does there.
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		if err := a.parseCredentials(rest[:i]); err != nil {
			return a, err
		}
		rest = rest[i+1:]
	}
	if strings.ContainsAny(rest, "?#") {
		return a, errors.New("unknown parameters")
	}
	host, db, _ := strings.Cut(rest, "/")
	if a.Addr, err = parseHostPort(host, defaultPort); err != nil {
		return a, err
	}
	if db != "" {
		n, err := strconv.ParseUint(db, 10, 31)
		if err != nil {
			return a, errors.New("the database is not a number")
		}
		a.HasDB, a.DB = true, int(n)
	}
	return a, nil
}

// cutScheme splits "scheme://rest". The scheme is in lower case.
func cutScheme(s string) (scheme, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(s, "://")
	if !ok || scheme == "" {
		return "", s, false
	}
	for _, c := range []byte(scheme) {
		if lower := c | 0x20; (lower < 'a' || lower > 'z') && !isDigit(c) && c != '+' && c != '-' && c != '.' {
			return "", s, false
		}
	}
	return strings.ToLower(scheme), rest, true
}

func parseUnix(s string) (a Address, err error) {
	if !strings.HasPrefix(s, "/") {
		return a, errors.New("want unix:///path, an absolute path without credentials")
	}
	if strings.ContainsAny(s, "?#") {
		return a, errors.New("unknown parameters")
	}
	name, err := url.PathUnescape(s)
	name = path.Clean(name)
	if err != nil || name == "/" || strings.IndexByte(name, 0) >= 0 {
		return a, errors.New("malformed path")
	}
	return Address{Network: "unix", Addr: name}, nil
}

func (a *Address) parseCredentials(s string) (err error) {
	if strings.ContainsAny(s, "/?#") {
		return errors.New("one of / ? # in the credentials is not percent-encoded")
	}
	user, password, _ := strings.Cut(s, ":")
	a.Username, err = url.PathUnescape(user)
	if err == nil {
		a.Password, err = url.PathUnescape(password)
	}
	if err != nil {
		return errors.New("the credentials are not valid percent-encoding")
	}
	a.HasAuth = s != ""
	return nil
}

// parseHostPort checks "host:port" or "[ipv6]:port" and returns it in one spelling.
// Without a port it takes the default, if there is one.
func parseHostPort(s, port string) (string, error) {
	host, given, err := net.SplitHostPort(s)
	switch {
	case err == nil:
		port = given
	case port != "" && hasNoPort(s):
		host = strings.TrimSuffix(strings.TrimPrefix(s, "["), "]")
	case hasNoPort(s):
		return "", errors.New("missing port")
	default:
		return "", errors.New("malformed, want host:port or [ipv6]:port")
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", errors.New("the port is not a number from 1 to 65535")
	}
	if host == "" {
		return "", errors.New("empty host")
	}
	if strings.HasPrefix(s, "[") {
		ip, err := netip.ParseAddr(strings.Replace(host, "%25", "%", 1)) // a URL's way to write a zone
		if err != nil || !ip.Is6() {
			return "", errors.New("malformed, want an IPv6 address in the brackets")
		}
		host = ip.String()
	} else if strings.ContainsFunc(host, notInHost) {
		return "", errors.New("malformed host")
	}
	return net.JoinHostPort(strings.ToLower(host), strconv.FormatUint(n, 10)), nil
}

// hasNoPort reports whether s is a bare host.
func hasNoPort(s string) bool {
	if strings.HasPrefix(s, "[") {
		return strings.IndexByte(s, ']') == len(s)-1
	}
	return !strings.ContainsAny(s, ":[]")
}

func notInHost(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune(`/\?#@%:[]"<>`, r)
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// redact returns of a malformed address what cannot be a credential: the scheme, and
// the host up to the first thing that is wrong. "redis://user:password", with the
// host forgotten, looks like a host and a port.
func redact(s string) string {
	prefix := ""
	if scheme, rest, ok := cutScheme(s); ok {
		prefix, s = scheme+"://", rest
	}
	if i := strings.LastIndexByte(s, '@'); i >= 0 {
		s = s[i+1:]
	}
	if prefix == "unix://" && strings.HasPrefix(s, "/") {
		if i := strings.IndexAny(s, "?#"); i >= 0 {
			s = s[:i] + "…"
		}
		return prefix + s
	}
	if _, err := parseHostPort(s, defaultPort); err == nil {
		return prefix + s
	}
	end := strings.IndexAny(s, ":/?#")
	if strings.HasPrefix(s, "[") {
		end = strings.IndexByte(s, ']') + 1
	}
	if end < 0 || end >= len(s) {
		return prefix + s
	}
	if _, err := parseHostPort(s[:end], defaultPort); err != nil {
		return prefix + "…"
	}
	return prefix + s[:end] + "…"
}
