package fakeredis

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestListenForPrograms(t *testing.T) {
	s, err := Listen("127.0.0.1:0")
	require.NoError(t, err)
	require.Equal(t, "+PONG\r\n", dial(t, "tcp", s.Addr()).do("PING"))
	_, err = Listen(s.Addr())
	require.Error(t, err, "the port is taken")
	s.Close()
	s.Close()
	_, err = net.Dial("tcp", s.Addr())
	require.Error(t, err)
}

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	s := Start(t, Config{Addr: "unix://" + path})
	require.Equal(t, "unix://"+path, s.Addr())
	require.Equal(t, "+PONG\r\n", dial(t, "unix", path).do("PING"))
	require.NoError(t, s.Refuse(true))
	_, err := net.Dial("unix", path)
	require.Error(t, err)
	require.NoError(t, s.Refuse(false))
	require.Equal(t, "+PONG\r\n", dial(t, "unix", path).do("PING"))
}

func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	cert := tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	s := Start(t, Config{TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	conn, err := tls.Dial("tcp", s.Addr(), &tls.Config{InsecureSkipVerify: true})
	require.NoError(t, err)
	c := newRawClient(t, conn)
	require.Equal(t, "+PONG\r\n", c.do("PING"))
	s.Reset()
	require.Error(t, c.ended())
}

func TestStartFailsTheTest(t *testing.T) {
	s := Start(t)
	var tb fatal
	require.Nil(t, Start(&tb, Config{Addr: s.Addr()}))
	require.Contains(t, tb.said, "fakeredis: ")
}

type fatal struct{ said string }

func (f *fatal) Helper()                           {}
func (f *fatal) Cleanup(func())                    {}
func (f *fatal) Fatalf(format string, args ...any) { f.said = format }

func TestUsers(t *testing.T) {
	s := Start(t, Config{Username: "app", Password: "secret"})
	c := dial(t, "tcp", s.Addr())
	require.Equal(t, "-NOAUTH Authentication required.\r\n", c.do("PING"))
	require.Contains(t, c.do("AUTH", "secret"), "-WRONGPASS ", "the default user is disabled")
	require.Contains(t, c.do("AUTH", "app", "wrong"), "-WRONGPASS ")
	require.Equal(t, "+OK\r\n", c.do("AUTH", "app", "secret"))
	require.Equal(t, "+PONG\r\n", c.do("PING"))
	require.Contains(t, dial(t, "tcp", s.Addr()).do("HELLO", "3", "AUTH", "app", "secret"), "%7\r\n")
}

func TestRedis5HasNoHello(t *testing.T) {
	s := Start(t, Config{Flavor: Redis5, Password: "secret"})
	c := dial(t, "tcp", s.Addr())
	for _, step := range [][2]string{
		{"HELLO 3 AUTH default secret", "-ERR unknown command `HELLO`, with args beginning with: `3`, `AUTH`, `default`, `secret`, "},
		{"PING", "-NOAUTH Authentication required."},
		{"AUTH default secret", "-ERR wrong number of arguments for 'auth' command"},
		{"AUTH wrong", "-ERR invalid password"},
		{"AUTH secret", "+OK"},
		{"CLIENT SETINFO lib-name x", "-ERR Unknown subcommand or wrong number of arguments for 'SETINFO'. Try CLIENT HELP"},
		{"CLIENT SETNAME x", "+OK"},
		{"SELECT x", "-ERR invalid DB index"},
		{"SET k v NX PX 1000", "+OK"},
		{"SET k v GET", "-ERR syntax error"},
		{"SET k v KEEPTTL", "-ERR syntax error"},
		{"SET k v PXAT 1", "-ERR syntax error"},
		{"EXPIRE k 10 NX", "-ERR wrong number of arguments for 'expire' command"},
		{"DELEX k", "-ERR unknown command `DELEX`, with args beginning with: `k`, "},
		{"CONFIG GET databases", "*2\n$9\ndatabases\n$2\n16"},
	} {
		require.Equal(t, raw(step[1], "2"), c.do(words(step[0])...), step[0])
	}
	c = dial(t, "tcp", Start(t, Config{Flavor: Redis5}).Addr())
	require.Equal(t, "-ERR Client sent AUTH, but no password is set\r\n", c.do("AUTH", "x"))
	require.Contains(t, c.do("INFO", "server"), "redis_version:5.0.14\r\n")
}

func TestFlavorsTellWhatTheyAre(t *testing.T) {
	for flavor, want := range map[Flavor]string{
		Redis70: "$5\r\nredis\r\n$7\r\nversion\r\n$6\r\n7.0.15\r\n",
		Redis84: "$5\r\nredis\r\n$7\r\nversion\r\n$5\r\n8.4.0\r\n",
		Valkey9: "$6\r\nvalkey\r\n$7\r\nversion\r\n$5\r\n9.0.0\r\n",
	} {
		c := dial(t, "tcp", Start(t, Config{Flavor: flavor}).Addr())
		require.Contains(t, c.do("HELLO", "3"), want)
	}
	c := dial(t, "tcp", Start(t, Config{Flavor: Valkey9}).Addr())
	require.Contains(t, c.do("INFO"), "server_name:valkey\r\nvalkey_version:9.0.0\r\n")
}

func TestDigestsAreRefused(t *testing.T) {
	s := Start(t, Config{Flavor: Redis84})
	c := dial(t, "tcp", s.Addr())
	s.Set("k", "v", 0)
	require.Contains(t, c.do("DELEX", "k", "IFDEQ", "0123456789abcdef"), "not supported")
	require.Contains(t, c.do("SET", "k", "w", "IFDNE", "0123456789abcdef"), "not supported")
	v, _ := s.Get("k")
	require.Equal(t, "v", v)
}

// TestClientKill runs on the fake and on a real server.
func TestClientKill(t *testing.T) {
	test := func(addr string) func(t *testing.T) {
		return func(t *testing.T) {
			admin := dial(t, "tcp", addr)
			admin.do("PING")
			for _, kill := range []func(id, local string) []string{
				func(id, local string) []string { return []string{"ID", id, "ADDR", local} },
				func(id, _ string) []string { return []string{"ID", id} },
				func(_, local string) []string { return []string{"ADDR", local} },
			} {
				victim := dial(t, "tcp", addr)
				id := strings.Trim(victim.do("CLIENT", "ID"), ":\r\n")
				local := victim.LocalAddr().String()
				require.Equal(t, ":0\r\n", admin.do("CLIENT", "KILL", "ID", id, "ADDR", "1.2.3.4:5"))
				require.Equal(t, ":1\r\n", admin.do(append([]string{"CLIENT", "KILL"}, kill(id, local)...)...))
				require.NoError(t, victim.ended())
			}
			victim := dial(t, "tcp", addr)
			victim.do("PING")
			require.Equal(t, "+OK\r\n", admin.do("CLIENT", "KILL", victim.LocalAddr().String()))
			require.NoError(t, victim.ended())

			self := strings.Trim(admin.do("CLIENT", "ID"), ":\r\n")
			require.Equal(t, ":0\r\n", admin.do("CLIENT", "KILL", "ID", self), "it spares the caller")
			require.Equal(t, ":1\r\n", admin.do("CLIENT", "KILL", "ID", self, "SKIPME", "no"))
			require.NoError(t, admin.ended())
		}
	}
	t.Run("fake", test(Start(t).Addr()))
	t.Run("redis-server", func(t *testing.T) { test(startReal(t))(t) })
}

// TestClientKillDropsWhatWaits is what a client relies on that kills its own older connection.
func TestClientKillDropsWhatWaits(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		old := join(t, n, s)
		id := strings.Trim(old.do("CLIENT", "ID"), ":\r\n")
		s.Hook("set", Times(1, Action{Delay: time.Second}))
		old.send("SET", "k", "v")
		require.Equal(t, ":1\r\n", join(t, n, s).do("CLIENT", "KILL", "ID", id))
		require.NoError(t, old.ended())
		time.Sleep(time.Minute)
		require.Empty(t, s.Keys())
	})
}

