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
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"

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

// pace is the requests per second that use the quota up exactly at its reset.
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

// count reads a number of requests, which has no sign.
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

func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

const (
	// UnitInFlight is the unit of a policy whose quota is how many requests of a client may be
	// under way at once: who holds no more is never refused.
	UnitInFlight = "concurrent-requests"

	// unitRequests is the unit of a policy that names none. Other units are never taken for a pace.
	unitRequests = "requests"

	// maxInteger is the largest Integer of a structured field, RFC 9651 section 3.3.1.
	maxInteger = 999_999_999_999_999
)

// Policy is one member of RateLimit-Policy: a quota as the server has set it up.
type Policy struct {
	Name   string        // required, printable ASCII
	Quota  int64         // units per window, required
	Window time.Duration // whole seconds; zero if not said
	Unit   string        // "requests", "content-bytes", …; empty means requests
}

// FormatPolicies writes a RateLimit-Policy value. It fails on a name or unit that
// is not printable ASCII, and on no policies.
func FormatPolicies(policies []Policy) (string, error) {
	if len(policies) == 0 {
		return "", errors.New("no members: leave the header out")
	}
	var list httpsfv.List
	for _, p := range policies {
		it := httpsfv.NewItem(p.Name)
		it.Params.Add("q", min(p.Quota, maxInteger))
		if p.Window > 0 {
			it.Params.Add("w", int64((p.Window+time.Second-1)/time.Second))
		}
		if p.Unit != "" {
			it.Params.Add("qu", p.Unit)
		}
		list = append(list, it)
	}
	text, err := httpsfv.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("names and units are printable ASCII: %w", err)
	}
	return text, nil
}

// parseStandard is the tightest request quota of RateLimit, and the smallest in-flight policy. A missing reset is
// bounded by the policy's window.
func parseStandard(h http.Header) (tightest Quota, ok bool) {
	if len(h["Ratelimit"]) == 0 {
		return Quota{}, false
	}
	limits, ok := parseMembers(h["Ratelimit"], "r", "t")
	if !ok {
		return parseDraft7(h)
	}
	policies, _ := parseMembers(h["Ratelimit-Policy"], "q", "w")
	found := false
	for _, r := range limits {
		var p member
		for _, each := range policies {
			if each.name == r.name {
				p = each
				break
			}
		}
		if p.unit != "" && p.unit != unitRequests {
			continue
		}
		q := Quota{Limit: p.units, Remaining: r.units, Reset: r.span, Window: p.span}
		if !r.timed {
			q.Reset = p.span
		}
		if !found || q.tighter(tightest) {
			tightest, found = q, true
		}
	}
	for _, p := range policies {
		if p.unit == UnitInFlight && p.units > 0 && (tightest.InFlight == 0 || p.units < tightest.InFlight) {
			tightest.InFlight = p.units
		}
	}
	return tightest, !tightest.IsZero()
}

// parseDraft7 reads RateLimit and RateLimit-Policy as the seventh draft had them: one quota,
// "limit=100, remaining=50, reset=5", and policies such as "100;w=60".
func parseDraft7(h http.Header) (q Quota, ok bool) {
	d, err := httpsfv.UnmarshalDictionary(h["Ratelimit"])
	if err != nil {
		return Quota{}, false
	}
	said := params(func(key string) (any, bool) {
		m, found := d.Get(key)
		it, _ := m.(httpsfv.Item)
		return it.Value, found
	})
	if !said.integer("remaining", &q.Remaining, true) || !said.integer("limit", &q.Limit, false) || !said.seconds("reset", &q.Reset) {
		return Quota{}, false
	}
	if q.Limit > 0 {
		q.Window = parseWindow(strings.Join(h["Ratelimit-Policy"], ", "), q.Limit)
	}
	return q, !q.IsZero()
}

// member is one of RateLimit: what is left of a policy's quota, and for how long; or one of
// RateLimit-Policy: the quota, and its window.
type member struct {
	name, unit string
	units      int64
	span       time.Duration
	timed      bool // span is there
}

// parseMembers reads the lines of a header, one list of Strings with parameters. It is not ok if any part is
// malformed.
func parseMembers(lines []string, units, span string) (all []member, ok bool) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil {
		return nil, false
	}
	for _, m := range list {
		it, _ := m.(httpsfv.Item)
		name, ok := it.Value.(string)
		if !ok {
			return nil, false
		}
		p, r := params(it.Params.Get), member{name: name}
		_, r.timed = p(span)
		if !p.integer(units, &r.units, true) || !p.seconds(span, &r.span) || !p.text("qu", &r.unit) || !p.bytes("pk") {
			return nil, false
		}
		all = append(all, r)
	}
	return all, len(all) > 0
}

// params find the value of a parameter. Those that are not known are never asked for.
type params func(key string) (value any, found bool)

// integer stores the parameter, which must be a non-negative Integer.
func (p params) integer(key string, to *int64, required bool) bool {
	v, found := p(key)
	if !found {
		return !required
	}
	n, ok := v.(int64)
	*to = n
	return ok && n >= 0
}

// seconds stores an Integer as that many seconds, as far as a Duration holds them.
func (p params) seconds(key string, to *time.Duration) bool {
	var n int64
	ok := p.integer(key, &n, false)
	*to = time.Duration(min(n, int64(maxDuration/time.Second))) * time.Second
	return ok
}

// text stores a String; a Token is taken too, since both are in use for units.
func (p params) text(key string, to *string) bool {
	v, found := p(key)
	switch v := v.(type) {
	case string:
		*to = v
	case httpsfv.Token:
		*to = string(v)
	default:
		return !found
	}
	return true
}

// bytes reports whether the parameter is a Byte Sequence, or not there.
func (p params) bytes(key string) bool {
	v, found := p(key)
	_, ok := v.([]byte)
	return ok || !found
}
