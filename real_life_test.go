package redlock_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/internal/redisproc"
)

// What the tests in virtual time say of a lock's life, once more on real
// servers. The times are so far apart that a busy machine does not matter.

// pttl is what key has left to live on a master.
func pttl(t *testing.T, m *redisproc.Process) time.Duration {
	t.Helper()
	text, err := m.Do("PTTL", key)
	require.NoError(t, err)
	ms, err := strconv.Atoi(text)
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

// validity is what the default configuration leaves of a ttl.
func validity(ttl time.Duration) time.Duration { return ttl - ttl/100 - 2*time.Millisecond }

// requireBetween requires a time from the first to the last instant, each that
// much later.
func requireBetween(t *testing.T, first, last, got time.Time, later time.Duration) {
	t.Helper()
	require.False(t, got.Before(first.Add(later)), "%v too early", first.Add(later).Sub(got))
	require.False(t, got.After(last.Add(later)), "%v too late", got.Sub(last.Add(later)))
}

func TestAShorterExtendOnRealMasters(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)
	lock, err := client.TryAcquire(t.Context(), key, 10*time.Minute)
	require.NoError(t, err)
	waitForKey(t, masters, key, lock.Value())
	for _, shorter := range []time.Duration{5 * time.Minute, time.Minute} {
		before := lock.Until()
		began := time.Now()
		require.NoError(t, lock.Extend(t.Context(), shorter))
		requireBetween(t, began, time.Now(), lock.Until(), validity(shorter))
		require.True(t, lock.Until().Before(before))
		for _, m := range masters {
			eventually(t, "the key lives shorter on "+m.Addr(), func() bool { return pttl(t, m) <= shorter })
			rest := pttl(t, m)
			require.False(t, time.Now().Add(rest).Before(lock.Until()), "the master holds it for as long")
		}
	}
	require.NoError(t, lock.Release())
	waitForNoKeys(t, masters)
}

// The masters tell which of two extensions was queued last.
func TestOfConcurrentExtendsTheNewestDecidesOnRealMasters(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)
	for _, ttls := range [][3]time.Duration{
		{time.Minute, 20 * time.Minute, 40 * time.Minute}, // both longer
		{time.Hour, 20 * time.Minute, 40 * time.Minute},   // both shorter
		{30 * time.Minute, 20 * time.Minute, 40 * time.Minute},
	} {
		shorter, longer := ttls[1], ttls[2]
		for round := range 20 {
			lock, err := client.TryAcquire(t.Context(), key, ttls[0])
			require.NoError(t, err)
			order := []time.Duration{shorter, longer}
			if round%2 == 1 {
				order = []time.Duration{longer, shorter}
			}
			began := time.Now()
			var calls []<-chan outcome
			for _, d := range order {
				calls = append(calls, startErr(func() error { return lock.Extend(t.Context(), d) }))
			}
			for _, call := range calls {
				require.NoError(t, (<-call).err)
			}
			ended := time.Now()

			// A quorum has executed both, so if all five agree it is on the newest.
			newest := map[time.Duration]int{}
			eventually(t, "all masters hold the same", func() bool {
				clear(newest)
				for _, m := range masters {
					switch rest := pttl(t, m); {
					case rest <= shorter && rest > shorter-5*time.Minute:
						newest[shorter]++
					case rest <= longer && rest > longer-5*time.Minute:
						newest[longer]++
					}
				}
				return newest[shorter] == len(masters) || newest[longer] == len(masters)
			})
			won := shorter
			if newest[longer] > 0 {
				won = longer
			}
			requireBetween(t, began, ended, lock.Until(), validity(won))
			for _, m := range masters {
				rest := pttl(t, m)
				require.False(t, time.Now().Add(rest).Before(lock.Until()), "Until is beyond the master's")
			}
			require.NoError(t, lock.Release())
		}
	}
	waitForNoKeys(t, masters)
}

func TestAMasterThatComesBackWithItsDataIsSentTheOwedRelease(t *testing.T) {
	masters := redisproc.Start(t, 5, "--appendonly", "yes", "--appendfsync", "always")
	client := realClient(t, masters, nil)
	lock, err := client.TryAcquire(t.Context(), key, time.Hour)
	require.NoError(t, err)
	waitForKey(t, masters, key, lock.Value())
	const kept = "not ours"
	foreignLock(t, masters[4:], kept, other)

	require.NoError(t, masters[4].Kill())
	require.NoError(t, lock.Release())
	waitForNoKeys(t, masters[:4])
	require.NoError(t, masters[4].Restart(true))
	waitForKey(t, masters[4:], kept, other) // it has its data
	eventually(t, "the key is deleted where it was kept", func() bool { return size(t, masters[4]) == 1 })
	v, err := masters[4].Do("GET", kept)
	require.NoError(t, err)
	require.Equal(t, other, v)
	eventually(t, "it is connected again", func() bool { return client.Connected() == 5 })
}

