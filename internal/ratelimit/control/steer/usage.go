package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// usage watches whether requests are sent at the rate that the plan allows. A rate that is not used proves nothing. It
// also counts grants that came late, so that the plan can make up for them.
type usage struct {
	last clock.Instant // time of the latest grant
	// sent counts the grants in each of the last busySpan seconds: those of second n are in sent[n%busySpan].
	sent [busySpan]uint16
	late float32 // grants that were missed because the sender's machine was late, at most mostMissed
}

const (
	// busySpan is how many seconds of grants are looked at.
	busySpan = 4
	// makeUp is the factor of the rate while grants are made up for.
	makeUp = 1.25
	// mostMissed is the most grants that are made up for: no burst follows a stall.
	mostMissed = 5
	// stalled is how late a grant shows that there was nothing to send, or that the machine stood still: nothing is
	// made up for.
	stalled = time.Second
)

// send counts a grant.
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

// behind compares the time since the latest grant with the rate. A grant that is late adds what was missed to late; a
// grant on time takes off what the faster rate made up for; after a stall late is zero.
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

// secondOf returns the whole seconds since the clock's zero; zero for an earlier instant.
func secondOf(i clock.Instant) int64 { return int64(max(i, 0)) / int64(time.Second) }

// busy reports whether more than 40 % of the rate was used over the last busySpan seconds.
func (u *usage) busy(now clock.Instant, rate float64) bool {
	n, last := 0, secondOf(u.last)
	for sec := max(max(last, secondOf(now))-busySpan+1, 0); sec <= last; sec++ {
		n += int(u.sent[sec%busySpan])
	}
	return float64(n) > 0.4*rate*busySpan
}
