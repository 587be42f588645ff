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
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/sitemap"
	"github.com/treadlight/crawl/record"
)

// patience is how long a worker may wait for its permit. The frontier leased by the limiter's own schedule, so a longer
// wait means that the host's situation changed in between; the URL then waits in the frontier, where waiting is free.
const patience = 20 * time.Millisecond

// maxLost is how often a URL is asked for again at no cost that met a connection which the host had given
// up. The bound is for URLs at which a server closes each connection.
const maxLost = 5

type fetched struct {
	lease      *frontier.Lease
	asked      Request
	resp       *fetch.Response // nil when no answer came
	err        error
	class      outcome.Class
	sent       time.Time
	permitWait time.Duration
	total      time.Duration
	again      bool      // the Fetcher has sent it before
	kept       bool      // the Fetcher has not sent it
	trip       *Trip     // nil: it is not traced
	rendered   *Rendered // what a browser made of it; nil: none had it
	renderErr  error     // why a browser failed
	renderTime time.Duration
	raw        []byte         // the body that was fetched, once it is replaced; nil before
	unasked    bool           // a hook has kept the request from being sent
	streamed   *streamed      // by a BodyHandler; nil: the body was read as usual
	aside      *record.Record // for Archives alone, and the only field then; nil: it is a page
}

// event is what a worker tells Discovery: that its slot is free, and what is to become of the lease when
// Processing does not get it.
type event struct {
	lease   *frontier.Lease
	took    time.Duration // by the request; zero if none was made
	outcome attribution.Outcome
	fate    fate
	end     frontier.Disposition // but for fateProcessed, fateKept and fateRobots
	answer  *robotsAnswer        // for fateRobots
	err     error                // for fateKept: why there was no place
}

// fate is what becomes of a lease, in the words of traces.
type fate string

const (
	fateProcessed fate = "processed" // the lease went on to Processing
	fateReturned  fate = "returned"  // unused: the limiter would have made it wait, or we gave up
	fateKept      fate = "kept"      // unused: there was no place for it in a queue of the Fetcher
	fateControl   fate = "control"   // it was for the frontier alone
	fateRobots    fate = "robots"    // it was for robots.txt, and here is the answer
)

// fateOf is that of a URL which is asked for again, by whose the failure is.
var fateOf = [...]fate{
	attribution.Nobody: "lost", // with a kept connection, or over a condition
	attribution.Either: "retry", attribution.OfURL: "own", attribution.OfHost: "not_now",
}

// unused is the end of a lease of which no request was made, or none that came to its end.
func unused(l *frontier.Lease, took time.Duration, o attribution.Outcome) event {
	return event{lease: l, took: took, outcome: o, fate: fateReturned, end: frontier.WaitHost(false)}
}

