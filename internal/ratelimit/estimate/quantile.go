package estimate

import (
	"math"
	"slices"
	"time"
)

const (
	// samples is how many durations are kept: the p95 of 64 rests on its four
	// largest, so that one slow page does not make it.
	samples = 64
	// fewSamples need no memory of their own. Most hosts of a broad crawl are asked for a
	// few pages only and never pay for the ring.
	fewSamples = 6

	// leastSample is the shortest duration that is told from none, perOctave how many steps
	// there are from one to its double: a step is 7.2 %, so a code is within 3.5 %, and the
	// longest is almost 12 minutes. Of 64 answers no quantile is known as well as that.
	leastSample = 16 * time.Microsecond
	perOctave   = 10
)

// Quantile keeps the last 64 durations in a byte each, within 3.6 % of their values from
// 16 microseconds to 11.8 minutes, and finds a quantile of them when asked. The zero Quantile
// is empty and ready. It is not safe for concurrent use.
type Quantile struct {
	ring *[samples]uint8 // nil while there are few
	few  [fewSamples]uint8
	n    uint8 // samples kept
	next uint8 // the oldest sample, once the ring is full
}

// Add records d; what is shorter than 15 microseconds counts as 0, and what is longer than
// 11.8 minutes as that. It allocates on the seventh sample and never again.
func (q *Quantile) Add(d time.Duration) {
	switch {
	case q.n < fewSamples:
		q.few[q.n] = encode(d)
		q.n++
		return
	case q.ring == nil:
		q.ring = new([samples]uint8)
		copy(q.ring[:], q.few[:])
	}
	if q.n < samples {
		q.ring[q.n] = encode(d)
		q.n++
		return
	}
	q.ring[q.next] = encode(d)
	q.next = (q.next + 1) % samples
}

// kept are the codes, in no order.
func (q *Quantile) kept() []uint8 {
	if q.ring == nil {
		return q.few[:q.n]
	}
	return q.ring[:q.n]
}

// Len is the number of durations kept, at most 64.
func (q *Quantile) Len() int { return int(q.n) }

// At is the smallest kept duration that is no less than the share p, in (0, 1], of
// all kept: At(0.95) is the p95. It is 0 when nothing is kept. It changes nothing
// and sorts a copy, so that only who asks pays.
func (q *Quantile) At(p float64) time.Duration {
	n := q.Len()
	if n == 0 {
		return 0
	}
	var room [samples]uint8
	sorted := room[:copy(room[:], q.kept())]
	slices.Sort(sorted)
	rank := int(math.Ceil(p * float64(n)))
	return decode(sorted[min(max(rank, 1), n)-1])
}

// Mean is the average of the kept durations, 0 when nothing is kept.
func (q *Quantile) Mean() time.Duration {
	if q.n == 0 {
		return 0
	}
	var sum time.Duration
	for _, code := range q.kept() {
		sum += decode(code)
	}
	return sum / time.Duration(q.n)
}

// encode counts the steps above the shortest duration; the code grows with d, so codes sort
// as durations do. None is zero, and the shortest is one.
func encode(d time.Duration) uint8 {
	steps := math.Round(perOctave * math.Log2(float64(max(d, 1))/float64(leastSample)))
	return uint8(min(max(steps+1, 0), math.MaxUint8))
}

// decode is the middle, by ratio, of the durations that share the code.
func decode(code uint8) time.Duration { return durations[code] }

// durations are those of the codes: a mean of 64 would take longer to work out.
var durations = func() (all [math.MaxUint8 + 1]time.Duration) {
	for code := 1; code < len(all); code++ {
		all[code] = time.Duration(math.Round(float64(leastSample) * math.Exp2(float64(code-1)/perOctave)))
	}
	return all
}()
