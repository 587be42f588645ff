// Package estimate summarises a stream of measurements in a few bytes.
//
// [EWMA] is the running mean that forgets, [Quantile] the tail of the last durations, [Window] the outcomes of the
// last half minute or so. All three are values that belong to one owner, who serialises the calls: they take no lock
// and read no clock. They are small because an engine keeps one of each for every host it knows.
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

// EWMA is an exponentially weighted moving average, seeded by assignment and read by conversion. Zero averages from 0.
type EWMA float64

// Add moves the average by the share lambda, in (0, 1], towards x.
func (e *EWMA) Add(x, lambda float64) { *e = EWMA((1-lambda)*float64(*e) + lambda*x) }

const (
	// Samples is how many durations are usually kept: the p95 of 64 rests on four.
	Samples = 64
	// MaxSamples is how many can be kept.
	MaxSamples = math.MaxUint8
	// fewSamples need no memory of their own: most hosts of a broad crawl have few pages.
	fewSamples = 6

	// leastSample is the shortest duration above zero, perOctave the steps to its double: a step is 7.2 %.
	leastSample = 16 * time.Microsecond
	perOctave   = 10
)

// Quantile keeps the last durations in a byte each, within 3.6 % from 16 µs to 11.8 minutes, and finds quantiles. The
// zero Quantile is empty and ready. Not safe for concurrent use.
type Quantile struct {
	// ring is the first of the codes, nil while there are few; a slice would take two words more per host.
	ring *uint8
	few  [fewSamples]uint8
	n    uint8 // samples kept
	next uint8 // the oldest sample, once as many are kept as may be
}

// Add records d among the last samples, from 1 to MaxSamples and constant. Below 15 µs it counts as 0; it is capped at
// 11.8 minutes. It allocates on the seventh sample only.
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

// At is the p-quantile, p in (0, 1]: At(0.95) is the p95; 0 if empty. It changes nothing.
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

// encode counts the steps above the shortest duration, from one, so that codes sort as durations; none is zero.
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

// maxBuckets bounds a window's memory to 4 KiB; a finer one would not be read.
const maxBuckets = 1024

// Counts are the events in view of a [Window]. Total includes the errors.
type Counts struct{ Total, Errors int }

// ErrorRate is the share of errors, in [0, 1]; it is 0 when nothing was counted.
func (c Counts) ErrorRate() float64 {
	if c.Total == 0 {
		return 0
	}
	return float64(c.Errors) / float64(c.Total)
}

// Window counts events over a sliding span in buckets, whose borders are multiples of their width since the epoch. An
// event is forgotten between span-width and span after it happened. Not safe for concurrent use.
//
// A bucket counts up to 65,535 events; a full one keeps its share.
type Window struct {
	shape  *shape // of this window and its copies
	newest int64  // number of the latest bucket
	// counts are a byte per bucket, of all events; after the first error or 256th event two bytes each of all and of
	// errors. Nil while nothing is in view.
	counts []byte
}

type shape struct {
	width time.Duration
	n     int // buckets
}

// NewWindow returns an empty window over span, of 1 to 1024 buckets of width.
func NewWindow(span, width time.Duration) (Window, error) {
	if width <= 0 || span < width || span%width != 0 || span/width > maxBuckets {
		return Window{}, fmt.Errorf("window of %v in buckets of %v: want 1 to %d whole buckets", span, width, maxBuckets)
	}
	return Window{shape: &shape{width: width, n: int(span / width)}}, nil
}

// Add counts an event at now, or in the latest bucket if now is earlier. It allocates only for an empty trimmed
// ([Window.Trim]) window, and then for the first error or bucket of more than 255.
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

// Sum is what is in view at now.
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

// Trim gives the memory back that what is in view at now does not need.
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

// wide reports whether counts has two bytes and errors.
func (w *Window) wide() bool { return len(w.counts) > w.shape.n }

func (w *Window) at(i int) (total, errs uint16) {
	if !w.wide() {
		return uint16(w.counts[i]), 0
	}
	return binary.LittleEndian.Uint16(w.counts[4*i:]), binary.LittleEndian.Uint16(w.counts[4*i+2:])
}

// set needs counts that are wide enough.
func (w *Window) set(i int, total, errs uint16) {
	if !w.wide() {
		w.counts[i] = byte(total)
		return
	}
	binary.LittleEndian.PutUint16(w.counts[4*i:], total)
	binary.LittleEndian.PutUint16(w.counts[4*i+2:], errs)
}

// convert gives counts another size.
func (w *Window) convert(size int) {
	to := Window{shape: w.shape, counts: make([]byte, size)}
	for i := range w.shape.n {
		total, errs := w.at(i)
		to.set(i, total, errs)
	}
	w.counts = to.counts
}

// advance makes the bucket that holds now the newest and empties those out of view.
func (w *Window) advance(now clock.Instant) {
	b := int64(now) / int64(w.shape.width)
	if int64(now)%int64(w.shape.width) < 0 {
		b-- // rounded down
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
