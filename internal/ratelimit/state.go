package ratelimit

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// state is what is known of one domain, under one lock. It is also the domain's permit, so that a grant does not
// allocate.
//
// Lock order: shard, state, shared budgets and groups.
type state struct {
	// The fields that Acquire reads come first, in three cache lines: in a wide crawl a domain is rarely in the cache.
	rules *rules // guarded by mu: SetRules replaces it

	mu         sync.Mutex // guards what follows
	dead       bool       // evicted: look the domain up again
	taught     bool       // something was learned, from an answer or a tombstone
	unreported bool       // the journal has an event that OnEvent was not called with
	favoured   bool       // a trial of its address sets its rate
	mustWait   waits      // what ReadyAt has said since the last grant
	inFlight   int32      // permits granted and not released
	granted    uint32     // permits, modulo 2^32
	plan       plan
	bucket     bucket
	owes       owes
	lastActive clock.Instant
	line       *line  // nil while nobody waits
	site, addr *group // the groups of which it is a member; nil for none
	strategy   control.Strategy

	domain  string // never changes
	window  estimate.Window
	tail    estimate.Quantile       // latencies of the last answers
	journal *journal[control.Event] // nil before the first event
}

// plan is what is kept of the strategy's last [control.Plan].
type plan struct {
	notBefore clock.Instant // no request earlier; never if the strategy sets no such time
	review    clock.Instant // when to ask for a new plan
	target    uint32        // expected latency in microseconds, so that a snapshot needs no new plan
	seenEvent uint16        // the low bits of the number of the strategy's last event
	catchUp   uint16        // in milliseconds
	inCap     uint16        // bound on inFlight; zero for none
	hintCap   uint16        // the bound on inFlight that the host told; zero for none
	gate      breaker.State // of the strategy's breaker
}

func (p *plan) state(now clock.Instant) breaker.State {
	if p.gate == breaker.Open && now >= p.notBefore {
		return breaker.HalfOpen
	}
	return p.gate
}

func (p *plan) shut(now clock.Instant) bool { return p.gate != breaker.Closed && now < p.notBefore }

// owes are a domain's obligations, which outlive its state.
type owes struct {
	retryUntil clock.Instant // end of the latest Retry-After, or of a quota that is used up; never for none
	lastGrant  clock.Instant // the last grant, or the last request if that was sent later; never for none
	crawlDelay time.Duration // of robots.txt; zero for none
}

func newState(r *rules, now clock.Instant, memory control.Memory) *state {
	l := r.l
	s := &state{
		rules: r, strategy: l.make(&l.control, now, r.host(memory)), window: l.window, lastActive: now,
		bucket: bucket{level: r.capacity, at: now, rate: r.start}, owes: owes{retryUntil: never, lastGrant: never},
	}
	s.replanLocked(now)
	s.journal, s.unreported = nil, false // the event of a remembered rate was told by an earlier state
	return s
}

// waits says what ReadyAt told a caller to wait for, so that its request is counted once.
type waits uint8

const (
	waitsLong waits = 1 << iota // for ThrottledAfter or more
	waitsShut                   // for a breaker
)

func (s *state) noteWaitLocked(now, at clock.Instant, why Limit) {
	if at.Sub(now) >= s.rules.l.cfg.ThrottledAfter {
		s.mustWait |= waitsLong
	}
	if why == LimitBreaker && s.mustWait&waitsShut == 0 {
		s.mustWait |= waitsShut
		s.rules.l.denied.Add(1)
	}
}

// restartLocked makes a new strategy that starts no slower than the domain is asked now.
func (s *state) restartLocked(now clock.Instant) {
	l, h := s.rules.l, s.rules.host(control.Memory{})
	h.Start = max(s.bucket.rate, s.rules.start).rps()
	s.strategy = l.make(&l.control, now, h)
	s.plan.seenEvent = 0 // a new strategy counts its events from one
}

// nowLocked reads the clock. It is never before the bucket's last instant, so that a state's time does not go back.
func (s *state) nowLocked() clock.Instant {
	return max(s.rules.l.now(), s.bucket.at)
}

