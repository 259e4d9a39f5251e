package engine

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/fakeredis"
)

// TestMain checks that no goroutine is left at the end.
func TestMain(m *testing.M) {
	code := m.Run()
	end := time.Now().Add(20 * time.Second)
	for left := ours(); code == 0 && len(left) > 0; left = ours() {
		if time.Now().After(end) {
			fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", strings.Join(left, "\n\n"))
			code = 1
		}
		time.Sleep(time.Millisecond)
	}
	os.Exit(code)
}

// ours returns the stacks of the goroutines that engines and their connections
// have started.
func ours() []string {
	const module = "created by github.com/goredlock/redlock/"
	return goroutines(module+"engine.(*Engine)", module+"engine.New", module+"conn.")
}

// goroutines returns the stacks in which one of the texts stands.
func goroutines(texts ...string) (stacks []string) {
	all := make([]byte, 4<<20)
	all = all[:runtime.Stack(all, true)]
	for stack := range strings.SplitSeq(string(all), "\n\n") {
		if slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(stack, s) }) {
			stacks = append(stacks, stack)
		}
	}
	return stacks
}

// forLong is how long a test waits in real time for what must happen: the
// machine may be busy with something else.
const forLong = 30 * time.Second

const ms = time.Millisecond

// cluster is an engine and the fake masters that it is connected to.
type cluster struct {
	*Engine
	t     testing.TB
	net   *fakeredis.Network // nil: loopback
	fakes []*fakeredis.Server
}

// way is how an engine reaches its masters.
type way struct {
	name    string
	network func() *fakeredis.Network
	pump    bool
}

// realWays need real time.
var realWays = []way{
	{name: "sockets"},
	{name: "pump", pump: true},
}

// memory is for virtual time.
var memory = way{name: "memory", network: fakeredis.NewNetwork}

// onEach runs a test over every way, in virtual time where that is possible.
func onEach(t *testing.T, f func(t *testing.T, w way)) {
	for _, w := range realWays {
		t.Run(w.name, func(t *testing.T) { f(t, w) })
	}
}

// start connects an engine to n fakes. Its default timeouts are those of a test
// in which nothing is late.
func (w way) start(t testing.TB, n int, change ...func(*Config)) *cluster {
	return w.startFlavors(t, make([]fakeredis.Flavor, n), change...)
}

func (w way) startFlavors(t testing.TB, flavors []fakeredis.Flavor, change ...func(*Config)) *cluster {
	t.Helper()
	c := &cluster{t: t}
	if w.network != nil {
		c.net = w.network()
	}
	cfg := Config{RoundTimeout: forLong, Silence: 2 * forLong, Dial: conn.Options{Timeout: forLong, Pump: w.pump}}
	for _, f := range flavors {
		s := fakeredis.Start(t, fakeredis.Config{Network: c.net, Flavor: f})
		c.fakes = append(c.fakes, s)
		cfg.Masters = append(cfg.Masters, conn.Address{Network: "tcp", Addr: s.Addr()})
	}
	if c.net != nil {
		cfg.Dial.Dial = c.net.Dial
	}
	for _, f := range change {
		f(&cfg)
	}
	e, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	c.Engine = e
	c.awaitUp(len(flavors))
	return c
}

// awaitUp waits until so many masters are up.
func (c *cluster) awaitUp(n int) {
	c.t.Helper()
	c.eventually(func() bool { return c.up == n }, "not exactly %d masters are up", n)
}

// eventually waits for a condition, which is looked at under e.mu.
func (c *cluster) eventually(cond func() bool, message string, args ...any) {
	c.t.Helper()
	until(c.t, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return cond()
	}, message, args...)
}

func until(t testing.TB, cond func() bool, message string, args ...any) {
	t.Helper()
	for end := time.Now().Add(forLong); !cond(); time.Sleep(ms / 4) {
		if time.Now().After(end) {
			require.FailNow(t, fmt.Sprintf(message, args...))
		}
	}
}

// settled waits until no master owes anything.
func (c *cluster) settled() {
	c.t.Helper()
	c.eventually(func() bool {
		if c.debts > 0 || c.unsent > 0 || c.waiting.len > 0 || c.writing || c.batch != nil {
			return false
		}
		for _, m := range c.masters {
			if m.owed.len > 0 {
				return false
			}
		}
		return c.role == free
	}, "something is still owed")
}

// begin queues a round.
func (c *cluster) begin(op *Op, key, value string, ttl time.Duration, set ...func(*Round)) *Round {
	r := c.NewRound(op)
	r.Key, r.TTL = key, ttl
	r.SetValue([]byte(value))
	if op.Kind == Releasing {
		r.May = c.everyone()
	}
	for _, f := range set {
		f(r)
	}
	c.Queue(r)
	return r
}

// do runs a round as the package above does.
func (c *cluster) do(ctx context.Context, op *Op, key, value string, ttl time.Duration, set ...func(*Round)) Outcome {
	if err := c.Enter(); err != nil {
		return Outcome{Err: err}
	}
	defer c.Leave()
	return c.Wait(ctx, c.begin(op, key, value, ttl, set...))
}

func (c *cluster) acquire(key, value string) Outcome {
	return c.do(context.Background(), &Acquire, key, value, time.Hour)
}

func (c *cluster) release(key, value string) Outcome {
	return c.do(context.Background(), &Release, key, value, time.Hour)
}

// everyone is the set of all masters.
func (c *cluster) everyone() Masters { return Masters(1)<<c.N() - 1 }

// latencies sets the round trips of the masters; a negative one cuts.
func (c *cluster) latencies(roundTrips ...time.Duration) {
	for i, d := range roundTrips {
		if d < 0 {
			c.net.Cut(c.fakes[i].Addr())
		} else {
			c.net.SetLatency(c.fakes[i].Addr(), d/2)
			c.net.Heal(c.fakes[i].Addr())
		}
	}
}

const cut = time.Duration(-1)

// unanimous makes an Op out of another that is decided by every last vote, so
// that the outcome shows each of them, and never Won, so that it shows the
// failures.
func unanimous(op Op) *Op {
	op.Decide = func(t Tally) Decision {
		if t.Owed() > 0 {
			return Undecided
		}
		return NoQuorum
	}
	return &op
}

var (
	acquireAll = unanimous(Acquire)
	extendAll  = unanimous(Extend)
	releaseAll = unanimous(Release)
)

// failure returns why master i's vote failed.
func (o Outcome) failure(i int) error {
	for _, f := range o.Failures {
		if f.Master == i {
			return f.Err
		}
	}
	return nil
}

// commands returns what a fake was sent since its last handshake, as text,
// with the scripts' digests replaced by their names.
func commands(s *fakeredis.Server) (list []string) {
	names := strings.NewReplacer(releaseScript.sha, "<release>", releaseScript.source, "<release>",
		extendScript.sha, "<extend>", extendScript.source, "<extend>")
	for _, cmd := range s.Commands() {
		if cmd.Name == "script|load" {
			list = list[:0] // the end of a handshake
		} else {
			list = append(list, names.Replace(cmd.String()))
		}
	}
	return list
}

// starting returns those of the list that start with one of the words.
func starting(list []string, words ...string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(s, w) })
	})
}

// locked looks at the engine's state; a check in it may fail.
func (e *Engine) locked(look func()) {
	e.mu.Lock()
	defer e.unlock()
	look()
}

// connected is how many masters are up.
func (c *cluster) connected() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.up
}

func startFake(t testing.TB, n *fakeredis.Network, addr string) *fakeredis.Server {
	return fakeredis.Start(t, fakeredis.Config{Network: n, Addr: addr})
}
