package estimate

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

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

// Window counts events over a sliding span cut into buckets. Bucket borders lie at
// whole multiples of the bucket's width since the epoch; the view is the bucket
// that holds now and those before it, so an event is forgotten between span-width
// and span after it happened, at a border. It is not safe for concurrent use.
//
// A bucket counts up to 65,535 events: a full one stops counting and its share stays true.
type Window struct {
	shape  *shape // of this window and its copies
	newest int64  // number of the latest bucket
	// counts are, of each bucket, all events in a byte. After the first error, or the 256th event
	// of a bucket, they are all events and the errors in two bytes each. Nil while nothing is in view.
	counts []byte
}

// shape is what does not change.
type shape struct {
	width time.Duration
	n     int // buckets
}

// NewWindow returns an empty window over span, in buckets of width. The span must
// be a whole number of widths, from 1 to 1024.
func NewWindow(span, width time.Duration) (Window, error) {
	if width <= 0 || span < width || span%width != 0 || span/width > maxBuckets {
		return Window{}, fmt.Errorf("window of %v in buckets of %v: want 1 to %d whole buckets", span, width, maxBuckets)
	}
	return Window{shape: &shape{width: width, n: int(span / width)}}, nil
}

// Add counts an event at now, which was an error or not. A now before that of an earlier call
// counts in the latest bucket. It allocates only when nothing was in view and [Window.Trim] was
// called, and for the first error or bucket of more than 255 events after that.
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

// at is what a bucket counts.
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

// advance makes the bucket that holds now the newest and empties those that the
// view has left behind: at most all of them, however long the idle time was.
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

// index is the place of a bucket.
func (w *Window) index(bucket int64) int {
	n := int64(w.shape.n)
	return int((bucket%n + n) % n)
}
