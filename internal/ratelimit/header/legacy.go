package header

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// A reset above a billion seconds, 31 years, is no delta: it is an epoch, as GitHub
// sends it. Above a thousand times that it is an epoch in milliseconds.
const (
	epochSeconds = 1e9
	epochMillis  = 1e12
)

// prefixes of the family, the commonest first. The second is what drafts of the
// standard up to the sixth used.
var prefixes = [...]string{"X-Ratelimit-", "Ratelimit-"}

// ParseLegacy reads Remaining, and Limit, Reset and Policy where present, at now. It is ok
// only if Remaining is there; one that is malformed, or any that is repeated with
// different values, makes the family absent.
func ParseLegacy(h http.Header, now time.Time) (Quota, bool) {
	for _, prefix := range prefixes {
		if q, ok := parseFamily(h, prefix, now); ok {
			return q, true
		}
	}
	return Quota{}, false
}

// parseFamily reads the three headers that begin with prefix. A limit or reset that
// cannot be read makes the rest doubtful too.
func parseFamily(h http.Header, prefix string, now time.Time) (q Quota, ok bool) {
	remaining, ok := single(h, prefix+"Remaining")
	if !ok || remaining == "" {
		return Quota{}, false
	}
	if q.Remaining, ok = count(remaining); !ok {
		return Quota{}, false
	}
	limit, ok := single(h, prefix+"Limit")
	if !ok {
		return Quota{}, false
	}
	if limit != "" {
		if q.Limit, ok = count(limit); !ok {
			return Quota{}, false
		}
	}
	reset, ok := single(h, prefix+"Reset")
	if !ok {
		return Quota{}, false
	}
	if reset != "" {
		if q.Reset, ok = parseReset(reset, Written(h, now)); !ok {
			return Quota{}, false
		}
	}
	if policy, ok := single(h, prefix+"Policy"); ok && q.Limit > 0 {
		q.Window = parseWindow(policy, q.Limit)
	}
	return q, !q.IsZero()
}

// parseWindow is the length of the window that a policy such as "100;w=60" gives for the
// limit, zero if it says none: the header never had one meaning, and some put a name there.
func parseWindow(policy string, limit int64) time.Duration {
	for part := range strings.SplitSeq(policy, ",") {
		quota, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if n, ok := count(strings.TrimSpace(quota)); !ok || n != limit {
			continue
		}
		for param := range strings.SplitSeq(params, ";") {
			if w, ok := strings.CutPrefix(strings.TrimSpace(param), "w="); ok {
				if seconds, ok := count(w); ok && seconds <= maxWindow {
					return time.Duration(seconds) * time.Second
				}
			}
		}
	}
	return 0
}

// maxWindow is a century in seconds: what is longer is some other number.
const maxWindow = 100 * 365 * 24 * 3600

// single is the value of a header; it is not ok if lines of it disagree.
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
func count(s string) (int64, bool) {
	if !isDigits(s) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// parseReset is the time left at now: a delta or an epoch, or a date in any of the forms of
// HTTP. Some servers send a fraction of a second.
func parseReset(s string, now time.Time) (time.Duration, bool) {
	if at, err := http.ParseTime(s); err == nil {
		return max(at.Sub(now), 0), true
	}
	whole, fraction, found := strings.Cut(s, ".")
	if !isDigits(whole) || found && !isDigits(fraction) {
		return 0, false
	}
	x, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil: // more digits than any time needs
		return 0, false
	case x > epochMillis:
		return untilEpoch(x/1000, now)
	case x > epochSeconds:
		return untilEpoch(x, now)
	}
	return time.Duration(x * float64(time.Second)), true
}

// untilEpoch is the time from now to an epoch, which may have passed.
func untilEpoch(seconds float64, now time.Time) (time.Duration, bool) {
	// Beyond the year 9999 it is some other number, not a time.
	const year9999 = 253402300800
	if seconds >= year9999 {
		return 0, false
	}
	whole := int64(seconds)
	at := time.Unix(whole, int64((seconds-float64(whole))*1e9))
	return max(at.Sub(now), 0), true
}

// SetLegacy writes q as X-RateLimit headers, with the reset as a delta in whole
// seconds, rounded up. The limit is left out when it is not known, and so is the policy
// when the window is not.
func SetLegacy(h http.Header, q Quota) {
	if q.Limit > 0 {
		h.Set(prefixes[0]+"Limit", strconv.FormatInt(q.Limit, 10))
	}
	h.Set(prefixes[0]+"Remaining", strconv.FormatInt(max(q.Remaining, 0), 10))
	h.Set(prefixes[0]+"Reset", strconv.FormatInt(ceilSeconds(q.Reset), 10))
	if q.Limit > 0 && q.Window > 0 {
		h.Set(prefixes[0]+"Policy", fmt.Sprintf("%d;w=%d", q.Limit, ceilSeconds(q.Window)))
	}
}
