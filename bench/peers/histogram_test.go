package main

import (
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEveryBucketBeginsWhereTheLastOneEnds(t *testing.T) {
	require.Zero(t, bucket(-1))
	for i := range buckets - 1 {
		end := upper(i)
		require.Equal(t, i, bucket(end))
		require.Equal(t, i+1, bucket(end+1))
		if i > 0 {
			begin := upper(i-1) + 1
			require.LessOrEqual(t, float64(end-begin), float64(begin)/32, "bucket %d is too wide", i)
		}
	}
	require.Equal(t, buckets-1, bucket(1<<62))
}

func TestQuantilesAgainstSortedSamples(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 3, 10, 999, 1000, 1001, 5000} {
		var h, part histogram
		var all []time.Duration
		for i := range n {
			d := time.Duration(float64(100*time.Microsecond) * (1 + random.ExpFloat64()*random.ExpFloat64()))
			all = append(all, d)
			if i%3 == 0 {
				part.add(d)
			} else {
				h.add(d)
			}
		}
		h.merge(&part)
		slices.Sort(all)
		require.Equal(t, all[n-1], h.max)
		for _, permille := range []int{500, 990, 999, 1000} {
			exact := all[(n*permille+999)/1000-1]
			got := h.quantile(uint64(permille))
			require.GreaterOrEqual(t, got, exact, "n=%d permille=%d", n, permille)
			require.LessOrEqual(t, float64(got), float64(exact)*(1+1.0/32), "n=%d permille=%d", n, permille)
		}
	}
}

func TestAHistogramTravelsBetweenProcesses(t *testing.T) {
	var h histogram
	for _, d := range []time.Duration{0, 1, 1, 123456, time.Second, time.Hour} {
		h.add(d)
	}
	b, err := json.Marshal(h.sparse())
	require.NoError(t, err)
	var s sparse
	require.NoError(t, json.Unmarshal(b, &s))
	require.Equal(t, &h, s.dense())

	require.Equal(t, new(histogram), new(histogram).sparse().dense())
	require.Equal(t, uint64(0), sparse{Counts: [][2]uint64{{buckets, 7}}}.dense().total, "there is no such bucket")
}

func TestQuantilesOfNothing(t *testing.T) {
	var h histogram
	require.Zero(t, h.quantile(500))
	require.Zero(t, h.max)
}