func TestMastersWithoutMemory(t *testing.T) {
	maxMemory := func(t *testing.T, masters []*redisproc.Process, bytes string) {
		for _, m := range masters {
			_, err := m.Do("CONFIG", "SET", "maxmemory", bytes)
			require.NoError(t, err)
		}
	}
	for _, tc := range []struct {
		name string
		full int
		wins bool
	}{{"one of five", 1, true}, {"two of five", 2, true}, {"three of five", 3, false}, {"all", 5, false}} {
		t.Run(tc.name, func(t *testing.T) {
			masters := redisproc.Start(t, 5)
			client := realClient(t, masters, nil)
			maxMemory(t, masters[:tc.full], "1")
			for range 10 {
				lock, err := client.TryAcquire(t.Context(), key, time.Minute)
				if tc.wins {
					require.NoError(t, err)
					waitForKey(t, masters[tc.full:], key, lock.Value())
					require.NoError(t, lock.Extend(t.Context(), time.Hour))
					require.NoError(t, lock.Release())
					continue
				}
				q := requireKind(t, err, redlock.ErrNoQuorum)
				require.ErrorContains(t, err, "OOM")
				require.LessOrEqual(t, q.Granted, 5-tc.full)
				require.Zero(t, q.Refused)
				require.GreaterOrEqual(t, len(q.Failed), 3)
				for _, f := range q.Failed {
					require.ErrorContains(t, f, "OOM")
					require.Contains(t, redisproc.Addrs(masters[:tc.full]), f.Addr)
				}
			}
			require.Equal(t, 5, client.Connected(), "an error reply ends no connection")
			waitForNoKeys(t, masters)
			maxMemory(t, masters, "0")
			lock, err := client.TryAcquire(t.Context(), key, time.Minute)
			require.NoError(t, err)
			waitForKey(t, masters, key, lock.Value())
		})
	}
}

func TestGrantsThatComeTooLateOnRealMasters(t *testing.T) {
	// thaw wakes frozen masters after a while.
	thaw := func(t *testing.T, masters []*redisproc.Process, after time.Duration) <-chan outcome {
		return startErr(func() error {
			time.Sleep(after)
			for _, m := range masters {
				if err := m.Continue(); err != nil {
					return err
				}
			}
			return nil
		})
	}
	freeze := func(t *testing.T, masters []*redisproc.Process) {
		for _, m := range masters {
			require.NoError(t, m.Stop())
		}
	}
	patient := func(cfg *redlock.Config) { cfg.RoundTimeout = 30 * time.Second }

	t.Run("to take it", func(t *testing.T) {
		const ttl, after = 2 * time.Minute, 500 * time.Millisecond
		masters := redisproc.Start(t, 5)
		client := realClient(t, masters, func(cfg *redlock.Config) {
			patient(cfg)
			cfg.MinValidity = validity(ttl) - after/2
		})
		freeze(t, masters[2:])
		thawed := thaw(t, masters[2:], after)
		_, err := client.TryAcquire(t.Context(), key, ttl)
		q := requireKind(t, err, redlock.ErrExpired)
		require.GreaterOrEqual(t, q.Granted, 3)
		require.Greater(t, q.Elapsed, after/2)
		require.NoError(t, (<-thawed).err)
		waitForNoKeys(t, masters)
	})
	t.Run("to extend it", func(t *testing.T) {
		const ttl = time.Minute
		masters := redisproc.Start(t, 5)
		client := realClient(t, masters, func(cfg *redlock.Config) {
			patient(cfg)
			cfg.DriftFactor = 0.95 // the masters hold it for long after its validity
		})
		lock, err := client.TryAcquire(t.Context(), key, ttl)
		require.NoError(t, err)
		waitForKey(t, masters, key, lock.Value())
		freeze(t, masters[2:])
		until := lock.Until()
		require.True(t, time.Now().Before(until), "the machine is too slow for this test")
		thawed := thaw(t, masters[2:], time.Until(until)+100*time.Millisecond)
		q := requireKind(t, lock.Extend(context.Background(), 2*ttl), redlock.ErrExpired)
		require.GreaterOrEqual(t, q.Granted, 3)
		require.False(t, lock.Until().After(until))
		require.NoError(t, (<-thawed).err)
		waitForNoKeys(t, masters)
	})
}
