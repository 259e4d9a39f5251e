package redlock_test

import (
	"context"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/internal/redisproc"
)

// Real servers, real time: all bounds are generous.

// realClient returns a client that is connected to all the masters.
func realClient(t *testing.T, masters []*redisproc.Process, change func(*redlock.Config)) *redlock.Client {
	t.Helper()
	cfg := redlock.Config{Masters: redisproc.Addrs(masters), RoundTimeout: 2 * time.Second}
	if change != nil {
		change(&cfg)
	}
	client, err := redlock.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	eventually(t, "all masters are connected", func() bool { return client.Connected() == len(masters) })
	return client
}

// size returns how many keys a master has.
func size(t *testing.T, m *redisproc.Process) int {
	t.Helper()
	text, err := m.Do("DBSIZE")
	require.NoError(t, err)
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

func waitForNoKeys(t *testing.T, masters []*redisproc.Process) {
	t.Helper()
	for _, m := range masters {
		eventually(t, "no key is left on "+m.Addr(), func() bool { return size(t, m) == 0 })
	}
}

func waitForKey(t *testing.T, masters []*redisproc.Process, resource, value string) {
	t.Helper()
	for _, m := range masters {
		eventually(t, "the key is on "+m.Addr(), func() bool {
			v, err := m.Do("GET", resource)
			require.NoError(t, err)
			return v == value
		})
	}
}

func TestWithTwoOfFiveMastersKilled(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)
	for _, m := range masters[3:] {
		require.NoError(t, m.Kill())
	}
	for range 20 { // from the first, which may not know yet
		lock, err := client.TryAcquire(t.Context(), key, time.Minute)
		require.NoError(t, err)
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		require.NoError(t, lock.Release())
	}
	waitForNoKeys(t, masters[:3])
}

func TestWithThreeOfFiveMastersKilled(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, func(cfg *redlock.Config) { cfg.RoundTimeout = 10 * time.Second })
	for _, m := range masters[2:] {
		require.NoError(t, m.Kill())
	}
	for range 5 {
		began := time.Now()
		_, err := client.TryAcquire(t.Context(), key, time.Minute)
		require.Less(t, time.Since(began), 5*time.Second, "at once, not after a RoundTimeout")
		requireKind(t, err, redlock.ErrNoQuorum)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
	}
	waitForNoKeys(t, masters[:2])
}

// percentile of some durations.
func percentile(ds []time.Duration, p int) time.Duration {
	slices.Sort(ds)
	return ds[(len(ds)-1)*p/100]
}

func TestAFrozenMinorityDoesNotSlowTheOthers(t *testing.T) {
	const roundTimeout = time.Second
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, func(cfg *redlock.Config) { cfg.RoundTimeout = roundTimeout })
	for _, m := range masters[3:] {
		require.NoError(t, m.Stop())
	}
	var acquire, release []time.Duration
	for range 300 {
		began := time.Now()
		lock, err := client.TryAcquire(t.Context(), key, time.Minute)
		require.NoError(t, err)
		acquire = append(acquire, time.Since(began))
		began = time.Now()
		require.NoError(t, lock.Release())
		release = append(release, time.Since(began))
	}
	t.Logf("acquire p50 %v, p99 %v; release p50 %v, p99 %v", percentile(acquire, 50), percentile(acquire, 99),
		percentile(release, 50), percentile(release, 99))
	require.Less(t, percentile(acquire, 50), roundTimeout/10)
	require.Less(t, percentile(acquire, 99), roundTimeout/2)
	require.Less(t, percentile(release, 50), roundTimeout/10)
	require.Less(t, percentile(release, 99), roundTimeout/2)
	for _, m := range masters[3:] {
		require.NoError(t, m.Continue())
	}
	waitForNoKeys(t, masters)
}

