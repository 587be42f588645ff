package ratelimit

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// latencyWeight is the share of a new answer in the expected latency. A fifth
// forgets a slow spell in about ten answers and is not moved much by one page.
const latencyWeight = 0.2

// state is all that is known of one domain, under one lock. It is also the permit
// that a grant hands out, which is why a grant allocates nothing.
//
// Lock order: shard, state, global bucket.
type state struct {
	// What an Acquire reads comes first, down to the strategy: three cache lines. In a
	// wide crawl a domain is cold each time, and a line costs more than the work on it.
	rules *rules // never changes
	check uint64 // of the domain's identity; never changes, nor does domain

	mu         sync.Mutex    // guards what follows
	touched    bool          // used since the evictor last came by
	dead       bool          // evicted: look the domain up again
	taught     bool          // an answer, or a tombstone, has taught something
	told       breaker.State // the latest that OnChange was told
	inFlight   int32         // permits granted and not released
	bucket     bucket
	retryUntil clock.Instant // end of the latest Retry-After
	notBefore  clock.Instant // the plan's, as the next two
	review     clock.Instant
	inCap      int32         // bound on inFlight; zero for none
	lastGrant  clock.Instant // or the latest sending, when that is known to be later
	lastActive clock.Instant
	crawlDelay time.Duration // of robots.txt, capped; zero for none
	granted    uint64
	line       *line // nil while nobody waits
	breaker    breaker.Breaker
	strategy   strategy

	domain  string
	latency estimate.EWMA // of answers, in nanoseconds; the target until there is one
	window  estimate.Window
	tail    estimate.Quantile // latencies of the last answers
}

func newState(r *rules, now clock.Instant) *state {
	l := r.l
	s := &state{
		rules: r, strategy: strategies[l.cfg.Strategy](r.start), breaker: breaker.New(&l.breaker),
		window: l.window, latency: estimate.EWMA(l.cfg.LatencyTarget),
		bucket:     bucket{level: r.capacity, at: now, rate: r.start},
		retryUntil: never, notBefore: never, lastGrant: never, lastActive: now,
	}
	s.replanLocked(now)
	return s
}

// nowLocked reads the clock. Reading it under the lock and never below the bucket's
// last instant keeps each domain's time from going back, whoever comes first.
func (s *state) nowLocked() clock.Instant {
	return max(s.rules.l.now(), s.bucket.at)
}

// ceilingLocked is the fastest that user and robots.txt allow.
func (s *state) ceilingLocked() rate {
	if s.crawlDelay > 0 {
		return min(s.rules.ceiling, rateEvery(s.crawlDelay))
	}
	return s.rules.ceiling
}

// replanLocked asks the strategy and puts its plan into effect from now on. The
// tokens accrued so far stay.
func (s *state) replanLocked(now clock.Instant) {
	s.bucket.advance(now, s.rules.capacity)
	p := s.strategy.plan(now)
	s.bucket.rate = min(max(p.rate, s.rules.floor), s.ceilingLocked())
	s.inCap, s.review = int32(p.inFlight), p.review
	if s.notBefore = p.notBefore; p.notBefore == 0 {
		s.notBefore = never
	}
}

// reviewLocked brings the bucket up to now, by a new plan if the last has run out.
func (s *state) reviewLocked(now clock.Instant) {
	if now >= s.review {
		s.replanLocked(now)
		return
	}
	s.bucket.advance(now, s.rules.capacity)
}

// spacingLocked is the least time between two grants, and who asked for it.
func (s *state) spacingLocked() (time.Duration, Limit) {
	if s.crawlDelay >= s.rules.minDelay && s.crawlDelay > 0 {
		return s.crawlDelay, LimitCrawlDelay
	}
	return s.rules.minDelay, LimitRule
}

