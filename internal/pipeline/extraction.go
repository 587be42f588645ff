package pipeline

import (
	"context"
	"errors"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
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
	lease     *frontier.Lease
	took      time.Duration // by the request; zero if none was made
	heard     bool          // the host answered with a status
	status    int           // of the answer; zero if there was none
	class     outcome.Class // of the request; Unknown if none was made, or it says nothing of the host
	served    bool          // the answer was given willingly
	forbade   bool          // it was a 403
	fate      fate
	notBefore time.Time     // for fateNotNow, fateRetry and fateOwn
	answer    *robotsAnswer // for fateRobots
	err       error         // for fateKept: why there was no place
}

type fate uint8

const (
	fateProcessed fate = iota // the lease went on to Processing
	fateReturned              // unused: the limiter would have made it wait, or we gave up
	fateKept                  // unused: there was no place for it in a queue of the Fetcher
	fateStale                 // lost with a kept connection, or over a condition: again, and nobody's fault
	fateNotNow                // the host refused, or is down: again, and not a try
	fateRetry                 // a transient failure: again, and a try is spent
	fateOwn                   // a failure of the URL's own: again, and a try is spent
	fateControl               // it was for the frontier alone
	fateRobots                // it was for robots.txt, and here is the answer
)

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
					ev.fate = fateReturned
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
	state, ok := p.cfg.State.(holder)
	if !ok || l.Guest {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	held := state.Held(l.Host())
	stop := context.AfterFunc(held, func() { cancel(context.Cause(held)) })
	return ctx, func() {
		stop()
		cancel(nil)
	}
}

// judge decides where a finished request goes: on to Processing, or back.
func (p *Pipeline) judge(l *frontier.Lease, f *fetched) (event, *fetched) {
	now := p.cfg.Clock.Now()
	ev := event{lease: l, took: f.total, heard: f.resp != nil, class: f.class, served: served(f)}
	if f.resp != nil {
		ev.status = f.resp.Status
	}
	if f.class == outcome.Canceled {
		ev.fate = fateReturned
		f.resp.Release()
		return ev, nil
	}
	if f.kept {
		ev.fate, ev.class, ev.err = fateKept, outcome.Unknown, f.err
		return ev, nil
	}
	ev.forbade = forbidden(f)
	again := stale(f.err) && l.Returns < stalePasses
	if l.Kind == frontier.Robots && !again {
		ev.fate, ev.answer = fateRobots, p.readRobots(f)
		aside := aside(f)
		f.resp.Release()
		return ev, aside
	}
	switch {
	case again, p.balks(l, f):
		ev.fate = fateStale
	case deserted(f) && int(l.Attempt)+1 >= knocks:
		return ev, f
	case l.Kind == frontier.Control:
		ev.fate = fateControl
	case !failed(f):
		return ev, f
	default:
		if ev.fate, ev.notBefore = p.failure(f, now); ev.fate == fateProcessed {
			return ev, f
		}
	}
	p.stats.retries.Add(1)
	f.resp.Release()
	return ev, nil
}

// served reports an answer that the host gave willingly: no failure, no refusal, and no 403
// either, of which nobody can tell whether it is the page or the asking that is forbidden.
func served(f *fetched) bool {
	return f.resp != nil && !f.class.Overload() && f.class != outcome.Canceled && !outcome.Forbidden(f.resp.Status)
}

// knocks is how often a host that nobody has heard of yet is tried when nothing listens
// there. An outage in the middle of a crawl is worth waiting for; at the first contact it is
// most often a wrong port or a server not started, which a user wants to know at once. The
// second try, a moment later, is for one that is just being restarted.
const knocks = 2

// deserted reports whether a request met nobody at a host that has never answered.
func deserted(f *fetched) bool {
	e, ok := errors.AsType[*fetch.Error](f.err)
	return ok && f.lease.Unheard && (e.Unconnected() || e.Class() == outcome.Proxy)
}

// maxNotNowBackoff bounds the exponent for URLs a host keeps putting off: the limiter
// decides when the host is asked again, the jitter here only spreads the URLs.
const maxNotNowBackoff = 16

// stalePasses is how often a URL is asked for again at no cost that met a connection which
// the host had given up. The bound is for URLs at which a server closes each connection.
const stalePasses = 5

// down reports whether the host's breaker is open or half-open.
func (p *Pipeline) down(host string) bool {
	_, why := p.cfg.Limiter.ReadyAt(host, 0, 0)
	return why == ratelimit.LimitBreaker
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
