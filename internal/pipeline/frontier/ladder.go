package frontier

import "slices"

// ladder is the queue of a host: a rung for each rank, in the order of ranks, and on it the
// URLs in the order in which they were found. Most hosts have one rung.
type ladder struct {
	rungs []rung // none of them is empty
	n     int
}

type rung struct {
	rank int32
	fifo
}

func (q *ladder) len() int { return q.n }

// push takes in an item that was found after all others of its rank.
func (q *ladder) push(it Item) {
	i := len(q.rungs)
	for i > 0 && q.rungs[i-1].rank >= it.Rank {
		i-- // the last is the likeliest, and there are few
	}
	if i == len(q.rungs) || q.rungs[i].rank != it.Rank {
		q.rungs = slices.Insert(q.rungs, i, rung{rank: it.Rank})
	}
	q.rungs[i].push(it)
	q.n++
}

// front is the item that goes first. There must be one.
func (q *ladder) front() *Item { return q.rungs[0].front() }

// back is the item that goes last. There must be one.
func (q *ladder) back() *Item { return q.rungs[len(q.rungs)-1].back() }

// pop removes front.
func (q *ladder) pop() Item { return q.take(0, (*fifo).pop) }

// popBack removes back.
func (q *ladder) popBack() Item { return q.take(len(q.rungs)-1, (*fifo).popBack) }

func (q *ladder) take(i int, pop func(*fifo) Item) Item {
	it := pop(&q.rungs[i].fifo)
	q.n--
	if q.rungs[i].len() == 0 {
		q.rungs = slices.Delete(q.rungs, i, i+1)
	}
	return it
}

// fifo is a queue over a slice: popped places in front are reclaimed when they make
// up half of it, so that pushing and popping cost O(1) on average.
type fifo struct {
	items []Item
	head  int
}

func (q *fifo) len() int     { return len(q.items) - q.head }
func (q *fifo) front() *Item { return &q.items[q.head] }
func (q *fifo) back() *Item  { return &q.items[len(q.items)-1] }
func (q *fifo) push(it Item) { q.items = append(q.items, it) }

func (q *fifo) popBack() Item {
	last := len(q.items) - 1
	it := q.items[last]
	q.items[last] = Item{}
	q.items = q.items[:last]
	return it
}

func (q *fifo) pop() Item {
	it := q.items[q.head]
	q.items[q.head] = Item{}
	q.head++
	switch {
	case q.head == len(q.items):
		// A drained queue gives its memory back: most hosts are never busy again.
		q.items, q.head = nil, 0
	case q.head > 64 && 2*q.head > len(q.items):
		q.items = append(make([]Item, 0, q.len()+64), q.items[q.head:]...)
		q.head = 0
	}
	return it
}
