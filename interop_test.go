package redlock_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/goredlock/redlock"
	"github.com/goredlock/redlock/internal/redisproc"
)

// Old and new clients must exclude each other, so a lock on the wire and in
// the masters is what every Redlock client makes of it.

func TestTheLockThatOtherClientsSee(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)

	monitor, err := dialForeign(masters[0].Addr())
	require.NoError(t, err)
	defer monitor.close()
	_, err = monitor.do("MONITOR")
	require.NoError(t, err)

	lock, err := client.TryAcquire(t.Context(), key, 10*time.Second-1)
	require.NoError(t, err)
	line, err := monitor.line()
	require.NoError(t, err)
	_, command, _ := strings.Cut(line, "] ")
	require.Equal(t, `"SET" "invoice:42" "`+lock.Value()+`" "NX" "PX" "10000"`, command)

	waitForKey(t, masters, key, lock.Value())
	for _, m := range masters {
		text, err := m.Do("PTTL", key)
		require.NoError(t, err)
		left, err := strconv.Atoi(text)
		require.NoError(t, err)
		require.Greater(t, left, 0)
		require.LessOrEqual(t, left, 10_000)
		text, err = m.Do("DBSIZE")
		require.NoError(t, err)
		require.Equal(t, "1", text, "nothing but the lock's key")
	}
}

func TestForeignClientsAreExcluded(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)
	lock, err := client.TryAcquire(t.Context(), key, time.Minute)
	require.NoError(t, err)
	waitForKey(t, masters, key, lock.Value())
	require.Zero(t, foreignLock(t, masters, key, other))
	require.Zero(t, foreignUnlock(t, masters, key, other))

	require.NoError(t, lock.Release())
	waitForNoKeys(t, masters)
	require.Equal(t, 5, foreignLock(t, masters, key, other))
}

func TestForeignClientsExcludeUs(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)
	require.Equal(t, 3, foreignLock(t, masters[1:4], key, other), "a quorum")
	lock, err := client.TryAcquire(t.Context(), key, time.Minute)
	require.Nil(t, lock)
	requireKind(t, err, redlock.ErrLocked)
	eventually(t, "our keys are gone from the other two", func() bool {
		return size(t, masters[0]) == 0 && size(t, masters[4]) == 0
	})
	require.Equal(t, 3, foreignUnlock(t, masters, key, other), "it is not disturbed")
	_, err = client.TryAcquire(t.Context(), key, time.Minute)
	require.NoError(t, err)
}

func TestAForeignClientCanReleaseALockByItsValue(t *testing.T) {
	masters := redisproc.Start(t, 5)
	client := realClient(t, masters, nil)
	lock, err := client.TryAcquire(t.Context(), key, time.Minute)
	require.NoError(t, err)
	waitForKey(t, masters, key, lock.Value())
	require.Equal(t, 5, foreignUnlock(t, masters, key, lock.Value()))
	requireKind(t, lock.Extend(t.Context(), time.Minute), redlock.ErrNotHeld)
	_, err = client.TryAcquire(t.Context(), key, time.Minute)
	require.NoError(t, err)
}

// A resource is the key as it is: Redis keys may contain any byte.
func TestAResourceMayContainAnyByte(t *testing.T) {
	masters := redisproc.Start(t, 3)
	client := realClient(t, masters, nil)
	resources := map[string]string{
		"spaces":       "  with spaces ",
		"CR LF":        "a\r\n$3\r\nb\r\n",
		"NUL":          "\x00",
		"quotes":       `"'` + "`",
		"not UTF-8":    "\xff\xfe\x80",
		"a RESP array": "*1\r\n$8\r\nFLUSHALL\r\n",
		"the longest":  strings.Repeat("\r\n", redlock.MaxResource/2),
	}
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
		resources["byte "+strconv.Itoa(i)] = string(all[i : i+1])
	}
	resources["every byte"] = string(all)
	for name, resource := range resources {
		lock, err := client.TryAcquire(t.Context(), resource, time.Minute)
		require.NoError(t, err, name)
		require.Equal(t, resource, lock.Resource())
		waitForKey(t, masters, resource, lock.Value())
		require.NoError(t, lock.Extend(t.Context(), time.Minute), name)
		_, err = client.TryAcquire(t.Context(), resource, time.Minute)
		requireKind(t, err, redlock.ErrLocked)
		require.NoError(t, lock.Release(), name)
	}
	waitForNoKeys(t, masters)
}
