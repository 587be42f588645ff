package pipeline

import (
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Whose a failure was the frontier has decided when it leased the URL: see frontier's
// refusal.go. Here is what follows from it.

// longestOutage is for how long the failures of a host that answers nothing spend no tries.
const longestOutage = 24 * time.Hour

// refused reports whether an answer is one that limits of rate give. The 403 of a robots.txt
// means that there are no rules (RFC 9309, section 2.3.1.3).
func refused(f *fetched) bool {
	return f.class == outcome.Throttled || f.class == outcome.Unavailable || forbidden(f)
}

// forbidden reports a 403 for a URL of the frontier.
func forbidden(f *fetched) bool {
	return f.resp != nil && outcome.Forbidden(f.resp.Status) && f.lease.Kind != frontier.Robots
}

// failed reports whether the same request may be answered later.
func failed(f *fetched) bool { return f.class.Transient() || refused(f) }

// lifted reports an answer to a URL that had met a 403 before: so that meant "later", and the
// limiter is to know.
func lifted(f *fetched) bool {
	return f.lease.Forbidden > 0 && f.resp != nil && f.resp.Status/100 <= 3
}

// failure says what becomes of a URL that failed, and from when on it may be asked for again.
// With fateProcessed it is given up.
func (p *Pipeline) failure(f *fetched, now time.Time) (fate, time.Time) {
	l := f.lease
	tries := int(l.Attempt) + 1
	switch {
	case !l.FailingSince.IsZero() && now.Sub(l.FailingSince) >= longestOutage:
		return fateProcessed, now
	case l.Own:
		if refused(f) && l.OwnFailures == 0 && l.Attempt == 0 && l.Returns > 0 {
			tries++ // the refusal before was the URL's too, as is known now
		}
		l.Attempt = uint8(tries - 1) // for its record
		p.stats.ofURL.Add(1)
		p.cfg.Log.Debug("a URL failed while its host answered others", slog.String("url", l.URL.String()), slog.Int("tries", tries))
		if tries > p.cfg.Retries || forbidden(f) { // a 403 that is not the host's is final
			return fateProcessed, now
		}
		return fateOwn, now.Add(max(p.cfg.Backoff.Delay(tries, nil), min(p.retryAfter(f.resp), p.cfg.MaxRetryAfter)))
	case p.ofHost(f):
		return fateNotNow, now.Add(p.cfg.Backoff.Delay(min(int(l.Returns)+1, maxNotNowBackoff), nil))
	case forbidden(f) || tries > p.cfg.Retries:
		return fateProcessed, now
	}
	return fateRetry, now.Add(p.cfg.Backoff.Delay(tries, nil))
}

// retryAfter is what an answer asks to wait for, where that has a meaning.
func (p *Pipeline) retryAfter(resp *fetch.Response) time.Duration {
	if resp == nil || outcome.RetryAfter(resp.Status) == outcome.WaitsNone {
		return 0
	}
	return resp.RetryAfter
}

// ofHost reports whether a failure is the host's, so that it spends no try: an answer by which
// it limits what is asked of it, or any failure while its breaker is open. A host that has not
// answered a page yet may give a 403 or a bare 503 to every request for ever, and others fail
// for good: those are as good as an answer.
func (p *Pipeline) ofHost(f *fetched) bool {
	l := f.lease
	if f.class == outcome.Throttled || f.class == outcome.Unavailable && f.resp.RetryAfter > 0 {
		return true
	}
	return (l.Served || l.Met) && (refused(f) || p.down(l.Host()))
}
