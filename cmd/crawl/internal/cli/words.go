package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/text/unicode/bidi"

	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/summary"
)

// Clean makes text of strangers safe for a terminal: escape sequences and changes of the writing direction are taken
// out. Line feeds stay.
func Clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || strconv.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}

// Tame is Clean for a place where columns must stay where they are: what terminals give different widths to, or move
// to the other side of the line, goes as well. Marks join the letter before, emoji join each other, and Hebrew or
// Arabic turns the cells around it.
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

// Cells is how many columns a terminal gives to s once it is clean.
func Cells(s string) int { return ansi.StringWidthWc(Clean(s)) }

// Cut is s, cleaned and shortened to at most n columns; it shows that it was.
func Cut(s string, n int) string {
	switch s = Clean(s); {
	case Cells(s) <= n:
		return s
	case n <= 0:
		return ""
	}
	return strings.TrimRight(ansi.TruncateWc(s, n-1, ""), " ") + "…"
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
func Count[N int | int64 | uint64](n N) string { return summary.Thousands(fmt.Sprint(n)) }

// Plural is a count with its noun: 1 page, 2 pages.
func Plural[N int | int64 | uint64](n N, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return Count(n) + " " + noun + "s"
}

// Size is a number of bytes in the unit that makes it readable.
func Size(n int64) string { return summary.Size(n) }

// Wrap breaks text into lines of at most so many bytes; a longer word stays whole.
func Wrap(text string, columns int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// OneOf lists what to choose from: a, b or c.
func OneOf(words []string) string { return sink.ListOf(words, " or ") }

// Meant is the end of an error that has a guess; an empty one has none.
func Meant(guess string) string {
	if guess == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", guess)
}

// Unknown is the cell of what is not known.
const Unknown = "-"

// OrUnknown is a cell, or a dash if there is nothing to tell.
func OrUnknown(known bool, cell string) string {
	if known {
		return cell
	}
	return Unknown
}

// OneLine is s with its line ends as spaces.
func OneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

// Hanging writes a name and a text that begins in the column margin, in as many lines as it takes.
func Hanging(b *strings.Builder, name, text string, margin, columns int) {
	lines := Wrap(text, max(columns-margin, 24)) // narrower than that, words stand alone
	fmt.Fprintf(b, "%-*s%s\n", margin, name, strings.Join(lines, "\n"+strings.Repeat(" ", margin)))
}
