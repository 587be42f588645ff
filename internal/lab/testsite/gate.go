package testsite

import (
	"fmt"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

// unknown is the instant at which a request will be admitted if nobody can tell: an open
// request may end at any time.
const unknown clock.Instant = -1

// gate holds everything that may refuse a request to an address, and measures how much of it
// was used. The hosts of one address share it, so it has its own lock, taken after a host's. A
// request is charged to all limits or to none.
//
// The limits are those of package limit. Their clock stands at the instant of the decision and runs
// at the speed of the day.
type gate struct {
	day    *day
	tells  bool // answers tell the quota
	bounds bounds
	plain  bool // the tightest bound does not change with the day

	mu      sync.Mutex    // guards what follows
	last    clock.Instant // of a decision
	time    heldClock
	members []limit.Weighted // all limits
	quotas  []limit.Weighted // those of them that tell a quota
	delays  []delay
	work    work
	bans    bans
	open    int
	used    usage
}

type pass struct {
	ok     bool
	banned bool            // because of earlier ones
	ready  clock.Instant   // if not ok: when one would be admitted by what refused, or unknown
	delay  time.Duration   // by queues and leaky buckets
	factor float64         // of the host's own latency
	quota  *limit.Standing // nil: not told
}

// delay is a leaky bucket that delays the requests of its burst.
type delay struct {
	limit.Weighted

	burst int64
}

// heldClock stands still at an instant until it is set to the next.
type heldClock struct {
	clock.Clock           // for timers, which nothing here starts
	base        time.Time // without a monotonic reading, so that instants add up
	at          clock.Instant
}

func (c *heldClock) Now() time.Time                  { return c.base.Add(time.Duration(c.at)) }
func (c *heldClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func newGate(s *Site, cfg Host, seed uint64) (*gate, error) {
	if !cfg.limited() {
		return nil, nil
	}
	g := &gate{
		day: newDay(cfg.Day), tells: cfg.Refusal.tells(), bounds: boundsOf(&cfg, s.epoch),
		time: heldClock{Clock: s.clk, base: s.epoch.Round(0)}, work: newWork(cfg.Load, seed), bans: newBans(cfg.Ban),
	}
	g.plain = g.bounds.tightest().plain
	g.used = newUsage(g.bounds.rate(), g.bounds.window())
	for _, l := range cfg.Limit.limiters() {
		if err := g.add(&l, "limit", false); err != nil {
			return nil, err
		}
	}
	for i := range cfg.Limits {
		if err := g.add(&cfg.Limits[i], fmt.Sprintf("limit-%d", i), true); err != nil {
			return nil, err
		}
	}
	g.time.at = 0
	return g, nil
}

func (l *Limit) limiters() (all []Limiter) {
	if l.Rate > 0 {
		all = append(all, Limiter{Kind: kindLeaky, Rate: l.Rate, Burst: l.Burst})
	}
	if l.Requests > 0 {
		all = append(all, Limiter{Kind: kindFixed, Requests: l.Requests, Window: l.Window, fromNew: true})
	}
	if l.Concurrent > 0 {
		all = append(all, Limiter{Kind: kindSlots, Concurrent: l.Concurrent})
	}
	return all
}

// add makes a limiter of package limit for l. A window of its own begins with the hours of the day, so that its
// limiter is made at the begin of the present one.
func (g *gate) add(l *Limiter, name string, tells bool) error {
	opts := []limit.Option{limit.WithClock(&g.time), limit.WithQueueLimit(0)}
	window := limit.WindowConfig{Permits: int64(l.Requests), Per: l.Window}
	if g.time.at = 0; l.Window > 0 && !l.fromNew {
		g.time.at = -clock.Instant(time.Duration(g.time.base.UnixNano()) % l.Window)
	}
	var member limit.Weighted
	var err error
	switch l.Kind {
	case kindSlots:
		member, err = limit.NewConcurrency(limit.ConcurrencyConfig{Max: int64(l.Concurrent)}, opts...)
		tells = false
	case kindLeaky:
		// limit_req's excess, at most burst, is a bucket of burst+1 tokens upside down.
		member, err = limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 1, Per: interval(l.Rate), Burst: int64(l.Burst) + 1}, opts...)
		if l.Delay && l.Burst > 0 {
			g.delays = append(g.delays, delay{member, int64(l.Burst)})
		}
	case kindToken:
		member, err = limit.NewTokenBucket(limit.TokenBucketConfig{Permits: 1, Per: interval(l.Rate), Burst: int64(l.capacity())}, opts...)
	case kindLog:
		member, err = limit.NewSlidingWindowLog(window, opts...)
	case kindSliding:
		member, err = limit.NewSlidingWindow(window, opts...)
	default:
		member, err = limit.NewFixedWindow(window, opts...)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	g.members = append(g.members, member)
	if tells {
		g.quotas = append(g.quotas, member)
	}
	return nil
}

func (l *Limiter) capacity() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(1, int(l.Rate))
}

