package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/mediatype"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/sitemap"
	"github.com/treadlight/crawl/record"
)

// patience is how long a worker may wait for its permit. The frontier leases by the limiter's own schedule, so a longer
// wait means that the situation of the host has changed since. The URL then waits in the frontier, where waiting costs
// nothing.
const patience = 20 * time.Millisecond

// maxLost is how often a URL is requested again, at no cost, after its request went out on a kept connection that the
// host had closed. It is a bound for URLs at which a server closes every connection.
const maxLost = 5

// fetched is what the request of a lease has led to.
type fetched struct {
	lease      *frontier.Lease
	asked      request.Request
	resp       *fetch.Response // nil if there was no response
	err        error
	class      outcome.Class
	sent       time.Time
	permitWait time.Duration
	total      time.Duration
	again      bool              // the Fetcher has sent it before, as a repeated request for robots.txt
	kept       bool              // the Fetcher has not sent it, for lack of a place in a queue
	trip       *Trip             // nil if it is not traced
	rendered   *rendering.Result // what a browser rendered; nil if none did
	raw        []byte            // the body as fetched, once a rendered one has replaced it; nil before
	unasked    bool              // a hook has prevented the request
	streamed   *streamed         // what a BodyHandler read; nil if the body was read as usual
	aside      *record.Record    // an exchange for Archives alone; the other fields are zero then. Nil for a page
}

// event is what a worker reports to Discovery: that its slot is free, and, unless Processing gets it, what happens to
// the lease.
type event struct {
	lease   *frontier.Lease
	took    time.Duration // the duration of the request; zero if none was made
	outcome attribution.Outcome
	fate    fate
	end     frontier.Disposition // not set for fateProcessed, fateKept and fateRobots
	answer  *robotsAnswer        // set for fateRobots
	err     error                // set for fateKept: why there was no place
}

// fate is what happens to a lease. The values appear in traces.
type fate string

const (
	fateProcessed fate = "processed" // the lease went on to Processing
	fateReturned  fate = "returned"  // unused: the limiter would have made it wait, or the request was canceled
	fateKept      fate = "kept"      // unused: there was no place for it in a queue of the Fetcher
	fateControl   fate = "control"   // it told the frontier about the host and is not recorded
	fateRobots    fate = "robots"    // it was for robots.txt, and Discovery gets the result
)

// fateOf is the fate of a URL that is tried again, by whose the failure is.
var fateOf = [...]fate{
	attribution.Nobody: "lost", // a kept connection was closed, or a host refused the condition
	attribution.Either: "retry", attribution.OfURL: "own", attribution.OfHost: "not_now",
}

// unused is the event of a lease of which no request was made, or none that was finished.
func unused(l *frontier.Lease, took time.Duration, o attribution.Outcome) event {
	return event{lease: l, took: took, outcome: o, fate: fateReturned, end: frontier.WaitHost("")}
}

