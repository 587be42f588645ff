package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/control/steer"
	"github.com/treadlight/crawl/internal/ratelimit/enum"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// RateLimiter admits requests, domain by domain. Its methods are safe for concurrent use.
type RateLimiter interface {
	// Acquire blocks until one request may be sent to the domain.
	Acquire(ctx context.Context, domain string) (Permit, error)
	// Feedback reports what became of a request.
	Feedback(domain string, fb Feedback)
	// Snapshot sums up what the limiter knows.
	Snapshot() LimiterSnapshot
}

// Until is a context with an earlier deadline that costs no timer: [RateLimiter.Acquire] reads the deadline, and fails at
// once when it cannot be met.
type Until struct {
	context.Context
	Time time.Time
}

// Deadline is the earlier of the two.
func (c Until) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.Time) {
		return d, true
	}
	return c.Time, true
}

// Permit is the right to send one request. Release ends it, exactly once, at the end of the body, after the feedback.
// A domain with a permit out is never evicted. A second release is counted and frees nothing.
type Permit interface{ Release() }

// Feedback is the outcome of one request, due before the permit's release: a probe without feedback counts as lost.
type Feedback struct {
	StatusCode int           // of the answer; zero if there was none
	Latency    time.Duration // from sending to the headers; a negative one is zero
	Err        error         // nil if the answer came in whole; goes before the status
	RetryAfter time.Duration // how long the host is not to be asked, from now on, whatever the status; zero or less for no wait. [Waits] says for which statuses to set it
	SentAt     time.Time     // when it was sent, on the limiter's clock; zero means Latency ago
	Quota      header.Quota  // what the server said of its quota; zero if nothing
	Second     uint8         // of the server's clock, as [header.Second] has it; zero if not known
	Retry      bool          // it was a further try of a request that had failed; only counted
	Lifted     bool          // the same URL was answered 403 before and is not now: this host's 403s end after a while
	OfURL      bool          // only this URL is refused, the host serves others: it says nothing of the host's rate. RetryAfter is obeyed all the same
	OfURLFirst bool          // with OfURL: the refusal before it was of this URL alone too, but was reported as the host's. The strategy is made anew, no slower than now
}

// AdaptiveRateLimiter is the engine (see the package comment), made by [New] and safe for concurrent use.
type AdaptiveRateLimiter struct {
	cfg      Config         // never changes after New, as all up to the counters
	control  control.Config // shared by all strategies
	strategy control.Info
	make     control.Maker           // makes the strategy of a domain
	window   estimate.Window         // an empty one, to copy
	rules    atomic.Pointer[ruleSet] // the user's; only SetRules replaces them
	rulesMu  sync.Mutex              // held by SetRules
	epoch    time.Time               // instant zero of the limiter's clock
	seed     maphash.Seed            // of the hashes that choose shards: nobody can choose names that meet in one
	shards   []shard
	mask     uint64 // len(shards)-1
	shared   shared

	ungoverned   atomic.Uint64 // permits granted while not enabled
	throttled    atomic.Uint64
	denied       atomic.Uint64
	retries      atomic.Uint64
	overReleased atomic.Uint64
	evicted      atomic.Uint64
	granted      atomic.Uint64 // what the states' counters of 32 bits have lost by overflow
	overCap      atomic.Uint64 // states made beyond a shard's capacity, as all others were active
}

var _ RateLimiter = (*AdaptiveRateLimiter)(nil)

