// Package estimate summarises a stream of measurements in a few bytes.
//
// [EWMA] is the running mean that forgets, [Quantile] the tail of the last durations, [Window]
// the outcomes of the last half minute or so. All three are values that belong to one owner,
// who serialises the calls: they take no lock and read no clock. They are small because an
// engine keeps one of each for every host it knows.
package estimate

import (
	"math"
	"slices"
	"time"
	"unsafe"
)

// EWMA is an exponentially weighted moving average. Its value is the average, so
// it is seeded by assignment and read by conversion. The zero EWMA averages from 0.
type EWMA float64

// Add moves the average by the share lambda, in (0, 1], towards x.
func (e *EWMA) Add(x, lambda float64) { *e = EWMA((1-lambda)*float64(*e) + lambda*x) }

const (
	// Samples is how many durations are usually kept: the p95 of 64 rests on its four
	// largest, so that one slow page does not make it.
	Samples = 64
	// MaxSamples is how many can be kept.
	MaxSamples = math.MaxUint8
	// fewSamples need no memory of their own: most hosts of a broad crawl are asked for a
	// few pages only.
	fewSamples = 6

	// leastSample is the shortest duration that is told from none, perOctave how many steps
	// there are from one to its double: a step is 7.2 %, so a code is within 3.5 %.
	leastSample = 16 * time.Microsecond
	perOctave   = 10
)

// Quantile keeps the last durations in a byte each, within 3.6 % of their values from
// 16 microseconds to 11.8 minutes, and finds a quantile of them when asked. The zero Quantile
// is empty and ready. It is not safe for concurrent use.
type Quantile struct {
	// ring is the first of as many codes as are kept; nil while there are few. A slice would
	// take each host of a crawl two words more, for a length that is the same for all.
	ring *uint8
	few  [fewSamples]uint8
	n    uint8 // samples kept
	next uint8 // the oldest sample, once as many are kept as may be
}

// Add records d among the last samples, from 1 to MaxSamples and the same in all calls. What
// is shorter than 15 microseconds counts as 0, and what is longer than 11.8 minutes as that.
// It allocates on the seventh sample and never again.
func (q *Quantile) Add(d time.Duration, samples int) {
	if q.ring == nil && int(q.n) < samples && q.n == fewSamples {
		ring := make([]uint8, samples)
		copy(ring, q.few[:])
		q.ring = &ring[0]
	}
	if int(q.n) < samples {
		q.n++
		q.kept()[q.n-1] = encode(d)
		return
	}
	q.kept()[q.next] = encode(d)
	q.next = uint8((int(q.next) + 1) % samples)
}

// kept are the codes, in no order.
func (q *Quantile) kept() []uint8 {
	if q.ring == nil {
		return q.few[:q.n]
	}
	return unsafe.Slice(q.ring, q.n) // n never exceeds what Add has made room for
}

// Len is the number of durations kept.
func (q *Quantile) Len() int { return int(q.n) }

// At is the smallest kept duration that is no less than the share p, in (0, 1], of
// all kept: At(0.95) is the p95. It is 0 when nothing is kept. It changes nothing.
func (q *Quantile) At(p float64) time.Duration {
	n := q.Len()
	if n == 0 {
		return 0
	}
	var room [MaxSamples]uint8
	sorted := room[:copy(room[:], q.kept())]
	slices.Sort(sorted)
	rank := int(math.Ceil(p * float64(n)))
	return durations[sorted[min(max(rank, 1), n)-1]]
}

// Mean is the average of the kept durations, 0 when nothing is kept.
func (q *Quantile) Mean() time.Duration {
	var sum time.Duration
	for _, code := range q.kept() {
		sum += durations[code]
	}
	return sum / time.Duration(max(q.n, 1))
}

// encode counts the steps above the shortest duration; the code grows with d, so codes sort
// as durations do. None is zero, and the shortest is one.
func encode(d time.Duration) uint8 {
	steps := math.Round(perOctave * math.Log2(float64(max(d, 1))/float64(leastSample)))
	return uint8(min(max(steps+1, 0), math.MaxUint8))
}

// durations are, of each code, the middle by ratio of those that share it.
var durations = func() (all [math.MaxUint8 + 1]time.Duration) {
	for code := 1; code < len(all); code++ {
		all[code] = time.Duration(math.Round(float64(leastSample) * math.Exp2(float64(code-1)/perOctave)))
	}
	return all
}()
