package steer

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// stop is a time in which a host admitted nothing: from a refusal, or an outage, to the trial that was answered.
type stop struct {
	from     clock.Instant // when the request was sent that met it
	at       clock.Instant // when that was known
	last     clock.Instant // it was still on
	to       clock.Instant // when the request was sent that was admitted again
	rate     float64       // that was asked for; zero of the first entry, which is the first request
	order    time.Duration // to wait, as told last
	admitted uint32        // requests ever, at its end
	class    outcome.Class // of the answer that met it
	cause    control.Cause // CauseRefused, CauseFailures, CauseForbidden, CauseConnections; none if it is of before the host was forgotten
	tries    uint8         // trials that failed
	odd      bool          // it came out of the blue
	taught   bool          // it said something of the rate
	window
}

// explicit reports that the host refuses, and does not just fail.
func (s *stop) explicit() bool {
	return s.cause == control.CauseRefused || s.cause == control.CauseConnections || s.blocked()
}

func (s *stop) blocked() bool { return s.cause == control.CauseForbidden }

// down reports a failure that no limit answers with.
func (s *stop) down() bool {
	return s.class.Overload() && s.class != outcome.Throttled && s.class != outcome.Unavailable
}

func (s *stop) took() time.Duration { return s.to.Sub(s.at) }

// long reports a stop of a limit that is longer than a bucket needs for its next token.
func (s *stop) long() bool {
	tokens := 8.
	if s.order > 0 {
		tokens = 3
	}
	limit := s.order > 0 || s.class == outcome.Throttled || s.class == outcome.Unavailable
	return limit && s.rate > 0 && s.to.Sub(s.from) > max(time.Second, seconds(tokens/s.rate))
}

// sameOrder reports whether both ordered the same wait.
func (s *stop) sameOrder(b *stop) bool {
	return s.order > 0 && math.Abs(float64(s.order-b.order)) <= min(.05*float64(s.order), float64(rounding)/2)
}

// stops are the latest, the newest first. All that is known of buckets and windows is worked out from them.
type stops [4]stop

// open begins one. A short one that came after too few answers for a mean is forgotten, so that the ring reaches back.
func (r *stops) open(t *Tuning, s stop) {
	if a := &r[0]; !a.taught || a.blocked() || a.long() || float64(a.admitted-r[1].admitted) >= t.Cycle {
		copy(r[1:], r[:])
	}
	r[0] = s
}

// latest is the newest from an index on of which something is true, or the length of the ring.
func (r *stops) latest(from int, is func(*stop) bool) int {
	for from < len(r) && !is(&r[from]) {
		from++
	}
	return from
}

// cost is the seconds that the latest refusal took.
func (r *stops) cost() float64 {
	if i := r.latest(0, func(s *stop) bool { return s.taught }); i < len(r) {
		return r[i].took().Seconds()
	}
	return 0
}

// last is the seconds of the latest stop, if that taught something.
func (r *stops) last() float64 {
	if r[0].taught {
		return r[0].took().Seconds()
	}
	return 0
}

// blocks reports whether the host has blocked of late, and for how long it was silent at the end.
func (r *stops) blocks(from int) (silence time.Duration, ok bool) {
	if i := r.latest(from, (*stop).blocked); i < len(r) {
		return r[i].to.Sub(r[i].last), true
	}
	return 0, false
}

// again reports whether the newest came out of the blue as one before it did.
func (r *stops) again() bool {
	a := &r[0]
	i := r.latest(1, func(s *stop) bool { return s.odd })
	if i == len(r) {
		return false
	}
	b := &r[i]
	took := b.to.Sub(b.at)
	if a.to.Sub(b.to) >= max(sameStops, 10*took) {
		return false
	}
	if a.at.Sub(b.to) < max(30*time.Second, took*6/5) {
		return true
	}
	if i+1 == len(r) {
		return false
	}
	return math.Abs(float64(a.admitted-r[1].admitted)/float64(b.admitted-r[i+1].admitted)-1) < .25
}