// New returns a limiter. It rejects a Config with a value out of range, naming the field. It starts no goroutine: the
// caller runs [AdaptiveRateLimiter.Run].
func New(cfg Config) (*AdaptiveRateLimiter, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	l := &AdaptiveRateLimiter{cfg: cfg, epoch: cfg.Clock.Now(), seed: maphash.MakeSeed()}
	l.control = control.Config{
		Increase: cfg.AIMDIncrease, Decrease: cfg.AIMDDecrease,
		Latency: cfg.LatencyTarget, Degrade: cfg.LatencyDegradeFactor,
		Breaker: breaker.Config{
			ErrorRate: cfg.ErrorRateThreshold, MinSamples: cfg.MinSamplesToTrip,
			Consecutive: cfg.ConsecutiveFailThreshold, OpenFor: cfg.OpenStateDuration, Probes: cfg.HalfOpenProbes,
		},
	}
	_ = l.control.Breaker.Validate() // which fills in what is not configured; the rest was validated
	l.window, _ = estimate.NewWindow(cfg.StatsWindow, cfg.StatsBucket)
	var err error
	if l.strategy, err = control.Find(cfg.Strategy); err != nil {
		return nil, fmt.Errorf("ratelimit: Strategy = %w", err)
	}
	if l.make = l.strategy.Make; l.make == nil {
		l.make = steer.Maker(cfg.Tuning)
	}
	set, err := newRuleSet(l, &cfg, nil)
	if err != nil {
		return nil, err
	}
	l.rules.Store(set)
	l.shared.init(l)
	l.makeShards()
	return l, nil
}

func (l *AdaptiveRateLimiter) now() clock.Instant {
	return clock.Instant(l.cfg.Clock.Since(l.epoch))
}

func (l *AdaptiveRateLimiter) timeOf(i clock.Instant) time.Time { return l.epoch.Add(time.Duration(i)) }

func (l *AdaptiveRateLimiter) instantOf(t time.Time) clock.Instant {
	return min(max(clock.Instant(t.Sub(l.epoch)), never), forever-1)
}

// Acquire blocks until a request to the domain may be sent, in order of arrival per domain.
//
// It fails with a [CircuitOpenError] if the domain's breaker is or becomes open, or is half-open with its probe out;
// with a [WaitError] as soon as the turn comes after ctx's deadline; with ctx's error; with [ErrTooManyWaiters]. A
// failed call has taken nothing.
func (l *AdaptiveRateLimiter) Acquire(ctx context.Context, domain string) (Permit, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if !l.cfg.Enabled {
		l.ungoverned.Add(1)
		return freePermit{}, nil
	}
	domain = Domain(domain)
	s, now := l.use(domain)
	permit, err := s.acquireLocked(ctx, domain, now)
	l.unlock(s)
	return permit, err
}

// use locks the domain's state, as lock does, and counts as use of the domain: it is not evicted for DomainStateTTL.
func (l *AdaptiveRateLimiter) use(domain string) (s *state, now clock.Instant) {
	s = l.lock(domain)
	now = s.nowLocked()
	s.lastActive = now
	return s, now
}

type freePermit struct{}

func (freePermit) Release() {}

// Feedback reports the outcome of a request: the domain's rate, breaker and obligations follow from it. Of a canceled
// request only a Retry-After counts.
func (l *AdaptiveRateLimiter) Feedback(domain string, fb Feedback) {
	if fb.Retry {
		l.retries.Add(1)
	}
	if !l.cfg.Enabled {
		return
	}
	class := outcome.Of(fb.StatusCode, fb.Err)
	if fb.OfURL {
		class = outcome.Canceled // which teaches nothing, and ends a trial without a verdict
	}
	fb.Latency = max(fb.Latency, 0)
	fb.RetryAfter = min(max(fb.RetryAfter, 0), l.cfg.MaxRetryAfter)
	fb.Quota.Reset = min(fb.Quota.Reset, l.cfg.MaxRetryAfter)
	s, now := l.use(Domain(domain))
	sentAt := now.Add(-min(fb.Latency, longest))
	if !fb.SentAt.IsZero() {
		sentAt = min(l.instantOf(fb.SentAt), now)
	}
	if fb.OfURLFirst {
		s.restartLocked(now)
	}
	s.learnLocked(now, sentAt, class, &fb)
	s.rearmLocked(now)
	l.unlock(s)
}

