package frontier

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// priorityQueue has one level per rank, in ascending order of rank. Within a level URLs are in the order in which they
// were found.
type priorityQueue struct {
	levels []level // in ascending order of rank; no level is empty
	n      int
}

type level struct {
	rank int32
	fifo
}

func (q *priorityQueue) len() int { return q.n }

// push adds an item that was found after all others of its rank.
func (q *priorityQueue) push(it Item) {
	i := len(q.levels)
	for i > 0 && q.levels[i-1].rank >= it.Rank {
		i-- // the search begins with the last level, the likeliest one; there are few
	}
	if i == len(q.levels) || q.levels[i].rank != it.Rank {
		q.levels = slices.Insert(q.levels, i, level{rank: it.Rank})
	}
	q.levels[i].push(it)
	q.n++
}

func (q *priorityQueue) front() *Item { return q.levels[0].front() }

func (q *priorityQueue) back() *Item { return q.levels[len(q.levels)-1].back() }

func (q *priorityQueue) pop() Item { return q.take(0, (*fifo).pop) }

func (q *priorityQueue) popBack() Item { return q.take(len(q.levels)-1, (*fifo).popBack) }

func (q *priorityQueue) take(i int, pop func(*fifo) Item) Item {
	it := pop(&q.levels[i].fifo)
	q.n--
	if q.levels[i].len() == 0 {
		q.levels = slices.Delete(q.levels, i, i+1)
	}
	return it
}

