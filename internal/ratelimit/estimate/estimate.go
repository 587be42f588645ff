// Package estimate summarizes a stream of measurements in a few bytes.
//
// [EWMA] is a running mean in which old values fade, [Quantile] finds quantiles of the last durations, and [Window]
// counts the outcomes of the last half minute or so. Each value belongs to one owner, who serializes the calls: they
// take no lock and read no clock. They are small because the engine has one of each for every host that it knows.
package estimate

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
	"unsafe"

	"github.com/treadlight/crawl/internal/clock"
)

// EWMA is an exponentially weighted moving average. Assign its first value, and convert it to read it. The zero EWMA
// starts from 0.
type EWMA float64

// Add moves the average towards x by the share lambda, in (0, 1].
func (e *EWMA) Add(x, lambda float64) { *e = EWMA((1-lambda)*float64(*e) + lambda*x) }

const (
	// Samples is how many durations are usually kept: the p95 of 64 depends on the four longest.
	Samples = 64
	// MaxSamples is the greatest number that can be kept.
	MaxSamples = math.MaxUint8
	// fewSamples need no separate memory: most hosts of a broad crawl have few pages.
	fewSamples = 6

	// leastSample is the shortest duration above zero that is distinguished, and perOctave the number of steps from a
	// duration to its double: a step is 7.2 %.
	leastSample = 16 * time.Microsecond
	perOctave   = 10
)

// Quantile keeps the last durations in a byte each, exact to 3.6 % from 16 µs to 11.8 minutes, and finds quantiles of
// them. The zero Quantile is empty and ready for use. It is not safe for concurrent use.
type Quantile struct {
	// ring points to the first of the codes; nil while there are few. A slice would take two more words for each host.
	ring *uint8
	few  [fewSamples]uint8
	n    uint8 // samples kept
	next uint8 // index of the oldest sample, once the ring is full
}

// Add records d as the newest of the last samples durations. samples must be from 1 to MaxSamples and the same in every
// call. A d below 15 µs counts as 0; one above 11.8 minutes counts as that. Only the seventh call allocates.
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

// kept returns the codes, in no order.
func (q *Quantile) kept() []uint8 {
	if q.ring == nil {
		return q.few[:q.n]
	}
	return unsafe.Slice(q.ring, q.n) // n never exceeds what Add has allocated
}

// Len returns the number of durations kept.
func (q *Quantile) Len() int { return int(q.n) }

// At returns the p-quantile, with p in (0, 1]: At(0.95) is the p95. It returns 0 if nothing is kept. It changes
// nothing.
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

// Mean returns the average of the durations kept, or 0 if nothing is kept.
func (q *Quantile) Mean() time.Duration {
	var sum time.Duration
	for _, code := range q.kept() {
		sum += durations[code]
	}
	return sum / time.Duration(max(q.n, 1))
}

// encode returns 1 plus the number of steps from the shortest duration to d, so that codes sort as durations do. The
// code of no duration is zero.
func encode(d time.Duration) uint8 {
	steps := math.Round(perOctave * math.Log2(float64(max(d, 1))/float64(leastSample)))
	return uint8(min(max(steps+1, 0), math.MaxUint8))
}

// durations has, for each code, the geometric middle of the durations with that code.
var durations = func() (all [math.MaxUint8 + 1]time.Duration) {
	for code := 1; code < len(all); code++ {
		all[code] = time.Duration(math.Round(float64(leastSample) * math.Exp2(float64(code-1)/perOctave)))
	}
	return all
}()

// maxBuckets bounds the memory of a window to 4 KiB; nobody needs a finer one.
const maxBuckets = 1024

// Counts has the numbers of events in a [Window]. Total includes the errors.
type Counts struct{ Total, Errors int }

// ErrorRate returns the share of errors, in [0, 1], or 0 if nothing was counted.
func (c Counts) ErrorRate() float64 {
	if c.Total == 0 {
		return 0
	}
	return float64(c.Errors) / float64(c.Total)
}

