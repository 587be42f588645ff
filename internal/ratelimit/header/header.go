// Package header reads and writes what servers say about their limits.
//
// Three dialects are in use. Retry-After ([RetryAfter]) is an order and beats the
// others. X-RateLimit-Limit, -Remaining and -Reset ([ParseLegacy]) were never
// standardised: the reset may be a delta, an epoch in seconds or one in
// milliseconds, or a date. RateLimit and RateLimit-Policy ([ParseRateLimit], [ParsePolicies])
// are the IETF's, in the form of draft-ietf-httpapi-ratelimit-headers-10; that of its seventh
// draft is read too.
// [Parse] asks all but Retry-After and returns the tightest quota.
//
// A header that is malformed is as good as absent: it is ignored as a whole, never
// half believed. Dates are taken by the clock of who sent them ([Written]). Every function
// is pure and safe for concurrent use; instants are passed in.
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

// tighter reports whether q allows fewer requests per second than r until its reset.
// A quota without a reset is compared over a second, as if it were to end at once;
// of two that are used up the later reset is the tighter.
func (q Quota) tighter(r Quota) bool {
	a, b := q.pace(), r.pace()
	if a != b {
		return a < b
	}
	return q.Reset > r.Reset
}

// pace is the requests per second that use the quota up exactly at its reset.
func (q Quota) pace() float64 {
	return float64(q.Remaining) / max(q.Reset, time.Second).Seconds()
}

// Parse is the tightest request quota that the headers of an answer received at now
// speak of. An answer from a cache (Age above zero) speaks of the past and is not
// read. RateLimit goes before the X-RateLimit family: who sends both means the
// standard one.
func Parse(h http.Header, now time.Time) (Quota, bool) {
	if age := h.Get("Age"); age != "" && strings.Trim(age, "0 \t") != "" {
		return Quota{}, false
	}
	if q, ok := parseStandard(h); ok {
		return q, true
	}
	return ParseLegacy(h, now)
}

// Written is when an answer received at now was written, by the clock of who wrote it: dates
// in its other fields are of that clock, and a wait from one to the other is right however
// wrong ours is. It is now where the Date is of this second, which is all that a Date can
// tell, whatever the Age: some caches write the Date anew. Else it is that Date and the Age
// with it; and now if there is no Date.
func Written(h http.Header, now time.Time) time.Time {
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

// ofSecond reports whether now lies in the second that a Date names.
func ofSecond(date, now time.Time) bool {
	d := now.Sub(date)
	return d >= 0 && d < time.Second
}

// Second is the second of the minute, from 1 to 61, in which an answer was written by the
// clock of who wrote it: those of one second have the same. It is zero where the Date is not
// of the form that RFC 9110 section 5.6.7 asks for, and of an answer from a cache, which
// speaks of the past.
func Second(h http.Header) uint8 {
	const form = "Mon, 02 Jan 2006 15:04:05 GMT"
	date, age := h["Date"], h["Age"]
	if len(date) != 1 || len(date[0]) != len(form) || len(age) > 0 && strings.Trim(age[0], "0 \t") != "" {
		return 0
	}
	d := date[0]
	if d[22] != ':' || !isDigits(d[23:25]) || d[23] > '6' || d[25:] != " GMT" {
		return 0
	}
	return min((d[23]-'0')*10+d[24]-'0', 60) + 1
}

// longestAge bounds what an answer may say of how long it has lain in caches.
const longestAge = 366 * 24 * time.Hour

// RetryAfterOf is the delay that the Retry-After of an answer received at now asks for: see
// [RetryAfter]. The answer's own Date says when the delay begins, if there is one. Of several
// lines the longest delay counts, as who obeys it obeys them all; malformed ones do not.
func RetryAfterOf(h http.Header, now time.Time, most time.Duration) (d time.Duration, ok bool) {
	lines := h["Retry-After"]
	if len(lines) == 0 {
		return 0, false
	}
	written := Written(h, now)
	for _, v := range lines {
		if one, valid := RetryAfter(v, written, most); valid {
			d, ok = max(d, one), true
		}
	}
	return d, ok
}

// RetryAfter is the delay that a Retry-After value asks for at now: a number of
// seconds, or a date in any of the three forms of RFC 9110 section 5.6.7. A date
// that has passed is no delay. Whatever exceeds most, a number too large to
// represent included, is most; zero or less means no bound. A value of any
// other form is not ok.
func RetryAfter(value string, now time.Time, most time.Duration) (d time.Duration, ok bool) {
	value = strings.Trim(value, " \t")
	if most <= 0 {
		most = maxDuration
	}
	if isDigits(value) {
		return min(wholeSeconds(value), most), true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), most), true
}

// FormatRetryAfter writes d in seconds, rounded up: a client that obeys is never
// early. A negative d is zero.
func FormatRetryAfter(d time.Duration) string {
	return strconv.FormatInt(ceilSeconds(d), 10)
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

// ceilSeconds rounds up, so that nobody who obeys is early; below zero it is zero.
func ceilSeconds(d time.Duration) int64 {
	s := int64(max(d, 0) / time.Second)
	if d > 0 && d%time.Second != 0 {
		s++
	}
	return s
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
