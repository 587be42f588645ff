package simulate

import "github.com/treadlight/crawl/internal/clock"

type event struct {
	at   clock.Instant
	seq  uint64 // order of two events of one instant: first made, first served
	slot int32  // of the request
	what stage
}

type stage uint8

const (
	arrival stage = iota // the request reaches the server
	answer               // the answer, or the timeout, reaches the client
)

func (e event) before(f event) bool {
	return e.at < f.at || e.at == f.at && e.seq < f.seq
}

// events is a binary heap of values; container/heap would allocate for each.
type events struct {
	heap []event
	seq  uint64
}

func (q *events) next() clock.Instant {
	if len(q.heap) == 0 {
		return forever
	}
	return q.heap[0].at
}

func (q *events) push(at clock.Instant, what stage, slot int32) {
	q.seq++
	e := event{at: at, seq: q.seq, slot: slot, what: what}
	h := append(q.heap, e)
	i := len(h) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !e.before(h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = e
	q.heap = h
}

func (q *events) pop() event {
	h := q.heap
	top, last := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	q.heap = h
	i := 0
	for {
		child := 2*i + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(last) {
			break
		}
		h[i] = h[child]
		i = child
	}
	if len(h) > 0 {
		h[i] = last
	}
	return top
}

// ring is a FIFO that allocates only to grow.
type ring[T any] struct {
	items   []T // a power of two of them
	head, n int
}

func (r *ring[T]) push(v T) {
	if r.n == len(r.items) {
		grown := make([]T, max(8, 2*r.n))
		for i := range r.n {
			grown[i] = r.items[(r.head+i)&(r.n-1)]
		}
		r.items, r.head = grown, 0
	}
	r.items[(r.head+r.n)&(len(r.items)-1)] = v
	r.n++
}

func (r *ring[T]) first() T { return r.items[r.head] }

func (r *ring[T]) pop() T {
	v := r.items[r.head]
	r.head = (r.head + 1) & (len(r.items) - 1)
	r.n--
	return v
}
