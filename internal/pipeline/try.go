package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// try is what a worker does for one lease: one request as a rule. A Fetcher that has
// policies may keep it in a queue, so that the permit is taken behind that; and for
// robots.txt it may send another one when the first has failed, with a permit of its own.
// The limiter hears of each of them once, and so do the statistics.
type try struct {
	p     *Pipeline
	f     *fetched  // the request under way, or the last one
	begin time.Time // of the Fetcher's work
	since time.Time // when the wait for the permit began

	permit ratelimit.Permit // nil while there is none
	denied error            // why the limiter gave none
	told   bool             // the limiter has heard of the request
	over   bool             // no request is under way: f is the last one, and settled
	last   *fetch.Response  // the header that came of the request
	headed time.Time        // and when
}

// take spends a permit on the request that is about to be sent. It fails when the limiter
// would have made it wait for longer than [patience].
func (t *try) take(ctx context.Context) error {
	p := t.p
	if p.isExcluded(t.f.lease.Host()) {
		t.f.lease.Started()
		t.denied = errExcluded
		return errExcluded
	}
	asked := p.cfg.Clock.Now()
	permit, err := p.cfg.Limiter.Acquire(patient{ctx, asked.Add(patience)}, t.f.lease.Host())
	t.f.lease.Started()
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
	t.p.stats.workerWait.Add(int64(d))
	return d
}

// release gives the permit back, if there is one.
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

// turnedAway is the end of a try to which the limiter gave no permit.
func (t *try) turnedAway() (event, *fetched) {
	if errors.Is(t.denied, ratelimit.ErrCircuitOpen) || errors.Is(t.denied, context.DeadlineExceeded) {
		t.p.stats.returned.Add(1)
	}
	return unused(t.f.lease, 0, attribution.Outcome{}), nil
}

// header takes in the header of an answer. The limiter hears of it now if it is urgent.
func (t *try) header(resp *fetch.Response) {
	t.f.lease.Answered()
	if t.f.lease.Kind == frontier.Robots { // no page is sent again
		t.last, t.headed = resp, t.p.cfg.Clock.Now()
	}
	if urgent(resp) {
		t.f.resp, t.told = resp, true
		t.p.feedback(t.f, ordersOf(resp))
	}
}

// errDropped is what the Fetcher made of a good answer that it took no more than the
// header of: its time was up.
var errDropped = fmt.Errorf("the answer came too late: %w", context.DeadlineExceeded)

// again ends a request that failed and lets the Fetcher send the next, if the limiter
// does. If not, the one that failed is what the try has come to.
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
	t.p.stats.workerBusy.Add(int64(t.f.total))
	t.p.stats.retries.Add(1)
	*t.f = fetched{lease: t.f.lease, sent: t.f.sent, permitWait: t.f.permitWait, trip: t.f.trip, again: true}
	t.over, t.told, t.last = false, false, nil
	return nil
}

// end takes in what the Fetcher has returned.
func (t *try) end(resp *fetch.Response, err error) {
	switch {
	case t.over: // what was before stands, and err says only that nothing came after it
	case t.permit == nil && t.denied != nil: // nothing was sent
	case unsent(err), t.p.cutOff(err):
		t.f.kept, t.f.err = true, err
		t.waited(t.p.cfg.Clock.Now())
	case resp == nil && decided(t.last): // this stands too: err is why another one was not waited for
		t.f.resp = t.last
		t.settle(t.headed)
	default:
		t.f.resp, t.f.err = resp, err
		t.settle(t.p.cfg.Clock.Now())
	}
}

// settle tells limiter and statistics how a request went that ended at an instant.
func (t *try) settle(end time.Time) {
	p, f := t.p, t.f
	f.total = max(end.Sub(f.sent), 1)
	p.locate(f)
	if f.resp != nil {
		p.heard.Store(true)
		p.cfg.Limiter.ChargeBytes(f.resp.WireBytes)
	}
	f.class = classOf(f.resp, f.err)
	switch {
	case stale(f.err), f.class == outcome.Proxy: // they say nothing of the host
	case !t.told:
		p.feedback(f, ordersOf(f.resp))
	case f.class.Overload() && !decided(f.resp):
		// A good header, and then the host broke off or fell silent: that is news. The
		// orders in the header have been passed on, and are not repeated.
		p.feedback(f, orders{})
	}
	p.stats.request(f)
	f.trip.asked(f, end)
	p.measure(f)
}

// measure has a request that is over measured.
func (p *Pipeline) measure(f *fetched) {
	if !p.cfg.Meter.On() {
		return
	}
	firstByte, body := time.Duration(0), int64(-1)
	if f.resp != nil {
		firstByte, body = f.resp.Timings.FirstByte, int64(len(f.resp.Body))
	}
	p.cfg.Meter.Request(f.class, firstByte, f.total, body)
}

// unsent reports whether a policy of the Fetcher did not let the request pass.
func unsent(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	return ok && e.Op == fetch.OpPolicy && e.Sends == 0
}

// cutOff reports whether a proxy fails in the midst of a crawl: then the hosts behind it are
// out of reach, which is no fault of theirs, and their URLs wait. At the beginning of one it
// is rather that the proxy was given wrong, which the user wants to know at once.
func (p *Pipeline) cutOff(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	return ok && e.Class() == outcome.Proxy && p.heard.Load()
}

// keptMin is for how long at least the Fetcher's queues may let nothing pass before the
// crawl ends. Unlike hosts that refuse they are our own, and a moment says nothing.
const keptMin = time.Minute

// keep puts a URL back for which there was no place in a queue of the Fetcher. Queues that
// let nothing pass while nothing is under way will not get better: that is no crawl to wait for.
// Where several processes work on it, those of the others may: then this one has nothing to do,
// tries on, and lets others have its hosts.
func (d *discovery) keep(ev event, now time.Time) {
	d.frontier.End(now, ev.lease, frontier.WaitHost(true))
	if d.keptSince.IsZero() {
		d.keptSince = now
		why := []any{slog.String("host", ev.lease.Host()), slog.Any("error", ev.err)}
		if d.p.cutOff(ev.err) {
			d.p.cfg.Log.Warn("a proxy fails, and the hosts behind it wait", why...)
		} else {
			d.p.cfg.Log.Debug("a request has found no place in a queue", why...)
		}
	}
	limit := max(d.p.cfg.MaxBlocked, keptMin)
	if d.p.asking.Load() > 0 || now.Sub(d.keptSince) < limit {
		return
	}
	reason := fmt.Sprintf("no request could be sent for %v: %v", limit, ev.err)
	if d.peers == nil {
		d.halt(EndBlocked, reason)
		return
	}
	if verdict := d.peers.Verdict(); verdict != "" {
		d.halt(EndBlocked, verdict)
		return
	}
	if !d.stuck.Whole {
		d.stuck = frontier.Idleness{Blockage: frontier.Blockage{Whole: true}, Since: d.keptSince, Patience: limit, Reason: reason}
		d.p.cfg.Log.Warn("no request can be sent: the hosts of this process are for others to ask", slog.Duration("since", limit), slog.Any("error", ev.err))
	}
}

// sent says that a request was made, so that queues let something pass.
func (d *discovery) sent() { d.keptSince, d.stuck = time.Time{}, frontier.Idleness{} }