func (s *state) ceilingLocked() rate {
	if s.owes.crawlDelay > 0 {
		return min(s.rules.ceiling, rateEvery(s.owes.crawlDelay))
	}
	return s.rules.ceiling
}

// capacityLocked is the bucket's capacity: what the user allows, and what the strategy asks for to make up for late
// timers.
func (s *state) capacityLocked() int64 {
	return s.rules.capacity + min(int64(s.bucket.rate)*int64(time.Duration(s.plan.catchUp)*time.Millisecond), token)
}

// replanLocked puts the strategy's plan into effect. Accrued tokens stay.
func (s *state) replanLocked(now clock.Instant) {
	s.bucket.advance(now, s.capacityLocked())
	p := s.strategy.Plan(now)
	in := &s.plan
	if uint16(p.Event.Number) != in.seenEvent || p.State != in.gate {
		s.notePlanLocked(now, &p, in.gate)
	}
	s.bucket.rate = min(max(rateOf(p.Rate), s.rules.floor), s.ceilingLocked())
	in.target = uint32(min(p.Target.Microseconds(), math.MaxUint32))
	in.gate, in.review, in.inCap = p.State, p.Review, uint16(min(p.InFlight, math.MaxUint16))
	if in.hintCap > 0 && (in.inCap == 0 || in.inCap > in.hintCap) {
		in.inCap = in.hintCap
	}
	if in.notBefore = p.NotBefore; p.NotBefore == 0 {
		in.notBefore = never
	}
	in.catchUp = uint16(min(p.CatchUp, time.Second) / time.Millisecond)
	if s.favoured || s.addr != nil && s.rules.l.shared.live.Load() > 0 {
		s.favourLocked()
	}
	s.bucket.level = min(s.bucket.level, s.capacityLocked())
}

func (s *state) reviewLocked(now clock.Instant) {
	if now >= s.plan.review {
		s.replanLocked(now)
		return
	}
	s.bucket.advance(now, s.capacityLocked())
}

func (s *state) spacingLocked() (time.Duration, Limit) {
	if d := s.owes.crawlDelay; d > 0 && d >= s.rules.minDelay {
		return d, LimitCrawlDelay
	}
	return s.rules.minDelay, LimitRule
}

// scheduleLocked returns the earliest instant by the domain's own limits for the grant after ahead others, and the limit
// that decides; LimitNone if the instant is now. It changes nothing.
func (s *state) scheduleLocked(now clock.Instant, ahead int) (at clock.Instant, why Limit) {
	at = now
	if s.rules.caps != nil {
		at, why = s.rules.caps.when(now, 0)
	}
	if s.owes.retryUntil > at {
		at, why = s.owes.retryUntil, LimitRetryAfter
	}
	if s.plan.notBefore > at {
		if at, why = s.plan.notBefore, LimitLearned; s.plan.gate != breaker.Closed {
			why = LimitBreaker
		}
	}
	spacing, asked := s.spacingLocked()
	if spacing > 0 {
		if t := s.owes.lastGrant.Add(spacing); t > at {
			at, why = t, asked
		}
	}
	gate := at // nothing is granted before it, so the bucket fills meanwhile
	if t := s.bucket.when(gate, s.capacityLocked(), 1); t > at {
		at, why = t, s.paceLocked()
	}
	if ahead == 0 {
		return at, why
	}
	if spacing > 0 {
		at, why = at.Add(min(spacing, longest/time.Duration(ahead))*time.Duration(ahead)), asked
	}
	if t := s.bucket.when(gate, s.capacityLocked(), ahead+1); t > at {
		at, why = t, s.paceLocked()
	}
	if s.rules.caps != nil {
		if t, limit := s.rules.caps.when(now, ahead); t > at {
			at, why = t, limit
		}
	}
	return at, why
}

