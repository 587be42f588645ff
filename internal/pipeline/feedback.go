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

// maxHostBackoff bounds the exponent of the backoff of URLs that a host refuses again and again.
const maxHostBackoff = 16

// urgent reports whether a response is reported to the limiter as soon as its header has arrived. Reading the body may
// take half a minute, in which more requests would be sent against a Retry-After or a used-up quota. And if the status
// decides, the body adds nothing.
func urgent(resp *fetch.Response) bool {
	usedUp := !resp.Quota.IsZero() && resp.Quota.Remaining == 0
	return usedUp || resp.Decides()
}

// feedback reports to the limiter what is known of a request, and the server hints. An error takes precedence over a
// status. Both are present only if the header was good, and then the body broke off, stopped, could not be decoded, or
// was not wanted.
func (t *try) feedback(retryAfter time.Duration, quota header.Quota) {
	p, f, l := t.p, t.f, t.f.lease
	fb := ratelimit.Feedback{
		Err: f.err, SentAt: f.sent, Latency: f.total, Retry: f.again || l.Attempt > 0 || l.Returns > 0,
		Quota: quota, Lifted: f.resp != nil && l.Lifted(f.resp.Status),
	}
	if f.total == 0 { // it is still in flight
		fb.Latency = p.cfg.Clock.Since(f.sent)
	}
	if resp := f.resp; resp != nil {
		fb.StatusCode, fb.Second = resp.Status, resp.Second
		if ratelimit.Waits(p.cfg.Limiter, l.Host(), resp.Status) {
			fb.RetryAfter = retryAfter
		}
		if !resp.SentAt.IsZero() {
			fb.SentAt = resp.SentAt // not before the connection was made
		}
		if resp.Timings.FirstByte > 0 {
			// The time of the body depends on its length. The time to the first byte shows how loaded the host is.
			fb.Latency = resp.Timings.FirstByte
		}
		if f.class.Declined() {
			fb.Err = nil // the crawler stopped reading, not the host
		}
	}
	if o := outcomeOf(f, fetch.ClassOf(f.resp, fb.Err)); l.Evidence.OfURL && o.Failed() {
		fb.OfURL, fb.OfURLFirst, fb.RetryAfter, fb.Quota = true, l.Evidence.Clears, 0, header.Quota{}
	}
	p.cfg.Limiter.Feedback(l.Host(), fb)
}

// waitOfTarget returns how long the target of a redirect has to wait.
func (c *Config) waitOfTarget(resp *fetch.Response) time.Duration {
	if outcome.RetryAfter(resp.Status) != outcome.WaitsTarget {
		return 0
	}
	return min(resp.RetryAfter, c.MaxRetryAfter)
}

// outcomeOf returns what a request of a lease says about its URL and its host, given its class. Package attribution
// uses it to decide whose the failure is.
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

// decide returns what happens to the URL of a page's request, and the earliest time of the next attempt.
func (t *try) decide(o attribution.Outcome) (attribution.Decision, time.Time) {
	p, l := t.p, t.f.lease
	var now time.Time // set for a failure only
	if o.Failed() || o.Lost {
		now = p.cfg.Clock.Now()
	}
	c := attribution.Case{Evidence: l.Evidence, Tries: l.Tries, Outcome: o, Retries: p.cfg.Retries, Now: now}
	c.Down = o.Failed() && ratelimit.Blocked(p.cfg.Limiter, l.Host())
	d := attribution.Decide(&c)
	if o.Failed() && (!fetch.MayRepeat(t.f.asked.Method, o.Class, t.f.err) || fetch.Hooked(t.f.err)) {
		d.Final = true
	}
	if d.Whose == attribution.OfURL {
		attempts := int(d.Tries.Attempt)
		if d.Final {
			attempts++ // for this one
		}
		p.stats.count(&p.stats.n.OfURL, 1)
		p.cfg.Log.Debug("a URL failed while its host answered others", slog.String("url", l.URL.String()), slog.Int("tries", attempts))
	}
	return d, now.Add(t.backoff(&d))
}

// backoff returns how long a URL waits before the next attempt. If the host failed, the limiter decides when the host
// gets a request again, and the jitter here only spreads the URLs.
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
