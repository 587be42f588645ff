package testsite

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/limit"
)

// The headers are not written by the code with which the crawler reads them: a mistake there
// must not go unnoticed here.

// absurdSeconds is three thousand years, as of a server that means milliseconds.
const absurdSeconds = "99999999999"

// dateForms are the layouts by the words of the file: today's, and the two obsolete ones that
// recipients must accept (RFC 9110, 5.6.7).
var dateForms = map[string]string{
	retryDate: http.TimeFormat, retryRFC850: "Monday, 02-Jan-06 15:04:05 GMT", retryAsctime: time.ANSIC,
}

// retryAfter is the header of a refusal at now and the end of the wait it asks for: now if the value is
// invalid.
func (r *Refusal) retryAfter(epoch time.Time, now, ready clock.Instant) (header string, until clock.Instant) {
	switch r.RetryAfter {
	case retryPast:
		date := epoch.Add(time.Duration(now)).UTC().Add(-cmp.Or(r.Wait, time.Hour))
		return date.Format(http.TimeFormat), now
	case retryAbsurd:
		return absurdSeconds, now
	case retryGarbage:
		return "soon", now
	}
	wait := r.wait(now, ready)
	if r.RetryAfter == retrySeconds {
		seconds := (wait + time.Second - 1) / time.Second
		return strconv.Itoa(int(seconds)), now.Add(seconds * time.Second)
	}
	if layout, ok := dateForms[r.RetryAfter]; ok {
		// Adding a second less a nanosecond before the cut rounds up.
		date := epoch.Add(time.Duration(now) + wait + time.Second - 1).Truncate(time.Second).UTC()
		return date.Format(layout), clock.Instant(date.Sub(epoch))
	}
	return "", now
}

func (r *Refusal) wait(now, ready clock.Instant) time.Duration {
	switch {
	case r.Wait != 0:
		return r.Wait
	case ready == unknown:
		return time.Second
	}
	return ready.Sub(now)
}

func (r *Refusal) tells() bool { return r.Headers != "" && r.Headers != headersNone }

// setQuota writes the quota headers, X-RateLimit-* or those of
// draft-ietf-httpapi-ratelimit-headers-10. Seconds are rounded up.
func (r *Refusal) setQuota(h http.Header, s *limit.Standing) {
	if s == nil {
		return // nobody asked the limits: an outage, a script
	}
	q := header.QuotaOf(*s)
	ceil := func(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }
	switch r.Headers {
	case headersLegacy:
		h.Set("X-RateLimit-Limit", strconv.FormatInt(q.Limit, 10))
		h.Set("X-RateLimit-Remaining", strconv.FormatInt(q.Remaining, 10))
		h.Set("X-RateLimit-Reset", strconv.FormatInt(ceil(q.Reset), 10))
	case headersIETF:
		h.Set("RateLimit-Policy", fmt.Sprintf(`"default";q=%d;w=%d`, q.Limit, ceil(q.Window)))
		h.Set("RateLimit", fmt.Sprintf(`"default";r=%d;t=%d`, q.Remaining, ceil(q.Reset)))
	}
}
