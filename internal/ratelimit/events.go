package ratelimit

import (
	"slices"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// Event is a change that matters in how fast a domain is asked, or whether it is asked at all. A step of the rate that
// only goes on as before is no event.
type Event struct {
	Time    time.Time     `json:"time"`           // UTC, to the millisecond
	Domain  string        `json:"host,omitempty"` // empty within the snapshot of that domain
	Cause   control.Cause `json:"cause"`
	State   breaker.State `json:"state"`    // of the breaker, after the change
	FromRPS float64       `json:"from_rps"` // rate before
	ToRPS   float64       `json:"to_rps"`   // rate after; zero while nothing but a trial may go out
	// HoldMS is for how many milliseconds only trials go out; zero for none. With the cause crawl_delay it is the least
	// gap between two requests.
	HoldMS int64  `json:"hold_ms"`
	Text   string `json:"text"` // the event as a sentence, with its figures
	// Hosts are those whose answers led to it, at most 256, with the causes merged and parted; Domain is then the
	// group's name, as in [GroupSnapshot].
	Hosts []string `json:"hosts,omitempty"`
}

func (s *state) noteLocked(e control.Event) {
	if s.journal == nil {
		s.journal = new(journal[control.Event])
	}
	s.journal.note(e)
	s.unreported = true
}

// notePlanLocked notes what has changed from the state gate of the breaker to the plan p, except by time alone. The
// rates of the event are no higher than Crawl-delay lets them be.
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

// noteRetryAfterLocked notes a Retry-After. One that answers a request from before the last such event is noted only if
// it asks for a longer wait.
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

// tell calls OnEvent with the events of a journal that it was not called with yet, in order and without a lock held. Only
// one goroutine at a time does this, also for events that others note meanwhile. Of more than keptEvents it tells the
// last.
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

// keptEvents is how many events of a domain are kept.
const keptEvents = 8

// journal is the last events of a domain, or of groups; it grows by two at a time.
type journal[E any] struct {
	events  []E   // the oldest first
	untold  uint8 // how many of the latest OnEvent was not called with yet
	telling bool  // a goroutine calls OnEvent, and will for events noted meanwhile
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

func latest(j *journal[control.Event], c control.Cause) (e control.Event, ok bool) {
	for _, e := range slices.Backward(j.last(keptEvents)) {
		if e.Cause == c {
			return e, true
		}
	}
	return control.Event{}, false
}
