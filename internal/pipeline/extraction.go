package pipeline

import (
	"context"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/records/sink"
)

// patience is how long a worker may wait for its permit. The frontier leased by the
// limiter's own schedule, so a longer wait means that the host's situation changed in
// between; the URL then waits in the frontier, where waiting is free.
const patience = 20 * time.Millisecond

// fetched is what a worker hands to Processing.
type fetched struct {
	lease      *frontier.Lease
	resp       *fetch.Response // nil when no answer came
	err        error
	class      outcome.Class
	sent       time.Time
	permitWait time.Duration
	total      time.Duration
	again      bool         // the Fetcher has sent it before
	kept       bool         // the Fetcher has not sent it
	trip       *Trip        // nil: it is not traced
	aside      *sink.Record // for Archives alone, and the only field then; nil: it is a page
}

// event is what a worker tells Discovery: that its slot is free, and what is to become
// of the lease when Processing does not get it.
type event struct {
	lease   *frontier.Lease
	took    time.Duration // by the request; zero if none was made
	outcome attribution.Outcome
	fate    fate
	end     frontier.Disposition // but for fateProcessed, fateKept and fateRobots
	answer  *robotsAnswer        // for fateRobots
	err     error                // for fateKept: why there was no place
}

type fate uint8

const (
	fateProcessed fate = iota // the lease went on to Processing
	fateReturned              // unused: the limiter would have made it wait, or we gave up
	fateKept                  // unused: there was no place for it in a queue of the Fetcher
	fateLost                  // with a kept connection, or over a condition: again
	fateOfHost                // the host refused, or is down: again
	fateRetry                 // a failure of which it is not known whose it is: again
	fateOfURL                 // a failure of the URL's own: again
	fateControl               // it was for the frontier alone
	fateRobots                // it was for robots.txt, and here is the answer
)

// fateOf is that of a request whose URL is asked for again.
var fateOf = [...]fate{attribution.Nobody: fateLost, attribution.Either: fateRetry, attribution.OfURL: fateOfURL, attribution.OfHost: fateOfHost}

// unused is the end of a lease of which no request was made, or none that came to its end.
func unused(l *frontier.Lease, took time.Duration, o attribution.Outcome) event {
	return event{lease: l, took: took, outcome: o, fate: fateReturned, end: frontier.WaitHost(false)}
}

// extract is one worker: it fetches what it is leased until there are no more leases. When
// work ends what it has under way is cut off.
func (p *Pipeline) extract(ctx, work context.Context) error {
	for l := range p.leases {
		ev, page := p.visit(work, l)
		if page != nil {
			over := work
			if p.cfg.State == nil {
				over = ctx // Processing has it recorded all the same
			}
			select {
			case p.fetched <- page:
			case <-over.Done():
				page.resp.Release()
				if page.aside == nil {
					ev = unused(l, ev.took, ev.outcome)
				}
			}
		}
		// Told only now, so that a worker still waiting for Processing is not idle.
		select {
		case p.events <- ev:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// visit makes the request of one lease.
func (p *Pipeline) visit(ctx context.Context, l *frontier.Lease) (event, *fetched) {
	ctx, end := p.whileHeld(ctx, l)
	defer end()
	begin := p.cfg.Clock.Now()
	t := &try{p: p, f: &fetched{lease: l, sent: begin, trip: p.trip(l)}, begin: begin, since: begin}
	defer t.release()
	if !p.cfg.Queues && t.take(ctx) != nil {
		return t.turnedAway()
	}
	p.request(ctx, t)
	if t.denied != nil && !t.over {
		return t.turnedAway()
	}
	p.stats.workerBusy.Add(int64(t.f.total))
	trip := t.f.trip
	ev, page := p.judge(l, t.f)
	if ev.fate != fateProcessed {
		p.leaves(trip, &ev)
	}
	return ev, page
}

// whileHeld is ctx for as long as the host of a lease is this process's.
func (p *Pipeline) whileHeld(ctx context.Context, l *frontier.Lease) (context.Context, func()) {
	if p.cfg.State == nil || p.cfg.State.Owner == nil || l.Foreign {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	held := p.cfg.State.Owner.Held(l.Host())
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// judge decides where a finished request goes: on to Processing, or back.
func (p *Pipeline) judge(l *frontier.Lease, f *fetched) (event, *fetched) {
	now := p.cfg.Clock.Now()
	ev := event{lease: l, took: f.total, outcome: outcomeOf(f, f.class)}
	lost := stale(f.err) && l.Returns < maxLost
	switch {
	case f.class == outcome.Canceled:
		f.resp.Release()
		return unused(l, f.total, ev.outcome), nil
	case f.kept:
		return event{lease: l, fate: fateKept, err: f.err}, nil
	case l.Kind == frontier.Robots && !lost:
		ev.fate, ev.answer = fateRobots, p.readRobots(f)
		aside := aside(f)
		f.resp.Release()
		return ev, aside
	}
	ev.outcome.Lost = lost || p.refusesCondition(l, f)
	if l.Kind == frontier.Control {
		ev.fate, ev.end = fateControl, frontier.GiveUp()
	} else if d, at := p.decide(f, ev.outcome, now); d.Final {
		l.Attempt = d.Tries.Attempt // for its record
		return ev, f
	} else {
		ev.fate, ev.end = fateOf[d.Whose], frontier.RetryAt(at, d)
	}
	p.stats.retries.Add(1)
	f.resp.Release()
	return ev, nil
}

// patient is a context with an earlier deadline that costs no timer: the limiter reads
// the deadline and fails at once when it cannot be met.
type patient struct {
	context.Context
	until time.Time
}

// Deadline is the earlier of the two.
func (c patient) Deadline() (time.Time, bool) {
	if d, ok := c.Context.Deadline(); ok && d.Before(c.until) {
		return d, true
	}
	return c.until, true
}