// interval is the distance of requests at a rate, rounded to a nanosecond: an error of
// one in a billion at one request per second, and of one in a thousand at a million.
func interval(rate float64) time.Duration { return time.Duration(float64(time.Second)/rate + 0.5) }

func (g *gate) admit(now clock.Instant) pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Hosts of one address read the clock before they wait for this lock.
	now = max(now, g.last)
	g.last = now
	if now < g.bans.until {
		return pass{banned: true}
	}
	g.time.at = g.day.of(now)
	p := g.chargeLocked(now)
	worked := g.time.at
	if g.plain {
		worked = now
	}
	g.used.arrive(worked, now, p.ok)
	if !p.ok {
		g.bans.refuse(now)
	}
	if g.tells {
		p.quota = g.standingLocked(p.ok)
	}
	return p
}

// chargeLocked first asks the limits that can be asked without a charge, and charges them
// when none can refuse any more.
func (g *gate) chargeLocked(now clock.Instant) pass {
	at := g.time.at
	if ready := g.work.ready(now); ready > now {
		return pass{ready: ready}
	}
	ready := at
	for _, m := range g.members {
		wait := m.Wait(1)
		if wait == limit.Never { // slots, which come back at any time
			return pass{ready: unknown}
		}
		ready = max(ready, at.Add(wait))
	}
	if ready > at {
		return pass{ready: g.day.when(ready)}
	}
	for _, m := range g.members {
		m.TryAcquire() // has room: nobody else is here, and the clock stands still
	}
	g.open++
	return pass{ok: true, delay: g.delayLocked(now), factor: g.work.stretch(g.open)}
}

// delayLocked is how long a request that was admitted just now waits. In a leaky bucket that
// is until its excess has drained, which is when the token bucket has burst tokens.
func (g *gate) delayLocked(now clock.Instant) time.Duration {
	longest := g.work.take(now, g.day.speed(now))
	for _, q := range g.delays {
		if wait := q.Wait(q.burst); wait > 0 {
			longest = max(longest, g.day.when(g.time.at.Add(wait)).Sub(now))
		}
	}
	return longest
}

func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	for _, m := range g.members {
		m.Release() // does nothing but for slots
	}
}

// standingLocked is the tightest quota of the limits, in real time; nil if none has one.
func (g *gate) standingLocked(ok bool) (tight *limit.Standing) {
	for _, m := range g.quotas {
		s := m.Standing()
		if s.Refused = !ok && s.Left == 0; tight == nil || s.Left < tight.Left {
			tight = &s
		}
	}
	if tight == nil {
		return nil
	}
	for _, d := range []*time.Duration{&tight.Next, &tight.Lasts} {
		if *d != limit.Never {
			*d = g.day.when(g.time.at.Add(*d)).Sub(g.day.when(g.time.at))
		}
	}
	return tight
}
