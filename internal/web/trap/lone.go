package trap

import (
	"math"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// lone is what a URL tells by itself, whatever was seen of its host.
func (j *Judge) lone(u canonical.URL) Reason {
	if len(u.String()) > j.cfg.MaxURLLength {
		return URLLength
	}
	path, _, _ := strings.Cut(u.Path(), "?")
	n := strings.Count(path, "/")
	if n > j.cfg.MaxDepth {
		return PathDepth
	}
	if n > j.cfg.MaxRepeats && alike(path) > j.cfg.MaxRepeats && j.repeats(path) {
		return PathRepetition
	}
	return None
}

// alike bounds how often any one segment stands in a path: it is how many have the same
// length and the same ends, by and large. It lets nearly all paths pass for a few nanoseconds.
func alike(path string) (most int) {
	var counts [64]uint8
	for rest, more := path[1:], true; more; {
		var segment string
		if segment, rest, more = strings.Cut(rest, "/"); segment == "" {
			continue
		}
		slot := (len(segment)<<4 ^ int(segment[0])<<1 ^ int(segment[len(segment)-1])) % len(counts)
		counts[slot] += min(1, math.MaxUint8-counts[slot]) // and no further
		most = max(most, int(counts[slot]))
	}
	return most
}

// longestGroup is how many segments may repeat together. Relative links that lack a slash
// repeat the directories from the root to them, which are few.
const longestGroup = 8

// maxSegments bounds what is compared. Beyond it paths are too deep anyway, unless the user
// wants them.
const maxSegments = 64

// repeats reports whether segments stand in a path more often than they may: in a row, as
// /a/b in /a/b/a/b/a/b/a/b, or one of them anywhere. Numbers and single characters may stand
// in a row as often as anywhere: coordinates are often zero, and large collections are kept
// in directories by the digits of a hash.
func (j *Judge) repeats(path string) bool {
	var room [maxSegments]string
	list := room[:0]
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment != "" && len(list) < maxSegments {
			list = append(list, segment)
		}
	}
	for i, segment := range list {
		n := often(list[i:], segment)
		if n <= j.cfg.MaxRepeats { // as nearly always
			continue
		}
		if n > 3*j.cfg.MaxRepeats {
			return true
		}
		for group := 1; group <= longestGroup && i+group*(j.cfg.MaxRepeats+1) <= len(list); group++ {
			if (group > 1 || len(segment) > 1 && !number(segment)) && inRow(list[i:], group, j.cfg.MaxRepeats+1) {
				return true
			}
		}
	}
	return false
}

func often(list []string, segment string) (n int) {
	for _, s := range list {
		if s == segment {
			n++
		}
	}
	return n
}

// inRow reports whether the first segments stand there so many times in a row.
func inRow(list []string, group, times int) bool {
	for i := range group * (times - 1) {
		if list[i] != list[i+group] {
			return false
		}
	}
	return true
}

func number(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// The years that are not far: archives of newspapers begin after 1700, and few events are
// planned for more than five years ahead.
const (
	firstYear = 1700
	yearsOn   = 5
)

// far reports whether a date is where calendars go that have no end.
func far(year, thisYear int) bool {
	return year != 0 && (year < firstYear || year > thisYear+yearsOn)
}

// date finds the first date of a URL: a year with a month behind it, parted by a slash or a
// hyphen or by nothing, as in /2031/04, 2031-04-01 or 20310401; or a parameter whose name
// says that it is a year. A year alone in a path may be the name of anything.
func date(u string) (year int, ok bool) {
	path, query, _ := strings.Cut(u, "?")
	if year, ok = dateIn(path); ok {
		return year, true
	}
	for len(query) > 0 {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		if year, ok = dateIn(value); ok {
			return year, true
		}
		if n := digits(value, 5); n == 4 && len(value) == 4 && strings.HasPrefix(strings.ToLower(name), "y") {
			return atoi(value), true
		}
	}
	return 0, false
}

// dateIn finds a date within a path or a value.
func dateIn(s string) (year int, ok bool) {
	for i := 0; i < len(s); {
		n := digits(s[i:], 9)
		if n == 0 {
			i++
			continue
		}
		part := s[i : i+n]
		switch {
		case n == 8 && month(part[4:6]) && day(part[6:]):
			return atoi(part[:4]), true
		case n == 4 && i+n+1 < len(s) && (s[i+n] == '/' || s[i+n] == '-'):
			behind := s[i+n+1:]
			if m := digits(behind, 3); (m == 1 || m == 2) && month(behind[:m]) && part[0] != '0' {
				return atoi(part), true
			}
		}
		i += n
	}
	return 0, false
}

// digits is how many digits a text begins with, at most so many.
func digits(s string, most int) int {
	n := 0
	for n < len(s) && n < most && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func atoi(s string) (n int) {
	for i := range len(s) {
		n = n*10 + int(s[i]-'0')
	}
	return n
}

func month(s string) bool { n := atoi(s); return n >= 1 && n <= 12 }

func day(s string) bool { n := atoi(s); return n >= 1 && n <= 31 }
