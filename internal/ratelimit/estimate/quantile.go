package estimate

import (
	"math"
	"math/bits"
	"slices"
	"time"
)

const (
	// samples is how many durations are kept: the p95 of 64 rests on its four
	// largest, so that one slow page does not make it.
	samples = 64
	// firstSamples is the ring a host starts with. Most hosts of a broad crawl are
	// asked for a few pages only and never pay for the whole ring.
	firstSamples = 16

	// mantissa is how many leading bits of a duration are kept below its highest:
	// 10 bits and the middle of the rest are within 0.05 %.
	mantissa = 10
)

// Quantile keeps the last 64 durations in two bytes each, within 0.05 % of their
// values, and finds a quantile of them when asked. The zero Quantile is empty and
// ready. It is not safe for concurrent use.
type Quantile struct {
	ring []uint16
	next uint8 // the oldest sample, once the ring is full
}

// Add records d; a negative d counts as 0. It allocates on the first, the 17th and the
// 33rd sample and never again.
func (q *Quantile) Add(d time.Duration) {
	if len(q.ring) < samples {
		q.grow()
		q.ring = append(q.ring, encode(d))
		return
	}
	q.ring[q.next] = encode(d)
	q.next = (q.next + 1) % samples
}

// grow makes room for one more sample. The sizes are exact: append alone would begin
// smaller, and double from there.
func (q *Quantile) grow() {
	if len(q.ring) == cap(q.ring) {
		q.ring = append(make([]uint16, 0, max(firstSamples, 2*len(q.ring))), q.ring...)
	}
}

// Len is the number of durations kept, at most 64.
func (q *Quantile) Len() int { return len(q.ring) }

// At is the smallest kept duration that is no less than the share p, in (0, 1], of
// all kept: At(0.95) is the p95. It is 0 when nothing is kept. It changes nothing
// and sorts a copy, so that only who asks pays.
func (q *Quantile) At(p float64) time.Duration {
	n := len(q.ring)
	if n == 0 {
		return 0
	}
	var sorted [samples]uint16
	copy(sorted[:], q.ring)
	slices.Sort(sorted[:n])
	rank := int(math.Ceil(p * float64(n)))
	return decode(sorted[min(max(rank, 1), n)-1])
}

// Mean is the average of the kept durations, 0 when nothing is kept.
func (q *Quantile) Mean() time.Duration {
	if len(q.ring) == 0 {
		return 0
	}
	var sum float64 // 64 of the longest durations do not fit an int64
	for _, code := range q.ring {
		sum += float64(decode(code))
	}
	return time.Duration(sum / float64(len(q.ring)))
}

// encode keeps the highest bits of d and their position, as a floating-point number
// does; the code grows with d, so codes sort as durations do. The largest Duration
// has the code 53*1024+1023, which fits.
func encode(d time.Duration) uint16 {
	if d < 0 {
		return 0
	}
	shift := max(bits.Len64(uint64(d))-mantissa-1, 0)
	return uint16(shift<<mantissa + int(d>>shift))
}

// decode is the middle of the durations that share the code.
func decode(code uint16) time.Duration {
	if code < 2<<mantissa {
		return time.Duration(code)
	}
	shift := int(code>>mantissa) - 1
	lead := int64(code) - int64(shift)<<mantissa
	return time.Duration(lead<<shift + 1<<shift/2)
}
