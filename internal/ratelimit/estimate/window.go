package estimate

import (
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
// A bucket counts up to 65,535 events: they say as much about the share of errors as
// any more would, so a full one stops counting and its share stays true.
type Window struct {
	shape  *shape // of this window and its copies
	newest int64  // number of the latest bucket
	counts counts // nil while nothing is in view
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
// called, and for the first error and the first bucket of more than 255 events after that.
func (w *Window) Add(now clock.Instant, failed bool) {
	n := w.shape.n
	if w.counts == nil {
		w.counts = make(counts, n)
	}
	w.advance(now)
	i := modulo(w.newest, n)
	total := w.counts.at(n, allEvents, i)
	if total == math.MaxUint16 {
		return
	}
	errs, wide := w.counts.form(n)
	if failed && !errs || total == math.MaxUint8 && !wide {
		w.counts = w.counts.as(n, errs || failed, wide || total == math.MaxUint8)
	}
	w.counts.increment(n, allEvents, i)
	if failed {
		w.counts.increment(n, errorEvents, i)
	}
}

// Sum is what is in view at now.
func (w *Window) Sum(now clock.Instant) Counts {
	w.advance(now)
	n := w.shape.n
	return Counts{Total: w.counts.sum(n, allEvents), Errors: w.counts.sum(n, errorEvents)}
}

// Reset forgets all events.
func (w *Window) Reset() { clear(w.counts) }

// Trim gives the memory back that what is in view at now does not need. What the window
// counts stays the same.
func (w *Window) Trim(now clock.Instant) {
	c := w.Sum(now)
	if c.Total == 0 {
		w.counts = nil
		return
	}
	n := w.shape.n
	errs, wide := w.counts.form(n)
	if needed := w.counts.most(n) > math.MaxUint8; wide && !needed || errs && !wide && c.Errors == 0 {
		w.counts = w.counts.as(n, c.Errors > 0, needed)
	}
}

// advance makes the bucket that holds now the newest and empties those that the
// view has left behind: at most all of them, however long the idle time was.
func (w *Window) advance(now clock.Instant) {
	b := floorDiv(int64(now), int64(w.shape.width))
	if b <= w.newest {
		return
	}
	if n := w.shape.n; w.counts != nil {
		for i := max(w.newest+1, b-int64(n)+1); i <= b; i++ {
			w.counts.empty(n, modulo(i, n))
		}
	}
	w.newest = b
}

// floorDiv rounds down where Go's division rounds towards zero.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func modulo(a int64, n int) int { return int(((a % int64(n)) + int64(n)) % int64(n)) }