// SetCrawlDelay sets robots.txt's delay as the least time between grants of the domain, and its inverse as a ceiling
// of the rate. It is capped by Config.MaxCrawlDelay; zero or less ends it.
func (l *AdaptiveRateLimiter) SetCrawlDelay(domain string, d time.Duration) {
	if !l.cfg.Enabled {
		return
	}
	d = min(max(d, 0), longest)
	if l.cfg.MaxCrawlDelay > 0 {
		d = min(d, l.cfg.MaxCrawlDelay)
	}
	s := l.lock(Domain(domain))
	now, before, was := s.nowLocked(), s.bucket.rate, s.owes.crawlDelay
	s.owes.crawlDelay = d
	s.replanLocked(now)
	if d != was {
		s.noteLocked(control.Event{
			At: now, Cause: control.CauseCrawlDelay, State: s.plan.state(now),
			From: float32(before.rps()), To: float32(s.bucket.rate.rps()), Hold: d,
		})
	}
	s.rearmLocked(now)
	l.unlock(s)
}

// SetDemand tells how many URLs wait for the domain, which says what there is to gain by asking it faster. It is no
// more than a hint: it makes no state, and not every strategy heeds it.
func (l *AdaptiveRateLimiter) SetDemand(domain string, urls int) {
	domain = Domain(domain)
	s := l.shardOf(domain).find(domain)
	if s == nil {
		return
	}
	s.mu.Lock()
	if d, ok := s.strategy.(interface{ SetDemand(urls int) }); ok {
		d.SetDemand(urls)
	}
	s.mu.Unlock()
}

// ReadyAt forecasts when an Acquire for the domain would return at once, if ahead requests to the domain and all
// requests to any domain were granted before it, and says which limit that is due to. It returns the zero time and
// LimitNone if the answer is now. While a half-open breaker's probe is out, it is the time at which the probe counts
// as lost. What is learned meanwhile moves the forecast.
//
// It takes no token and makes no state. A token of a shared budget that a caller was told of is kept for it for 20
// milliseconds. A caller that was told to wait is counted as throttled with its next permit.
func (l *AdaptiveRateLimiter) ReadyAt(domain string, ahead, all int) (at time.Time, why Limit) {
	if !l.cfg.Enabled {
		return time.Time{}, LimitNone
	}
	s, kept := l.peek(Domain(domain))
	s.mu.Lock()
	now := s.nowLocked()
	s.reviewLocked(now) // time alone may have raised the rate
	instant, why := s.readyLocked(now, max(ahead, 0), max(ahead, all, 0))
	sh := s.sharesLocked()
	if why == LimitNone {
		l.shared.promise(&sh, now)
	} else if l.cfg.Fleet != nil {
		l.shared.wait(&sh, now, why)
	}
	if kept && why != LimitNone {
		s.noteWaitLocked(now, instant, why)
	}
	s.mu.Unlock()
	if why == LimitNone {
		return time.Time{}, LimitNone
	}
	return l.timeOf(instant), why
}

func (l *AdaptiveRateLimiter) unlock(s *state) {
	news := s.unreported && l.cfg.OnEvent != nil
	s.unreported = false
	s.mu.Unlock()
	if news {
		tell(l, &s.mu, s.journal, func(e *control.Event) Event {
			told := eventOf(e, l.timeOf(e.At))
			told.Domain = s.domain
			return told
		})
	}
	if l.cfg.OnEvent != nil && l.shared.fresh.Load() {
		l.shared.fresh.Store(false)
		tell(l, &l.shared.mu, &l.shared.news, func(e *Event) Event { return *e })
	}
}

// peek returns the domain's state; if it has none, one that the first Acquire would make, which nobody else sees. A
// kept one may be evicted a moment later.
func (l *AdaptiveRateLimiter) peek(domain string) (s *state, kept bool) {
	sh := l.shardOf(domain)
	if s = sh.find(domain); s != nil {
		return s, true
	}
	sh.mu.RLock()
	t, _ := sh.tombs.Peek(domain)
	sh.mu.RUnlock()
	s = t.restore(l.rules.Load().rulesFor(domain), l.now())
	s.domain = domain
	if l.cfg.SiteRPS != 0 {
		l.shared.mu.Lock()
		s.site = l.shared.groups[siteKey(domain)]
		l.shared.mu.Unlock()
	}
	return s, false
}