// scheduleLocked is the earliest instant for the grant that comes after ahead
// others, if each takes its turn as soon as it can and nothing is learned in the
// meantime; and what it waits for, LimitNone if it is now. The breaker is not
// asked. It changes nothing.
func (s *state) scheduleLocked(now clock.Instant, ahead int) (at clock.Instant, why Limit) {
	at = now
	if s.retryUntil > at {
		at, why = s.retryUntil, LimitRetryAfter
	}
	if s.notBefore > at {
		at, why = s.notBefore, LimitLearned
	}
	spacing, asked := s.spacingLocked()
	if spacing > 0 {
		if t := s.lastGrant.Add(spacing); t > at {
			at, why = t, asked
		}
	}
	gate := at // nothing is granted before, so tokens pile up to the capacity
	if t := s.bucket.when(gate, s.rules.capacity, 1); t > at {
		at, why = t, s.paceLocked()
	}
	if ahead == 0 {
		return at, why
	}
	if spacing > 0 {
		at, why = at.Add(min(spacing, longest/time.Duration(ahead))*time.Duration(ahead)), asked
	}
	if t := s.bucket.when(gate, s.rules.capacity, ahead+1); t > at {
		at, why = t, s.paceLocked()
	}
	return at, why
}

// paceLocked tells what keeps the rate where it is.
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

// fullLocked reports whether the strategy wants an answer before another grant.
func (s *state) fullLocked() bool { return s.inCap > 0 && s.inFlight >= s.inCap }

// readyLocked is scheduleLocked for the one after those in line and ahead more, with
// the breaker and the global bucket in view. While the breaker is not closed, each
// that goes ahead is a probe, and may take as long as a probe may.
func (s *state) readyLocked(now clock.Instant, ahead, all int) (at clock.Instant, why Limit) {
	at, why = s.scheduleLocked(now, ahead+s.waitingLocked())
	if s.fullLocked() {
		at, why = max(at, now.Add(time.Duration(token/int64(s.bucket.rate)))), LimitLearned
	}
	gate, ok := s.breaker.Ready(now)
	if s.breaker.State(now) != breaker.Closed {
		gate = gate.Add(min(s.rules.l.breaker.ProbeTimeout, longest/time.Duration(ahead+1)) * time.Duration(ahead))
		ok = ok && ahead == 0
	}
	if !ok && gate > at {
		at, why = gate, LimitBreaker
	}
	if t := s.rules.l.global.when(now, all); t > at {
		at, why = t, LimitGlobal
	}
	return at, why
}

// acquireLocked grants, refuses, or waits and then does one of them. It holds the
// lock when it returns, and not while it sleeps.
func (s *state) acquireLocked(ctx context.Context, domain string, now clock.Instant) (Permit, error) {
	l := s.rules.l
	if _, ok := s.breaker.Ready(now); !ok {
		l.denied.Add(1)
		return nil, s.denialLocked(domain, now)
	}
	s.reviewLocked(now)
	deadline := forever
	if t, ok := ctx.Deadline(); ok {
		deadline = l.instantOf(t)
	}
	waiting := s.waitingLocked()
	at, why := s.scheduleLocked(now, waiting)
	if at <= now && waiting == 0 && now <= deadline && !s.fullLocked() && l.global.tryTake(now) {
		return s.grantLocked(now), nil
	}
	if waiting >= l.cfg.MaxWaiters {
		return nil, fmt.Errorf("acquire %s: %w: %d", domain, ErrTooManyWaiters, waiting)
	}
	if t := l.global.when(now, 0); t > at {
		at, why = t, LimitGlobal
	}
	if at > deadline {
		return nil, &WaitError{Domain: domain, Wait: at.Sub(now), Limit: why}
	}
	return s.waitLocked(ctx, &waiter{domain: domain, wake: make(chan struct{}, 1), deadline: deadline}, now)
}

// grantLocked takes what a grant at now costs, all conditions being met.
func (s *state) grantLocked(now clock.Instant) Permit {
	ticket, _, _ := s.breaker.Allow(now)
	s.bucket.take()
	s.lastGrant = now
	s.inFlight++
	s.granted++
	s.strategy.sent(now, int(s.inFlight))
	if ticket.Probe() {
		// Whoever waits behind a probe would wait for its verdict, not for a token.
		s.dismissLocked(now)
		return &probe{state: s, ticket: ticket}
	}
	return s
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
	if s.inCap > 0 {
		s.nudgeLocked()
	}
}

