package testsite

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// The headers of this file are written here and not by the code that the crawler reads
// them with: a judge must not share the mistakes of whom it judges.

// absurdSeconds is three thousand years, as servers say that mean milliseconds, or never.
const absurdSeconds = "99999999999"

// pastBy is how old the date of a stale Retry-After is: that of an hour that a cache has
// kept, or of a clock that is wrong by a time zone.
const pastBy = time.Hour

// The two obsolete forms of a date that RFC 9110 (5.6.7) has recipients accept.
const (
	rfc850  = "Monday, 02-Jan-06 15:04:05 GMT"
	asctime = time.ANSIC
)

// dateForms are the layouts by the words of the file.
var dateForms = map[string]string{retryDate: http.TimeFormat, retryRFC850: rfc850, retryAsctime: asctime}

// retryAfter is the header of a refusal at now and the instant it speaks of: now if it
// asks for nothing that a client could obey. Seconds and dates are whole, so the wait is
// rounded up: a client that honours it to the letter must not come too early.
func (r *Refusal) retryAfter(epoch time.Time, now, ready clock.Instant) (header string, until clock.Instant) {
	switch r.RetryAfter {
	case retryPast:
		date := epoch.Add(time.Duration(now)).UTC().Add(-r.past())
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

// wait is what an honest Retry-After asks for.
func (r *Refusal) wait(now, ready clock.Instant) time.Duration {
	switch {
	case r.Wait != 0:
		return r.Wait
	case ready == unknown:
		return time.Second
	}
	return ready.Sub(now)
}

func (r *Refusal) past() time.Duration {
	if r.Wait != 0 {
		return r.Wait
	}
	return pastBy
}

// tells reports whether answers have headers about the quota.
func (r *Refusal) tells() bool { return r.Headers != "" && r.Headers != headersNone }

// setQuota writes the headers that tell the quota, by the names that are in use or those
// of the IETF's draft (draft-ietf-httpapi-ratelimit-headers-10). Seconds are rounded up.
func (r *Refusal) setQuota(h http.Header, s *header.Standing) {
	if s == nil {
		return // nobody asked the limits: an outage, a script
	}
	q := s.Quota()
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
