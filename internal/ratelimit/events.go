package ratelimit

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// Event is a change of how fast a domain is asked, or whether; mere steps of a rate are none.
type Event struct {
	Time    time.Time     `json:"time"`           // UTC, to the millisecond
	Domain  string        `json:"host,omitempty"` // empty within the snapshot of that domain
	Cause   control.Cause `json:"cause"`
	State   breaker.State `json:"state"`    // of the breaker, after it
	FromRPS float64       `json:"from_rps"` // rate before
	ToRPS   float64       `json:"to_rps"`   // rate after; zero while nothing but a trial may go out
	// HoldMS is for how long only trials go out, in milliseconds, or zero; for the cause crawl_delay, the least gap.
	HoldMS int64  `json:"hold_ms"`
	Text   string `json:"text"` // the same as a sentence, with its figures
	// Hosts are, for merged and parted, those whose answers led to it, at most 256. Domain is then the group's name,
	// as in [GroupSnapshot].
	Hosts []string `json:"hosts,omitempty"`
}

func (s *state) noteLocked(e control.Event) {
	if s.journal == nil {
		s.journal = new(journal[entry])
	}
	s.journal.note(entryOf(&e))
	s.unreported = true
}

// notePlanLocked notes the changes in a plan since gate, but those of time alone. Crawl-delay bounds the rates told.
func (s *state) notePlanLocked(now clock.Instant, p *control.Plan, gate breaker.State) {
	if number := uint16(p.Event.Number); number != s.plan.seenEvent && p.Event.Cause != control.CauseNone {
		s.plan.seenEvent = number
		e, top := p.Event, float32(s.ceilingLocked().rps())
		e.From, e.To, e.State = min(e.From, top), min(e.To, top), p.State
		s.noteLocked(e)
	}
	if p.State == breaker.HalfOpen && gate == breaker.Open {
		s.noteLocked(control.Event{At: now, Cause: control.CauseHalfOpen, State: p.State})
	}
}

// noteRetryAfterLocked notes a Retry-After. Those of requests in flight at the first are one event unless they ask for
// more.
func (s *state) noteRetryAfterLocked(now, sentAt clock.Instant, fb *Feedback) {
	if last, ok := latest(s.journal, control.CauseRetryAfter); ok && sentAt <= last.At && fb.RetryAfter <= last.Hold+time.Second {
		return
	}
	e := control.Event{
		At: now, Cause: control.CauseRetryAfter, State: s.plan.state(now),
		From: float32(s.bucket.rate.rps()), Hold: fb.RetryAfter,
	}
	if fb.Err == nil && fb.StatusCode > 0 && fb.StatusCode < 1000 {
		e.Status = uint16(fb.StatusCode)
	}
	s.noteLocked(e)
}

func (s *state) noteRestoredLocked(now clock.Instant) {
	if !s.taught && s.owes.crawlDelay == 0 && s.owes.retryUntil <= now {
		return
	}
	s.noteLocked(control.Event{
		At: now, Cause: control.CauseRevived, State: s.plan.state(now),
		To: float32(s.bucket.rate.rps()), Hold: max(s.owes.retryUntil, s.plan.notBefore, now).Sub(now),
	})
}

// tell calls OnEvent with what a journal has untold, in order and without its lock held. One goroutine at a time does,
// also for what others note; of more than keptEvents meanwhile the last are told.
func tell[E any](l *AdaptiveRateLimiter, mu *sync.Mutex, j *journal[E], event func(*E) Event) {
	for mine := false; ; mine = true {
		mu.Lock()
		var room [keptEvents]E
		news := append(room[:0], j.last(int(j.untold))...)
		if j.telling && !mine {
			news = nil
		} else {
			j.untold, j.telling = 0, len(news) > 0
		}
		mu.Unlock()
		if len(news) == 0 {
			return
		}
		for i := range news {
			l.cfg.OnEvent(event(&news[i]))
		}
	}
}

func eventOf(e *control.Event, at time.Time) Event {
	return Event{
		Time: at.UTC().Truncate(time.Millisecond), Cause: e.Cause, State: e.State,
		FromRPS: figures(e.From), ToRPS: figures(e.To), HoldMS: e.Hold.Round(time.Millisecond).Milliseconds(), Text: e.Text(),
	}
}

