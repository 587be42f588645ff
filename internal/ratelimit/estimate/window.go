package estimate

import (
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// maxBuckets bounds a window's memory to 8 KiB; a finer one would not be read.
const maxBuckets = 1024

// Kind is what a [Window] counts an event as.
type Kind uint8

// The kinds: an event is no error or one of three sorts of error.
const (
	Success Kind = iota
	ServerError
	Throttled
	Network
)

// Counts are the events in view of a [Window]. Total includes the errors.
type Counts struct{ Total, ServerErrors, Throttled, Network int }

// Errors is the number of events that were errors.
func (c Counts) Errors() int { return c.ServerErrors + c.Throttled + c.Network }

// ErrorRate is the share of errors, in [0, 1]; it is 0 when nothing was counted.
func (c Counts) ErrorRate() float64 {
	if c.Total == 0 {
		return 0
	}
	return float64(c.Errors()) / float64(c.Total)
}

// bucket counts in 16 bits: 65,535 events say as much about the share of errors as
// any more would, so a full bucket stops counting and its share stays true.
type bucket struct{ total, serverErrors, throttled, network uint16 }

// Window counts events over a sliding span cut into buckets. Bucket borders lie at
// whole multiples of the bucket's width since the epoch; the view is the bucket
// that holds now and those before it, so an event is forgotten between span-width
// and span after it happened, at a border. It is not safe for concurrent use.
type Window struct {
	width   time.Duration
	newest  int64    // number of the latest bucket
	buckets []bucket // bucket b is at b mod len; nil while nothing is in view
	n       int32
}

// NewWindow returns an empty window over span, in buckets of width. The span must
// be a whole number of widths, from 1 to 1024.
func NewWindow(span, width time.Duration) (Window, error) {
	if width <= 0 || span < width || span%width != 0 || span/width > maxBuckets {
		return Window{}, fmt.Errorf("window of %v in buckets of %v: want 1 to %d whole buckets", span, width, maxBuckets)
	}
	return Window{width: width, n: int32(span / width)}, nil
}

// Add counts an event at now. A now before that of an earlier call counts in the
// latest bucket. It allocates only when nothing was in view and [Window.Trim] or
// [Window.Reset] was called.
func (w *Window) Add(now clock.Instant, k Kind) {
	if w.buckets == nil {
		w.buckets = make([]bucket, w.n)
	}
	w.advance(now)
	b := &w.buckets[modulo(w.newest, int64(w.n))]
	if b.total == math.MaxUint16 {
		return
	}
	b.total++
	switch k {
	case ServerError:
		b.serverErrors++
	case Throttled:
		b.throttled++
	case Network:
		b.network++
	case Success:
	}
}

// Sum is what is in view at now.
func (w *Window) Sum(now clock.Instant) Counts {
	w.advance(now)
	var c Counts
	for _, b := range w.buckets {
		c.Total += int(b.total)
		c.ServerErrors += int(b.serverErrors)
		c.Throttled += int(b.throttled)
		c.Network += int(b.network)
	}
	return c
}

// Reset forgets all events.
func (w *Window) Reset() { clear(w.buckets) }

// Trim gives the buckets' memory back if nothing is in view at now. What the window
// counts stays the same.
func (w *Window) Trim(now clock.Instant) {
	if w.Sum(now).Total == 0 {
		w.buckets = nil
	}
}

// advance makes the bucket that holds now the newest and empties those that the
// view has left behind: at most all of them, however long the idle time was.
func (w *Window) advance(now clock.Instant) {
	b := floorDiv(int64(now), int64(w.width))
	if b <= w.newest {
		return
	}
	for i := max(w.newest+1, b-int64(len(w.buckets))+1); i <= b; i++ {
		w.buckets[modulo(i, int64(w.n))] = bucket{}
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

func modulo(a, n int64) int64 { return ((a % n) + n) % n }
