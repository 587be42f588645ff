package control

import (
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// rise is how the rate goes up: exponentially while nothing is known, by creeping
// while cruising, and by probes, which are quick and short. Each refusal it meets is
// paid from a budget that answers fill, and a pause it costs buys thirty times its
// length of peace.
type rise struct {
	creditAt clock.Instant
	probeDue clock.Instant

	credit    float32 // refusals that may be risked
	peak      float32 // the highest ceiling of late
	peakAt    int32   // the second of it
	probeWait uint16  // until the next probe, in seconds
	settled   bool    // the cruise has gone well for a while
	stood     bool    // and for a quiet minute more, which proves the ceiling
}

// lastProbe is the latest probe, or the one that goes on.
type lastProbe struct {
	probeAt   clock.Instant // its begin
	probeCeil float32       // the ceiling then
	gain      float32       // over cruise
}

const (
	// growth of a search, per second: 1 to 1000 requests/s in 14 s. Twice as fast it meets
	// a bucket of ten so far above its rate that the first estimate is worth little.
	growth = 0.5
	// climbing is the growth of a second search, slow enough for its refusal to be near
	// the limit; and no answer raises it by more than climbPerAnswer, since at a slow host
	// there are few of them to a second.
	climbing       = 0.1
	climbPerAnswer = 1.04
	// climbPerOrder is the growth in as long as the host has ordered to wait: slow enough to
	// tell a window of that length from one that is shorter.
	climbPerOrder = 2

	// settle is how long a cruise must have gone well to rest on, and longestLag the
	// longest of a quota's pauses that is waited for before.
	settle     = 5 * time.Second
	longestLag = 300 * time.Second
	// creep is the slow rise per second at first; each quiet half-minute adds as much.
	creep = 0.001
	// Where a refusal came with an order, which is time lost, creep near the rate that was refused,
	// by nearBy of it, is as slow as if dear times the order were that half-minute: it may be
	// higher now, but seldom is.
	nearBy = 0.05
	dear   = 90
	// probeGain is the first step of a probe; each further one doubles it. It has proved
	// more when as many were admitted beyond the ceiling as a burst allowance may hide.
	probeGain   = 0.03
	probeVolume = ordinaryBurst
	// probeFor is for how many seconds a window that slides may hide the top of a probe: less
	// gives it the same bulge again and again.
	probeFor = 5
	// A probe that found nothing doubles the wait for the next, from the least to the most;
	// a host that used to give more is asked again sooner.
	probeWaitMin = uint16(5) // seconds
	probeWaitMax = uint16(240)
	recoverWait  = 10 * time.Second
	recoverGain  = 0.25 // the first step back to what it used to give
	// peakHalfLife is how fast what a host used to give is forgotten.
	peakHalfLife = 20 * time.Minute

	// The budget of refusals: three in a thousand answers, and one in a quarter of an hour
	// for hosts that give few; more while a host gives less than it did.
	creditStart = 5
	creditMax   = 10
	creditMin   = -4
	// creditRegain is the debt in which a climb to what the search was given may begin: the
	// search's own refusals were one bulge's, and this one tells what they meant.
	creditRegain     = -2
	perAnswer        = 0.003
	perAnswerRecover = 0.01
	perSecond        = 1.0 / 900
	perSecondRecover = 1.0 / 30
)

func (s *steer) peakNow(now clock.Instant) float64 {
	return float64(s.peak) * math.Exp2(-float64(secondOf(now)-int64(s.peakAt))/seconds(peakHalfLife))
}

// recovering reports whether the ceiling is far below what it was of late.
func (s *steer) recovering(now clock.Instant) bool { return s.ceil < 0.7*s.peakNow(now) }

func (s *steer) creditPerAnswer() float64 {
	if s.recovering(s.creditAt) {
		return perAnswerRecover
	}
	return perAnswer
}

// earn adds what time alone earns.
func (s *steer) earn(now clock.Instant) {
	rate := perSecond
	if s.recovering(now) {
		rate = perSecondRecover
	}
	s.gainCredit(rate * seconds(now.Sub(s.creditAt)))
	s.creditAt = now
}

func (s *steer) gainCredit(refusals float64) {
	s.credit = min(s.credit+float32(refusals), creditMax)
}

func (s *steer) pay(refusals float64) { s.credit = max(s.credit-float32(refusals), creditMin) }

// mayRise reports whether an upward move may be risked.
func (s *steer) mayRise(now clock.Instant) bool {
	least, till := float32(1), s.quietTill
	if s.regains {
		least, till = creditRegain, never
	}
	return s.credit >= least && now >= till && !s.testing && s.busy(now, s.rate)
}

// grow raises the rate of a host nothing is known of.
func (s *steer) grow(now clock.Instant) {
	dt := min(seconds(now.Sub(s.stepAt)), 1)
	s.stepAt = now
	if !s.busy(now, s.rate) {
		return
	}
	s.rate *= math.Exp(growth * dt / seconds(s.step()))
	if s.rate >= s.ceilMax {
		s.ceil, s.ours = s.top(), true
		s.sailOut(now)
	}
}

// seek takes the search up again that the owner's bound had ended, now that it is higher. A
// host that has refused before has a limit somewhere, and is climbed.
func (s *steer) seek(now clock.Instant) {
	if s.at != never {
		s.ours, s.provisional, s.climbs = false, true, true
		return
	}
	s.belief = belief{ceil: math.Inf(1), provisional: true}
	s.prevAt, s.cycle = now, 0 // what came before was no search
	s.enter(now, searching)
}

// climb raises a ceiling that is only guessed: a second, slower search. The next
// refusal measures it. One to what the search was given ends there.
func (s *steer) climb(now clock.Instant) {
	dt := min(seconds(now.Sub(s.stepAt)), 10)
	s.stepAt = now
	most := s.top()
	if s.regains {
		most = min(most, float64(s.bulge))
	}
	if !s.mayRise(now) || s.quota.binds(now, s.rate) {
		return
	}
	growth := climbing / seconds(s.step())
	if s.lastOrder > 0 {
		growth = min(growth, climbPerOrder/seconds(s.lastOrder))
	}
	s.ceil = min(s.ceil*min(math.Exp(growth*dt), climbPerAnswer), most)
	if s.regains && s.ceil >= most {
		s.climbs, s.regains = false, false
	}
	s.rate = s.cruise()
}

// sailOut begins to cruise.
func (s *steer) sailOut(now clock.Instant) {
	s.enter(now, cruising)
	s.rate = s.cruise()
	s.settled, s.stood = false, false
	s.probeDue = forever
}

// lagged is the time after which an event's consequences are over.
func (s *steer) lagged(least time.Duration) time.Duration {
	return max(least, min(longestLag, s.lag))
}

// sail cruises: it creeps upward, and now and then begins a probe. Where only the owner's bound
// ended the search and is higher now, that goes on.
func (s *steer) sail(now clock.Instant) {
	if s.ours && !s.testing && s.ceil < s.top() {
		s.seek(now)
		return
	}
	s.rate = s.cruise() * s.factor()
	settleFor := settle
	if s.at != never {
		settleFor = s.lagged(settle)
	}
	if now < s.modeAt.Add(settleFor) {
		return
	}
	if !s.settled {
		s.settled = true
		if !s.climbs {
			s.stepAt = now // what came before was no creep
		}
		if s.trouble != &calm {
			s.short, s.wait = 0, 0
		}
		if !s.provisional {
			s.notePeak(now)
		}
		s.scheduleProbe(now)
	}
	if !s.stood && now >= s.modeAt.Add(settleFor+s.lagged(time.Minute)) && s.busy(now, s.rate) {
		s.notePeak(now)
		s.proven, s.stood = s.ceil, true
	}
	if !s.climbs && now >= s.stepAt.Add(time.Second) {
		dt := min(seconds(now.Sub(s.stepAt)), 2)
		s.stepAt = now
		if s.mayRise(now) {
			s.crawlUp(now, dt)
		}
	}
	if now >= s.probeDue && !s.climbs && s.ceil < s.top() && s.mayRise(now) && !s.quota.binds(now, s.rate) {
		s.beginProbe(now)
	}
}

func (s *steer) notePeak(now clock.Instant) {
	if s.ceil >= s.peakNow(now) {
		s.peak, s.peakAt = float32(s.ceil), int32(secondOf(now))
	}
}

// crawlUp raises the ceiling a little, the faster the longer it has been quiet.
func (s *steer) crawlUp(now clock.Instant, dt float64) {
	tau := max(30, seconds(s.lag))
	if s.pricedByOrder() && math.Abs(s.ceil/s.failRate-1) < nearBy {
		tau = max(tau, dear*seconds(s.order))
	}
	quiet := seconds(now.Sub(max(s.at, s.quietTill, s.modeAt.Add(-time.Hour))))
	by := creep * 30 / tau * (1 + quiet/tau)
	s.ceil = min(s.ceil*(1+min(0.02, by*dt)), s.top())
	s.grown = s.grown || s.ceil > 1.1*float64(s.resumeCeil)
	s.rate = s.cruise()
}

// pricedByOrder reports whether the last refusal's order is the price of each: a long one is a
// quota's, whose pauses buy peace, and one that is far shorter than the longest pause is but
// the rest of a window.
func (s *steer) pricedByOrder() bool {
	return s.order > 0 && s.order < longOrder && s.lag < 2*s.order
}

// scheduleProbe sets the time of the next probe, unless one is due sooner. Where a
// refusal means a pause, only creeping is allowed.
func (s *steer) scheduleProbe(now clock.Instant) {
	w := time.Duration(s.probeWait) * time.Second
	if s.lag > 0 || s.quietTill > s.at {
		w = time.Duration(forever)
	}
	if s.recovering(now) {
		w = min(w, recoverWait)
	}
	if w < time.Hour {
		s.probeDue = min(s.probeDue, now.Add(w))
	}
}

func (s *steer) beginProbe(now clock.Instant) {
	s.meetTrouble()
	s.gain = probeGain
	if s.recovering(now) {
		s.gain = recoverGain
	}
	s.open, s.grown = true, true
	s.probeAt, s.probed, s.probeCeil = now, 0, float32(s.ceil)
	s.enter(now, probing)
	s.rate = s.bounded(s.cruise() * (1 + float64(s.gain)))
}

// probe raises the rate step by step until it is refused, or stands proven.
func (s *steer) probe(now clock.Instant) {
	step := max(s.step(), duration(5/s.rate))
	if now < s.stepAt.Add(step) {
		return
	}
	s.stepAt = now
	if !s.busy(now, s.rate) {
		s.sailOut(now)
		return
	}
	rec := s.recovering(now)
	extra := float64(s.probed) - s.ceil*(seconds(now.Sub(s.probeAt))-float64(s.srtt))
	top := 2 * s.ceil
	if rec {
		top = max(top, s.ceil*float64(s.peak)/s.cruise())
	}
	top = min(top, s.ceilMax)
	proven := extra > probeVolume && (rec || extra > probeFor*(top-s.ceil))
	if proven && s.rate >= top {
		s.ceil, s.provisional, s.grown = s.rate/(1-margin), true, true
		s.probeWait = probeWaitMin
		s.note(now, CauseProbed, float64(s.probeCeil), s.rate, 0)
		s.sailOut(now)
		return
	}
	s.gain *= 2
	if !proven {
		most := 0.5
		if rec {
			most = max(0.5, min(3, s.peakNow(now)/s.cruise()-1))
		}
		s.gain = min(s.gain, float32(most))
	}
	s.rate = min(top, s.cruise()*(1+float64(s.gain)))
}

// verdict ends a probe: one that found nothing makes the next wait longer.
func (s *steer) verdict(provenBefore float64) {
	if !s.open {
		return
	}
	s.open = false
	if s.ceil > 1.1*provenBefore {
		s.probeWait = probeWaitMin
	} else {
		s.probeWait = min(2*s.probeWait, probeWaitMax)
	}
}

// probedRate is what was admitted since the latest probe began, per second.
func (s *steer) probedRate() float64 {
	return float64(s.probed) / max(seconds(s.sentAt.Sub(s.probeAt)), 0.001)
}
