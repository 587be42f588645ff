package testsite

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// work is what a host's load does to its answers. It takes instants and reads no clock; its
// gate guards it.
type work struct {
	service time.Duration // mean, of one request; zero: nobody waits
	longest time.Duration
	workers int // zero: no knee
	seed    uint64

	free clock.Instant // when the worker is done with all it has admitted
	n    int           // admitted so far
}

func newWork(cfg Load, seed uint64) work {
	w := work{longest: cfg.MaxWait, workers: cfg.Workers, seed: seed}
	if w.longest == 0 {
		w.longest = defaultMaxWait
	}
	if cfg.Rate > 0 {
		w.service = time.Duration(math.Round(float64(time.Second) / cfg.Rate))
	}
	return w
}

// ready is when a request would find a place in the line: now, or later if the line is
// too long.
func (w *work) ready(now clock.Instant) clock.Instant {
	if w.service == 0 {
		return now
	}
	return max(now, w.free.Add(-w.longest))
}

// take puts a request in line and is how long it takes until the worker is done with it,
// by Lindley's recursion (1952): the next one's wait follows from this one's. The time of
// service is drawn at arrival; a worker that has become slower meanwhile is not noticed by
// those in line.
func (w *work) take(now clock.Instant, speed float64) time.Duration {
	if w.service == 0 {
		return 0
	}
	d := newDraw(w.seed, streamLoad, w.n)
	w.n++
	// The tail is cut as that of latencies is: a draw in half a billion is so long.
	took := min(tailCut, -math.Log(d.unit())) * float64(w.service) / speed
	w.free = max(now, w.free).Add(time.Duration(took))
	return w.free.Sub(now)
}

// stretch is by how much the latency of a request grows with so many open, itself included.
func (w *work) stretch(open int) float64 {
	if w.workers == 0 || open <= w.workers {
		return 1
	}
	return float64(open) / float64(w.workers)
}
