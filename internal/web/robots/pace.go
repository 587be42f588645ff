package robots

import (
	"math"
	"strings"
	"time"
)

// maxDelay bounds what either line can say, so that every value is a valid duration;
// how long a crawl is prepared to wait is its own matter.
const maxDelay = 24 * time.Hour

// parseDelay reads seconds with an optional fraction. Anything else is no delay: a
// guess at what "10 per minute" means would be worse.
func parseDelay(value string) (time.Duration, bool) {
	whole, fraction, _ := strings.Cut(value, ".")
	if whole+fraction == "" || !digits(whole) || !digits(fraction) {
		return 0, false
	}
	whole = strings.TrimLeft(whole, "0")
	if len(whole) > len("86400") {
		return maxDelay, true
	}
	d := time.Duration(number(whole)) * time.Second
	d += time.Duration(number((fraction + "000000000")[:9])) * time.Nanosecond
	return min(d, maxDelay), true
}

func digits(s string) bool { return strings.Trim(s, "0123456789") == "" }

func number(s string) (n int64) {
	for i := range len(s) {
		n = n*10 + int64(s[i]-'0')
	}
	return n
}

// parseRate reads "n/t", n requests in every t seconds, as the pause that keeps to it. A
// unit may follow t (s, m or h), and then a time of day ("1/10m 0600-0845"). The pause
// holds around the clock all the same: the author accepts it at some hours, slower than
// allowed offends nobody at the others, and a pace that changes by the clock would have
// to be watched by one. No requests at all are no rate; Disallow is how to say that.
func parseRate(value string) (time.Duration, bool) {
	count, rest, _ := strings.Cut(value, "/")
	count, rest = strings.TrimRight(count, " \t"), strings.TrimLeft(rest, " \t")
	per, when := rest, ""
	if i := strings.IndexAny(rest, " \t"); i >= 0 {
		per, when = rest[:i], strings.Trim(rest[i:], " \t")
	}
	unit := time.Second
	if n := len(per) - 1; n >= 0 {
		switch per[n] | 0x20 {
		case 's':
			per = per[:n]
		case 'm':
			per, unit = per[:n], time.Minute
		case 'h':
			per, unit = per[:n], time.Hour
		}
	}
	if count == "" || per == "" || !digits(count) || !digits(per) || !isWindow(when) {
		return 0, false
	}
	n, t := quantity(count), quantity(per)
	if n == 0 {
		return 0, false
	}
	// Rounded up: a pace is a promise.
	return time.Duration(min(math.Ceil(t*float64(unit)/n), float64(maxDelay))), true
}

// quantity is the number that digits stand for. Of one with more digits than any rate
// needs it is enough to know that it is large.
func quantity(digits string) float64 {
	digits = strings.TrimLeft(digits, "0")
	return float64(number(digits[:min(len(digits), 15)]))
}

// isWindow reports whether when is a time of day as "0600-0845", with or without the
// zone in words, or nothing.
func isWindow(when string) bool {
	when = strings.ToLower(when)
	for _, zone := range [...]string{"utc", "gmt", "z"} {
		when = strings.TrimRight(strings.TrimSuffix(when, zone), " \t")
	}
	if when == "" {
		return true
	}
	from, to, ok := strings.Cut(when, "-")
	from, to = strings.Trim(from, " \t"), strings.Trim(to, " \t")
	return ok && isHour(from) && isHour(to)
}

// isHour accepts "845", "0845" and "08:45".
func isHour(s string) bool {
	s = strings.Replace(s, ":", "", 1)
	return (len(s) == 3 || len(s) == 4) && digits(s)
}
