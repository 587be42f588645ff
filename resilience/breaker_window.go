package resilience

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
)

const (
	// maxWindowCalls bounds a count window to 64 KiB; a share of more calls than
	// that would not be more exact in any way a threshold could tell.
	maxWindowCalls = 65536
	// windowBuckets is the usual cut of a time window: a tenth of the span is how
	// much of the past falls out of view at once.
	windowBuckets = 10
)

// Window says which past calls a closed [Breaker] looks back on. The zero Window is
// [ConsecutiveWindow]. Windows are values and may be compared.
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

// ConsecutiveWindow looks at the failures since the last success and at nothing else.
func ConsecutiveWindow() Window { return Window{} }

// CountWindow looks at the last n calls, from 1 to 65536.
func CountWindow(n int) Window { return Window{kind: byCount, calls: n} }

// TimeWindow looks at the calls of the last span, in buckets from 1 to 1024; zero
// buckets mean 10. A call is forgotten with its bucket, so between one bucket's
// width before the span is over and its end.
func TimeWindow(span time.Duration, buckets int) Window {
	if buckets == 0 {
		buckets = windowBuckets
	}
	return Window{kind: byTime, span: span, buckets: buckets}
}

// String describes the window as error messages and health reports show it.
func (w Window) String() string {
	switch w.kind {
	case byCount:
		return fmt.Sprintf("last %d calls", w.calls)
	case byTime:
		return fmt.Sprintf("last %v in %d buckets", w.span, w.buckets)
	}
	return "consecutive"
}

// lookback counts the results in view of a window. Consecutive windows need none: the
// machine itself counts the failures in a row.
type lookback struct {
	kind         windowKind
	last         callRing        // byCount
	failed, slow estimate.Window // byTime: all calls, and as its errors those that were that

	span time.Duration
	bad  clock.Instant // when the latest call failed or was slow; -span if none was
}

type callSums struct{ calls, failures, slow int }

func (s callSums) share(part int) float64 {
	if s.calls == 0 {
		return 0
	}
	return float64(part) / float64(s.calls)
}

func newLookback(w Window) (lookback, error) {
	t := lookback{kind: w.kind, span: w.span, bad: clock.Instant(-w.span)}
	switch w.kind {
	case byCount:
		if w.calls < 1 || w.calls > maxWindowCalls {
			return t, fmt.Errorf("breaker: Window = %v: want CountWindow of 1 to %d calls", w, maxWindowCalls)
		}
		t.last.calls = make([]callResult, w.calls)
	case byTime:
		// The checks of estimate.NewWindow, in the words of this configuration.
		if w.buckets < 1 {
			return t, fmt.Errorf("breaker: Window = %v: want TimeWindow with 1 bucket or more", w)
		}
		if w.span%time.Duration(w.buckets) != 0 {
			return t, fmt.Errorf("breaker: Window = %v: want TimeWindow with a span that its buckets divide", w)
		}
		var err error
		if t.failed, err = estimate.NewWindow(w.span, w.span/time.Duration(w.buckets)); err != nil {
			return t, fmt.Errorf("breaker: Window: %w", err)
		}
		t.slow = t.failed // empty, as it is
	}
	return t, nil
}

func (t *lookback) add(now clock.Instant, r callResult) {
	switch t.kind {
	case byCount:
		t.last.add(r)
	case byTime:
		t.failed.Add(now, r&callFailed != 0)
		t.slow.Add(now, r&callSlow != 0)
		if r != 0 {
			t.bad = now
		}
	}
}

// clean reports whether it is known without counting that all calls in view at now were
// good: a callee that works need not be counted each time.
func (t *lookback) clean(now clock.Instant) bool { return t.kind == byTime && now.Sub(t.bad) >= t.span }

func (t *lookback) sum(now clock.Instant) callSums {
	switch t.kind {
	case byCount:
		return t.last.sums
	case byTime:
		c := t.failed.Sum(now)
		return callSums{c.Total, c.Errors, t.slow.Sum(now).Errors}
	}
	return callSums{}
}

// reset forgets all calls. The ring keeps its memory: what is in it is out of view.
func (t *lookback) reset() {
	t.failed.Reset()
	t.slow.Reset()
	t.bad = clock.Instant(-t.span)
	t.last = callRing{calls: t.last.calls}
}

// callResult is what one call was: two bits, since a call may have failed slowly.
type callResult uint8

// The bits. None set is a call that was quick and good.
const (
	callFailed callResult = 1 << iota
	callSlow
)

// callRing keeps the last results and their sums, so that none has to be counted again.
type callRing struct {
	calls []callResult
	next  int // the oldest, once sums.calls is the length
	sums  callSums
}

// add counts x and, if the ring is full, the oldest no more.
func (r *callRing) add(x callResult) {
	if r.sums.calls == len(r.calls) {
		r.count(r.calls[r.next], -1)
	}
	r.count(x, 1)
	r.calls[r.next] = x
	if r.next++; r.next == len(r.calls) {
		r.next = 0
	}
}

func (r *callRing) count(x callResult, by int) {
	r.sums.calls += by
	r.sums.failures += by * int(x&callFailed)
	r.sums.slow += by * int(x&callSlow>>1)
}
