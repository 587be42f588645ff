package control

import (
	"fmt"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// law is a rate that follows what a host does, and nothing more.
type law interface {
	// observe returns the event if the rate was cut.
	observe(now clock.Instant, o Observation) Cause
	perSecond() float64
	explain() string
}

// guarded is a law beside the classic circuit breaker. The two know nothing of each
// other: the law sets the pace of a closed breaker, and the breaker stops it.
type guarded struct {
	law     law
	breaker breaker.Breaker
	cfg     *Config
	event   Event
}

func guard(cfg *Config, h Host, l law) *guarded {
	g := &guarded{law: l, breaker: breaker.New(&cfg.Breaker), cfg: cfg}
	if h.Memory.Held != 0 {
		g.breaker.Trip(h.Memory.Held.Add(-cfg.Breaker.OpenFor))
	}
	return g
}

// Plan holds until the next answer, or until the breaker's time is over.
func (g *guarded) Plan(now clock.Instant) Plan {
	p := Plan{Rate: g.law.perSecond(), State: g.breaker.State(now), Review: forever, Event: g.event}
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
		g.event = g.event.next(now, cause, before, g.law.perSecond(), 0)
	}
	g.judge(now, &o)
}

// judge gives the breaker its verdict, if there is one. An order to wait is obeyed
// and is no failure; what says nothing of the host is no verdict at all.
func (g *guarded) judge(now clock.Instant, o *Observation) {
	ticket, ok := g.breaker.TicketAt(o.SentAt)
	if !ok {
		return
	}
	if o.RetryAfter > 0 || !speaks(o.Class) {
		g.breaker.Drop(ticket)
		return
	}
	o.Window.Add(now, o.Class.Overload())
	c := o.Window.Sum(now)
	if !g.breaker.Record(now, ticket, o.Class.Overload(), c.ErrorRate(), c.Total) {
		return
	}
	rate := g.law.perSecond()
	if g.breaker.State(now) == breaker.Closed {
		o.Window.Reset() // or the errors that opened it would open it again
		g.event = g.event.next(now, CauseRecovered, rate, rate, 0)
		return
	}
	g.event = g.event.next(now, CauseFailures, rate, 0, g.cfg.Breaker.OpenFor)
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
// host in trouble, or an answer far slower than this host's usual.
func congested(o *Observation, degrade float64) bool {
	slow := o.Class.Answered() && float64(o.Latency) >= degrade*float64(o.Target)
	return o.RetryAfter > 0 || o.Class.Overload() || slow
}
