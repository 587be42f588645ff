package resilience

import (
	"cmp"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// maxWindowCalls bounds a count window, at 768 KiB of memory. A threshold needs no finer share.
	maxWindowCalls   = 65536
	maxWindowBuckets = 1024
	// windowBuckets is the usual number of buckets: a tenth of the span is forgotten at once.
	windowBuckets = 10
)

// Window says which past calls count in a closed [Breaker]. The zero Window is [ConsecutiveWindow]. Windows can be
// compared with ==.
type Window struct {
	kind    windowKind
	calls   int
	span    time.Duration
	buckets int
}

type windowKind uint8

const (
	byRun windowKind = iota
	byCount
	byTime
)

// ConsecutiveWindow returns a window that counts only the failures since the last success.
func ConsecutiveWindow() Window { return Window{} }

// CountWindow returns a window of the last n calls, 1 to 65536.
func CountWindow(n int) Window { return Window{kind: byCount, calls: n} }

// TimeWindow returns a window of the calls in the last span, divided into buckets, 1 to 1024, which must divide the
// span evenly; zero means 10. Calls are forgotten by the bucket, and therefore up to one bucket early.
func TimeWindow(span time.Duration, buckets int) Window {
	buckets = cmp.Or(buckets, windowBuckets)
	return Window{kind: byTime, span: span, buckets: buckets}
}

// String describes the window, as error messages and health reports show it.
func (w Window) String() string {
	switch w.kind {
	case byCount:
		return fmt.Sprintf("last %d calls", w.calls)
	case byTime:
		return fmt.Sprintf("last %v in %d buckets", w.span, w.buckets)
	}
	return "consecutive"
}

// wrong returns what to use instead of the window, or the empty string if the window is valid.
func (w Window) wrong() string {
	switch {
	case w.kind == byCount && (w.calls < 1 || w.calls > maxWindowCalls):
		return fmt.Sprintf("CountWindow of 1 to %d calls", maxWindowCalls)
	case w.kind == byTime && (w.buckets < 1 || w.buckets > maxWindowBuckets || w.span <= 0 || w.span%time.Duration(w.buckets) != 0):
		return fmt.Sprintf("TimeWindow with a positive span and 1 to %d buckets that divide it", maxWindowBuckets)
	}
	return ""
}

func (w Window) sums() sums {
	switch w.kind {
	case byCount:
		return sums{cells: make([]tally, w.calls)}
	case byTime:
		return sums{cells: make([]tally, w.buckets), width: w.span / time.Duration(w.buckets)}
	}
	return sums{}
}

// tally counts the calls of a cell, and how many of them failed and were slow.
type tally struct{ calls, failures, slow int32 }

func (t *tally) add(o tally, sign int32) {
	t.calls += sign * o.calls
	t.failures += sign * o.failures
	t.slow += sign * o.slow
}

func (t *tally) share(part int32) float64 { return float64(part) / float64(max(t.calls, 1)) }

// sums adds up the latest cells, each of which is one call or a part of a span.
type sums struct {
	cells  []tally
	width  time.Duration // of a cell; zero means that a cell is one call
	newest int64         // number of the latest cell
	at     int           // its index
	sum    tally         // of all cells
}

func (s *sums) add(now clock.Instant, t tally) {
	if s.width > 0 {
		s.see(now)
	} else {
		s.step()
	}
	s.cells[s.at].add(t, 1)
	s.sum.add(t, 1)
}

func (s *sums) see(now clock.Instant) {
	if s.width == 0 {
		return
	}
	to := int64(now) / int64(s.width)
	for range min(to-s.newest, int64(len(s.cells))) {
		s.step()
	}
	s.newest = max(s.newest, to)
}

func (s *sums) step() {
	if s.at++; s.at == len(s.cells) {
		s.at = 0
	}
	s.sum.add(s.cells[s.at], -1)
	s.cells[s.at] = tally{}
}

func (s *sums) reset() {
	clear(s.cells)
	s.sum = tally{}
}