// figures rounds a rate to the ten-thousandth, dropping a float32's tail.
func figures(rps float32) float64 { return float64(int64(float64(rps)*1e4+0.5)) / 1e4 }

// keptEvents is how many events of a domain are kept, in 128 bytes.
const keptEvents = 8

// journal is the last events of a domain, or of groups; it grows by two at a time.
type journal[E any] struct {
	events  []E   // the oldest first
	untold  uint8 // of the latest, to OnEvent
	telling bool  // someone tells, and will tell what comes meanwhile
}

func (j *journal[E]) note(e E) {
	switch n := len(j.events); {
	case n == keptEvents:
		j.events = j.events[:copy(j.events, j.events[1:])]
	case n == cap(j.events):
		j.events = append(make([]E, 0, n+2), j.events...)
	}
	j.events = append(j.events, e)
	j.untold = min(j.untold+1, keptEvents)
}

func (j *journal[E]) last(n int) []E {
	if j == nil {
		return nil
	}
	return j.events[max(len(j.events)-n, 0):]
}

func latest(j *journal[entry], c control.Cause) (e control.Event, ok bool) {
	for _, n := range slices.Backward(j.last(keptEvents)) {
		if e = n.event(); e.Cause == c {
			return e, true
		}
	}
	return e, false
}

// entry is an event as it is kept, in half its memory: the time to the millisecond, rates
// in five decimal figures, and no number. From the lowest bits on:
//
//	at    40 time in milliseconds, rounded up; up to 34 years
//	low   24 of the hold in milliseconds; up to 24 days
//	high   7 of the hold
//	from  20 rate before
//	to    20 rate after
//	cause  5
//	state  2
//	status 10
type entry struct{ lo, hi uint64 }

const (
	atBits, rateBits, causeBits, stateBits = 40, 20, 5, 2

	lowHoldBits, highHoldBits = 64 - atBits, 7

	fromShift   = highHoldBits
	toShift     = fromShift + rateBits
	causeShift  = toShift + rateBits
	stateShift  = causeShift + causeBits
	statusShift = stateShift + stateBits
)

// entryOf rounds the time up, so that what was sent before the event is not after it.
func entryOf(e *control.Event) entry {
	at := min(uint64(max(e.At, 0)+clock.Instant(time.Millisecond-1))/uint64(time.Millisecond), 1<<atBits-1)
	hold := min(uint64(min(max(e.Hold, 0), longest)+time.Millisecond/2)/uint64(time.Millisecond), 1<<(lowHoldBits+highHoldBits)-1)
	return entry{
		lo: at | hold<<atBits,
		hi: hold>>lowHoldBits | encodeRate(e.From)<<fromShift | encodeRate(e.To)<<toShift |
			uint64(e.Cause)<<causeShift | uint64(e.State)<<stateShift | uint64(e.Status)<<statusShift,
	}
}

func (n entry) event() control.Event {
	field := func(shift, bits int) uint64 { return n.hi >> shift & (1<<bits - 1) }
	return control.Event{
		At:   clock.Instant(n.lo&(1<<atBits-1)) * clock.Instant(time.Millisecond),
		Hold: time.Duration(n.lo>>atBits|field(0, highHoldBits)<<lowHoldBits) * time.Millisecond,
		From: decodeRate(field(fromShift, rateBits)), To: decodeRate(field(toShift, rateBits)),
		Cause: control.Cause(field(causeShift, causeBits)), State: breaker.State(field(stateShift, stateBits)),
		Status: uint16(n.hi >> statusShift),
	}
}

// A rate is kept as five decimal figures and their exponent, so that 0.3 is told as 0.3, from 1e-5 to 1e7.
const (
	figureBits  = 17
	mostFigures = 99_999
)

var powersOfTen = [...]float64{1e5, 1e4, 1e3, 1e2, 1e1, 1, 1e-1, 1e-2}

func encodeRate(r float32) uint64 {
	if !(r > 0) {
		return 0
	}
	for i, by := range powersOfTen {
		if figures := math.Round(float64(r) * by); figures <= mostFigures {
			return uint64(i)<<figureBits | uint64(figures)
		}
	}
	return uint64(len(powersOfTen)-1)<<figureBits | mostFigures
}

func decodeRate(code uint64) float32 {
	return float32(float64(code&(1<<figureBits-1)) / powersOfTen[code>>figureBits])
}
