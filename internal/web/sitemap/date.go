package sitemap

import (
	"net/mail"
	"regexp"
	"strconv"
	"time"
)

const longestDate = 64

// w3cDate is the W3C's note on dates, with hour 24, leap seconds, and a zone that may be left out.
var w3cDate = regexp.MustCompile(`^(\d{4})(?:-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01]))?)?` +
	`(?:[Tt ]([01]\d|2[0-4]):([0-5]\d)(?::([0-5]\d|60)(?:[.,](\d+))?)? *(?:[Zz]|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)?)?$`)

// ParseTime reads a date of a sitemap or feed: each form of the W3C's note, from a year alone to
// fractions of a second, with a space in the place of "T" and without a zone (UTC) too; and the
// form of RFC 5322, which RSS has.
func ParseTime(s []byte) (time.Time, bool) {
	layout := time.DateOnly
	switch {
	case len(s) > longestDate || len(s) == 0:
		return time.Time{}, false
	case len(s) > len(layout):
		layout = time.RFC3339
	}
	if len(s) >= len(time.DateOnly) && s[4] == '-' { // the usual ones are fast
		if t, err := time.Parse(layout, string(s)); err == nil {
			return t.UTC(), true
		}
	}
	text := string(s)
	match := w3cDate.FindStringSubmatch(text)
	if match == nil {
		t, err := mail.ParseDate(text)
		return t.UTC(), err == nil
	}
	n := func(i int) int {
		v, _ := strconv.Atoi(match[i]) // empty is zero
		return v
	}
	day := max(1, n(3))
	t := time.Date(n(1), time.Month(max(1, n(2))), day, 0, 0, 0, 0, time.UTC)
	if t.Day() != day { // the 31st of June
		return t, false
	}
	nanos, _ := strconv.Atoi((match[7] + "000000000")[:9])
	zone := time.Duration(60*n(9)+n(10)) * time.Minute
	if match[8] == "-" {
		zone = -zone
	}
	clock := time.Duration(3600*n(4)+60*n(5)+n(6))*time.Second + time.Duration(nanos)
	return t.Add(clock - zone), true
}
