package testsite

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/classic"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// gate is all that may refuse a request to an address, and how much of it was used. The
// hosts of one address have it in common, which is why it has a lock of its own, taken
// after that of a host. A request is charged to all of it or to none.
//
// Buckets and windows are those that guard real services: package classic has the leaky
// bucket, the log and the slots, package admission the plans of a middleware. They live
// by the gate's clock, which stands at the instant of the decision, as the host saw it,
// and runs at the speed of the day.
type gate struct {
	day   *day
	told  bool // answers tell the quota
	laws  laws
	plain bool   // the tightest of laws does not change with the day
	key   string // of the address in the repository
	plans []admission.Plan

	mu      sync.Mutex    // guards what follows
	last    clock.Instant // of a decision
	time    heldClock
	lim     limiter            // Host.Limit
	members []classic.Weighted // of Host.Limits, those of package classic
	timed   []classic.Weighted // of the members, those that are no slots
	paced   []paced            // those of them that answer late
	store   *memory.Repository // of plans; nil: no plans
	work    work
	jail    jail
	open    int
	used    usage
}

// pass is what a gate says to a request.
type pass struct {
	ok     bool
	banned bool             // because of earlier ones
	ready  clock.Instant    // if not ok: when one would be admitted by what refused, or unknown
	delay  time.Duration    // by queues and paces
	factor float64          // of the host's own latency
	quota  *header.Standing // nil: not told
}

// paced is a bucket whose burst is answered late.
type paced struct {
	classic.Weighted

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

// newGate is the gate of an address, or nil if nothing there is limited.
func newGate(s *Site, cfg Host, addr netip.Addr, seed uint64) (*gate, error) {
	if !cfg.limited() {
		return nil, nil
	}
	g := &gate{
		day: newDay(cfg.Day), told: cfg.Refusal.tells(), key: addr.String(),
		time: heldClock{Clock: s.clk, base: s.epoch.Round(0)},
		lim:  newLimiter(cfg.Limit), work: newWork(cfg.Load, seed), jail: newJail(cfg.Ban),
	}
	g.laws = lawsOf(&cfg, s.epoch)
	g.plain = g.laws.tightest().plain
	g.used = newUsage(g.laws.rate(), g.laws.window())
	for i := range cfg.Limits {
		l := &cfg.Limits[i]
		member, err := g.build(l, i)
		if err != nil {
			return nil, fmt.Errorf("limits[%d]: %w", i, err)
		}
		if member != nil {
			g.members = append(g.members, member)
		}
	}
	if len(g.plans) == 0 {
		return g, nil
	}
	var err error
	// One address, one key: there is nothing to forget.
	g.store, err = memory.New(memory.Config{MaxKeys: 1, Clock: &g.time})
	return g, err
}

// build makes the limiter of package classic for l, or adds the plan of package admission
// and returns nil.
func (g *gate) build(l *Limiter, i int) (classic.Weighted, error) {
	opts := []classic.Option{classic.WithClock(&g.time), classic.WithQueueLimit(0)}
	switch l.Kind {
	case kindSlots:
		return classic.NewConcurrency(classic.ConcurrencyConfig{Max: int64(l.Concurrent)}, opts...)
	case kindLeaky:
		// limit_req's excess, at most burst, is a bucket of burst+1 tokens upside down.
		w, err := classic.NewTokenBucket(classic.TokenBucketConfig{Permits: 1, Per: interval(l.Rate), Burst: int64(l.Burst) + 1}, opts...)
		g.timed = append(g.timed, w)
		if l.Delay && l.Burst > 0 {
			g.paced = append(g.paced, paced{w, int64(l.Burst)})
		}
		return w, err
	case kindLog:
		w, err := classic.NewSlidingWindowLog(classic.WindowConfig{Permits: int64(l.Requests), Per: l.Window}, opts...)
		g.timed = append(g.timed, w)
		return w, err
	}
	plan := admission.Plan{Name: fmt.Sprintf("limit-%d", i), Kind: admission.Kind(l.Kind), Capacity: int64(l.Requests), Window: l.Window}
	if l.Kind == kindToken {
		plan.Capacity, plan.TokensPerSecond = int64(l.capacity()), l.Rate
	}
	plan, err := plan.Settle()
	g.plans = append(g.plans, plan)
	return nil, err
}

// admit decides about a request at now.
func (g *gate) admit(now clock.Instant) pass {
	g.mu.Lock()
	defer g.mu.Unlock()
	// Hosts of one address read the clock before they wait for this lock.
	now = max(now, g.last)
	g.last = now
	if now < g.jail.until {
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
		g.jail.refuse(now)
	}
	if g.told {
		p.quota = g.standingLocked(p.quota, p.ok)
	}
	return p
}

// chargeLocked asks what can be asked without being charged first, and charges last what
// then cannot refuse.
func (g *gate) chargeLocked(now clock.Instant) pass {
	at := g.time.at
	if ready := g.work.ready(now); ready > now {
		return pass{ready: ready}
	}
	if ok, ready := g.lim.check(at); !ok {
		return pass{ready: g.realLocked(ready)}
	}
	if ok, ready := g.membersReadyLocked(at); !ok {
		return pass{ready: g.realLocked(ready)}
	}
	var told *header.Standing
	if g.store != nil {
		// It is in memory and never closed, so there is no error: the zero Result of one
		// would refuse.
		r, _ := g.store.Take(context.Background(), g.key, g.plans, 1)
		if g.told {
			told = g.standingOf(&r)
		}
		if !r.Allowed {
			return pass{ready: g.day.when(at.Add(r.Wait)), quota: told}
		}
	}
	for _, m := range g.members {
		m.TryAcquire() // has room: nobody else is here, and the clock stands still
	}
	g.lim.take(at)
	g.open++
	return pass{ok: true, delay: g.delayLocked(now), factor: g.work.stretch(g.open), quota: told}
}

// membersReadyLocked reports whether all have room at at, and if not, when they will, or
// unknown.
func (g *gate) membersReadyLocked(at clock.Instant) (ok bool, ready clock.Instant) {
	ready = at
	for _, m := range g.members {
		wait := m.Wait(1)
		if wait == classic.Never { // slots, which come back at any time
			return false, unknown
		}
		ready = max(ready, at.Add(wait))
	}
	return ready == at, ready
}

// realLocked is the instant at which the limiters' clock will show at.
func (g *gate) realLocked(at clock.Instant) clock.Instant {
	if at == unknown {
		return unknown
	}
	return g.day.when(at)
}

// delayLocked is how long a request that was admitted just now waits for its turn. Of a
// leaky bucket that is until its excess has leaked, which is when a bucket of the other
// kind has as many tokens as the burst is long.
func (g *gate) delayLocked(now clock.Instant) time.Duration {
	delay := g.work.take(now, g.day.speed(now))
	for _, q := range g.paced {
		if wait := q.Wait(q.burst); wait > 0 {
			delay = max(delay, g.day.when(g.time.at.Add(wait)).Sub(now))
		}
	}
	return delay
}

// release tells that an admitted request is over.
func (g *gate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	g.lim.release()
	for _, m := range g.members {
		m.Release() // of those that are not slots it is a no-op
	}
}

// interval is the distance of requests at a rate, rounded to a nanosecond: an error of
// one in a billion at one request per second, and of one in a thousand at a million.
func interval(rate float64) time.Duration { return time.Duration(float64(time.Second)/rate + 0.5) }
