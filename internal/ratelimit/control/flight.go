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
	lastSent  clock.Instant    // of the latest grant
	starvedIn int32            // the second of the latest that could have gone seconds before, counted from one; zero for none
	sent      [busySpan]uint16 // grants by second
	missed    float32          // requests that the sender's machine was too late for
}

const (
	// makeUp is how much faster than planned a sender goes that was late. The requests it
	// missed were not used by anybody, and the limiter has saved them up.
	makeUp = 1.25
	// mostMissed is what the smallest burst allowance in common use saves up.
	mostMissed = 5
	// stalled is the longest that a machine with other work lets a goroutine wait. Who is
	// later had nothing to send.
	stalled = time.Second
)

// behind counts what a grant at now comes too late for, at a planned rate.
func (f *flight) behind(now clock.Instant, rate float64) {
	late := now.Sub(f.lastSent) - duration(1/rate) - catchUp(rate)
	switch {
	case late > stalled:
		f.missed = 0
	case late > 0:
		f.missed = min(f.missed+float32(seconds(late)*rate), mostMissed)
	default:
		f.missed = max(f.missed-(1-1/makeUp), 0)
	}
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
	last, sec := secondOf(f.lastSent), secondOf(now)
	for n := max(last+1, sec-busySpan+1); n <= sec; n++ {
		f.sent[n%busySpan] = 0
	}
	f.lastSent = max(f.lastSent, now)
	if slot := &f.sent[max(sec, last)%busySpan]; *slot < 1<<16-1 {
		*slot++
	}
}

// secondOf is the whole second of an instant.
func secondOf(i clock.Instant) int64 { return int64(max(i, 0)) / int64(time.Second) }

// beginOf is the instant at which a second begins.
func beginOf(second int64) clock.Instant { return clock.Instant(second) * clock.Instant(time.Second) }

// busy reports whether the sender uses the rate it has. A rate nobody uses proves
// nothing, and must not grow.
func (f *flight) busy(now clock.Instant, rate float64) bool {
	n, last := 0, secondOf(f.lastSent)
	for sec := max(max(last, secondOf(now))-busySpan+1, 0); sec <= last; sec++ {
		n += int(f.sent[sec%busySpan])
	}
	return float64(n) > 0.4*rate*busySpan
}

// doors is what is known of a host that bounds connections and not requests. Such a
// host refuses whenever one more than so many are in, however slowly they come; a rate
// would have to stay far below to meet that never.
type doors struct {
	most  uint16        // requests in flight that went well; zero for not known
	seen  uint16        // in flight at the last refusal
	since uint16        // willing answers since
	well  uint16        // of them, those with as many in flight as were refused
	times uint8         // refusals in a row with as many in flight, and seldom as many well
	raced bool          // the latest had one fewer
	until clock.Instant // then it is asked anew
}

const (
	// sameDoors refusals with the same number in flight are no accident: a limit on the
	// rate meets whatever number there happens to be.
	sameDoors = 3
	// perRace of the answers may be one that came while one too many was on its way.
	perRace = 16
	// fewestDoors keeps near hosts out, where one or two are in flight whatever the rate.
	fewestDoors = 3
	// doorsFor is how long the bound holds: to learn it again costs three refusals.
	doorsFor = 10 * time.Minute
)

// refused notes how many were in flight at a refusal, that one included, and reports
// whether the bound became known by it.
func (d *doors) refused(now clock.Instant, inFlight int) (learned bool) {
	n := uint16(min(max(inFlight, 0), math.MaxUint16))
	if d.since < n {
		return false // of the same moment as the last
	}
	// An answer may come while the one too many is on its way, either of them first: one fewer
	// is then in flight, or as many went well.
	raced := n+1 == d.seen && !d.raced
	if n != d.seen && !raced || d.well > 1+d.since/perRace {
		d.seen, d.times = n, 0
	}
	d.well, d.since, d.raced = 0, 0, raced && n != d.seen
	if d.raced {
		return false
	}
	d.times = min(d.times+1, sameDoors)
	switch {
	case n < fewestDoors:
		return false
	case d.times == sameDoors:
		learned = d.bound(now) != int(n)-1
		d.most, d.until = n-1, now.Add(doorsFor)
	case n <= d.most:
		d.most = 0 // refused with fewer in flight: it was no such bound
	}
	return learned
}

// passed notes how many were in flight at a willing answer.
func (d *doors) passed(inFlight int) {
	d.since = min(d.since+1, math.MaxUint16-1)
	if inFlight >= int(d.seen) {
		d.well = min(d.well+1, math.MaxUint16-1)
	}
}

// bound is the most requests that may be in flight, zero for any number.
func (d *doors) bound(now clock.Instant) int {
	if now >= d.until {
		return 0
	}
	return int(d.most)
}