// Window counts events over a sliding span, in buckets whose borders are multiples of their width since the epoch. An
// event is forgotten between span-width and span after it happened. It is not safe for concurrent use.
//
// A bucket counts up to 65,535 events; a full one keeps its share of errors.
type Window struct {
	shape  *shape // shared by this window and its copies
	newest int64  // number of the latest bucket
	// counts has one byte for each bucket, for all events. After the first error or the 256th event of a bucket it has
	// two bytes for all events and two for errors. Nil if no events are counted.
	counts []byte
}

type shape struct {
	width time.Duration
	n     int // number of buckets
}

// NewWindow returns an empty window over span, divided into 1 to 1024 buckets of the given width.
func NewWindow(span, width time.Duration) (Window, error) {
	if width <= 0 || span < width || span%width != 0 || span/width > maxBuckets {
		return Window{}, fmt.Errorf("window of %v in buckets of %v: want 1 to %d whole buckets", span, width, maxBuckets)
	}
	return Window{shape: &shape{width: width, n: int(span / width)}}, nil
}

// Add counts an event at now, or in the latest bucket if now is earlier. It allocates only for the first event after
// the window was empty and trimmed ([Window.Trim]), and then for the first error, or if a bucket exceeds 255.
func (w *Window) Add(now clock.Instant, failed bool) {
	if w.counts == nil {
		w.counts = make([]byte, w.shape.n)
	}
	w.advance(now)
	i := w.index(w.newest)
	total, errs := w.at(i)
	if total == math.MaxUint16 {
		return
	}
	if !w.wide() && (failed || total == math.MaxUint8) {
		w.convert(4 * w.shape.n)
	}
	if failed {
		errs++
	}
	w.set(i, total+1, errs)
}

// Sum returns the counts at now.
func (w *Window) Sum(now clock.Instant) (sum Counts) {
	w.advance(now)
	if w.counts == nil {
		return sum
	}
	for i := range w.shape.n {
		total, errs := w.at(i)
		sum.Total += int(total)
		sum.Errors += int(errs)
	}
	return sum
}

// Reset forgets all events.
func (w *Window) Reset() { clear(w.counts) }

// Trim frees the memory that the counts at now do not need.
func (w *Window) Trim(now clock.Instant) {
	sum := w.Sum(now)
	if sum.Total == 0 {
		w.counts = nil
		return
	}
	if !w.wide() || sum.Errors > 0 {
		return
	}
	for i := range w.shape.n {
		if total, _ := w.at(i); total > math.MaxUint8 {
			return
		}
	}
	w.convert(w.shape.n)
}

// wide reports whether counts has two bytes for each number, and errors.
func (w *Window) wide() bool { return len(w.counts) > w.shape.n }

func (w *Window) at(i int) (total, errs uint16) {
	if !w.wide() {
		return uint16(w.counts[i]), 0
	}
	return binary.LittleEndian.Uint16(w.counts[4*i:]), binary.LittleEndian.Uint16(w.counts[4*i+2:])
}

// set sets the numbers of a bucket. counts must be wide enough for them.
func (w *Window) set(i int, total, errs uint16) {
	if !w.wide() {
		w.counts[i] = byte(total)
		return
	}
	binary.LittleEndian.PutUint16(w.counts[4*i:], total)
	binary.LittleEndian.PutUint16(w.counts[4*i+2:], errs)
}

// convert changes the size of counts and keeps the numbers.
func (w *Window) convert(size int) {
	to := Window{shape: w.shape, counts: make([]byte, size)}
	for i := range w.shape.n {
		total, errs := w.at(i)
		to.set(i, total, errs)
	}
	w.counts = to.counts
}

// advance makes the bucket of now the newest, and empties those that left the span.
func (w *Window) advance(now clock.Instant) {
	b := int64(now) / int64(w.shape.width)
	if int64(now)%int64(w.shape.width) < 0 {
		b-- // round down for negative instants
	}
	if b <= w.newest {
		return
	}
	if w.counts != nil {
		for i := max(w.newest+1, b-int64(w.shape.n)+1); i <= b; i++ {
			w.set(w.index(i), 0, 0)
		}
	}
	w.newest = b
}

func (w *Window) index(bucket int64) int {
	n := int64(w.shape.n)
	return int((bucket%n + n) % n)
}
