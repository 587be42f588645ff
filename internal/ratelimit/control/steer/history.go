package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// history counts the requests that a host admitted over the last 25 minutes, by the time when they were sent. How many
// were admitted in a window of any length can be read from it.
//
// It keeps four rings of equal length, whose slots are 1, 4, 16 and 64 seconds wide. So a window is measured to a few
// hundredths of its length in 96 bytes, where one ring of seconds would take 1,536. When a slot's byte overflows, which
// takes more than four requests a second, the host gets a second byte for each slot. After a pause of ten minutes the
// rings still hold the ten minutes before, without which a quota of ten minutes could not be found. A slot that a span
// covers in part counts in proportion, except the last.
type history struct {
	newest int32  // latest second that was counted, since the clock's zero
	slots  rings  // low bytes of the counts
	high   *rings // high bytes of the counts; nil while all are zero
}

// rings are the slots of the four rings; second n is in slot n/width modulo slotsPerRing of each.
type rings [4][slotsPerRing]uint8

const (
	slotsPerRing = 24
	coarser      = 2 // the slots of a ring are 1<<coarser times as wide as those of the ring before
)

// width returns the width of a ring's slots in seconds.
func width(ring int) int64 { return 1 << (coarser * ring) }

// add counts an admitted request that was sent at the instant.
func (h *history) add(at clock.Instant) {
	sec := secondOf(at)
	h.advance(sec)
	for r := range h.slots {
		n := sec / width(r)
		if int64(h.newest)/width(r)-n >= slotsPerRing {
			continue // the response came so late that its second has left this ring
		}
		h.count(r, n%slotsPerRing)
	}
}

// count adds one to a slot, unless both its bytes are full.
func (h *history) count(ring int, n int64) {
	if slot := &h.slots[ring][n]; *slot < math.MaxUint8 {
		*slot++
		return
	}
	if h.high == nil {
		h.high = new(rings)
	}
	if high := &h.high[ring][n]; *high < math.MaxUint8 {
		*high++
		h.slots[ring][n] = 0
	}
}

// counted returns the count in a slot.
func (h *history) counted(ring int, n int64) float64 {
	if h.high == nil {
		return float64(h.slots[ring][n])
	}
	return float64(int(h.high[ring][n])<<8 + int(h.slots[ring][n]))
}

// advance empties the slots between the latest second and sec, which becomes the latest.
func (h *history) advance(sec int64) {
	if sec <= int64(h.newest) {
		return
	}
	for r := range h.slots {
		from, to := int64(h.newest)/width(r), sec/width(r)
		for n := max(from+1, to-slotsPerRing+1); n <= to; n++ {
			h.slots[r][n%slotsPerRing] = 0
			if h.high != nil {
				h.high[r][n%slotsPerRing] = 0
			}
		}
	}
	h.newest = int32(min(sec, math.MaxInt32))
}

// between returns how many admitted requests were sent from the first instant up to the second. Requests from before
// the rings' reach are not counted.
func (h *history) between(from, to clock.Instant) float64 {
	if from = max(from, 0); to <= from {
		return 0
	}
	ring := 0
	for ring < len(h.slots)-1 && int64(from)/int64(time.Second)/width(ring) <= int64(h.newest)/width(ring)-slotsPerRing {
		ring++
	}
	w := clock.Instant(width(ring) * int64(time.Second))
	oldest := clock.Instant(max(int64(h.newest)/width(ring)-slotsPerRing+1, 0)) * w
	sum := 0.0
	for at := max(from/w*w, oldest); at < to && int64(at/w) <= int64(h.newest)/width(ring); at += w {
		// The last slot counts whole: spans end where sending stopped for a while.
		part := at + w - max(from, at)
		sum += h.counted(ring, int64(at/w)%slotsPerRing) * min(1, float64(part)/float64(w))
	}
	return sum
}
