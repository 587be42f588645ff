package trap

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// checkURL decides by the form of the URL alone.
func checkURL(u canonical.URL) Decision {
	if len(u.String()) > maxURLLength {
		return URLLength
	}
	path, _, _ := strings.Cut(u.Path(), "?")
	n := strings.Count(path, "/")
	if n > maxDepth {
		return PathDepth
	}
	if n > maxRepeats && maxSimilar(path) > maxRepeats && repeats(path) {
		return PathRepetition
	}
	return Follow
}

// maxSimilar is an upper bound of how often any one segment occurs: segments of equal length,
// first and last byte are counted together. Nearly all paths pass this cheap test.
func maxSimilar(path string) (most int) {
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

// longestGroup is how many segments may repeat together: relative links without a slash repeat
// the directories from the root, which are few.
const longestGroup = 8

// maxSegments bounds what is compared.
const maxSegments = 64

// repeats reports whether segments occur more often than allowed: in a row, as /a/b in
// /a/b/a/b/a/b/a/b, or one of them anywhere. Numbers and single characters may follow themselves
// as often as they may occur: coordinates are often zero, and collections are stored by the
// digits of a hash.
func repeats(path string) bool {
	var room [maxSegments]string
	list := room[:0]
	for segment := range strings.SplitSeq(path[1:], "/") {
		if segment != "" && len(list) < maxSegments {
			list = append(list, segment)
		}
	}
	for i, segment := range list {
		n := 0
		for _, s := range list[i:] {
			if s == segment {
				n++
			}
		}
		if n <= maxRepeats { // as nearly always
			continue
		}
		if n > 3*maxRepeats {
			return true
		}
		for group := 1; group <= longestGroup && i+group*(maxRepeats+1) <= len(list); group++ {
			if (group > 1 || len(segment) > 1 && !number(segment)) && inRow(list[i:], group, maxRepeats+1) {
				return true
			}
		}
	}
	return false
}

// inRow reports whether the first group of segments is there so many times in a row.
func inRow(list []string, group, times int) bool {
	n := group * (times - 1)
	return slices.Equal(list[:n], list[group:group+n])
}

func number(s string) bool { return s != "" && digits(s, len(s)) == len(s) }

// Dates that are not far: newspaper archives begin after 1700, few events are planned for later
// than in five years.
const (
	firstYear = 1700
	yearsOn   = 5
)

func far(year, thisYear int) bool {
	return year != 0 && (year < firstYear || year > thisYear+yearsOn)
}

// date finds the first date of a URL: a year and a month, as in /2031/04, 2031-04-01 or
// 20310401, or a parameter named like a year. A year alone in a path may be any name.
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

// digits is how many digits s begins with, at most so many.
func digits(s string, most int) int {
	n := 0
	for n < len(s) && n < most && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func atoi(s string) int {
	n, _ := strconv.Atoi(s) // s is a few digits
	return n
}

func month(s string) bool { n := atoi(s); return n >= 1 && n <= 12 }

func day(s string) bool { n := atoi(s); return n >= 1 && n <= 31 }
