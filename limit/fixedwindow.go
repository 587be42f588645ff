package limit

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// WindowConfig is a number of permits in a window of time.
type WindowConfig struct {
	Permits int64         // how many there are per window; at least 1. Zero is an error.
	Per     time.Duration // the length of a window; positive. Zero is an error.
}

// FixedWindow grants so many permits in each window. Windows follow each other without
// gaps from the limiter's start, so around the border of two there can be twice as many.
type FixedWindow struct {
	core
	state window
}

var _ Weighted = (*FixedWindow)(nil)

// NewFixedWindow returns a limiter whose first window begins now.
func NewFixedWindow(cfg WindowConfig, opts ...Option) (*FixedWindow, error) {
	set, err := rateSettings(KindFixedWindow, cfg.Permits, cfg.Per, opts)
	if err != nil {
		return nil, err
	}
	return newFixedWindow(set, cfg), nil
}

func newFixedWindow(set *settings, cfg WindowConfig) *FixedWindow {
	l := &FixedWindow{state: window{max: cfg.Permits, per: cfg.Per}}
	l.init(set, &l.state)
	return l
}

// window is the algorithm of FixedWindow: where the current window begins and how much of
// it is used.
type window struct {
	start clock.Instant
	used  int64
	max   int64
	per   time.Duration
}

// advance moves on by whole windows, so that a late caller does not shift the grid.
func (w *window) advance(now clock.Instant) {
	if passed := now.Sub(w.start); passed >= w.per {
		w.start = w.start.Add(passed - passed%w.per)
		w.used = 0
	}
}

func (w *window) take(now clock.Instant, n int64) bool {
	w.advance(now)
	if n > w.max-w.used {
		return false
	}
	w.used += n
	return true
}

// wait ends with the window, of which the next has room for any weight.
func (w *window) wait(now clock.Instant, n int64) time.Duration {
	w.advance(now)
	if n <= w.max-w.used {
		return 0
	}
	return w.per - now.Sub(w.start)
}

func (w *window) available(now clock.Instant) int64 {
	w.advance(now)
	return w.max - w.used
}

// standing has what is left last until one more would come with the next window.
func (w *window) standing(now clock.Instant) Standing {
	left := w.available(now)
	return Standing{Limit: w.max, Window: w.per, Left: left, Lasts: part(w.per-now.Sub(w.start), left, left+1)}
}

func (w *window) clone() algorithm {
	c := *w
	return &c
}
