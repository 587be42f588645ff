// Package header reads what servers tell about their limits.
//
// Three kinds of headers are in use. Retry-After ([RetryAfterOf]) asks to wait and takes precedence over the others.
// X-RateLimit-Limit, -Remaining and -Reset were never standardized: the reset may be a number of seconds, an epoch in
// seconds or in milliseconds, or a date. RateLimit and RateLimit-Policy are the IETF's, in the form of
// draft-ietf-httpapi-ratelimit-headers-10 or of its seventh draft. [Parse] reads all but Retry-After and returns the
// tightest quota.
//
// A malformed header counts as absent as a whole. Dates are interpreted by the clock of their sender. Every function is
// pure and safe for concurrent use.
package header

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/limit"
)

// Quota is what is left of one quota. The zero Quota means that the server told nothing.
type Quota struct {
	Limit     int64         // requests per window; zero if not told
	Remaining int64         // requests left in this window
	Reset     time.Duration // from the response to the end of this window; zero if not told, or if the window is over
	Window    time.Duration // length of a whole window; zero if not told
	InFlight  int64         // requests of the client that may be in flight at once; zero if not told
}

// IsZero reports whether the server told nothing.
func (q Quota) IsZero() bool { return q == Quota{} }

// QuotaOf returns the quota that a client reads from the headers of a response that tells s.
func QuotaOf(s limit.Standing) (q Quota) {
	if s.Window == 0 {
		return Quota{InFlight: s.Limit}
	}
	q.Limit, q.Window = s.PerWindow()
	q.Remaining, q.Reset = s.Told()
	return q
}

// tighter reports whether q allows fewer requests per second than r until its reset. A quota without a reset is
// compared as if its window ended in a second. Of two that are used up, the one with the later reset is tighter.
func (q Quota) tighter(r Quota) bool {
	if a, b := q.pace(), r.pace(); a != b {
		return a < b
	}
	return q.Reset > r.Reset
}

func (q Quota) pace() float64 {
	return float64(q.Remaining) / max(q.Reset, time.Second).Seconds()
}

// Parse returns the tightest request quota in the headers of a response received at now. It ignores cached responses
// (Age above zero). RateLimit takes precedence over the X-RateLimit family, and that over the same names without X.
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

// parseFamily reads Remaining, which is required, and Limit, Reset and Policy. If one is unreadable or contradicts
// another, none counts.
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

// maxWindow is a century in seconds: a larger number means something else.
const maxWindow = 100 * 365 * 24 * 3600

// parseWindow returns the window that a policy such as "100;w=60" gives for the limit. It returns zero if there is
// none, because some servers put a name there.
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

// A reset above a billion seconds is an epoch, as GitHub sends it; above a thousand times that, an epoch in
// milliseconds. Beyond the year 9999 it is invalid.
const (
	epochSeconds = 1e9
	epochMillis  = 1e12
	year9999     = 253402300800
)

// parseReset returns the time left at now from a number of seconds, an epoch, or a date in any form that HTTP allows.
// Some servers send fractions of a second.
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

// written returns when a response received at now was written, by the clock of its writer, to which its dates refer.
// That is now if the Date is missing or of the present second, whatever the Age, because some caches rewrite the Date;
// otherwise it is the Date plus the Age.
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

// longestAge bounds how long a response may claim to have been in caches.
const longestAge = 366 * 24 * time.Hour

// ofSecond reports whether now is in the second that a Date names.
func ofSecond(date, now time.Time) bool {
	d := now.Sub(date)
	return d >= 0 && d < time.Second
}

// Second returns the second of the minute, from 1 to 61, in which a response was written, by the clock of its writer.
// It returns zero if the Date is not in the form of RFC 9110 section 5.6.7, and for a cached response.
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

// RetryAfterOf returns the delay that the Retry-After of a response received at now asks for: seconds, or a date (RFC
// 9110 section 5.6.7), counted from the response's own Date, if any. A past date means no delay. The delay is at most
// most, unless most is zero or less. If there are several lines, the longest delay counts. ok is false if there is no
// line, or all are malformed.
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

// FormatRetryAfter returns d in seconds, rounded up, as a text; "0" if d is negative.
func FormatRetryAfter(d time.Duration) string {
	s := max(d, 0) / time.Second
	if d > s*time.Second {
		s++
	}
	return strconv.FormatInt(int64(s), 10)
}

// maxDuration stands for every time that is too long for a Duration.
const maxDuration = time.Duration(1<<63 - 1)

// wholeSeconds converts digits to seconds. If a Duration cannot hold them, it returns the longest Duration.
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