func (s *state) paceLocked() Limit {
	switch {
	case s.bucket.rate >= s.rules.ceiling:
		return LimitRule
	case s.bucket.rate >= s.ceilingLocked():
		return LimitCrawlDelay
	case s.taught:
		return LimitLearned
	}
	return LimitStart
}

// fullLocked reports whether as many requests are in flight as may be, so that a grant has to wait for a release, and
// the limit that says so.
func (s *state) fullLocked() (why Limit, full bool) {
	if s.rules.bounded() {
		if m := s.rules.maxInFlight; m > 0 && s.inFlight >= m {
			return LimitRule, true
		}
		if c := s.rules.caps; c != nil && c.full() {
			return LimitCap, true
		}
	}
	return LimitLearned, s.plan.inCap > 0 && s.inFlight >= int32(s.plan.inCap)
}

// readyLocked is scheduleLocked for the grant after those in line and ahead more, by all limits: also the breaker and
// the shared budgets. While the breaker is not closed, each of those ahead is a probe, and may take OpenStateDuration.
func (s *state) readyLocked(now clock.Instant, ahead, all int) (at clock.Instant, why Limit) {
	at, why = s.scheduleLocked(now, ahead+s.line.len())
	if limit, full := s.fullLocked(); full {
		at, why = max(at, now.Add(s.bucket.rate.interval())), limit
	}
	if s.plan.gate != breaker.Closed && ahead > 0 {
		probes := min(s.rules.l.cfg.OpenStateDuration, longest/time.Duration(ahead+1)) * time.Duration(ahead)
		at, why = max(at, max(now, s.plan.notBefore).Add(probes)), LimitBreaker
	}
	sh := s.sharesLocked()
	if t, limit := s.rules.l.shared.when(&sh, now, all); t > at {
		at, why = t, limit
	}
	return s.reviewedLocked(now, at, why), why
}

// reviewedLocked is when to look again at a grant that is due at the instant at: a new plan may raise its rate before.
func (s *state) reviewedLocked(now, at clock.Instant, why Limit) clock.Instant {
	if (why == LimitLearned || why == LimitStart) && s.plan.notBefore <= now && s.plan.review > now && s.plan.review < at {
		return s.plan.review
	}
	return at
}

// acquireLocked grants a permit, at once or after a wait, or returns an error. It holds the lock when it returns, and
// not while it sleeps.
func (s *state) acquireLocked(ctx context.Context, domain string, now clock.Instant) (Permit, error) {
	l := s.rules.l
	s.reviewLocked(now)
	if s.plan.shut(now) {
		l.denied.Add(1)
		return nil, s.denialLocked(domain)
	}
	deadline := forever
	if t, ok := ctx.Deadline(); ok {
		deadline = l.instantOf(t)
	}
	waiting := s.line.len()
	at, why := s.scheduleLocked(now, waiting)
	sh := s.sharesLocked()
	if _, full := s.fullLocked(); at <= now && waiting == 0 && now <= deadline && !full {
		if t, ok := l.shared.tryTake(&sh, now); ok && s.rules.caps.take() {
			return s.grantLocked(now, 0, t), nil
		} else if ok {
			l.shared.giveUp(now, t)
		}
	}
	if waiting >= l.cfg.MaxWaiters {
		return nil, fmt.Errorf("acquire %s: %w: %d", domain, ErrTooManyWaiters, waiting)
	}
	// Nobody knows when a place of GlobalConcurrency gets free, so it is no reason to fail at once.
	if t, limit := l.shared.when(&sh, now, 0); t > at && limit != LimitGlobalConcurrency {
		at, why = t, limit
	}
	if at > deadline {
		if l.cfg.Fleet != nil {
			l.shared.wait(&sh, now, why) // tokens that come may serve the next caller in time
		}
		return nil, &WaitError{Domain: domain, Wait: at.Sub(now), Limit: why}
	}
	return s.waitLocked(ctx, &waiter{domain: domain, wake: make(chan struct{}, 1), deadline: deadline}, now)
}

