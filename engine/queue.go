package engine

import "github.com/goredlock/redlock/conn"

// entry is one reply that a master owes: to which round, and in which form the
// command went out.
type entry struct {
	round *Round
	form  conn.Form
}

// queue is a first-in-first-out ring that grows by doubling. The engine bounds
// what it puts in.
type queue[T any] struct {
	ring  []T // a power of two long
	first int
	len   int
}

const minRing = 16

func (q *queue[T]) push(v T) {
	if q.len == len(q.ring) {
		grown := make([]T, max(minRing, 2*len(q.ring)))
		for i := range q.len {
			grown[i] = q.at(i)
		}
		q.ring, q.first = grown, 0
	}
	q.ring[(q.first+q.len)&(len(q.ring)-1)] = v
	q.len++
}

// at returns the i-th of the queue, which must be there.
func (q *queue[T]) at(i int) T { return q.ring[(q.first+i)&(len(q.ring)-1)] }

func (q *queue[T]) pop() T {
	var zero T
	v := q.ring[q.first]
	q.ring[q.first] = zero
	q.first = (q.first + 1) & (len(q.ring) - 1)
	q.len--
	return v
}

// trim lets go of a ring that a burst has left behind.
func (q *queue[T]) trim() {
	if q.len == 0 && len(q.ring) > 64*minRing {
		*q = queue[T]{}
	}
}
