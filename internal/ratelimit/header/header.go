// Package header reads what servers say about their limits.
//
// Three dialects are in use. Retry-After ([RetryAfterOf]) is an order and beats the others. X-RateLimit-Limit,
// -Remaining and -Reset were never standardised: the reset may be a delta, an epoch in seconds or in milliseconds, or
// a date. RateLimit and RateLimit-Policy are the IETF's, in the form of draft-ietf-httpapi-ratelimit-headers-10 or of
// its seventh draft. [Parse] asks all but Retry-After and returns the tightest quota.
//
// A header that is malformed counts as absent as a whole. Dates are taken by the clock of who
// sent them. Every function is pure and safe for concurrent use.
package header

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/limit"
)

// Quota is what is left of one quota. The zero Quota means that nothing was said.
type Quota struct {
	Limit     int64         // requests per window; zero if not said
	Remaining int64         // requests left in this window
	Reset     time.Duration // from the answer to the end of this window; zero if not said or over
	Window    time.Duration // length of a whole window; zero if not said
	InFlight  int64         // requests of the client that may be under way at once; zero if not said
}

// IsZero reports whether nothing was said.
func (q Quota) IsZero() bool { return q == Quota{} }

// QuotaOf is what a client that reads the headers of a response knows of s.
func QuotaOf(s limit.Standing) (q Quota) {
	if s.Window == 0 {
		return Quota{InFlight: s.Limit}
	}
	q.Limit, q.Window = s.PerWindow()
	q.Remaining, q.Reset = s.Told()
	return q
}

// tighter reports whether q allows fewer requests per second than r until its reset. A quota without a reset is
// compared over a second, as if it were to end at once; of two that are used up the later reset is the tighter.
func (q Quota) tighter(r Quota) bool {
	if a, b := q.pace(), r.pace(); a != b {
		return a < b
	}
	return q.Reset > r.Reset
}

func (q Quota) pace() float64 {
	return float64(q.Remaining) / max(q.Reset, time.Second).Seconds()
}

// Parse is the tightest request quota in the headers of an answer received at now. Cached answers (Age above zero) are
// not read. RateLimit goes before the X-RateLimit family, and that before the same without X.
func Parse(h http.Header, now time.Time) (q Quota, ok bool) {
	if cached(h["Age"]) {
		return Quota{}, false
	}
	if q, ok = parseStandard(h); !ok {
		q, ok = parseFamily(h, "X-Ratelimit-", now)
	}
	if !ok {
		q, ok = parseFamily(h, "Ratelimit-", now)
	}
	return q, ok
}

func cached(age []string) bool { return len(age) > 0 && strings.Trim(age[0], "0 \t") != "" }

// parseFamily reads Remaining, which is required, and Limit, Reset and Policy. An unreadable or contradictory one
// invalidates all.
func parseFamily(h http.Header, prefix string, now time.Time) (q Quota, ok bool) {
	remaining, one := single(h, prefix+"Remaining")
	if !one || remaining == "" {
		return Quota{}, false
	}
	limit, two := single(h, prefix+"Limit")
	reset, three := single(h, prefix+"Reset")
	if !two || !three || !count(remaining, &q.Remaining) || limit != "" && !count(limit, &q.Limit) {
		return Quota{}, false
	}
	if reset != "" {
		if q.Reset, ok = parseReset(reset, written(h, now)); !ok {
			return Quota{}, false
		}
	}
	if policy, ok := single(h, prefix+"Policy"); ok && q.Limit > 0 {
		q.Window = parseWindow(policy, q.Limit)
	}
	return q, !q.IsZero()
}

func single(h http.Header, name string) (value string, ok bool) {
	for i, line := range h[name] {
		line = strings.Trim(line, " \t")
		if i > 0 && line != value {
			return "", false
		}
		value = line
	}
	return value, true
}

func count(s string, to *int64) bool {
	n, err := strconv.ParseInt(s, 10, 64)
	*to = n
	return isDigits(s) && err == nil
}

// maxWindow is a century in seconds: what is longer is some other number.
const maxWindow = 100 * 365 * 24 * 3600

// parseWindow is the window that a policy such as "100;w=60" gives for the limit, or zero, as some put a name there.
func parseWindow(policy string, limit int64) time.Duration {
	for part := range strings.SplitSeq(policy, ",") {
		quota, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		var n int64
		if !count(strings.TrimSpace(quota), &n) || n != limit {
			continue
		}
		for param := range strings.SplitSeq(params, ";") {
			if w, ok := strings.CutPrefix(strings.TrimSpace(param), "w="); ok && count(w, &n) && n <= maxWindow {
				return time.Duration(n) * time.Second
			}
		}
	}
	return 0
}

