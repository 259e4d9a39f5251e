// Package fakeredis is a Redis master for tests and benchmarks that runs inside the process: a real server on
// loopback TCP, a unix socket or an in-memory network, with real expiry and really executed Lua scripts, whose
// every fault can be switched on.
//
//	srv := fakeredis.Start(t)                      // closed by the test's clean-up
//	srv.Hook("set", fakeredis.Times(1, fakeredis.Action{Lag: time.Second}))
//	srv.Freeze()                                   // accepts, never answers, until Thaw
//	srv.Restart(false)                             // empty, with a new run_id
//
// It knows the commands that a lock needs, answers them byte for byte as the server that Config.Flavor names, and
// answers everything else as an unknown command. One table of commands and exact replies (TestCommandTable) runs
// against this server and against a real redis-server, so that it cannot drift away from the truth. Known
// differences: the texts of Lua's own run-time errors are gopher-lua's; KEYS answers in sorted order; an expired key
// is never counted; and digests (IFDEQ, IFDNE) are refused.
//
// Commands are executed one at a time, as Redis does it. Nothing waits while a mutex is held, so that the whole
// server works in virtual time (package testing/synctest) when it listens on a Network.
//
// The package deliberately shares no code with the client packages of this module: a mistake in one must not hide
// the same mistake in the other.
package fakeredis

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/redcon"
)

// databases is how many databases SELECT can choose from; Redis' own default.
const databases = 16

// Config says what to play and where. The zero value plays Redis 7.0 without a password on a free port of
// 127.0.0.1.
type Config struct {
	// Addr is where to listen: "host:port", or "unix:///path". Default: "127.0.0.1:0"; on a Network a name of
	// the server's own.
	Addr string
	// Network, if not nil, is the in-memory network to listen on instead of the system's.
	Network *Network
	// TLS, if not nil, makes every connection a TLS one.
	TLS *tls.Config
	// Flavor is the server to play. Default: Redis70.
	Flavor Flavor
	// Password is what a client must send, by AUTH or HELLO. Default: none needed.
	Password string
	// Username is the user that Password belongs to. Default: "default". With another name the default user is
	// disabled.
	Username string
	// Now is the clock of expiry, TIME and uptime; see ManualClock. Default: time.Now. Delays are always real (or,
	// in a synctest bubble, virtual) time.
	Now func() time.Time
}

// TB is the part of testing.TB that Start needs, so that programs do not link package testing.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
}

// Server is one running fake master. All its methods are safe for concurrent use.
type Server struct {
	cfg    Config
	ln     *listener
	ctx    context.Context // ends with Close; stops a running script
	cancel context.CancelFunc
	wg     sync.WaitGroup // the accepting goroutine, every connection, every late writer

	mu       sync.Mutex // guards everything below, and is held while a command is executed
	closed   bool
	runID    string
	started  time.Time
	lastID   int64
	clients  map[int64]*client
	dbs      [databases]map[string]entry
	settings map[string]string
	scripts  scripts
	faults   faults
	journal  journal
}

// Start starts a server for a test and closes it in the test's clean-up. It fails the test if it cannot listen.
// At most one Config is looked at.
func Start(tb TB, cfg ...Config) *Server {
	tb.Helper()
	var c Config
	if len(cfg) > 0 {
		c = cfg[0]
	}
	s, err := New(c)
	if err != nil {
		tb.Fatalf("fakeredis: %v", err)
		return nil
	}
	tb.Cleanup(s.Close)
	return s
}

// Listen starts a server on addr with the default Config, for programs. The caller closes it.
func Listen(addr string) (*Server, error) { return New(Config{Addr: addr}) }

// New starts the server that cfg describes. The error is the listener's. The caller closes it.
func New(cfg Config) (*Server, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Username == "" {
		cfg.Username = defaultUser
	}
	ln, err := newListener(cfg)
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg:      cfg,
		ln:       ln,
		runID:    newRunID(),
		started:  cfg.Now(),
		clients:  make(map[int64]*client),
		settings: newSettings(cfg, ln.port()),
	}
	for i := range s.dbs {
		s.dbs[i] = make(map[string]entry)
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.wg.Add(1)
	go func() {
		defer s.wg.Done()
		_ = redcon.Serve(ln, s.handle, s.accept, s.gone)
	}()
	return s, nil
}