func TestClientsAndJournal(t *testing.T) {
	s := Start(t, Config{Flavor: Redis84})
	require.Empty(t, s.Clients())
	a, b := dial(t, "tcp", s.Addr()), dial(t, "tcp", s.Addr())
	a.do("HELLO", "3", "SETNAME", "first")
	a.do("CLIENT", "SETINFO", "LIB-NAME", "redlock")
	a.do("CLIENT", "SETINFO", "lib-ver", "1.0")
	a.do("SELECT", "3")
	b.do("nonsense", "x")
	require.Equal(t, 2, s.Connections())
	require.Equal(t, []ClientInfo{
		{ID: 1, Addr: a.LocalAddr().String(), Name: "first", LibName: "redlock", LibVer: "1.0", DB: 3, Proto: 3},
		{ID: 2, Addr: b.LocalAddr().String(), Proto: 2},
	}, s.Clients())
	var names []string
	for _, c := range s.Commands() {
		names = append(names, c.Name)
	}
	require.Equal(t, []string{"hello", "client|setinfo", "client|setinfo", "select", "nonsense"}, names)
	require.Equal(t, "nonsense x", s.Commands()[4].String())
	require.Equal(t, 2, s.Count("client|setinfo"))
	require.Equal(t, 1, s.Count("nonsense"))
	require.Zero(t, s.Count("get"))
	b.do("ECHO", strings.Repeat("x", journalArgs))
	require.Equal(t, "ECHO "+strings.Repeat("x", journalArg), s.Commands()[5].String(), "cut")
	for range journalSize {
		b.do("PING")
	}
	b.do("ECHO", "last")
	require.Len(t, s.Commands(), journalSize)
	require.Equal(t, "ECHO last", s.Commands()[journalSize-1].String())
	require.Equal(t, "PING", s.Commands()[0].String())
	require.Equal(t, journalSize, s.Count("ping"))
}