// ErrCircuitOpen is what a [CircuitOpenError] is. The request was not sent.
var ErrCircuitOpen = errors.New("circuit open")

// ErrTooManyWaiters means that Config.MaxWaiters calls wait for the domain already.
var ErrTooManyWaiters = errors.New("too many waiters")

// CircuitOpenError is a denial by a domain's breaker. It is [ErrCircuitOpen].
type CircuitOpenError struct {
	Domain string
	Until  time.Time // when it is worth asking again
}

func (e *CircuitOpenError) Error() string {
	return fmt.Sprintf("acquire %s: circuit open until %s", e.Domain, e.Until.Format(time.TimeOnly))
}

func (e *CircuitOpenError) Unwrap() error { return ErrCircuitOpen }

// WaitError is given at once to a caller whose context ends before its turn. It is [context.DeadlineExceeded].
type WaitError struct {
	Domain string
	Wait   time.Duration // until the permit could have been had
	Limit  Limit         // what would have been waited for
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("acquire %s: the next permit in %v (%v) comes after the deadline", e.Domain, e.Wait, e.Limit)
}

func (e *WaitError) Unwrap() error { return context.DeadlineExceeded }

// Pacer says when a request may be sent to a host.
type Pacer interface {
	// ReadyAt returns the instant at which a request to a domain would not have to wait, if ahead other requests to the
	// domain and all requests to any domain go first, and the limit that makes it wait.
	ReadyAt(domain string, ahead, all int) (time.Time, Limit)
}

// Blocked reports whether a domain's breaker lets nothing through.
func Blocked(p Pacer, domain string) bool {
	_, why := p.ReadyAt(domain, 0, 0)
	return why == LimitBreaker
}

// Waits reports whether a Retry-After beside that status is for all of a domain, so that Feedback is to have it.
func Waits(p Pacer, domain string, status int) bool {
	waits := outcome.RetryAfter(status)
	return waits == outcome.WaitsHost || waits == outcome.WaitsIfBlock && Blocked(p, domain)
}

// RetryIn returns how long to wait, from now on, before a call may succeed that failed with err; ok is false if err does
// not say.
func RetryIn(err error, now time.Time) (wait time.Duration, ok bool) {
	if open, is := errors.AsType[*CircuitOpenError](err); is {
		return max(0, open.Until.Sub(now)), true
	}
	if late, is := errors.AsType[*WaitError](err); is {
		return late.Wait, true
	}
	return 0, false
}

// Limit is what a request waits for. The zero Limit is [LimitNone].
type Limit uint8

// The limits, from none to the widest.
const (
	LimitNone       Limit = iota // nothing: it may go
	LimitStart                   // the rate a host starts with: nothing has been learned yet
	LimitLearned                 // the rate that was learned
	LimitCrawlDelay              // robots.txt
	LimitRetryAfter              // Retry-After
	LimitRule                    // the user: a delay, or the ceiling of the rate
	LimitBreaker                 // an open breaker, or a half-open one whose probe is out
	LimitGlobal                  // the rate of all domains together
	LimitShared                  // the rate of the domains behind one address, or of one registrable domain

	LimitCap               // a cap of the user's rule for the domain
	LimitQuota             // the quota of the user's rule: it is used up
	LimitGlobalConcurrency // the requests that all domains together may have out
	LimitGlobalBytes       // the bytes per second of all domains together
)

var limitNames = []string{"none", "start", "learned", "crawl_delay", "retry_after", "rule", "breaker", "global", "shared", "cap", "quota", "global_concurrency", "global_bytes"}

func (l Limit) String() string { return enum.Name(limitNames, "limit", l) }

// MarshalText writes the name, so that JSON shows it.
func (l Limit) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads a name back.
func (l *Limit) UnmarshalText(text []byte) error { return enum.Parse(limitNames, "limit", text, l) }
