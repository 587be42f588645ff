package pipeline

import (
	"errors"
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Whose a failure is, and whether its URL is asked for again, decides package attribution. Here
// are what it decides by, and when.

// outcomeOf is what a request of a lease says about its URL and its host, given its class.
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
func (p *Pipeline) decide(f *fetched, o attribution.Outcome, now time.Time) (attribution.Decision, time.Time) {
	l := f.lease
	c := attribution.Case{Evidence: l.Evidence, Tries: l.Tries, Outcome: o, Retries: p.cfg.Retries, Now: now}
	c.Down = o.Failed() && p.down(l.Host())
	d := attribution.Decide(&c)
	if d.Whose == attribution.OfURL {
		attempts := int(d.Tries.Attempt)
		if d.Final {
			attempts++ // this one
		}
		p.stats.ofURL.Add(1)
		p.cfg.Log.Debug("a URL failed while its host answered others", slog.String("url", l.URL.String()), slog.Int("tries", attempts))
	}
	return d, now.Add(p.backoff(f, &d))
}

// backoff is how long a URL waits before it is asked for again. Where the host failed, the limiter
// decides when it is asked again, and the jitter here only spreads the URLs.
func (p *Pipeline) backoff(f *fetched, d *attribution.Decision) time.Duration {
	switch {
	case d.Final:
	case d.Whose == attribution.OfURL:
		return max(p.cfg.Backoff.Delay(int(d.Tries.Attempt), nil), min(p.retryAfter(f.resp), p.cfg.MaxRetryAfter))
	case d.Whose == attribution.OfHost:
		return p.cfg.Backoff.Delay(min(int(d.Tries.Returns), maxHostBackoff), nil)
	case d.Whose == attribution.Either:
		return p.cfg.Backoff.Delay(int(d.Tries.Attempt), nil)
	}
	return 0
}

// maxHostBackoff bounds the exponent for URLs that a host keeps putting off.
const maxHostBackoff = 16

// maxLost is how often a URL is asked for again at no cost that met a connection which
// the host had given up. The bound is for URLs at which a server closes each connection.
const maxLost = 5

// retryAfter is what an answer asks to wait for, where that has a meaning.
func (p *Pipeline) retryAfter(resp *fetch.Response) time.Duration {
	if resp == nil || outcome.RetryAfter(resp.Status) == outcome.WaitsNone {
		return 0
	}
	return resp.RetryAfter
}

// down reports whether the host's breaker is open or half-open.
func (p *Pipeline) down(host string) bool {
	_, why := p.cfg.Limiter.ReadyAt(host, 0, 0)
	return why == ratelimit.LimitBreaker
}
