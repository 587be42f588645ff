package control

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// law is a rate that follows what a host does, and nothing more.
type law interface {
	// observe returns the event if the rate was cut.
	observe(now clock.Instant, o Observation) Cause
	perSecond() float64
	// target is the latency expected of the next answer; zero if that is nothing to it.
	target() time.Duration
	explain() string
}

// guarded is a law beside the classic circuit breaker. The two know nothing of each
// other: the law sets the pace of a closed breaker, and the breaker stops it.
type guarded struct {
	law     law
	breaker breaker.Breaker
	cfg     *Config
	event   Event

	openBy clock.Instant // when the run of failures that goes on should have opened the breaker
}

// openWithin is how long after a host began to fail its circuit opens, if there are two
// requests in that time.
const openWithin = 5 * time.Second

func guard(cfg *Config, h Host, l law) *guarded {
	g := &guarded{law: l, breaker: breaker.New(&cfg.Breaker), cfg: cfg}
	if h.Memory.Held != 0 {
		g.breaker.Trip(h.Memory.Held.Add(-cfg.Breaker.OpenFor))
	}
	return g
}

// Plan holds until the next answer, or until the breaker's time is over.
func (g *guarded) Plan(now clock.Instant) Plan {
	p := Plan{Rate: g.law.perSecond(), State: g.breaker.State(now), Review: forever, Event: g.event, Target: g.law.target()}
	if p.State != breaker.Closed {
		if at, ok := g.breaker.Ready(now); !ok {
			p.NotBefore, p.Review = at, at
		}
	}
	return p
}

func (g *guarded) Sent(now clock.Instant, _ int) uint32 {
	t, _, _ := g.breaker.Allow(now)
	return t.Number()
}

func (g *guarded) Lost(_ clock.Instant, trial uint32) { g.breaker.Lose(trial) }

func (g *guarded) Observe(now clock.Instant, o Observation) {
	before := g.law.perSecond()
	if cause := g.law.observe(now, o); cause != CauseNone {
		g.event = g.event.Next(now, cause, before, g.law.perSecond(), 0)
	}
	g.judge(now, &o, before)
}

// judge gives the breaker its verdict, if there is one. An order to wait is obeyed
// and is no failure; what says nothing of the host is no verdict at all.
// before is the law's rate before it heard of o.
func (g *guarded) judge(now clock.Instant, o *Observation, before float64) {
	ticket, ok := g.breaker.TicketAt(o.SentAt)
	if !ok {
		return
	}
	if o.RetryAfter > 0 || !speaks(o.Class) {
		g.breaker.Drop(ticket)
		return
	}
	failed := o.Class.Overload()
	o.Window.Add(now, failed)
	c := o.Window.Sum(now)
	if failed && g.breaker.Consecutive() == 0 {
		enough := duration(float64(g.cfg.Breaker.Consecutive-1) / before)
		g.openBy = now.Add(max(openWithin, enough))
	}
	if !g.breaker.Record(now, ticket, failed, c.ErrorRate(), c.Total) {
		if !g.overdue(now) {
			return
		}
		g.breaker.Trip(now)
	}
	rate := g.law.perSecond()
	if g.breaker.State(now) == breaker.Closed {
		o.Window.Reset() // or the errors that opened it would open it again
		g.event = g.event.Next(now, CauseRecovered, rate, rate, 0)
		return
	}
	g.event = g.event.Next(now, CauseFailures, rate, 0, g.cfg.Breaker.OpenFor)
}

// overdue reports whether a closed breaker would open too late: a law that slows down at
// failures also delays the failures that open it. It is so when the next request is due
// later than openWithin after the first failure, and later than at the rate before that one
// the failures would have been enough. One failure alone is no run.
func (g *guarded) overdue(now clock.Instant) bool {
	return g.breaker.Consecutive() > 1 && g.breaker.State(now) == breaker.Closed &&
		now.Add(duration(1/g.law.perSecond())) > g.openBy
}

// speaks is true of outcomes that say something of the host: it answered, or it is
// in trouble, or it spoke in another way.
func speaks(c outcome.Class) bool {
	switch c {
	case outcome.TLS, outcome.Protocol, outcome.Decode, outcome.TooLarge, outcome.Bomb, outcome.Filtered:
		return true
	}
	return c.Answered() || c.Overload()
}

func (g *guarded) Memory(now clock.Instant) Memory {
	m := Memory{Rate: float32(g.law.perSecond())}
	if g.breaker.State(now) != breaker.Closed {
		m.Held, _ = g.breaker.Until()
	}
	return m
}

func (g *guarded) Explain(now clock.Instant) string {
	if s := g.breaker.State(now); s != breaker.Closed {
		return fmt.Sprintf("circuit %v after failures", s)
	}
	return g.law.explain()
}

func (g *guarded) Failures() int { return g.breaker.Consecutive() }

// congested reads a sign of overload: an order to wait, a failure that speaks of a
// host in trouble, or an answer far slower than the target.
func congested(o *Observation, degrade float64, target time.Duration) bool {
	slow := o.Class.Answered() && float64(o.Latency) >= degrade*float64(target)
	return o.RetryAfter > 0 || o.Class.Overload() || slow
}