// grantLocked grants a permit. It counts as throttled if it was waited for, in Acquire or as ReadyAt had said.
func (s *state) grantLocked(now clock.Instant, waited time.Duration, t ticket) Permit {
	if s.mustWait&waitsLong != 0 || waited >= s.rules.l.cfg.ThrottledAfter {
		s.rules.l.throttled.Add(1)
	}
	s.mustWait = 0
	s.bucket.take()
	s.owes.lastGrant = now
	s.inFlight++
	if s.granted++; s.granted == 0 {
		s.rules.l.granted.Add(1 << 32)
	}
	trial := s.strategy.Sent(now, int(s.inFlight))
	if trial == 0 && t.trial == 0 {
		return s
	}
	s.replanLocked(now)
	if trial != 0 && s.plan.gate != breaker.Closed {
		s.refuseWaitersLocked() // they would wait for the probe's verdict, not for a token
	}
	return &probe{state: s, trial: trial, ticket: t}
}

// Release gives the permit back.
func (s *state) Release() {
	s.mu.Lock()
	s.releaseLocked()
	s.mu.Unlock()
}

func (s *state) releaseLocked() {
	if s.inFlight == 0 {
		s.rules.l.overReleased.Add(1)
		return
	}
	s.inFlight--
	r := s.rules
	r.l.shared.released()
	r.caps.release(numCaps)
	if s.plan.inCap > 0 || r.bounded() {
		s.line.nudge()
	}
}

// probe is the permit of a trial: a half-open breaker's probe, or one of a group's controller. Released without feedback
// it is lost: another may be sent, and nothing was learned.
type probe struct {
	state  *state
	trial  uint32 // of the domain's strategy; zero if it is only the group's
	ticket ticket
}

func (p *probe) Release() {
	s := p.state
	s.mu.Lock()
	now := s.nowLocked()
	if p.trial != 0 {
		s.strategy.Lost(now, p.trial)
	}
	p.ticket.lost(now)
	s.replanLocked(now)
	s.releaseLocked()
	s.rearmLocked(now)
	s.rules.l.unlock(s)
}

func (s *state) learnLocked(now, sentAt clock.Instant, class outcome.Class, fb *Feedback) {
	if fb.RetryAfter > 0 {
		s.noteRetryAfterLocked(now, sentAt, fb)
		s.owes.retryUntil = max(s.owes.retryUntil, now.Add(fb.RetryAfter))
	}
	if !fb.Quota.IsZero() && fb.Quota.Remaining <= 0 {
		// Nothing is left until the quota's reset, which is obeyed like a Retry-After whatever the strategy makes of it.
		s.owes.retryUntil = max(s.owes.retryUntil, now.Add(max(fb.Quota.Reset, 0)))
	}
	// The spacing is between requests, and a request may be sent later than it was granted.
	s.owes.lastGrant = max(s.owes.lastGrant, sentAt)
	if !s.groupFeedbackLocked(now, sentAt, class, fb) {
		s.observeLocked(now, sentAt, class, fb)
	}
	s.replanLocked(now)
	if s.plan.shut(now) {
		s.refuseWaitersLocked()
	}
}

func (s *state) observeLocked(now, sentAt clock.Instant, class outcome.Class, fb *Feedback) {
	if n := fb.Quota.InFlight; n > 0 {
		s.plan.hintCap = uint16(min(n, math.MaxUint16))
	}
	s.taught = s.taught || class.Answered() || class.Overload() || fb.RetryAfter > 0
	s.strategy.Observe(now, control.Observation{
		SentAt: sentAt, Class: class, Forbidden: outcome.Forbidden(fb.StatusCode) && fb.Err == nil, Lifted: fb.Lifted,
		Latency: fb.Latency, RetryAfter: fb.RetryAfter, Quota: fb.Quota, Second: fb.Second, InFlight: int(s.inFlight),
		Floor: s.rules.floor.rps(), Ceiling: s.ceilingLocked().rps(), Window: &s.window,
	})
	if class.Answered() && !class.Overload() {
		s.tail.Add(fb.Latency, s.rules.l.cfg.LatencySamples)
	}
}
