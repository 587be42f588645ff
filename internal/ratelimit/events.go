package ratelimit

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// Event is something that changed how fast a domain is asked, or whether it is. A mere
// step of a rate, as a strategy may take at every answer, is none.
type Event struct {
	Time    time.Time     `json:"time"`           // UTC, to the millisecond
	Domain  string        `json:"host,omitempty"` // empty within the snapshot of that domain
	Cause   control.Cause `json:"cause"`
	State   breaker.State `json:"state"`    // of the breaker, after it
	FromRPS float64       `json:"from_rps"` // rate before
	ToRPS   float64       `json:"to_rps"`   // rate after; zero while nothing but a trial may go out
	// HoldMS is for how many milliseconds nothing but a trial goes out, zero for none. Of
	// the cause crawl_delay it is the least time between two requests.
	HoldMS int64  `json:"hold_ms"`
	Text   string `json:"text"` // the same as a sentence, with its figures
	// Hosts are, of the causes merged and parted, those whose answers led to it; at most 256.
	// Domain is then the name of their group, as in [GroupSnapshot].
	Hosts []string `json:"hosts,omitempty"`
}

func (s *state) noteLocked(e control.Event) {
	if s.journal == nil {
		s.journal = new(journal)
	}
	s.journal.note(e)
	s.unreported = true
}

// notePlanLocked looks for news in a plan; the breaker stood at gate before. Strategies
// tell of every change but that of time alone. They know nothing of Crawl-delay, which
// bounds what is told of their rates.
func (s *state) notePlanLocked(now clock.Instant, p *control.Plan, gate breaker.State) {
	if number := uint16(p.Event.Number); number != s.seenEvent && p.Event.Cause != control.CauseNone {
		s.seenEvent = number
		e, top := p.Event, float32(s.ceilingLocked().rps())
		e.From, e.To, e.State = min(e.From, top), min(e.To, top), p.State
		s.noteLocked(e)
	}
	if p.State == breaker.HalfOpen && gate == breaker.Open {
		s.noteLocked(control.Event{At: now, Cause: control.CauseHalfOpen, State: p.State})
	}
}

// noteRetryAfterLocked notes a Retry-After. Of the requests that were out when the first one
// came each may bring its own; they are one event unless they ask for more.
func (s *state) noteRetryAfterLocked(now, sentAt clock.Instant, fb *Feedback) {
	if last, ok := s.journal.latest(control.CauseRetryAfter); ok && sentAt <= last.At && fb.RetryAfter <= last.Hold+time.Second {
		return
	}
	e := control.Event{
		At: now, Cause: control.CauseRetryAfter, State: s.stateLocked(now),
		From: float32(s.bucket.rate.rps()), Hold: fb.RetryAfter,
	}
	if fb.Err == nil && fb.StatusCode > 0 && fb.StatusCode < 1000 {
		e.Status = uint16(fb.StatusCode)
	}
	s.noteLocked(e)
}

// noteDelayLocked notes another Crawl-delay than the one under which the rate was before.
func (s *state) noteDelayLocked(now clock.Instant, before rate) {
	s.noteLocked(control.Event{
		At: now, Cause: control.CauseCrawlDelay, State: s.stateLocked(now),
		From: float32(before.rps()), To: float32(s.bucket.rate.rps()), Hold: s.crawlDelayLocked(),
	})
}

// noteRestoredLocked notes that the domain is back from its tombstone, if that says
// more than how full the bucket was.
func (s *state) noteRestoredLocked(now clock.Instant) {
	if !s.taught && s.delay == 0 && s.retryUntil <= now {
		return
	}
	s.noteLocked(control.Event{
		At: now, Cause: control.CauseRevived, State: s.stateLocked(now),
		To: float32(s.bucket.rate.rps()), Hold: max(s.retryUntil, s.notBefore, now).Sub(now),
	})
}

// reportLocked reports whether the caller is to tell the news, with tell, when it has
// released the lock.
func (s *state) reportLocked() bool {
	if !s.unreported || s.rules.l.cfg.OnEvent == nil || s.journal.reporting {
		return false
	}
	s.journal.reporting = true
	return true
}

// report hands the news to OnEvent with no lock held. One goroutine at a time does that
// for a domain, and takes along what others note meanwhile, so that the order is kept.
// A hook so slow that more than keptEvents come in that time is told the last of them.
func (s *state) report(l *AdaptiveRateLimiter) {
	for {
		var list [keptEvents]control.Event
		s.mu.Lock()
		news := s.journal.last(int(s.journal.unreported), list[:0])
		s.journal.unreported, s.unreported = 0, false
		s.journal.reporting = len(news) > 0
		s.mu.Unlock()
		if len(news) == 0 {
			return
		}
		for i := range news {
			e := l.eventOf(&news[i])
			e.Domain = s.domain
			l.cfg.OnEvent(e)
		}
	}
}

// eventOf is an event as the world sees it.
func (l *AdaptiveRateLimiter) eventOf(e *control.Event) Event {
	return Event{
		Time: l.timeOf(e.At).UTC().Truncate(time.Millisecond), Cause: e.Cause, State: e.State,
		FromRPS: figures(e.From), ToRPS: figures(e.To), HoldMS: e.Hold.Round(time.Millisecond).Milliseconds(), Text: e.Text(),
	}
}

// figures is a rate to the ten-thousandth: a float32 read as a float64 has a tail of
// digits that nobody measured.
func figures(rps float32) float64 { return float64(int64(float64(rps)*1e4+0.5)) / 1e4 }
