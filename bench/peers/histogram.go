package main

import (
	"math/bits"
	"time"
)

// histogram counts durations in buckets whose width is at most 1/32 of their
// value, so that its memory does not grow with the run. The zero value is empty.
type histogram struct {
	counts [buckets]uint64
	total  uint64
	max    time.Duration // exact
}

const (
	subBits = 5 // 1<<subBits buckets for each doubling
	topBits = 36
	// buckets reach up to 1<<topBits ns, 68 s: longer than a turn waits for anybody.
	// What is longer counts for the last one.
	buckets = (topBits - subBits + 1) << subBits
)

// bucket is where d belongs: below 1<<subBits each value has its own, above the
// highest subBits+1 bits decide.
func bucket(d time.Duration) int {
	v := uint64(max(d, 0))
	shift := max(bits.Len64(v)-subBits-1, 0)
	return min(shift<<subBits+int(v>>shift), buckets-1)
}

// upper is the longest duration that belongs to bucket i.
func upper(i int) time.Duration {
	shift := max(i>>subBits-1, 0)
	return time.Duration((i-shift<<subBits+1)<<shift - 1)
}

func (h *histogram) add(d time.Duration) {
	h.counts[bucket(d)]++
	h.total++
	h.max = max(h.max, d)
}

// merge adds everything that is in other.
func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.max = max(h.max, other.max)
}

// quantile returns a duration that permille of a thousand do not exceed (nearest
// rank): the upper end of its bucket, so that it is never too low. It is 0 for
// an empty histogram.
func (h *histogram) quantile(permille uint64) time.Duration {
	rank := (h.total*permille + 999) / 1000
	var seen uint64
	for i, n := range h.counts[:buckets-1] {
		if seen += n; n > 0 && seen >= rank {
			return min(upper(i), h.max)
		}
	}
	return h.max
}

// sparse is a histogram on its way from one process to another: pairs of a
// bucket and its count.
type sparse struct {
	Counts [][2]uint64   `json:"counts"`
	Max    time.Duration `json:"max_ns"`
}

func (h *histogram) sparse() sparse {
	s := sparse{Max: h.max}
	for i, n := range h.counts {
		if n > 0 {
			s.Counts = append(s.Counts, [2]uint64{uint64(i), n})
		}
	}
	return s
}

// dense is the way back. What cannot come from a histogram is left out.
func (s sparse) dense() *histogram {
	h := &histogram{max: s.Max}
	for _, c := range s.Counts {
		if c[0] < buckets {
			h.counts[c[0]] += c[1]
			h.total += c[1]
		}
	}
	return h
}
