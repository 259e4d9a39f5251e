package engine

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock/conn"
	"github.com/goredlock/redlock/internal/redisproc"
)

// What a lone caller costs, against servers in processes of their own: what
// they do is not counted.

// startReal connects an engine to n real servers.
func startReal(t testing.TB, n int) *cluster {
	servers := redisproc.Start(t, n)
	return connectReal(t, redisproc.Addrs(servers))
}

func connectReal(t testing.TB, addrs []string) *cluster {
	cfg := Config{RoundTimeout: forLong, Silence: 2 * forLong}
	for _, a := range addrs {
		cfg.Masters = append(cfg.Masters, conn.Address{Network: "tcp", Addr: a})
	}
	e, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	c := &cluster{Engine: e, t: t}
	c.awaitUp(len(addrs))
	return c
}

// lone is a round as a lone caller makes it, without anything of the test's.
func (c *cluster) lone(op *Op) Decision {
	if c.Enter() != nil {
		return Undecided
	}
	r := c.NewRound(op)
	r.Key, r.TTL = "economy", time.Hour
	if op.Kind == Releasing {
		r.May = c.everyone()
	}
	r.Value = append(r.Value[:0], "value"...)
	c.Queue(r)
	d := c.Wait(context.Background(), r).Decision
	c.Leave()
	return d
}

func TestALoneCallerWritesOncePerMasterAndHardlySleeps(t *testing.T) {
	const n, batches, rounds = 5, 20, 200
	c := startReal(t, n)
	between := func(sum *Stats, op *Op) {
		before := c.Stats()
		require.Equal(t, Won, c.lone(op))
		after := c.Stats()
		sum.Writes += after.Writes - before.Writes
		sum.Reads += after.Reads - before.Reads
		sum.Parks += after.Parks - before.Parks
	}
	per := func(x uint64) float64 { return float64(x) / rounds }
	parks := math.Inf(1)
	for range batches {
		c.settled()
		writes := c.Stats().Writes
		var acquire, release Stats
		for range rounds {
			between(&acquire, &Acquire)
			between(&release, &Release)
		}
		t.Logf("per acquire: %.2f writes, %.2f reads, %.2f parks; per release: %.2f, %.2f, %.2f",
			per(acquire.Writes), per(acquire.Reads), per(acquire.Parks), per(release.Writes), per(release.Reads), per(release.Parks))
		c.settled()
		// Taken together: the tick may find a round first, and still be writing it
		// to the last master when the caller goes on.
		require.EqualValues(t, 2*n*rounds, c.Stats().Writes-writes, "one system call to each master")
		// The replies of a round are read by it or, from the stragglers, by the
		// next one; a read that finds two saves one.
		require.LessOrEqual(t, per(acquire.Reads+release.Reads), 2*n+0.5)
		parks = min(parks, per(acquire.Parks))
	}
	// On a machine that is busy otherwise the replies come one by one, and each
	// that counts may cost a park; the quietest batch is what we are to blame for.
	require.LessOrEqual(t, parks, 1.0)
}