// A server that stands still for long keeps in its socket what it was sent,
// and executes it when it wakes: also after the connection was given up.
func TestALongFrozenMasterKeepsNoKeyAfterItWakes(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, func(cfg *redlock.Config) { cfg.RoundTimeout = 50 * time.Millisecond })
	frozen := masters[4]
	require.NoError(t, frozen.Stop())
	attempts := 0
	givenUp := func() bool {
		attempts++
		lock, err := client.TryAcquire(t.Context(), "resource "+strconv.Itoa(attempts), 10*time.Minute)
		if err != nil {
			return false
		}
		_ = lock.Release()
		return client.Connected() == 4
	}
	eventually(t, "the connection is given up", givenUp)
	require.NoError(t, frozen.Continue())
	eventually(t, "it is connected again", func() bool { return client.Connected() == 5 })
	waitForNoKeys(t, masters)
	lock, err := client.TryAcquire(t.Context(), key, time.Minute)
	require.NoError(t, err)
	waitForKey(t, masters, key, lock.Value())
}

func TestRecoveryAfterAllMastersRestart(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)
	lock, err := client.TryAcquire(t.Context(), key, time.Minute)
	require.NoError(t, err)
	for _, m := range masters {
		require.NoError(t, m.Kill())
	}
	_, err = client.TryAcquire(t.Context(), "another", time.Minute)
	requireKind(t, err, redlock.ErrNoQuorum)
	for _, m := range masters {
		require.NoError(t, m.Restart(false))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	require.NoError(t, client.Ready(ctx))
	again, err := client.Acquire(ctx, "another", time.Minute)
	require.NoError(t, err)
	require.NoError(t, again.Extend(ctx, time.Minute))
	require.NoError(t, again.Release())
	requireKind(t, lock.Release(), redlock.ErrNotHeld)
	waitForNoKeys(t, masters)
}

// The first write to a server that has restarted succeeds, and is lost.
func TestTheFirstAttemptAfterAQuietRestart(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)
	for range 3 {
		for _, m := range masters[:3] {
			require.NoError(t, m.Restart(false))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		lock, err := client.Acquire(ctx, key, time.Minute)
		require.NoError(t, err)
		require.NoError(t, lock.Release())
		cancel()
	}
}

func TestForgottenScriptsAreSentAgain(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)
	lock, err := client.TryAcquire(t.Context(), key, time.Minute)
	require.NoError(t, err)
	for _, f := range []func() error{
		func() error { return lock.Extend(t.Context(), 2*time.Minute) },
		lock.Release,
	} {
		for _, m := range masters {
			_, err := m.Do("SCRIPT", "FLUSH")
			require.NoError(t, err)
		}
		require.NoError(t, f())
	}
	waitForNoKeys(t, masters)
}

func TestReleaseAfterCancellationOnRealMasters(t *testing.T) {
	masters := redisproc.Start(t, 3)
	client := realClient(t, masters, nil)
	err := func() (err error) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		lock, err := client.Acquire(ctx, key, time.Minute)
		if err != nil {
			return err
		}
		defer func() { err = lock.Release() }()
		cancel()
		return ctx.Err()
	}()
	require.NoError(t, err)
	waitForNoKeys(t, masters)
}

func TestLoginOnRealMasters(t *testing.T) {
	masters := redisproc.Start(t, 3, "--requirepass", "s3cret", "--unixsocket", "redis.sock")
	for name, change := range map[string]func(*redlock.Config){
		"Config.Password": func(cfg *redlock.Config) { cfg.Password = "s3cret" },
		"URLs": func(cfg *redlock.Config) {
			for i, a := range cfg.Masters {
				cfg.Masters[i] = "redis://default:s3cret@" + a + "/7"
			}
		},
		"unix sockets": func(cfg *redlock.Config) {
			for i, m := range masters {
				cfg.Masters[i] = "unix://" + filepath.Join(m.Dir(), "redis.sock")
			}
			cfg.Username, cfg.Password, cfg.DB = "default", "s3cret", 7
		},
	} {
		t.Run(name, func(t *testing.T) {
			client := realClient(t, masters, change)
			lock, err := client.TryAcquire(t.Context(), key, time.Minute)
			require.NoError(t, err)
			require.NoError(t, lock.Extend(t.Context(), time.Minute))
			require.NoError(t, lock.Release())
		})
	}
	t.Run("wrong", func(t *testing.T) {
		client, err := redlock.New(redlock.Config{Masters: redisproc.Addrs(masters), Password: "wr0ng", RoundTimeout: 10 * time.Second})
		require.NoError(t, err)
		defer client.Close()
		_, err = client.TryAcquire(t.Context(), key, time.Minute)
		requireKind(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "WRONGPASS")
		require.NotContains(t, err.Error(), "wr0ng")
	})
}