// extract is one worker: it fetches what is leased to it until there are no more leases. When work ends, its request is
// canceled.
func (p *Pipeline) extract(ctx, work context.Context) error {
	for l := range p.leases {
		ev, page, err := p.visit(work, l)
		if err != nil {
			return err
		}
		if page != nil {
			over := work
			if p.cfg.State == nil {
				over = ctx // Processing records it all the same
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
		// Reported only now, because a worker that still waits for Processing is not idle.
		select {
		case p.events <- ev:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *Pipeline) visit(ctx context.Context, l *frontier.Lease) (event, *fetched, error) {
	if l.Tenure != nil { // the request may take as long as this process owns the host
		until, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(l.Tenure, func() { cancel(context.Cause(l.Tenure)) })()
		ctx = until
	}
	begin := p.cfg.Clock.Now()
	t := &try{p: p, f: &fetched{lease: l, asked: request.Decode(l.Request), sent: begin, trip: p.cfg.trip(l)}, begin: begin, since: begin}
	defer t.release()
	if err := t.enter(ctx); err != nil {
		if l.Started(); ctx.Err() != nil {
			err = nil
		}
		return unused(l, 0, attribution.Outcome{}), nil, err
	}
	if p.cfg.Queues || t.takeAt(ctx, t.since) == nil {
		t.request(ctx)
	}
	if t.denied != nil && !t.over {
		if errors.Is(t.denied, ratelimit.ErrCircuitOpen) || errors.Is(t.denied, context.DeadlineExceeded) {
			p.stats.count(&p.stats.n.Returned, 1)
		}
		return unused(l, 0, attribution.Outcome{}), nil, nil
	}
	p.stats.spend(&p.stats.n.Workers.BusySeconds, t.f.total)
	ev, page := unused(l, t.f.total, attribution.Outcome{}), (*fetched)(nil)
	if !t.outside() {
		ev, page = t.judge()
	}
	if ev.fate == fateProcessed {
		t.render(ctx)
	}
	// The Trip of a lease that does not go on to Processing ends here. A lease without a request has no trip.
	if trip := t.f.trip; ev.fate != fateProcessed && trip != nil && !trip.Ended.IsZero() {
		trip.Fate, trip.Final = string(ev.fate), ev.fate == fateRobots
		p.cfg.Tracer.End(trip)
	}
	return ev, page, nil
}

// judge decides where a finished request goes: on to Processing, or back to the frontier.
func (t *try) judge() (event, *fetched) {
	p, f, l := t.p, t.f, t.f.lease
	ev := event{lease: l, took: f.total, outcome: outcomeOf(f, f.class)}
	if f.unasked {
		ev.outcome = attribution.Outcome{}
	}
	if f.err != nil && f.class != outcome.Canceled && !p.heard.Load() {
		p.trouble.CompareAndSwap(nil, &f.err)
	}
	lost := fetch.Stale(f.err) && l.Returns < maxLost
	switch {
	case f.class == outcome.Canceled:
		f.resp.Release()
		return unused(l, f.total, ev.outcome), nil
	case f.kept:
		return event{lease: l, fate: fateKept, err: f.err}, nil
	case l.Kind == frontier.Robots && !lost:
		ev.fate, ev.answer = fateRobots, t.readRobots()
		aside := aside(f)
		f.resp.Release()
		return ev, aside
	}
	ev.outcome.Lost = lost || t.refusesCondition()
	if f.unasked && l.Kind != frontier.Control {
		ev.fate = fateProcessed
		return ev, f
	}
	if l.Kind == frontier.Control {
		ev.fate, ev.end = fateControl, frontier.GiveUp()
	} else if d, at := t.decide(ev.outcome); d.Final {
		l.Attempt = d.Tries.Attempt // the record shows it
		ev.fate = fateProcessed
		return ev, f
	} else {
		ev.fate, ev.end = fateOf[d.Whose], frontier.RetryAt(at, d)
	}
	p.stats.count(&p.stats.n.Retries, 1)
	p.cfg.failedOnce(f)
	f.resp.Release()
	return ev, nil
}

// aside returns what archives get of an exchange that belongs to no page, as one for robots.txt. It returns nil without
// archives, or if there was no response. The result passes through Processing unchanged, so that Output has one source;
// Discovery owns the lease by then.
func aside(f *fetched) *fetched {
	if f.resp == nil || f.resp.Capture == nil {
		return nil
	}
	rec := newRecord(f.lease, f.sent)
	rec.Status, rec.Proto, rec.RemoteAddr = f.resp.Status, f.resp.Proto, f.resp.RemoteAddr
	rec.Timings.Total, rec.Exchange = f.total, f.resp.Capture
	return &fetched{aside: rec}
}

// try is the work of a worker on one lease, normally one request. A Fetcher with policies may keep the request in a
// queue, and the permit is taken behind the queue. For robots.txt such a Fetcher may send another request when the
// first has failed, with a permit of its own. Each request is reported once to the limiter and once to the statistics.
type try struct {
	p     *Pipeline
	f     *fetched  // the request in flight, or the last one
	begin time.Time // when the Fetcher began
	since time.Time // when the wait for the permit began

	session uint64 // the session within which the request is made; zero means none

	permit ratelimit.Permit // nil if none is held
	denied error            // why the limiter gave no permit
	told   bool             // the request was reported to the limiter
	over   bool             // no request is in flight: f is the last one, and is settled
	last   *fetch.Response  // the header of the response
	headed time.Time        // when it arrived
}

// request fetches and reports the outcome to the limiter: when the header arrives if it decides, otherwise at the end.
func (t *try) request(ctx context.Context) {
	p, l := t.p, t.f.lease
	req := fetch.Request{URL: l.URL.String(), OnHeader: t.header, Capture: len(p.cfg.Archives) > 0}
	req.Header = t.f.trip.withParent(p.cfg.condition(l))
	switch l.Kind {
	case frontier.Robots:
		req.MaxBody, req.Again = robots.MaxBytes, t.again
	case frontier.Sitemap:
		req.MaxBody = sitemap.MaxBytes // the maximum of the protocol, whatever the bound for pages is
		req.Wanted = func(resp *fetch.Response, head []byte) bool {
			return !guessed(l) && mediatype.IsHTML(resp.ContentType) || sitemap.Possible(head) // a page may be read as one
		}
	case frontier.Page:
		req.Filter = p.cfg.Filter
		t.f.asked.Apply(&req)
		if p.cfg.Bodies != nil {
			req.Stream = func(resp *fetch.Response) *fetch.Stream { return t.stream(ctx, resp) }
		}
	}
	t.begin = t.f.sent
	if p.cfg.Queues {
		req.Permit, t.begin = t.take, t.since
	}
	resp, err := p.cfg.Fetcher.Fetch(ctx, req)
	switch {
	case t.over: // the settled result stands; err only says that no other request came after it
	case t.permit == nil && t.denied != nil: // nothing was sent
	case resp == nil && fetch.Hooked(err):
		t.f.unasked, t.f.err, t.f.class = true, err, outcome.Filtered
		t.waited(p.cfg.Clock.Now())
	case fetch.Unsent(err), p.cutOff(err):
		t.f.kept, t.f.err = true, err
		t.waited(p.cfg.Clock.Now())
	case resp == nil && t.last.Decides(): // this result stands, too: err is why no other request was waited for
		t.f.resp = t.last
		t.settle(t.headed)
	default:
		t.f.resp, t.f.err = resp, err
		t.settle(p.cfg.Clock.Now())
	}
}

// take takes the permit for the request that is about to be sent. It fails if the limiter would make the request wait
// for longer than [Config.Patience].
func (t *try) take(ctx context.Context) error { return t.takeAt(ctx, t.p.cfg.Clock.Now()) }

func (t *try) takeAt(ctx context.Context, asked time.Time) error {
	p, l := t.p, t.f.lease
	if t.denied = p.discovery.frontier.Refuse(l.Host()); t.denied != nil {
		l.Started()
		return t.denied
	}
	permit, err := p.cfg.Limiter.Acquire(ratelimit.Until{Context: ctx, Time: asked.Add(cmp.Or(p.cfg.Patience, patience))}, l.Host())
	l.Started()
	t.f.sent = p.cfg.Clock.Now()
	waited := t.waited(t.f.sent)
	t.f.permitWait += waited
	p.cfg.Meter.Took(PermitWait, waited)
	if err != nil {
		t.denied = err
		return err
	}
	t.permit = permit
	if p.cfg.Queues {
		p.asking.Add(1)
	}
	return nil
}

// waited counts the time from since to now as spent waiting, and returns it.
func (t *try) waited(now time.Time) time.Duration {
	d := now.Sub(t.since)
	t.since = now
	t.p.stats.spend(&t.p.stats.n.Workers.WaitSeconds, d)
	return d
}

func (t *try) release() {
	if t.permit == nil {
		return
	}
	t.permit.Release()
	t.permit = nil
	if t.p.cfg.Queues {
		t.p.asking.Add(-1)
	}
}

// header takes in the header of a response. An urgent one is reported to the limiter at once.
func (t *try) header(resp *fetch.Response) {
	t.f.lease.Answered()
	if t.f.lease.Kind == frontier.Robots { // requests for pages are not repeated by the Fetcher
		t.last, t.headed = resp, t.p.cfg.Clock.Now()
	}
	if urgent(resp) {
		t.f.resp, t.told = resp, true
		t.feedback(resp.Hints())
	}
}

// errDropped stands for a good response of which the Fetcher read the header only, because its time was up.
var errDropped = fmt.Errorf("the answer came too late: %w", context.DeadlineExceeded)

// again settles a request that failed and lets the Fetcher send the next one if the limiter gives a permit. If it does
// not, the failed request is the result of the try.
func (t *try) again(ctx context.Context, before *fetch.Response, err error) error {
	end := t.p.cfg.Clock.Now() // an upper bound: it includes the pause after the request
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		end = t.begin.Add(e.Took)
	} else if t.last != nil {
		end = t.headed
	}
	if before != nil && !before.Decides() {
		before, err = nil, errDropped
	}
	t.f.resp, t.f.err = before, err
	t.settle(end)
	t.release()
	t.over, t.since = true, end // the pause of the Fetcher counts as a wait for the next permit
	if err := t.take(ctx); err != nil {
		return err
	}
	s := &t.p.stats
	s.spend(&s.n.Workers.BusySeconds, t.f.total)
	s.count(&s.n.Retries, 1)
	*t.f = fetched{lease: t.f.lease, asked: t.f.asked, sent: t.f.sent, permitWait: t.f.permitWait, trip: t.f.trip, again: true}
	t.over, t.told, t.last = false, false, nil
	return nil
}

// settle reports to the limiter and the statistics how a request went that ended at an instant.
func (t *try) settle(end time.Time) {
	p, f := t.p, t.f
	f.total = max(end.Sub(f.sent), 1)
	firstByte, body := time.Duration(0), int64(-1)
	if f.resp != nil {
		firstByte, body = f.resp.Timings.FirstByte, int64(len(f.resp.Body))
		p.heard.Store(true)
		// The address is passed on for a kept connection, too: the limiter may have evicted the host meanwhile.
		if at, err := netip.ParseAddrPort(f.resp.RemoteAddr); err == nil {
			p.cfg.Limiter.SetAddress(f.lease.Host(), at.Addr())
		}
		p.cfg.Limiter.ChargeBytes(f.resp.WireBytes)
	}
	f.class = fetch.ClassOf(f.resp, f.err)
	switch {
	case fetch.Stale(f.err), f.class == outcome.Proxy: // says nothing about the host
	case !t.told:
		t.feedback(f.resp.Hints())
	case f.class.Overload() && !f.resp.Decides():
		// The header was good, and then the host broke off or stopped sending: the limiter does not know that yet. The
		// server hints of the header were passed on and are not repeated.
		t.feedback(0, header.Quota{})
	}
	p.stats.request(f)
	f.trip.asked(f, end)
	if p.cfg.Meter.On() {
		p.cfg.Meter.Request(f.class, firstByte, f.total, body)
	}
}

// cutOff reports whether a proxy fails. Then the hosts behind it cannot be reached, which is not their fault, and their
// URLs wait. Only of a crawl without a state in which no response has arrived do they fail: there they cannot wait for
// the user to mend what is most likely a wrong setting.
func (p *Pipeline) cutOff(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	return ok && e.Class() == outcome.Proxy && (p.heard.Load() || p.cfg.State != nil)
}
