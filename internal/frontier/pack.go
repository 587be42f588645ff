package frontier

import (
	"encoding/binary"
	"time"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// blockLen is how many items a block has: enough that most of them are coded by what they
// differ in from another, and so few that to unpack them all for one is over in microseconds.
const blockLen = 64

// block is blockLen items of a long queue without pointers in them, for the garbage collector
// to follow: those of a million URLs are most of what it has to do otherwise. Each item is coded
// by its difference from the one before it; neighbours are mostly links of one page (front
// coding, as in Witten, Moffat and Bell, Managing Gigabytes, 1999).
type block struct {
	data  []byte
	since time.Time // Queued of the first; of each other it is coded by its distance from the one before
	odd   []Item    // those that are no such links, in their order; nil for none
}

// The first byte of a coded item says what follows. What does not is as in the item before.
const (
	flagOdd      = 1 << iota // nothing: it is the next of odd
	flagSeed                 // it is one
	flagReferrer             // Referrer, FoundOn, Depth and Rank
	flagQueued               // Queued
	flagTried                // what is known of an item that was leased before, and its Kind
)

// pack codes blockLen items.
func pack(items []Item) block {
	b := block{since: items[0].Queued}
	data := make([]byte, 0, 1<<12)
	var was Item
	at := b.since // was.Queued as unpack has it
	for i := range items {
		it := &items[i]
		later := it.Queued.Sub(at) // which ends at 292 years
		if it.URL.IsZero() || it.Origin != "" || it.Before != nil || !at.Add(later).Equal(it.Queued) {
			data = append(data, flagOdd)
			b.odd = append(b.odd, *it)
			continue
		}
		data = appendItem(data, it, &was, int64(later))
		was, at = *it, at.Add(later)
	}
	b.data = append(make([]byte, 0, len(data)), data...) // and not one byte more
	return b
}

// appendItem codes an item that comes after was, queued so many nanoseconds later.
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
	if t := &it.Tries; it.Hops|uint8(it.Kind) != 0 || !t.None() {
		b[flags] |= flagTried
		b = t.Append(append(b, it.Hops, byte(it.Kind)))
	}
	return b
}

// appendText codes a string by how much of its beginning another has too, and the rest.
func appendText(b []byte, s, was string) []byte {
	n := 0
	for n < len(s) && n < len(was) && s[n] == was[n] {
		n++
	}
	b = binary.AppendUvarint(b, uint64(n))
	b = binary.AppendUvarint(b, uint64(len(s)-n))
	return append(b, s[n:]...)
}

// unpack appends the items of a block. Of each the strings are its own: one that is kept
// for long keeps no other.
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
		it.Queued, it.Seed = at, flags&flagSeed != 0
		one := it
		if flags&flagTried != 0 {
			one.Hops, one.Kind = r.byte(), Kind(r.byte())
			one.Tries = attribution.DecodeTries(r.data)
			r.data = r.data[attribution.TriesLen:]
		}
		items = append(items, one)
	}
	return items
}

// unpacker reads what pack wrote, and nothing else.
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