// extract is one worker: it fetches what it is leased until there are no more leases. When work ends what it
// has under way is cut off.
func (p *Pipeline) extract(ctx, work context.Context) error {
	for l := range p.leases {
		ev, page, err := p.visit(work, l)
		if err != nil {
			return err
		}
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

func (p *Pipeline) visit(ctx context.Context, l *frontier.Lease) (event, *fetched, error) {
	if l.Tenure != nil { // for as long as its host is this process's
		until, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(l.Tenure, func() { cancel(context.Cause(l.Tenure)) })()
		ctx = until
	}
	begin := p.cfg.Clock.Now()
	t := &try{p: p, f: &fetched{lease: l, asked: requestOf(&l.Item), sent: begin, trip: p.cfg.trip(l)}, begin: begin, since: begin}
	defer t.release()
	if err := t.enter(ctx); err != nil {
		l.Started()
		return unused(l, 0, attribution.Outcome{}), nil, notEntered(ctx, err)
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
	// The Trip of a lease that does not go on to Processing ends here. One without a request is no trip.
	if trip := t.f.trip; ev.fate != fateProcessed && trip != nil && !trip.Ended.IsZero() {
		trip.Fate, trip.Final = string(ev.fate), ev.fate == fateRobots
		p.cfg.Tracer.End(trip)
	}
	return ev, page, nil
}

// judge decides where a finished request goes: on to Processing, or back.
func (t *try) judge() (event, *fetched) {
	p, f, l := t.p, t.f, t.f.lease
	ev := event{lease: l, took: f.total, outcome: outcomeOf(f, f.class)}
	if f.unasked {
		ev.outcome = attribution.Outcome{}
	}
	if f.err != nil && f.class != outcome.Canceled && !p.heard.Load() {
		p.trouble.CompareAndSwap(nil, &f.err)
	}
	lost := stale(f.err) && l.Returns < maxLost
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
		l.Attempt = d.Tries.Attempt // for its record
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

// aside is what archives are to have of an exchange that is no page's, as one for robots.txt; nil without
// archives, or if there was no answer. It goes by Processing, which passes it on as it is, so that Output
// has one source: the lease is Discovery's by then.
func aside(f *fetched) *fetched {
	if f.resp == nil || f.resp.Capture == nil {
		return nil
	}
	rec := newRecord(f.lease, f.sent)
	rec.Status, rec.Proto, rec.RemoteAddr = f.resp.Status, f.resp.Proto, f.resp.RemoteAddr
	rec.Timings.Total, rec.Exchange = f.total, f.resp.Capture
	return &fetched{aside: rec}
}

// try is what a worker does for one lease: one request as a rule. A Fetcher that has policies may keep it in
// a queue, so that the permit is taken behind that; and for robots.txt it may send another one when the first
// has failed, with a permit of its own. The limiter hears of each of them once, and so do the statistics.
type try struct {
	p     *Pipeline
	f     *fetched  // the request under way, or the last one
	begin time.Time // of the Fetcher's work
	since time.Time // when the wait for the permit began

	session uint64 // that the request is made within; zero: none

	permit ratelimit.Permit // nil while there is none
	denied error            // why the limiter gave none
	told   bool             // the limiter has heard of the request
	over   bool             // no request is under way: f is the last one, and settled
	last   *fetch.Response  // the header that came of the request
	headed time.Time        // and when
}

// request fetches and tells the limiter how it went: at the header if that is when it is known, otherwise at the end.
func (t *try) request(ctx context.Context) {
	p, l := t.p, t.f.lease
	req := fetch.Request{URL: l.URL.String(), OnHeader: t.header, Capture: len(p.cfg.Archives) > 0}
	req.Header = t.f.trip.withParent(p.cfg.condition(l))
	switch l.Kind {
	case frontier.Robots:
		req.MaxBody, req.Again = robots.MaxBytes, t.again
	case frontier.Sitemap:
		req.MaxBody = sitemap.MaxBytes // what the protocol allows, whatever a page may have
	case frontier.Page:
		req.Filter = p.cfg.Filter
		t.f.asked.apply(&req)
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
	case t.over: // what was before stands, and err says only that nothing came after it
	case t.permit == nil && t.denied != nil: // nothing was sent
	case resp == nil && hooked(err):
		t.f.unasked, t.f.err, t.f.class = true, err, outcome.Filtered
		t.waited(p.cfg.Clock.Now())
	case unsent(err), p.cutOff(err):
		t.f.kept, t.f.err = true, err
		t.waited(p.cfg.Clock.Now())
	case resp == nil && decided(t.last): // this stands too: err is why another one was not waited for
		t.f.resp = t.last
		t.settle(t.headed)
	default:
		t.f.resp, t.f.err = resp, err
		t.settle(p.cfg.Clock.Now())
	}
}

// take spends a permit on the request that is about to be sent. It fails when the limiter would have made it
// wait for longer than [Config.Patience].
func (t *try) take(ctx context.Context) error { return t.takeAt(ctx, t.p.cfg.Clock.Now()) }

func (t *try) takeAt(ctx context.Context, asked time.Time) error {
	p, l := t.p, t.f.lease
	if p.excluded.has(l.Host()) {
		l.Started()
		t.denied = errExcluded
		return errExcluded
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

// waited counts the time up to now as waited, which it returns.
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

// header takes in the header of an answer. The limiter hears of it now if it is urgent.
func (t *try) header(resp *fetch.Response) {
	t.f.lease.Answered()
	if t.f.lease.Kind == frontier.Robots { // no page is sent again
		t.last, t.headed = resp, t.p.cfg.Clock.Now()
	}
	if urgent(resp) {
		t.f.resp, t.told = resp, true
		t.feedback(ordersOf(resp))
	}
}

// errDropped is what the Fetcher made of a good answer that it took no more than the header of: its time was up.
var errDropped = fmt.Errorf("the answer came too late: %w", context.DeadlineExceeded)

// again ends a request that failed and lets the Fetcher send the next, if the limiter does. If not, the one
// that failed is what the try has come to.
func (t *try) again(ctx context.Context, before *fetch.Response, err error) error {
	end := t.p.cfg.Clock.Now() // at the latest: the pause is over
	if e, ok := errors.AsType[*fetch.Error](err); ok {
		end = t.begin.Add(e.Took)
	} else if t.last != nil {
		end = t.headed
	}
	if before != nil && !decided(before) {
		before, err = nil, errDropped
	}
	t.f.resp, t.f.err = before, err
	t.settle(end)
	t.release()
	t.over, t.since = true, end // the Fetcher's pause is a wait for the next
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

// settle tells limiter and statistics how a request went that ended at an instant.
func (t *try) settle(end time.Time) {
	p, f := t.p, t.f
	f.total = max(end.Sub(f.sent), 1)
	firstByte, body := time.Duration(0), int64(-1)
	if f.resp != nil {
		firstByte, body = f.resp.Timings.FirstByte, int64(len(f.resp.Body))
		p.heard.Store(true)
		// Of a kept connection the limiter is told again: it may have forgotten the host meanwhile.
		if at, err := netip.ParseAddrPort(f.resp.RemoteAddr); err == nil {
			p.cfg.Limiter.SetAddress(f.lease.Host(), at.Addr())
		}
		p.cfg.Limiter.ChargeBytes(f.resp.WireBytes)
	}
	f.class = classOf(f.resp, f.err)
	switch {
	case stale(f.err), f.class == outcome.Proxy: // they say nothing of the host
	case !t.told:
		t.feedback(ordersOf(f.resp))
	case f.class.Overload() && !decided(f.resp):
		// A good header, and then the host broke off or fell silent: that is news. The orders in the header
		// have been passed on, and are not repeated.
		t.feedback(orders{})
	}
	p.stats.request(f)
	f.trip.asked(f, end)
	if p.cfg.Meter.On() {
		p.cfg.Meter.Request(f.class, firstByte, f.total, body)
	}
}

func unsent(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	return ok && e.Op == fetch.OpPolicy && e.Sends == 0
}

// cutOff reports whether a proxy fails in the midst of a crawl: then the hosts behind it are out of reach,
// which is no fault of theirs, and their URLs wait. At the beginning of one it is rather that the proxy was
// given wrong, which the user wants to know at once.
func (p *Pipeline) cutOff(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	return ok && e.Class() == outcome.Proxy && p.heard.Load()
}
