package pipeline

import (
	"errors"
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// maxHostBackoff bounds the exponent for URLs that a host keeps putting off.
const maxHostBackoff = 16

// urgent reports whether the limiter is to hear of an answer as soon as its header is there. A body may drip
// for half a minute, in which more requests would go out against an order to wait or a quota that is used
// up; and where the status decides, there is nothing to wait for.
func urgent(resp *fetch.Response) bool {
	usedUp := !resp.Quota.IsZero() && resp.Quota.Remaining == 0
	return usedUp || decided(resp)
}

// decided reports whether a status has said all there is to say. Every one but that of a good answer has: a
// 429 whose body is spoilt still means "not now".
func decided(resp *fetch.Response) bool {
	return resp != nil && outcome.Of(resp.Status, nil) != outcome.OK
}

// orders is what a header says about the requests to come, counted from now.
type orders struct {
	retryAfter time.Duration
	quota      header.Quota
}

// ordersOf counts a quota from the end of what has come of the body; a window that ended meanwhile says
// nothing of the next one. An order to wait is always passed on at the header, where nothing has passed yet.
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

// feedback tells the limiter what is known of a request, and the host's orders. An error goes before a status:
// only where the header was a good one can there be both, and then the body broke off, fell silent, cannot be
// decoded, or we gave up.
func (t *try) feedback(o orders) {
	p, f, l := t.p, t.f, t.f.lease
	fb := ratelimit.Feedback{
		Err: f.err, SentAt: f.sent, Latency: f.total, Retry: f.again || l.Attempt > 0 || l.Returns > 0,
		Quota: o.quota, Lifted: f.resp != nil && l.Lifted(f.resp.Status),
	}
	if f.total == 0 { // it is not over
		fb.Latency = p.cfg.Clock.Since(f.sent)
	}
	if resp := f.resp; resp != nil {
		fb.StatusCode, fb.Second = resp.Status, resp.Second
		waits := outcome.RetryAfter(resp.Status)
		if waits == outcome.WaitsHost || waits == outcome.WaitsIfBlock && p.cfg.down(l.Host()) {
			fb.RetryAfter = o.retryAfter
		}
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

// waitOfTarget is for how long the target of a redirect is not to be asked for.
func (c *Config) waitOfTarget(resp *fetch.Response) time.Duration {
	if outcome.RetryAfter(resp.Status) != outcome.WaitsTarget {
		return 0
	}
	return min(resp.RetryAfter, c.MaxRetryAfter)
}

// classOf is the class of a request: that of the status where it decides, otherwise that of whatever went wrong.
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

// stale reports whether the request met a kept connection that the host had given up meanwhile, as it may:
// that says nothing about the host, nor about the URL.
func stale(err error) bool {
	e, ok := errors.AsType[*fetch.Error](err)
	return ok && e.Stale
}

// outcomeOf is what a request of a lease says about its URL and its host, given its class. Package attribution
// decides by it whose a failure is.
func outcomeOf(f *fetched, class outcome.Class) attribution.Outcome {
	o := attribution.Outcome{Class: class}
	if f.resp != nil {
		o.Status, o.Waits = f.resp.Status, f.resp.RetryAfter > 0
	}
	if e, ok := errors.AsType[*fetch.Error](f.err); ok {
		o.Unreachable = e.Unconnected() || e.Class() == outcome.Proxy
	}
	return o
}

// decide says what becomes of the URL of a page's request, and from when on it is asked for again.
func (t *try) decide(o attribution.Outcome) (attribution.Decision, time.Time) {
	p, l := t.p, t.f.lease
	var now time.Time // of a failure
	if o.Failed() || o.Lost {
		now = p.cfg.Clock.Now()
	}
	c := attribution.Case{Evidence: l.Evidence, Tries: l.Tries, Outcome: o, Retries: p.cfg.Retries, Now: now}
	c.Down = o.Failed() && p.cfg.down(l.Host())
	d := attribution.Decide(&c)
	if o.Failed() && (!t.f.asked.mayRepeat(o.Class, t.f.err) || hooked(t.f.err)) {
		d.Final = true
	}
	if d.Whose == attribution.OfURL {
		attempts := int(d.Tries.Attempt)
		if d.Final {
			attempts++ // this one
		}
		p.stats.count(&p.stats.n.OfURL, 1)
		p.cfg.Log.Debug("a URL failed while its host answered others", slog.String("url", l.URL.String()), slog.Int("tries", attempts))
	}
	return d, now.Add(t.backoff(&d))
}

// backoff is how long a URL waits before it is asked for again. Where the host failed, the limiter decides when
// it is asked again, and the jitter here only spreads the URLs.
func (t *try) backoff(d *attribution.Decision) time.Duration {
	if d.Final {
		return 0
	}
	cfg := &t.p.cfg
	switch d.Whose {
	case attribution.OfHost:
		return cfg.Backoff.Delay(min(int(d.Tries.Returns), maxHostBackoff), nil)
	case attribution.Either:
		return cfg.Backoff.Delay(int(d.Tries.Attempt), nil)
	case attribution.OfURL:
		pause := cfg.Backoff.Delay(int(d.Tries.Attempt), nil)
		if resp := t.f.resp; resp != nil && outcome.RetryAfter(resp.Status) != outcome.WaitsNone {
			pause = max(pause, min(resp.RetryAfter, cfg.MaxRetryAfter))
		}
		return pause
	}
	return 0
}

func (c *Config) down(host string) bool {
	_, why := c.Limiter.ReadyAt(host, 0, 0)
	return why == ratelimit.LimitBreaker
}
