package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func floorOn(t *testing.T, m masters) *floor {
	t.Helper()
	f, err := newFloor(setup{addrs: m.addrs(), ttl: time.Minute})
	require.NoError(t, err)
	t.Cleanup(f.close)
	return f
}

// keysLeft is how many keys there are on each master, when all stand still.
func keysLeft(t *testing.T, m masters) (left []int64) {
	t.Helper()
	var list []int
	for i := range m.addrs() {
		list = append(list, i)
	}
	_, err := drain(t.Context(), m, list, func() bool { return false })
	require.NoError(t, err)
	for i := range list {
		n, err := m.left(i)
		require.NoError(t, err)
		left = append(left, n)
	}
	return left
}

func TestTheFloorLocks(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, m masters) {
		ctx := context.Background()
		mine, others := floorOn(t, m), floorOn(t, m)
		held, err := mine.try(ctx, "k")
		require.NoError(t, err)
		require.Equal(t, []int64{1, 1, 1, 1, 1}, keysLeft(t, m))

		_, err = others.try(ctx, "k")
		require.ErrorIs(t, err, errRefused)
		require.Equal(t, []int64{1, 1, 1, 1, 1}, keysLeft(t, m), "its clean-up leaves the holder's key alone")

		require.NoError(t, held.extend(ctx, time.Minute))
		require.NoError(t, held.release(ctx))
		require.Equal(t, []int64{0, 0, 0, 0, 0}, keysLeft(t, m))
		require.Error(t, held.release(ctx), "it is gone")
		require.ErrorIs(t, held.extend(ctx, time.Minute), errRefused)

		again, err := others.try(ctx, "k")
		require.NoError(t, err)
		require.NoError(t, again.release(ctx))
	})
}

func TestTheFloorTakesBatches(t *testing.T) {
	onBoth(t, 5, func(t *testing.T, m masters) {
		f := floorOn(t, m)
		var locks []floorLock
		for i := range 1024 {
			locks = append(locks, floorLock{f, key(i, 100), floorValue()})
		}
		for range 3 {
			require.NoError(t, f.acquire(locks))
			require.Equal(t, []int64{1024, 1024, 1024, 1024, 1024}, keysLeft(t, m))
			require.NoError(t, f.releaseAll(locks))
			require.Equal(t, []int64{0, 0, 0, 0, 0}, keysLeft(t, m))
		}
		// One that is taken is found among the others.
		other, err := floorOn(t, m).try(t.Context(), locks[500].key)
		require.NoError(t, err)
		require.ErrorIs(t, f.acquire(locks), errRefused)
		require.Equal(t, []int64{1, 1, 1, 1, 1}, keysLeft(t, m), "all of the batch is given back")
		require.NoError(t, other.release(t.Context()))
	})
}

func TestALateVoteIsNotCountedForAnotherRound(t *testing.T) {
	onBoth(t, 3, func(t *testing.T, m masters) {
		ctx := context.Background()
		f := floorOn(t, m)
		rounds := func(from int) {
			for i := from; i < from+100; i++ {
				held, err := f.try(ctx, fmt.Sprint("k", i))
				require.NoError(t, err)
				if i%2 == 0 {
					require.NoError(t, held.extend(ctx, time.Minute))
				}
				require.NoError(t, held.release(ctx))
			}
		}
		rounds(0)
		require.NoError(t, m.freeze(2))
		rounds(100)
		require.NoError(t, m.thaw(2))
		rounds(200)
		require.Equal(t, []int64{0, 0, 0}, keysLeft(t, m))
		// The late one counts again: with another dead, its vote is needed.
		require.NoError(t, m.kill(0))
		rounds(300)
		require.NoError(t, m.kill(1))
		_, err := f.try(ctx, "k")
		require.ErrorIs(t, err, errNoQuorum)
	})
}

func TestTheFloorSendsWhatRedlockSends(t *testing.T) {
	var none [3]bool
	script := formsFor(none, "aa", "bb")
	native := formsFor([3]bool{true, true, true}, "aa", "bb")
	valkey := formsFor([3]bool{nativeDELIFEQ: true, nativeSET: true}, "aa", "bb")
	for _, tc := range []struct {
		got  []byte
		want string
	}{
		{appendSet(nil, "k", "v", 2*time.Second), "*6\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$2\r\nNX\r\n$2\r\nPX\r\n$4\r\n2000\r\n"},
		{script.release(nil, "k", "v"), "*5\r\n$7\r\nEVALSHA\r\n$2\r\naa\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\nv\r\n"},
		{script.extend(nil, "k", "v", time.Second), "*6\r\n$7\r\nEVALSHA\r\n$2\r\nbb\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\nv\r\n$4\r\n1000\r\n"},
		{native.release(nil, "k", "v"), "*4\r\n$5\r\nDELEX\r\n$1\r\nk\r\n$4\r\nIFEQ\r\n$1\r\nv\r\n"},
		{native.extend(nil, "k", "v", time.Second), "*7\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n$4\r\nIFEQ\r\n$1\r\nv\r\n$2\r\nPX\r\n$4\r\n1000\r\n"},
		{valkey.release(nil, "k", "v"), "*3\r\n$7\r\nDELIFEQ\r\n$1\r\nk\r\n$1\r\nv\r\n"},
	} {
		require.Equal(t, tc.want, string(tc.got))
	}
}