// A reset above a billion seconds is an epoch, as of GitHub; above a thousand times that, in milliseconds. Beyond the
// year 9999 it is invalid.
const (
	epochSeconds = 1e9
	epochMillis  = 1e12
	year9999     = 253402300800
)

// parseReset is the time left at now: a delta or an epoch, or a date in any of the forms of
// HTTP. Some servers send a fraction of a second.
func parseReset(s string, now time.Time) (time.Duration, bool) {
	if at, err := http.ParseTime(s); err == nil {
		return max(at.Sub(now), 0), true
	}
	whole, fraction, found := strings.Cut(s, ".")
	x, err := strconv.ParseFloat(s, 64)
	if err != nil || !isDigits(whole) || found && !isDigits(fraction) {
		return 0, false
	}
	if x <= epochSeconds {
		return time.Duration(x * float64(time.Second)), true
	}
	if x > epochMillis {
		x /= 1000
	}
	at := time.Unix(int64(x), int64((x-float64(int64(x)))*1e9))
	return max(at.Sub(now), 0), x < year9999
}

// written is when an answer received at now was written, by its writer's clock, to which its dates refer. It is now
// where the Date is of this second, whatever the Age, as some caches rewrite the Date, or missing; else the Date and
// the Age.
func written(h http.Header, now time.Time) time.Time {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return now
	}
	if age := strings.Trim(h.Get("Age"), " \t"); isDigits(age) && !ofSecond(date, now) {
		date = date.Add(min(wholeSeconds(age), longestAge))
	}
	if ofSecond(date, now) {
		return now
	}
	return date
}

// longestAge bounds what an answer may say of how long it has lain in caches.
const longestAge = 366 * 24 * time.Hour

// ofSecond reports whether now lies in the second that a Date names.
func ofSecond(date, now time.Time) bool {
	d := now.Sub(date)
	return d >= 0 && d < time.Second
}

// Second is the second of the minute, from 1 to 61, in which an answer was written, by its writer's clock; zero for a
// Date not as in RFC 9110 section 5.6.7, and for a cached answer.
func Second(h http.Header) uint8 {
	const form = "Mon, 02 Jan 2006 15:04:05 GMT"
	date := h["Date"]
	if len(date) != 1 || len(date[0]) != len(form) || cached(h["Age"]) {
		return 0
	}
	d := date[0]
	if d[22] != ':' || !isDigits(d[23:25]) || d[23] > '6' || d[25:] != " GMT" {
		return 0
	}
	return min((d[23]-'0')*10+d[24]-'0', 60) + 1
}

// RetryAfterOf is the delay of the Retry-After of an answer received at now: seconds, or a date (RFC 9110 section
// 5.6.7), counted from the answer's own Date, if any. A past date is no delay. It is capped at most, unless that is
// zero or less. Of several lines the longest counts; it is not ok if all are malformed.
func RetryAfterOf(h http.Header, now time.Time, most time.Duration) (d time.Duration, ok bool) {
	lines := h["Retry-After"]
	if len(lines) == 0 {
		return 0, false
	}
	if most <= 0 {
		most = maxDuration
	}
	sent := written(h, now)
	for _, value := range lines {
		value = strings.Trim(value, " \t")
		if isDigits(value) {
			d, ok = max(d, wholeSeconds(value)), true
		} else if at, err := http.ParseTime(value); err == nil {
			d, ok = max(d, at.Sub(sent)), true
		}
	}
	return min(d, most), ok
}

// FormatRetryAfter writes d in seconds, rounded up; zero if negative.
func FormatRetryAfter(d time.Duration) string {
	s := max(d, 0) / time.Second
	if d > s*time.Second {
		s++
	}
	return strconv.FormatInt(int64(s), 10)
}

// maxDuration stands for every time too long to be represented.
const maxDuration = time.Duration(1<<63 - 1)

// wholeSeconds converts digits; what a Duration cannot hold is the longest one.
func wholeSeconds(digits string) time.Duration {
	n, err := strconv.ParseUint(digits, 10, 64)
	if err != nil || n > uint64(maxDuration/time.Second) {
		return maxDuration
	}
	return time.Duration(n) * time.Second
}

func isDigits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}
