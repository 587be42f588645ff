package control

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// law is a rule by which the rate of a host follows its responses; it knows no pause and no circuit.
type law interface {
	// observe takes in the outcome of a request. It returns the cause if the rate was cut, else CauseNone.
	observe(now clock.Instant, o Observation) Cause
	perSecond() float64
	// target returns the latency expected of the next response; zero if the law expects none.
	target() time.Duration
	explain() string
}

// guarded is a law beside the classic circuit breaker. The two know nothing of each other: the law sets the pace while
// the breaker is closed, and the breaker stops all requests.
type guarded struct {
	law     law
	breaker breaker.Breaker
	cfg     *Config
	event   Event

	openBy clock.Instant // when the present run of failures should have opened the breaker at the latest
}

// openWithin is how soon after its first failure a host's circuit opens, if two requests failed in that time.
const openWithin = 5 * time.Second

func guard(cfg *Config, h Host, l law) *guarded {
	g := &guarded{law: l, breaker: breaker.New(&cfg.Breaker), cfg: cfg}
	if h.Memory.Held != 0 {
		g.breaker.Trip(h.Memory.Held.Add(-cfg.Breaker.OpenFor))
	}
	return g
}

// Plan implements [Strategy]. The plan holds until the next response, or until the time of an open breaker is over.
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

// judge gives the breaker the verdict on a request, if there is one. A Retry-After is obeyed and is no failure; an
// outcome that says nothing of the host is no verdict. before is the rate of the law before it observed o.
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
		o.Window.Reset() // otherwise the errors that opened it would open it again
		g.event = g.event.Next(now, CauseRecovered, rate, rate, 0)
		return
	}
	g.event = g.event.Next(now, CauseFailures, rate, 0, g.cfg.Breaker.OpenFor)
}

// overdue reports whether a closed breaker would open too late: a law that slows down at failures also delays the
// failures that open the breaker. It is too late if the next request is due after openBy: later than openWithin after
// the first failure, and later than enough failures would have come at the rate before that failure. A single failure
// is no run.
func (g *guarded) overdue(now clock.Instant) bool {
	return g.breaker.Consecutive() > 1 && g.breaker.State(now) == breaker.Closed &&
		now.Add(duration(1/g.law.perSecond())) > g.openBy
}

// speaks reports whether an outcome says something of the host: the host responded, or is in trouble, or its response
// could not be used.
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

func (g *guarded) Limit(clock.Instant) float64 { return 0 } // the laws keep none

func (g *guarded) Failures() int { return g.breaker.Consecutive() }

// congested reports a sign of overload: a Retry-After, a failure of a host in trouble, or a response that took degrade
// times the target or more.
func congested(o *Observation, degrade float64, target time.Duration) bool {
	slow := o.Class.Answered() && float64(o.Latency) >= degrade*float64(target)
	return o.RetryAfter > 0 || o.Class.Overload() || slow
}
