package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// window is what is known of a quota: a limiter that counts over a span of time and,
// once that is used up, refuses until the span is over. Its ceiling is what one window
// admitted; a mean between two refusals would be of the wrong span.
type window struct {
	bucket
	lag        time.Duration // longest pause of a quota; zero if there was none
	wholeAt    uint32        // second of the clock; what was sent before met one that gives back: see givesBack
	lastOrder  time.Duration // the last long Retry-After
	admitted   float32       // in one window, at the first refusal
	beyond     float32       // seconds: a window that nobody names is longer, as of the last resume
	within     float32       // and shorter, in seconds
	full       uint16        // what it admitted; zero if there was none
	sameOrder  bool          // and lastOrder was the one before too
	windowless bool          // that order is no window: more is admitted in as long
}

const (
	// longOrder is the shortest Retry-After that may be a window's rest; what is shorter
	// is a bucket's next token.
	longOrder = 3 * time.Second
	// longestWindow and the pause after it are within what the history reaches.
	longestWindow = 600 * time.Second
	// tooMany times what a window admitted in as long is no window's doing. A fixed one
	// may admit up to twice its count across its border, but not while the rate climbs.
	tooMany = 1.6
	// aBitMore is what the same window admits at one time more than at another: what was
	// in flight, and the share of the window before in one that slides.
	aBitMore = 1.15
	// toldTwice makes the margin a third of what it is elsewhere: the length of a window that
	// was ordered twice is known for sure, and what it admitted was counted.
	toldTwice = 1.02
	// ordinaryBurst is the allowance that most buckets stay below: 5 to 20 is common.
	ordinaryBurst = 25
)

// isQuota reports whether the host went on refusing, or said it would, for longer
// than a bucket needs to have a token again. That takes some answers since the last pause
// or, of the first long order, in as long as it is: another limit may have refused just before.
func (s *steer) isQuota(pause time.Duration) bool {
	refused := s.refusedTill.Sub(s.at)
	if s.tries > 0 && s.fullAgain(0) {
		refused = pause // as last time, and so it was not asked in between
	}
	enough := s.resumed >= minCycle || s.admitted == 0 && s.order >= longOrder && s.admittedIn(s.order) >= minCycle
	return !s.blocked && !s.givesBack() && enough && refused > max(time.Second, s.spacing(3))
}

// givesBack reports whether what was refused met a window that still gives back what it took
// before it was known: as slowly as the search began, so that it says nothing of the limit.
func (s *steer) givesBack() bool {
	return s.sentAt < beginOf(int64(s.wholeAt))
}

// awaitWhole takes in how long a window is that was just found by an order which is worked out.
func (s *steer) awaitWhole(w time.Duration) {
	if s.order > 0 && !isRound(s.order) {
		s.wholeAt = uint32(secondOf(s.sentAt.Add(min(w, longestWindow))))
	}
}

// noteOrder compares a Retry-After with the last one.
func (w *window) noteOrder(order time.Duration) {
	if order < longOrder {
		return
	}
	w.sameOrder = math.Abs(float64(order-w.lastOrder)) <= 0.05*float64(order)
	w.lastOrder = order
}

// firstWindow is the ceiling of a quota that ended the search. An order that is worked
// out is the rest of a window that began with the first request; one that somebody
// wrote into a configuration is the window, or nothing.
func (s *steer) firstWindow(pause time.Duration) float64 {
	s.meetWindow()
	w := pause
	if s.order == 0 {
		// It ended between the last trial and now, the later the longer the wait was.
		w = duration(math.Sqrt(seconds(pause) * seconds(max(s.refusedTill.Sub(s.at), pause/2))))
	}
	if !isRound(s.order) {
		w += max(0, s.sentAt.Sub(s.prevAt))
	}
	s.awaitWhole(w)
	in := s.admittedIn(w)
	s.admitted = float32(in)
	s.lag = max(s.lag, pause)
	return in / seconds(w)
}

