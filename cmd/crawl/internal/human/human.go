// Package human puts numbers, times, sizes, lists and tables into words for people, and takes out
// of foreign text what a terminal would obey.
package human

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/width"
)

// Clean makes text safe for a terminal: titles, redirect targets and reasons come from
// strangers, and an escape sequence or a change of writing direction among them would
// be obeyed. Line feeds stay.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || strconv.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Tame is clean for a place where columns must stay where they are: there also goes what
// terminals give different widths to, or move to the other side of the line. Marks join the
// letter before, emoji join each other, and Hebrew or Arabic turns the cells around it.
func Tame(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < 0x300 && strconv.IsPrint(r):
			return r
		case !strconv.IsPrint(r), unicode.In(r, unicode.M, unicode.Sk), r >= 0x1100 && r <= 0x11ff, r >= 0xd7b0 && r <= 0xd7ff:
			return unicode.ReplacementChar // the two ranges are parts of Korean syllables
		case unicode.In(r, unicode.So) && r >= 0x2190 && r != unicode.ReplacementChar:
			return unicode.ReplacementChar
		}
		switch p, _ := bidi.LookupRune(r); p.Class() {
		case bidi.R, bidi.AL, bidi.AN:
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// Cells is how many columns a terminal gives to s: two to each wide character of East
// Asia, none to a mark that sits on the letter before it.
func Cells(s string) int {
	n := 0
	for _, r := range s {
		n += runeCells(r)
	}
	return n
}

// runeCells is the width of one character.
func runeCells(r rune) int {
	if r < 0x300 { // before the first combining mark; nearly all there is
		return 1
	}
	if unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	default:
		return 1
	}
}

// Cut shortens s to at most n columns, and shows that it did.
func Cut(s string, n int) string {
	if Cells(s) <= n {
		return s
	}
	if n <= 0 {
		return ""
	}
	used := 0
	for i, r := range s {
		if used += runeCells(r); used > n-1 { // one column is the ellipsis's
			return strings.TrimRight(s[:i], " ") + "…"
		}
	}
	return s
}

// Seconds is a duration as people say it: 0.4s, 9s, 4m07s, 2h05m.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Second {
		return fmt.Sprintf("%.1fs", max(d, 0).Seconds())
	}
	switch d = d.Truncate(time.Second); { // as a clock does: it is not 2s yet
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}

// Count is a number with its thousands apart.
func Count[N int | int64 | uint64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural is a count with its noun: 1 page, 2 pages.
func Plural[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Size is a number of bytes in the unit that makes it readable.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, units := float64(n)/unit, "KMGTPE"
	for v >= unit && len(units) > 1 {
		v, units = v/unit, units[1:]
	}
	return fmt.Sprintf("%.1f %ciB", v, units[0])
}
