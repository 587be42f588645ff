package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// usage is whether the sender uses the rate that it has. A rate that nobody uses proves nothing.
type usage struct {
	last clock.Instant // grant
	sent [busySpan]uint16
	late float32 // requests that the sender's machine was too late for
}

const (
	busySpan   = 4 // seconds
	makeUp     = 1.25
	mostMissed = 5
	stalled    = time.Second
)

func (u *usage) send(now clock.Instant) {
	last, sec := secondOf(u.last), secondOf(now)
	for n := max(last+1, sec-busySpan+1); n <= sec; n++ {
		u.sent[n%busySpan] = 0
	}
	u.last = max(u.last, now)
	if slot := &u.sent[max(sec, last)%busySpan]; *slot < math.MaxUint16 {
		*slot++
	}
}

func (u *usage) behind(now clock.Instant, rate float64) {
	late := now.Sub(u.last) - seconds(1/rate) - catchUp(rate)
	switch {
	case late > stalled:
		u.late = 0
	case late > 0:
		u.late = min(u.late+float32(late.Seconds()*rate), mostMissed)
	default:
		u.late = max(u.late-(1-1/makeUp), 0)
	}
}

func secondOf(i clock.Instant) int64 { return int64(max(i, 0)) / int64(time.Second) }

func (u *usage) busy(now clock.Instant, rate float64) bool {
	n, last := 0, secondOf(u.last)
	for sec := max(max(last, secondOf(now))-busySpan+1, 0); sec <= last; sec++ {
		n += int(u.sent[sec%busySpan])
	}
	return float64(n) > 0.4*rate*busySpan
}
