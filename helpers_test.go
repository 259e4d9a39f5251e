package redlock_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/fakeredis"
)

const (
	key   = "invoice:42"
	other = "the value of another client"
	ttl   = 10 * time.Second
)

// ttlDrift is what the default configuration takes off ttl.
const ttlDrift = 102 * time.Millisecond

// roundTimeout is the default one.
const roundTimeout = 50 * time.Millisecond

// cluster is a set of fake masters on an in-memory network, for tests in
// virtual time: there everything takes exactly as long as the links do, and
// nothing else takes any time.
type cluster struct {
	*fakeredis.Network
	masters []*fakeredis.Server
}

// inBubble runs f in virtual time, with n masters that answer at once. A
// goroutine that is left at the end fails the test.
func inBubble(t *testing.T, n int, f func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newCluster(t, n)) })
}

func newCluster(t *testing.T, n int) *cluster {
	t.Helper()
	c := &cluster{Network: fakeredis.NewNetwork()}
	for range n {
		c.masters = append(c.masters, fakeredis.Start(t, fakeredis.Config{Network: c.Network}))
	}
	return c
}

func (c *cluster) config() redlock.Config {
	cfg := redlock.Config{Dial: c.Dial}
	for _, m := range c.masters {
		cfg.Masters = append(cfg.Masters, m.Addr())
	}
	return cfg
}

// client returns a client that is connected to every master.
func (c *cluster) client(t *testing.T, change ...func(*redlock.Config)) *redlock.Client {
	t.Helper()
	cfg := c.config()
	for _, f := range change {
		f(&cfg)
	}
	client := newClient(t, cfg)
	c.settle()
	require.Equal(t, len(c.masters), client.Connected())
	return client
}

func newClient(t *testing.T, cfg redlock.Config) *redlock.Client {
	t.Helper()
	client, err := redlock.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// settle lets a tenth of a second pass, in which all that is under way arrives.
func (c *cluster) settle() {
	time.Sleep(100 * time.Millisecond)
	synctest.Wait()
}

// latencies sets the time of a round trip to each master, from the first on.
func (c *cluster) latencies(roundTrips ...time.Duration) {
	for i, d := range roundTrips {
		c.SetLatency(c.masters[i].Addr(), d/2)
	}
}

// cut cuts the links to the masters from first on.
func (c *cluster) cut(first int) {
	for _, m := range c.masters[first:] {
		c.Cut(m.Addr())
	}
}

func (c *cluster) heal() {
	for _, m := range c.masters {
		c.Heal(m.Addr())
	}
}

// takeDown takes the masters from first on away: connections are reset, dials
// refused. It returns when the client has noticed.
func (c *cluster) takeDown(t *testing.T, first int) {
	t.Helper()
	synctest.Wait()
	for _, m := range c.masters[first:] {
		require.NoError(t, m.Refuse(true))
		m.Reset()
	}
	time.Sleep(300 * time.Millisecond) // an idle client looks at its sockets now and then
	synctest.Wait()
}

// bringUp is the way back. The masters still have their keys.
func (c *cluster) bringUp(t *testing.T, first int) {
	t.Helper()
	for _, m := range c.masters[first:] {
		require.NoError(t, m.Refuse(false))
	}
}

// hookAll sets one hook, with one state, on the masters from first on.
func (c *cluster) hookAll(name string, first int, f func(fakeredis.Command) fakeredis.Action) {
	for _, m := range c.masters[first:] {
		m.Hook(name, f)
	}
}

// holders returns how many masters hold the value under key.
func (c *cluster) holders(value string) int {
	n := 0
	for _, m := range c.masters {
		if v, ok := m.Get(key); ok && v == value {
			n++
		}
	}
	return n
}

// keys returns how many masters hold anything under key.
func (c *cluster) keys() int {
	n := 0
	for _, m := range c.masters {
		if _, ok := m.Get(key); ok {
			n++
		}
	}
	return n
}

// acquire takes key. On links without latency all masters have granted by then.
func (c *cluster) acquire(t *testing.T, client *redlock.Client, ttl time.Duration) *redlock.Lock {
	t.Helper()
	lock, err := client.TryAcquire(t.Context(), key, ttl)
	require.NoError(t, err)
	synctest.Wait()
	return lock
}

// received returns the commands about key that a master has received.
func received(m *fakeredis.Server) []fakeredis.Command {
	return slices.DeleteFunc(m.Commands(), func(cmd fakeredis.Command) bool {
		return !slices.ContainsFunc(cmd.Args, func(a []byte) bool { return string(a) == key })
	})
}

// verbs says what the commands about key were that a master has received:
// set, extend, release.
func verbs(m *fakeredis.Server) []string {
	var vs []string
	for _, cmd := range received(m) {
		vs = append(vs, verb(cmd))
	}
	return vs
}

func verb(cmd fakeredis.Command) string {
	switch {
	case cmd.Name == "delex", cmd.Name == "delifeq":
		return "release"
	case strings.HasPrefix(cmd.Name, "eval") && len(cmd.Args) == 5:
		return "release"
	case strings.HasPrefix(cmd.Name, "eval") && len(cmd.Args) == 6:
		return "extend"
	case cmd.Name == "set" && strings.EqualFold(string(cmd.Args[3]), "IFEQ"):
		return "extend"
	}
	return cmd.Name
}

var sentinels = []error{
	redlock.ErrLocked, redlock.ErrNoQuorum, redlock.ErrExpired, redlock.ErrNotHeld, redlock.ErrClosed,
}

// requireKind requires that err is a *QuorumError of one kind and no other.
func requireKind(t *testing.T, err, kind error) *redlock.QuorumError {
	t.Helper()
	require.ErrorIs(t, err, kind)
	for _, s := range sentinels {
		if s != kind {
			require.NotErrorIs(t, err, s)
		}
	}
	var q *redlock.QuorumError
	require.ErrorAs(t, err, &q)
	require.NotContains(t, err.Error(), "\n")
	return q
}

// eventually waits for a condition that nothing announces, in real time.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			require.FailNow(t, "did not happen: "+what)
		}
	}
}

// lateContext ends after its Err has been asked for n times: the end falls
// between two looks at it, such as the one before anything is sent and the one
// after the decision.
type lateContext struct {
	context.Context
	left int
}

func (c *lateContext) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

func (c *lateContext) Done() <-chan struct{} { return nil }

type outcome struct {
	lock *redlock.Lock
	err  error
	took time.Duration
}

// start runs a call in a goroutine of its own; its end is received from the
// channel.
func start(f func() (*redlock.Lock, error)) <-chan outcome {
	ch := make(chan outcome, 1)
	began := time.Now()
	go func() {
		lock, err := f()
		ch <- outcome{lock, err, time.Since(began)}
	}()
	return ch
}

// startErr is start for calls that return nothing but an error.
func startErr(f func() error) <-chan outcome {
	return start(func() (*redlock.Lock, error) { return nil, f() })
}
