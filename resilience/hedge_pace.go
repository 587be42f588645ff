package resilience

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/estimate"
)

const (
	// paceSamples is how many latencies a quantile needs: below twenty the p95 is the
	// slowest call there was.
	paceSamples = 20
	// paceEvery is after how many latencies the quantile is found again. It needs a
	// sort, and eight of 64 do not move it by much.
	paceEvery = 8
)

type hedgePace struct {
	delay atomic.Int64 // in nanoseconds, more than 0

	mu    sync.Mutex // guards what follows
	tail  estimate.Quantile
	fresh int // latencies since the delay was found
}

func (p *hedgePace) current() time.Duration { return time.Duration(p.delay.Load()) }

// add takes the latency of a first call. One that was cut short because another won
// counts with the time it had: leaving it out would leave out just the slow ones, so that
// the quantile would sink and ever more calls would be hedged.
func (p *hedgePace) add(latency time.Duration, quantile float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tail.Add(latency, estimate.Samples)
	p.fresh++
	if n := p.tail.Len(); n < paceSamples || p.fresh < paceEvery {
		return
	}
	p.fresh = 0
	p.delay.Store(int64(max(p.tail.At(quantile), 1)))
}
