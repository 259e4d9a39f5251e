package conn

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseAddress(t *testing.T) {
	tcp := func(addr string) Address { return Address{Network: "tcp", Addr: addr} }
	for in, want := range map[string]Address{
		"localhost:6379":          tcp("localhost:6379"),
		"LocalHost:06379":         tcp("localhost:6379"),
		"192.0.2.1:1":             tcp("192.0.2.1:1"),
		"[::1]:65535":             tcp("[::1]:65535"),
		"[0:0:0:0:0:0:0:1]:6379":  tcp("[::1]:6379"),
		"[2001:DB8::A]:6379":      tcp("[2001:db8::a]:6379"),
		"[fe80::1%eth0]:6379":     tcp("[fe80::1%eth0]:6379"),
		"my_redis-1.example:6379": tcp("my_redis-1.example:6379"),
		"bücher.example:6379":     tcp("bücher.example:6379"),

		"unix:///run/redis.sock":  {Network: "unix", Addr: "/run/redis.sock"},
		"UNIX:///run/Redis.sock":  {Network: "unix", Addr: "/run/Redis.sock"},
		"unix:///run/a%20b@c:1/s": {Network: "unix", Addr: "/run/a b@c:1/s"},

		"redis://h":                      tcp("h:6379"),
		"redis://h/":                     tcp("h:6379"),
		"redis://h:7000":                 tcp("h:7000"),
		"REDIS://H:7000":                 tcp("h:7000"),
		"redis://[::1]":                  tcp("[::1]:6379"),
		"redis://[::1]:7000":             tcp("[::1]:7000"),
		"redis://[fe80::1%25eth0]:7000":  tcp("[fe80::1%eth0]:7000"),
		"redis://@h":                     tcp("h:6379"),
		"redis://h/0":                    {Network: "tcp", Addr: "h:6379", HasDB: true},
		"redis://h:7000/15":              {Network: "tcp", Addr: "h:7000", HasDB: true, DB: 15},
		"rediss://h":                     {Network: "tcp", Addr: "h:6379", TLS: true},
		"redis://u@h":                    {Network: "tcp", Addr: "h:6379", HasAuth: true, Username: "u"},
		"redis://:p@h":                   {Network: "tcp", Addr: "h:6379", HasAuth: true, Password: "p"},
		"redis://:@h":                    {Network: "tcp", Addr: "h:6379", HasAuth: true},
		"redis://u:p:q@h":                {Network: "tcp", Addr: "h:6379", HasAuth: true, Username: "u", Password: "p:q"},
		"redis://u:p@q@h":                {Network: "tcp", Addr: "h:6379", HasAuth: true, Username: "u", Password: "p@q"},
		"redis://u:a%2Fb%40c%23+d@h":     {Network: "tcp", Addr: "h:6379", HasAuth: true, Username: "u", Password: "a/b@c#+d"},
		"rediss://U:P@[2001:DB8::1]:1/3": {Network: "tcp", Addr: "[2001:db8::1]:1", TLS: true, HasAuth: true, Username: "U", Password: "P", HasDB: true, DB: 3},
	} {
		got, err := ParseAddress(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
}

func TestAddressesOfOneMasterHaveOneString(t *testing.T) {
	for want, inputs := range map[string][]string{
		"h:6379":                 {"h:6379", "H:6379", "redis://h", "rediss://h:6379/1", "redis://u:p@H/2"},
		"[::1]:6379":             {"[::1]:6379", "[0::1]:6379", "redis://[::1]"},
		"unix:///run/redis.sock": {"unix:///run/redis.sock", "unix:////run/./redis.sock"},
	} {
		for _, in := range inputs {
			a, err := ParseAddress(in)
			require.NoError(t, err)
			require.Equal(t, want, a.String())
		}
	}
}

func TestMalformedAddresses(t *testing.T) {
	for in, want := range map[string]string{
		"":                           `address "": empty`,
		"localhost":                  `address "localhost": missing port`,
		"[::1]":                      `address "[::1]": missing port`,
		"::1":                        `address "…": malformed, want host:port or [ipv6]:port`,
		"::1:6379":                   `address "…": malformed, want host:port or [ipv6]:port`,
		"h:1:2":                      `address "h…": malformed, want host:port or [ipv6]:port`,
		":6379":                      `address "…": empty host`,
		"h:":                         `address "h…": the port is not a number from 1 to 65535`,
		"h:0":                        `address "h…": the port is not a number from 1 to 65535`,
		"h:65536":                    `address "h…": the port is not a number from 1 to 65535`,
		"h:-1":                       `address "h…": the port is not a number from 1 to 65535`,
		"h:+1":                       `address "h…": the port is not a number from 1 to 65535`,
		"h:redis":                    `address "h…": the port is not a number from 1 to 65535`,
		"h:6379/0":                   `address "h…": the port is not a number from 1 to 65535`,
		"h h:1":                      `address "…": malformed host`,
		"h\n:1":                      `address "…": malformed host`,
		"[h]:1":                      `address "…": malformed, want an IPv6 address in the brackets`,
		"[127.0.0.1]:1":              `address "…": malformed, want an IPv6 address in the brackets`,
		"user:secret@h:1":            `address "h:1": credentials need the form redis://user:password@host:port`,
		"http://h:1":                 `address "http://h:1": unknown scheme "http", want redis, rediss or unix`,
		"http://user:secret@h:1/x":   `address "http://h…": unknown scheme "http", want redis, rediss or unix`,
		"redis:h:1":                  `address "redis…": malformed, want host:port or [ipv6]:port`,
		"://h:1":                     `address "…": malformed, want host:port or [ipv6]:port`,
		"redis://":                   `address "redis://": empty host`,
		"redis:///0":                 `address "redis://…": empty host`,
		"redis://:7000":              `address "redis://…": empty host`,
		"redis://:secret@":           `address "redis://": empty host`,
		"redis://user:secret":        `address "redis://user…": the port is not a number from 1 to 65535`,
		"redis://h/secret":           `address "redis://h…": the database is not a number`,
		"redis://h/-1":               `address "redis://h…": the database is not a number`,
		"redis://h/1/2":              `address "redis://h…": the database is not a number`,
		"redis://h/99999999999":      `address "redis://h…": the database is not a number`,
		"redis://h?password=secret":  `address "redis://h…": unknown parameters`,
		"redis://h/0?db=1":           `address "redis://h…": unknown parameters`,
		"redis://h#x":                `address "redis://h…": unknown parameters`,
		"redis://:sec%ret@h":         `address "redis://h": the credentials are not valid percent-encoding`,
		"redis://:sec/ret@h":         `address "redis://h": one of / ? # in the credentials is not percent-encoded`,
		"redis://:sec?ret@h":         `address "redis://h": one of / ? # in the credentials is not percent-encoded`,
		"redis://:sec#ret@h":         `address "redis://h": one of / ? # in the credentials is not percent-encoded`,
		"redis://::1":                `address "redis://…": malformed, want host:port or [ipv6]:port`,
		"unix://":                    `address "unix://": want unix:///path, an absolute path without credentials`,
		"unix:///":                   `address "unix:///": malformed path`,
		"unix://run/s":               `address "unix://run…": want unix:///path, an absolute path without credentials`,
		"unix://:secret@/run/s":      `address "unix:///run/s": want unix:///path, an absolute path without credentials`,
		"unix:///run/s?db=1":         `address "unix:///run/s…": unknown parameters`,
		"unix:///run/s?pass=secret":  `address "unix:///run/s…": unknown parameters`,
		"unix:///run/%zz":            `address "unix:///run/%zz": malformed path`,
		"unix:///run/%00":            `address "unix:///run/%00": malformed path`,
		"redis://h:1,redis://h:2":    `address "redis://h…": malformed, want host:port or [ipv6]:port`,
		"redis://secret@h:1,g:2":     `address "redis://h…": malformed, want host:port or [ipv6]:port`,
		"redis://:secret@h:port/0":   `address "redis://h…": the port is not a number from 1 to 65535`,
		"redis://:secret@[::1:1":     `address "redis://…": malformed, want host:port or [ipv6]:port`,
		"redis://:secret@[::1]x:1":   `address "redis://[::1]…": malformed, want host:port or [ipv6]:port`,
		"redis://:secret@ho st:1/db": `address "redis://…": malformed host`,
	} {
		_, err := ParseAddress(in)
		require.EqualError(t, err, want, in)
		require.NotContains(t, err.Error(), "secret")
	}
}

func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"localhost:6379", "[::1]:6379", "redis://user:password@host:1/2", "rediss://h", "unix:///run/s", "redis://h?x", ":", "[", "%"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			require.Zero(t, a)
			require.NotContains(t, err.Error(), "\n")
			return
		}
		if a.Network == "unix" {
			require.True(t, strings.HasPrefix(a.Addr, "/"))
			return
		}
		b, err := ParseAddress(a.String())
		require.NoError(t, err)
		require.Equal(t, a.Addr, b.Addr, "one spelling")
	})
}