// judgeQuota takes what one window admitted. If the same order comes though more was
// admitted in as long, it is no window but a habit: the limiter is a bucket, and what
// it refused is nearly what it sustains.
func (s *steer) judgeQuota(now clock.Instant, pause time.Duration) finding {
	s.meetWindow()
	s.lag = max(s.lag, pause)
	if s.wasStarved(pause) {
		s.ceil, s.provisional = min(s.ceil, 0.97*s.failRate), true
		return guessed // the host would have admitted more than it was asked for
	}
	first := s.admitted == 0
	in, known := s.admittedIn(pause), float64(s.admitted)
	again := s.sameOrder && s.sentAt.Sub(s.resumeAt) > pause && in < aBitMore*known
	switch {
	case s.windowless && !again:
		s.takeBucket(surelyLess)
	case s.sameOrder && in > tooMany*known:
		s.windowless = true
		s.takeBucket(probablyLess)
	default:
		s.windowless = false
		if first || !s.sameOrder {
			s.admitted = float32(in)
		}
		rate, w := s.windowRate(now, pause, first)
		s.ceil = min(rate, s.failRate)
		if first {
			s.awaitWhole(w)
		}
		s.provisional = s.order > 0 && (first || s.sameOrder && in > aBitMore*float64(s.admitted) && s.ceil < doubtful*s.failRate)
		s.climbs = s.provisional
	}
	return measured
}

// wasStarved reports whether we had nothing to send in the pause's length before the refusal.
func (s *steer) wasStarved(pause time.Duration) bool {
	return s.starvedIn > 0 && beginOf(int64(s.starvedIn)) > s.sentAt.Add(-pause)
}

// windowRate is what one window of a quota admitted, per second, and that window. If the order
// says nothing of its length, or is worked out and so but the rest of it, that is the span of the
// best mean which ends now, the pause included: no window admits more.
func (s *steer) windowRate(now clock.Instant, pause time.Duration, first bool) (best float64, w time.Duration) {
	switch {
	case s.order > 0 && s.sameOrder && !first:
		return toldTwice * float64(s.admitted) / seconds(pause), pause
	case s.order > 0 && (s.sameOrder || first && isRound(s.order)):
		return float64(s.admitted) / seconds(pause), pause
	}
	shortest := pause
	if s.order == 0 {
		least, most := s.windowSpan(now)
		best = float64(s.resumed) / math.Sqrt(float64(least)*float64(most))
		if s.fullAgain(0) {
			shortest = max(shortest, duration(float64(least)))
		}
	}
	for span := shortest + time.Second; span <= min(longestWindow, time.Duration(now)); span += time.Second {
		if r := s.history.between(now.Add(-span), now) / seconds(span); r > best {
			best, w = r, span
		}
	}
	if best == 0 { // the pause was as long as is looked back
		return s.admittedIn(pause) / seconds(pause), pause
	}
	return best, w
}

// noteFull keeps what a window admitted and the time in which that was, when nobody said how
// long it is: who admits as much again counts, and over no longer than that.
func (s *steer) noteFull(now clock.Instant) {
	if s.tries == 0 || s.order > 0 || s.blocked || s.resumed < minCycle || s.resumed > math.MaxUint16 {
		if s.window != &noWindow {
			s.full = 0
		}
		return
	}
	s.meetWindow()
	s.beyond, s.within = s.windowSpan(now)
	s.full = uint16(s.resumed)
}

// windowSpan is between what the window's length must be, in seconds: it began at the last
// resume, and ended between the last trial and now. What admitted as much before is the same
// window.
func (s *steer) windowSpan(now clock.Instant) (least, most float32) {
	least, most = float32(seconds(s.refusedTill.Sub(s.began()))), float32(seconds(now.Sub(s.began())))
	if s.fullAgain(0) && s.within > least {
		least, most = max(least, s.beyond), min(most, s.within)
	}
	return max(least, 0.001), max(most, 0.001)
}

// began is when a window that begins with a request did, once the last one was over.
func (s *steer) began() clock.Instant { return max(s.resumeAt, s.prevAt) }

// fullAgain reports whether as much was admitted since the last resume as before it, when
// so many answers of now are still to be counted.
func (s *steer) fullAgain(more int) bool {
	n, full := int(s.resumed)+more, int(s.full)
	return full > 0 && max(n-full, full-n) <= max(1, full/50)
}

// admittedIn is what was admitted in so long before the refusal.
func (s *steer) admittedIn(span time.Duration) float64 {
	return s.history.between(s.sentAt.Add(-span), s.sentAt)
}

// isRound reports whether a person chose the order: it is then the same each time, be
// it the window or not. An order that is worked out is the rest of a window, and seldom
// round.
func isRound(order time.Duration) bool {
	tenths := order.Round(100 * time.Millisecond)
	if tenths%time.Second != 0 {
		return false
	}
	switch tenths / time.Second {
	case 1, 2, 3, 5, 10, 15, 20, 30, 45, 60, 90, 120, 180, 300, 600, 900, 1800, 3600:
		return true
	}
	return false
}