// probe is the permit of a half-open breaker's probe. Released without feedback it
// is a lost one: its slot is free for the next, and no verdict is passed.
type probe struct {
	state  *state
	ticket breaker.Ticket
}

func (p *probe) Release() {
	p.state.mu.Lock()
	p.state.breaker.Drop(p.ticket)
	p.state.releaseLocked()
	p.state.mu.Unlock()
}

// learnLocked takes in what became of the request sent at sentAt.
func (s *state) learnLocked(now, sentAt clock.Instant, class outcome.Class, fb *Feedback) {
	if fb.RetryAfter > 0 {
		s.retryUntil = max(s.retryUntil, now.Add(fb.RetryAfter))
	}
	// The spacing that a host asks for is between requests, and one may have gone out
	// later than it was granted: a connection had to be made, or the machine was busy.
	s.lastGrant = max(s.lastGrant, sentAt)
	if class != outcome.Canceled && class != outcome.Unknown || fb.RetryAfter > 0 {
		s.observeLocked(now, sentAt, class, fb)
	}
	s.judgeLocked(now, sentAt, class, fb.RetryAfter > 0)
	s.replanLocked(now)
}

func (s *state) observeLocked(now, sentAt clock.Instant, class outcome.Class, fb *Feedback) {
	if class == outcome.Canceled || class == outcome.AddressDenied {
		return // no request reached the host, or we did not wait for what it would say
	}
	s.taught = s.taught || class.Answered() || class.Overload() || fb.RetryAfter > 0
	s.strategy.observe(now, observation{
		cfg: &s.rules.l.cfg, sentAt: sentAt, class: class, latency: fb.Latency, target: s.targetLocked(),
		retryAfter: fb.RetryAfter, quota: fb.Quota, floor: s.rules.floor, ceiling: s.ceilingLocked(),
	})
	if class.Answered() {
		s.latency.Add(float64(fb.Latency), latencyWeight)
		s.tail.Add(fb.Latency)
	}
}

// targetLocked is the latency expected of this host: the average of its answers, but
// never below what the user expects. On a near host the average is a fraction of a
// millisecond, and twice that is the scheduler's noise, not a queue.
func (s *state) targetLocked() time.Duration {
	return max(s.rules.l.cfg.LatencyTarget, time.Duration(s.latency))
}

// judgeLocked gives the breaker its verdict, if there is one. An order to wait is
// obeyed and is no failure; what says nothing of the host is no verdict at all.
func (s *state) judgeLocked(now, sentAt clock.Instant, class outcome.Class, told bool) {
	ticket, ok := s.breaker.TicketAt(sentAt)
	if !ok {
		return
	}
	if told || !class.Answered() && !class.Overload() && !reachedHost(class) {
		s.breaker.Drop(ticket)
		return
	}
	s.window.Add(now, kindOf(class))
	c := s.window.Sum(now)
	if !s.breaker.Record(now, ticket, class.Overload(), c.ErrorRate(), c.Total) {
		return
	}
	if s.breaker.State(now) == breaker.Closed {
		s.window.Reset() // or the errors that opened it would open it again
		return
	}
	s.dismissLocked(now)
}

// reachedHost is true of classes without a status in which the host spoke
// nonetheless, and not of overload.
func reachedHost(class outcome.Class) bool {
	switch class {
	case outcome.TLS, outcome.Protocol, outcome.Decode, outcome.TooLarge:
		return true
	}
	return false
}

func kindOf(class outcome.Class) estimate.Kind {
	switch class {
	case outcome.Throttled:
		return estimate.Throttled
	case outcome.Unavailable, outcome.Gateway, outcome.ServerError:
		return estimate.ServerError
	case outcome.Timeout, outcome.Network, outcome.DNS:
		return estimate.Network
	}
	return estimate.Success
}
