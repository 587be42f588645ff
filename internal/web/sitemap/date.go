package sitemap

import (
	"net/mail"
	"slices"
	"time"
)

// longestDate is above any that is one.
const longestDate = 64

// ParseTime reads a date as sitemaps and feeds write it: each form of the W3C's note on
// dates, from a year alone to fractions of a second, in which a space may stand for the "T"
// and the zone may be left out, for UTC; and the form of RFC 5322, which RSS has.
func ParseTime(s []byte) (time.Time, bool) {
	if len(s) > longestDate {
		return time.Time{}, false
	}
	d := digits{s: s}
	if t, ok := d.w3c(); ok {
		return t, true
	}
	if len(s) == 0 || s[0] >= '0' && s[0] <= '9' && len(s) > 4 && s[4] == '-' {
		return time.Time{}, false
	}
	t, err := mail.ParseDate(string(s))
	return t.UTC(), err == nil
}

// digits is a date of which some has been read.
type digits struct {
	s   []byte
	bad bool
}

// number reads n digits from least to most.
func (d *digits) number(n, least, most int) int {
	if d.bad || len(d.s) < n {
		d.bad = true
		return 0
	}
	v := 0
	for _, c := range d.s[:n] {
		if c < '0' || c > '9' {
			d.bad = true
			return 0
		}
		v = 10*v + int(c-'0')
	}
	d.s = d.s[n:]
	d.bad = v < least || v > most
	return v
}

// next reads one of some characters, if it comes.
func (d *digits) next(chars ...byte) bool {
	if d.bad || len(d.s) == 0 {
		return false
	}
	if !slices.Contains(chars, d.s[0]) {
		return false
	}
	d.s = d.s[1:]
	return true
}

// w3c reads YYYY, YYYY-MM, YYYY-MM-DD, or that with a time.
func (d *digits) w3c() (time.Time, bool) {
	month, day := 1, 1
	year := d.number(4, 0, 9999)
	if d.next('-') {
		month = d.number(2, 1, 12)
		if d.next('-') {
			day = d.number(2, 1, 31)
		}
	}
	t := time.Date(year, time.Month(month), day, 0, 0, 0, 0, time.UTC)
	if t.Day() != day { // the 31st of June
		return t, false
	}
	if d.next('T', 't', ' ') {
		t = t.Add(d.clock() - d.zone())
	}
	return t, !d.bad && len(d.s) == 0
}

// clock reads hh:mm, hh:mm:ss or hh:mm:ss.s, with a leap second.
func (d *digits) clock() time.Duration {
	t := time.Duration(d.number(2, 0, 24)) * time.Hour
	if !d.next(':') {
		d.bad = true
	}
	t += time.Duration(d.number(2, 0, 59)) * time.Minute
	if !d.next(':') {
		return t
	}
	t += time.Duration(d.number(2, 0, 60)) * time.Second
	if d.next('.', ',') {
		unit := time.Second
		n := 0
		for ; len(d.s) > 0 && d.s[0] >= '0' && d.s[0] <= '9'; n++ {
			unit /= 10
			t += unit * time.Duration(d.s[0]-'0')
			d.s = d.s[1:]
		}
		d.bad = d.bad || n == 0
	}
	return t
}

// zone reads how far the clock is ahead of UTC: Z, or +hh:mm with or without the colon and
// the minutes, or nothing.
func (d *digits) zone() time.Duration {
	for d.next(' ') {
	}
	sign := time.Duration(1)
	switch {
	case d.next('Z', 'z'), len(d.s) == 0:
		return 0
	case d.next('-'):
		sign = -1
	case !d.next('+'):
		d.bad = true
		return 0
	}
	t := time.Duration(d.number(2, 0, 23)) * time.Hour
	if d.next(':') || len(d.s) > 0 {
		t += time.Duration(d.number(2, 0, 59)) * time.Minute
	}
	return sign * t
}