func TestDirectLookAtTheData(t *testing.T) {
	clock := NewManualClock(time.Unix(1_700_000_000, 0))
	s := Start(t, Config{Now: clock.Now})
	c := dial(t, "tcp", s.Addr())
	s.Set("k", "v", 1500*time.Microsecond)
	s.Set("forever", "x", 0)
	require.Equal(t, ":2\r\n", c.do("PTTL", "k"), "rounded up")
	ttl, ok := s.TTL("k")
	require.True(t, ok)
	require.Equal(t, 2*time.Millisecond, ttl)
	ttl, ok = s.TTL("forever")
	require.True(t, ok)
	require.Zero(t, ttl)
	_, ok = s.TTL("none")
	require.False(t, ok)
	require.Equal(t, []string{"forever", "k"}, s.Keys())
	require.True(t, s.Del("k"))
	require.False(t, s.Del("k"))
	s.DB(3).Set("three", "3", 0)
	require.Empty(t, s.DB(2).Keys())
	c.do("SELECT", "3")
	require.Equal(t, "$1\r\n3\r\n", c.do("GET", "three"))
	s.FlushAll()
	require.Empty(t, s.Keys())
	require.Empty(t, s.DB(3).Keys())
	require.Panics(t, func() { s.DB(16) })
	s.SetConfig("maxmemory-policy", "allkeys-lru")
	require.Contains(t, c.do("INFO", "memory"), "maxmemory_policy:allkeys-lru\r\n")
	require.Contains(t, c.do("CONFIG", "GET", "maxmemory-policy"), "allkeys-lru")
}

func TestManualClock(t *testing.T) {
	clock := NewManualClock(time.UnixMicro(1_700_000_000_123_456))
	s := Start(t, Config{Now: clock.Now})
	c := dial(t, "tcp", s.Addr())
	require.Equal(t, "*2\r\n$10\r\n1700000000\r\n$6\r\n123456\r\n", c.do("TIME"))
	c.do("SET", "k", "v", "PX", "100")
	c.do("SET", "at", "v", "PXAT", "1700000000224")
	c.do("SET", "stays", "v")
	clock.Advance(100 * time.Millisecond)
	require.Equal(t, ":0\r\n", c.do("PTTL", "k"), "it lives in its last millisecond, as in Redis")
	require.Equal(t, ":3\r\n", c.do("DBSIZE"))
	clock.Advance(time.Millisecond)
	require.Equal(t, ":-2\r\n", c.do("PTTL", "k"))
	require.Equal(t, "$1\r\nv\r\n", c.do("GET", "at"))
	require.Equal(t, ":2\r\n", c.do("DBSIZE"), "an expired key is not counted")
	clock.Advance(time.Millisecond)
	require.Equal(t, []string{"stays"}, s.Keys())
	require.Equal(t, "+OK\r\n", c.do("SET", "k", "v", "NX", "PX", "100"))
	clock.Advance(-time.Hour)
	require.Equal(t, ":3600100\r\n", c.do("PTTL", "k"), "a clock that is set back keeps keys longer")
	clock.Advance(3 * time.Hour)
	require.Contains(t, c.do("INFO", "server"), "uptime_in_seconds:7200\r\n")
	require.Equal(t, "*1\r\n$5\r\nstays\r\n", c.do("KEYS", "*"))
}

func TestExpiryInVirtualTime(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		c := join(t, n, s)
		c.do("SET", "k", "v", "NX", "PX", "30000")
		time.Sleep(30 * time.Second)
		require.Equal(t, "$-1\r\n", c.do("SET", "k", "w", "NX"))
		time.Sleep(time.Millisecond)
		require.Equal(t, "+OK\r\n", c.do("SET", "k", "w", "NX"))
	})
}