// fifo is a queue over a slice, with push and pop in amortized O(1). The middle of a long queue is packed in blocks.
type fifo struct {
	items []Item
	head  int
	more  *packed // what follows items; nil if nothing does. If it is not nil, items has at least one item
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
		// An empty queue frees its memory: most hosts are never busy again.
		q.items, q.head = nil, 0
	case q.head > blockLen && 2*q.head > len(q.items):
		q.items = append(make([]Item, 0, len(q.items)-q.head+blockLen), q.items[q.head:]...) // no room for packed ones
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

// unpackedMost is how many items stay unpacked at each end: two blocks, so that pushing and popping one item in turn
// does not pack and unpack a block each time.
const unpackedMost = 2 * blockLen

// packed holds all of a long queue behind its front. It is never empty.
type packed struct {
	blocks []block // in queue order, before back
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

// first removes the items that go first and returns them, appended to items, which must be empty.
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

func (p *packed) last() *Item {
	if len(p.back) == 0 {
		i := len(p.blocks) - 1
		p.back = p.blocks[i].unpack(p.back)
		p.blocks[i] = block{}
		p.blocks = p.blocks[:i]
	}
	return &p.back[len(p.back)-1]
}

func (p *packed) pop() Item {
	p.last()
	return popLast(&p.back)
}

// blockLen is the number of items of a block: large enough for coding by differences to pay, small enough to unpack in
// microseconds.
const blockLen = 64

// block is blockLen items without pointers, which saves work for the garbage collector. Each item is coded by its
// difference from the one before (front coding, as in Witten, Moffat and Bell, Managing Gigabytes, 1999).
type block struct {
	data  []byte
	since time.Time // Queued of the first item; that of each other is coded as the distance from the one before
	odd   []Item    // the items that cannot be coded (see pack), in queue order; nil means none
}

const (
	// The first byte of a coded item is a set of flags that says which fields follow. Fields that do not follow are as
	// in the item before.
	flagOdd      = 1 << iota // no field follows: the item is the next of odd
	flagSeed                 // the item is a seed
	flagReferrer             // Referrer, FoundOn, Depth and Rank
	flagQueued               // Queued
	flagRequest              // Request
)

func pack(items []Item) block {
	b := block{since: items[0].Queued}
	data := make([]byte, 0, 1<<12)
	var was Item
	at := b.since // was.Queued as unpack will compute it
	for i := range items {
		it := &items[i]
		later := it.Queued.Sub(at)                               // saturates at 292 years
		tried := it.Hops|uint8(it.Kind) != 0 || !it.Tries.None() // true of few items
		if tried || it.URL.IsZero() || it.Origin != "" || it.Before != nil || !at.Add(later).Equal(it.Queued) {
			data = append(data, flagOdd)
			b.odd = append(b.odd, *it)
			continue
		}
		data = appendItem(data, it, &was, int64(later))
		was, at = *it, at.Add(later)
	}
	b.data = append(make([]byte, 0, len(data)), data...) // of exactly that capacity
	return b
}

// appendItem appends the coding of an item that comes after was and was queued that many nanoseconds later.
func appendItem(b []byte, it, was *Item, queued int64) []byte {
	flags := len(b)
	b = append(b, 0)
	if it.Seed {
		b[flags] |= flagSeed
	}
	b = binary.AppendVarint(b, it.ID-was.ID)
	b = appendText(b, it.URL.String(), was.URL.String())
	if it.FoundOn != was.FoundOn || it.Depth != was.Depth || it.Rank != was.Rank || it.Referrer != was.Referrer {
		b[flags] |= flagReferrer
		b = binary.AppendVarint(b, it.FoundOn-was.FoundOn)
		b = binary.AppendVarint(b, int64(it.Depth)-int64(was.Depth))
		b = binary.AppendVarint(b, int64(it.Rank)-int64(was.Rank))
		b = appendText(b, it.Referrer, was.Referrer)
	}
	if queued != 0 {
		b[flags] |= flagQueued
		b = binary.AppendVarint(b, queued)
	}
	if it.Request != was.Request {
		b[flags] |= flagRequest
		b = appendText(b, it.Request, was.Request)
	}
	return b
}

// appendText appends the coding of s: how many bytes it shares with the beginning of was, and the rest.
func appendText(b []byte, s, was string) []byte {
	n := 0
	for n < len(s) && n < len(was) && s[n] == was[n] {
		n++
	}
	b = binary.AppendUvarint(b, uint64(n))
	b = binary.AppendUvarint(b, uint64(len(s)-n))
	return append(b, s[n:]...)
}

// unpack appends the items of the block. The strings of each item are its own, so that an item which is kept for long
// keeps no other's memory.
func (b *block) unpack(items []Item) []Item {
	r := unpacker{data: b.data}
	odd := b.odd
	var it Item
	at := b.since
	for len(r.data) > 0 {
		flags := r.byte()
		if flags&flagOdd != 0 {
			items = append(items, odd[0])
			odd = odd[1:]
			continue
		}
		it.ID += r.varint()
		it.URL = canonical.Restore(r.text(it.URL.String()))
		if flags&flagReferrer != 0 {
			it.FoundOn += r.varint()
			it.Depth += int32(r.varint())
			it.Rank += int32(r.varint())
			it.Referrer = r.text(it.Referrer)
		}
		if flags&flagQueued != 0 {
			at = at.Add(time.Duration(r.varint()))
		}
		if flags&flagRequest != 0 {
			it.Request = r.text(it.Request)
		}
		it.Queued, it.Seed = at, flags&flagSeed != 0
		items = append(items, it)
	}
	return items
}

// unpacker reads what pack wrote. It does not check its input.
type unpacker struct {
	data []byte
	buf  []byte
}

func (r *unpacker) byte() byte {
	c := r.data[0]
	r.data = r.data[1:]
	return c
}

func (r *unpacker) varint() int64 {
	v, n := binary.Varint(r.data)
	r.data = r.data[n:]
	return v
}

func (r *unpacker) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	r.data = r.data[n:]
	return v
}

func (r *unpacker) text(was string) string {
	n := r.uvarint()
	rest := r.uvarint()
	if rest == 0 && n == uint64(len(was)) {
		return was
	}
	r.buf = append(append(r.buf[:0], was[:n]...), r.data[:rest]...)
	r.data = r.data[rest:]
	return string(r.buf)
}
