package frontier

import "slices"

// priorityQueue is the queue of a host: a level for each rank, in the order of ranks, and on it the
// URLs in the order in which they were found. Most hosts have one level.
type priorityQueue struct {
	levels []level // none of them is empty
	n      int
}

type level struct {
	rank int32
	fifo
}

func (q *priorityQueue) len() int { return q.n }

// push takes in an item that was found after all others of its rank.
func (q *priorityQueue) push(it Item) {
	i := len(q.levels)
	for i > 0 && q.levels[i-1].rank >= it.Rank {
		i-- // the last is the likeliest, and there are few
	}
	if i == len(q.levels) || q.levels[i].rank != it.Rank {
		q.levels = slices.Insert(q.levels, i, level{rank: it.Rank})
	}
	q.levels[i].push(it)
	q.n++
}

// front is the item that goes first. There must be one.
func (q *priorityQueue) front() *Item { return q.levels[0].front() }

// back is the item that goes last. There must be one.
func (q *priorityQueue) back() *Item { return q.levels[len(q.levels)-1].back() }

// pop removes front.
func (q *priorityQueue) pop() Item { return q.take(0, (*fifo).pop) }

// popBack removes back.
func (q *priorityQueue) popBack() Item { return q.take(len(q.levels)-1, (*fifo).popBack) }

func (q *priorityQueue) take(i int, pop func(*fifo) Item) Item {
	it := pop(&q.levels[i].fifo)
	q.n--
	if q.levels[i].len() == 0 {
		q.levels = slices.Delete(q.levels, i, i+1)
	}
	return it
}

// fifo is a queue over a slice: popped places in front are reclaimed when they make
// up half of it, so that pushing and popping cost O(1) on average. What there is no room for
// in the slice lies behind it, packed.
type fifo struct {
	items []Item
	head  int
	more  *packed // nil for none: that of a queue that is not empty is behind some items
}

func (q *fifo) len() int {
	if q.more == nil {
		return len(q.items) - q.head
	}
	return len(q.items) - q.head + q.more.len()
}

func (q *fifo) front() *Item { return &q.items[q.head] }

func (q *fifo) back() *Item {
	if q.more != nil {
		return q.more.last()
	}
	return &q.items[len(q.items)-1]
}

func (q *fifo) push(it Item) {
	switch {
	case q.more != nil:
		q.more.push(it)
	case len(q.items)-q.head < unpackedMost:
		q.items = append(q.items, it)
	default:
		q.more = new(packed)
		q.more.push(it)
	}
}

func (q *fifo) popBack() Item {
	if q.more != nil {
		it := q.more.pop()
		if q.more.len() == 0 {
			q.more = nil
		}
		return it
	}
	return popLast(&q.items)
}

func (q *fifo) pop() Item {
	it := q.items[q.head]
	q.items[q.head] = Item{}
	q.head++
	switch {
	case q.head == len(q.items) && q.more != nil:
		q.items, q.head = q.more.first(q.items[:0]), 0
		if q.more.len() == 0 {
			q.more = nil
		}
	case q.head == len(q.items):
		// A drained queue gives its memory back: most hosts are never busy again.
		q.items, q.head = nil, 0
	case q.head > blockLen && 2*q.head > len(q.items):
		q.items = append(make([]Item, 0, len(q.items)-q.head+blockLen), q.items[q.head:]...) // and not for those that are packed
		q.head = 0
	}
	return it
}

func popLast(items *[]Item) Item {
	last := len(*items) - 1
	it := (*items)[last]
	(*items)[last] = Item{}
	*items = (*items)[:last]
	return it
}

// unpackedMost is how many items are at the front of a queue, and as many at its back, before
// others are packed: twice as many as go at a time, or one that comes and goes would have a
// block packed and unpacked each time.
const unpackedMost = 2 * blockLen

// packed is the most of a long queue, behind its front. It is never empty.
type packed struct {
	blocks []block // in their order, and before back
	back   []Item
}

func (p *packed) len() int { return blockLen*len(p.blocks) + len(p.back) }

func (p *packed) push(it Item) {
	p.back = append(p.back, it)
	if len(p.back) < unpackedMost {
		return
	}
	p.blocks = append(p.blocks, pack(p.back[:blockLen]))
	n := copy(p.back, p.back[blockLen:])
	clear(p.back[n:])
	p.back = p.back[:n]
}

// first appends those that go first to items, which are none, and takes them out.
func (p *packed) first(items []Item) []Item {
	if len(p.blocks) == 0 {
		items, p.back = p.back, nil
		return items
	}
	items = p.blocks[0].unpack(items)
	p.blocks[0] = block{}
	p.blocks = p.blocks[1:]
	return items
}

// last is the item that goes last.
func (p *packed) last() *Item {
	if len(p.back) == 0 {
		i := len(p.blocks) - 1
		p.back = p.blocks[i].unpack(p.back)
		p.blocks[i] = block{}
		p.blocks = p.blocks[:i]
	}
	return &p.back[len(p.back)-1]
}

// pop removes last.
func (p *packed) pop() Item {
	p.last()
	return popLast(&p.back)
}
