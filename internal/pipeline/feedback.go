package pipeline

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/sitemap"
)

// request fetches and tells the limiter how it went: at the header if that is when it is
// known, otherwise at the end.
func (p *Pipeline) request(ctx context.Context, t *try) {
	l := t.f.lease
	req := fetch.Request{URL: l.URL.String(), OnHeader: t.header, Capture: len(p.cfg.Archives) > 0}
	req.Header = t.f.trip.withParent(p.condition(l))
	if l.Kind == frontier.Robots {
		req.MaxBody, req.Again = robots.MaxBytes, t.again
	}
	if l.Kind == frontier.Sitemap {
		req.MaxBody = sitemap.MaxBytes // what the protocol allows, whatever a page may have
	}
	if l.Kind == frontier.Page {
		req.Filter = p.cfg.Filter
	}
	t.begin = t.f.sent
	if p.cfg.Queues {
		req.Permit, t.begin = t.take, t.since
	}
	t.end(p.cfg.Fetcher.Fetch(ctx, req))
}

// locate tells the limiter at which address the host was found. A kept connection is
// told of again: the limiter may have forgotten the host meanwhile.
func (p *Pipeline) locate(f *fetched) {
	if f.resp == nil {
		return
	}
	if at, err := netip.ParseAddrPort(f.resp.RemoteAddr); err == nil {
		p.cfg.Limiter.SetAddress(f.lease.Host(), at.Addr())
	}
}

// urgent reports whether the limiter is to hear of an answer as soon as its header is
// there. A body may drip for half a minute, in which more requests would go out against
// an order to wait or a quota that is used up; and where the status decides, there is
// nothing to wait for.
func urgent(resp *fetch.Response) bool {
	usedUp := !resp.Quota.IsZero() && resp.Quota.Remaining == 0
	return usedUp || decided(resp)
}

// decided reports whether a status has said all there is to say. Every one but that of a
// good answer has: a 429 whose body is spoilt still means "not now".
func decided(resp *fetch.Response) bool {
	return resp != nil && outcome.Of(resp.Status, nil) != outcome.OK
}

// orders is what a header says about the requests to come, counted from now.
type orders struct {
	retryAfter time.Duration
	quota      header.Quota
}

// ordersOf counts a quota from the end of what has come of the body; a window that ended
// meanwhile says nothing of the next one. An order to wait is always passed on at the
// header, where nothing has passed yet.
func ordersOf(resp *fetch.Response) (o orders) {
	if resp == nil {
		return o
	}
	o.retryAfter = resp.RetryAfter
	past := resp.Timings.Body
	if q := resp.Quota; q.Reset == 0 || q.Reset > past {
		o.quota = q
		o.quota.Reset = max(0, q.Reset-past)
	}
	return o
}

// feedback tells the limiter what is known of a request, and the host's orders. An error
// goes before a status: only where the header was a good one can there be both, and then
// the body broke off, fell silent, cannot be decoded, or we gave up.
func (p *Pipeline) feedback(f *fetched, o orders) {
	l := f.lease
	fb := ratelimit.Feedback{
		Err: f.err, SentAt: f.sent, Latency: f.total, Retry: f.again || l.Attempt > 0 || l.Returns > 0,
		Quota: o.quota, Lifted: f.resp != nil && l.Lifted(f.resp.Status),
	}
	if p.waits(f) {
		fb.RetryAfter = o.retryAfter
	}
	if f.total == 0 { // it is not over
		fb.Latency = p.cfg.Clock.Since(f.sent)
	}
	if resp := f.resp; resp != nil {
		fb.StatusCode, fb.Second = resp.Status, resp.Second
		if !resp.SentAt.IsZero() {
			fb.SentAt = resp.SentAt // a connection may have had to be made first
		}
		if resp.Timings.FirstByte > 0 {
			// The body's length is the page's business; the host's pace shows in its first byte.
			fb.Latency = resp.Timings.FirstByte
		}
		if f.class.Declined() {
			fb.Err = nil // it was we who stopped reading
		}
	}
	if o := outcomeOf(f, classOf(f.resp, fb.Err)); l.Evidence.OfURL && o.Failed() {
		fb.OfURL, fb.OfURLFirst, fb.RetryAfter, fb.Quota = true, l.Evidence.Clears, 0, header.Quota{}
	}
	p.cfg.Limiter.Feedback(l.Host(), fb)
}

// waits reports whether the Retry-After of an answer is for its host.
func (p *Pipeline) waits(f *fetched) bool {
	if f.resp == nil {
		return false
	}
	waits := outcome.RetryAfter(f.resp.Status)
	return waits == outcome.WaitsHost || waits == outcome.WaitsIfBlock && p.down(f.lease.Host())
}

// waitOfTarget is for how long the target of a redirect is not to be asked for.
func (p *Pipeline) waitOfTarget(resp *fetch.Response) time.Duration {
	if outcome.RetryAfter(resp.Status) != outcome.WaitsTarget {
		return 0
	}
	return min(resp.RetryAfter, p.cfg.MaxRetryAfter)
}

// classOf is the class of a request: that of the status where it decides, otherwise that
// of whatever went wrong.
func classOf(resp *fetch.Response, err error) outcome.Class {
	status := 0
	if resp != nil {
		status = resp.Status
	}
	class := outcome.Of(status, err)
	if decided(resp) && class != outcome.Canceled {
		return outcome.Of(status, nil)
	}
	return class
}

// stale reports whether the request met a kept connection that the host had given up
// meanwhile, as it may: that says nothing about the host, nor about the URL.
func stale(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	return ok && e.Stale
}
