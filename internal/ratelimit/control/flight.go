package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// flight bounds the requests in flight by Little's law: rate times mean latency are
// out on average, whatever the distribution, and about a Poisson's spread more at
// times. A host that slows down so gets few connections, and a fast distant one
// enough.
type flight struct {
	startAt   clock.Instant    // of the first grant
	lastSent  clock.Instant    // of the latest grant
	starvedAt clock.Instant    // of the latest that could have gone seconds before
	second    int64            // the latest second with a grant
	sent      [busySpan]uint16 // grants by second
}

// busySpan is over how many seconds the sender's diligence is looked at.
const busySpan = 4

// bound is the most requests in flight at a rate, given the mean latency in seconds.
func bound(rate, mean float64) int {
	n := rate * mean
	return int(math.Ceil(1.25*n + 4*math.Sqrt(n) + 4))
}

// send counts a grant.
func (f *flight) send(now clock.Instant) {
	f.turn(now)
	f.lastSent = now
	if slot := &f.sent[f.second%busySpan]; *slot < 1<<16-1 {
		*slot++
	}
}

func (f *flight) turn(now clock.Instant) {
	sec := int64(now) / int64(time.Second)
	for n := max(f.second+1, sec-busySpan+1); n <= sec; n++ {
		f.sent[n%busySpan] = 0
	}
	f.second = max(f.second, sec)
}

// busy reports whether the sender uses the rate it has. A rate nobody uses proves
// nothing, and must not grow.
func (f *flight) busy(now clock.Instant, rate float64) bool {
	f.turn(now)
	n := 0
	for _, s := range f.sent {
		n += int(s)
	}
	return float64(n) > 0.4*rate*busySpan
}