func TestTheClockStandsStillInAScript(t *testing.T) {
	virtual(t, func(t *testing.T, n *Network, s *Server) {
		c := join(t, n, s)
		require.Equal(t, ":1000\r\n", c.do("EVAL", "redis.call('set','k','v','px',1000) return redis.call('pttl','k')", "0"))
	})
}

// TestScriptsDoNotMeet checks that nothing passes from one script to the next, and that an error breaks nothing.
func TestScriptsDoNotMeet(t *testing.T) {
	s := Start(t)
	c := dial(t, "tcp", s.Addr())
	for _, source := range []string{
		"x = 1", "redis.call = nil", "string.upper = nil", "KEYS.x = 1", "_G.x = 1", "setmetatable(_G, {})",
		"getmetatable(redis).__index = nil", "math.pi = 3", "error('x')", "local t = {} t.x.y = 1", "tostring = 1",
		"local function f() return f() + 1 end return f()",
	} {
		c.do("EVAL", source, "1", "k")
		require.Equal(t, "*4\r\n+OK\r\n$1\r\nX\r\n$1\r\nk\r\n$1\r\n3\r\n", c.do("EVAL",
			"return {redis.call('set','k','v'), ('x'):upper(), KEYS[1], tostring(math.floor(math.pi))}", "1", "k"), source)
	}
}

func TestCloseEndsAnEndlessScript(t *testing.T) {
	for _, source := range []string{"while true do end", "while true do pcall(function() while true do end end) end"} {
		s := Start(t)
		c := dial(t, "tcp", s.Addr())
		started := make(chan struct{})
		s.Hook("eval", func(Command) Action { close(started); return Action{} })
		c.send("EVAL", source, "0")
		<-started
		s.Close()
		_, _ = c.r.ReadByte()
	}
}

// busy starts a server in every kind of trouble and returns how to close it.
func busy(t *testing.T, cfg Config, connect func(s *Server) net.Conn) func() {
	s, err := New(cfg)
	require.NoError(t, err)
	clients := make([]*rawClient, 6)
	for i := range clients {
		clients[i] = newRawClient(t, connect(s))
		require.Equal(t, "+PONG\r\n", clients[i].do("PING"))
	}
	s.Hook("set", Times(-1, Action{Delay: time.Hour}))
	s.Hook("get", Times(-1, Action{Lag: time.Hour}))
	s.Hook("del", Times(-1, Action{Lose: true}))
	clients[0].send("SET", "k", "v")
	clients[1].send("GET", "k")
	clients[2].send("DEL", "k")
	s.Set("big", strings.Repeat("x", 8<<20), 0)
	clients[3].send("ECHO", "x") // and one that does not read much
	for range 4 {
		clients[3].send("EVAL", "return redis.call('get','big')", "0")
	}
	_, err = clients[4].Write([]byte("*3\r\n$3\r\nSET\r\n$1\r\n"))
	require.NoError(t, err)
	for s.Count("set")+s.Count("get")+s.Count("del")+s.Count("eval") < 4 {
		runtime.Gosched()
	}
	s.Freeze()
	clients[5].send("PING")
	return s.Close
}

func TestCloseLeavesNoGoroutineInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // which fails if one is left
		n := NewNetwork()
		stop := busy(t, Config{Network: n}, func(s *Server) net.Conn {
			conn, err := n.Dial(t.Context(), "tcp", s.Addr())
			require.NoError(t, err)
			return conn
		})
		stop()
	})
}

func TestCloseLeavesNoGoroutineAndNoDescriptor(t *testing.T) {
	descriptors := func() int {
		list, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			return 0 // not Linux
		}
		return len(list)
	}
	before := descriptors()
	var conns []net.Conn
	stop := busy(t, Config{}, func(s *Server) net.Conn {
		conn, err := net.Dial("tcp", s.Addr())
		require.NoError(t, err)
		conns = append(conns, conn)
		return conn
	})
	stop()
	for _, c := range conns {
		_ = c.Close()
	}
	// A goroutine that has told that it is done needs a moment to end.
	require.Eventually(t, func() bool {
		stacks := make([]byte, 1<<20)
		text := string(stacks[:runtime.Stack(stacks, true)])
		return !strings.Contains(text, "redcon.") && !strings.Contains(text, "fakeredis.(*")
	}, 10*time.Second, time.Millisecond)
	require.LessOrEqual(t, descriptors(), before)
}