// FuzzPassword puts any password into an address: the error does not show it.
func FuzzPassword(f *testing.F) {
	prefixes := []string{"redis://", "rediss://", "unix://", "http://", ""}
	for i := range prefixes {
		for _, s := range []string{"hunter2", "a:b:c", "a@b@c", "a/b?c#d", "%41%41", "%%%%", "://:", "päss", "line\nbreak"} {
			f.Add(uint8(i), "user", s, "h:1")
			f.Add(uint8(i), "", s, "h:port")
			f.Add(uint8(i), "", s, "/run/s")
		}
	}
	// What an error says anyway is no secret.
	const fixed = `address "…": credentials need the form redis://user:password@host:port unknown scheme, want redis, rediss ` +
		`or unix, an absolute path without the credentials are not valid percent-encoding one of / ? # in is not percent-encoded ` +
		`malformed parameters database number missing port from 1 to 65535 empty IPv6 brackets [ipv6] unix:///path http://`
	f.Fuzz(func(t *testing.T, prefix uint8, user, password, host string) {
		_, err := ParseAddress(prefixes[int(prefix)%len(prefixes)] + user + ":" + password + "@" + host)
		known := strings.ToLower(fixed + user + host)
		if err == nil || len(password) < 4 || strings.Contains(known, strings.ToLower(password)) {
			return
		}
		require.NotContains(t, err.Error(), password)
	})
}