// Addr returns the address to dial: "host:port", or "unix:///path".
func (s *Server) Addr() string { return s.ln.name }

// RunID returns the run_id that INFO tells; Restart changes it.
func (s *Server) RunID() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.runID
}

// Close stops listening, closes every connection, ends a running script and waits until no goroutine is left. It is
// the only thing that ends an endless script; every other method waits for it. A second call does nothing more.
// Close waits for hooks that run, so it must not be called from one.
func (s *Server) Close() {
	s.cancel() // before mu: an endless script holds it
	s.ln.close()
	s.mu.Lock()
	s.closed = true
	for _, c := range s.clients {
		s.kill(c, false)
	}
	s.mu.Unlock()
	s.wg.Wait()
}

// accept is redcon's call-back for a new connection.
func (s *Server) accept(rc redcon.Conn) bool {
	w := rc.NetConn().(*wire)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.lastID++
	c := &client{
		srv:    s,
		wire:   w,
		id:     s.lastID,
		addr:   w.RemoteAddr().String(),
		proto:  2,
		authed: s.cfg.Password == "",
		gone:   make(chan struct{}),
	}
	c.out.wire = w
	c.out.srv = s
	c.out.gone = c.gone
	w.client = c
	rc.SetContext(c)
	s.clients[c.id] = c
	s.wg.Add(1)
	return true
}

// gone is redcon's call-back for a connection that has ended.
func (s *Server) gone(rc redcon.Conn, _ error) {
	c := rc.Context().(*client)
	s.mu.Lock()
	s.kill(c, false)
	s.mu.Unlock()
	s.wg.Done()
}

// kill ends a connection: nothing more of it is executed or sent. s.mu is held.
func (s *Server) kill(c *client, reset bool) {
	c.dead = true
	select {
	case <-c.gone:
		return
	default:
	}
	close(c.gone)
	if s.clients[c.id] == c { // after a restart the number may be another's
		delete(s.clients, c.id)
	}
	c.wire.end(reset)
}

// handle is redcon's call-back for a command.
func (s *Server) handle(rc redcon.Conn, cmd redcon.Command) {
	s.process(rc.Context().(*client), cmd.Args)
}

// now returns the server's time in Unix milliseconds, the unit of every expiry.
func (s *Server) now() int64 { return s.cfg.Now().UnixMilli() }

// newRunID returns 40 random hexadecimal digits.
func newRunID() string {
	var b [20]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// ClientInfo is what the server knows about one of its connections.
type ClientInfo struct {
	ID      int64
	Addr    string // the client's side
	Name    string // CLIENT SETNAME, or HELLO … SETNAME
	LibName string // CLIENT SETINFO LIB-NAME
	LibVer  string // CLIENT SETINFO LIB-VER
	DB      int    // SELECT
	Proto   int    // 2 or 3
}

// Clients returns the connections that are open now, the oldest first.
func (s *Server) Clients() []ClientInfo {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []ClientInfo
	for _, c := range s.clients {
		list = append(list, ClientInfo{
			ID: c.id, Addr: c.addr, Name: c.name, LibName: c.libName, LibVer: c.libVer, DB: c.db, Proto: c.proto,
		})
	}
	slices.SortFunc(list, func(a, b ClientInfo) int { return cmp.Compare(a.ID, b.ID) })
	return list
}

// Connections returns how many connections are open now.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.clients)
}

// splitAddr turns an address of ours into the arguments of net.Listen.
func splitAddr(addr string) (network, address string) {
	if path, ok := strings.CutPrefix(addr, "unix://"); ok {
		return "unix", path
	}
	return "tcp", addr
}

// joinAddr is the way back, for an address that is bound.
func joinAddr(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix://" + a.String()
	}
	return a.String()
}
