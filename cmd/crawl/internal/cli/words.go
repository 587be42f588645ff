package cli

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"
	"golang.org/x/text/unicode/bidi"

	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/records/summary"
)

// Clean makes foreign text safe for a terminal, see [summary.Clean].
func Clean(s string) string { return summary.Clean(s) }

// Tame is Clean for text in columns. It also replaces characters to which terminals give different widths, or which
// they move: marks, which join the letter before; emoji, which join each other; and Hebrew or Arabic, which turns the
// cells around it.
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

// Cells returns how many columns of a terminal s takes once it is clean.
func Cells(s string) int { return ansi.StringWidthWc(Clean(s)) }

// Cut returns s, cleaned and shortened to at most n columns. Text that is shortened ends with an ellipsis.
func Cut(s string, n int) string {
	switch s = Clean(s); {
	case Cells(s) <= n:
		return s
	case n <= 0:
		return ""
	}
	short := ansi.TruncateWc(s, n-1, "")
	for Cells(short) > n-1 { // TruncateWc takes some clusters of letters for narrower than they are
		_, last := utf8.DecodeLastRuneInString(short)
		short = short[:len(short)-last]
	}
	return strings.TrimRight(short, " ") + "…"
}

// Seconds returns a duration in seconds as people write it: 0.4s, 9s, 4m07s, 2h05m. A negative one counts as zero.
func Seconds(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d < time.Second {
		return fmt.Sprintf("%.1fs", max(d, 0).Seconds())
	}
	switch d = d.Truncate(time.Second); { // 1.9 seconds are 1s, as on a clock
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
}

// Count returns a number with separators between its thousands.
func Count[N int | int64 | uint64](n N) string { return humanize.Comma(int64(n)) }

// Plural returns a count and its noun: 1 page, 2 pages, 2 retries.
func Plural[N int | int64 | uint64](n N, noun string) string {
	return Count(n) + " " + english.PluralWord(int(n), noun, "")
}

// Size returns a number of bytes with a unit that keeps the number short.
func Size(n int64) string { return summary.Size(n) }

// Wrap breaks text into lines of at most columns bytes. A longer word stays whole.
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

// Indent writes a line, wrapped to columns, whose further lines begin with further. On a screen narrower than half the
// usual one it is wrapped to that, since a break in every line would not help.
func Indent(b *strings.Builder, line, further string, columns int) {
	indent := IndentOf(line)
	for _, part := range Wrap(line, max(columns, UsualWidth/2)-len(further)) {
		b.WriteString(indent + part + "\n")
		indent = further
	}
}

// IndentOf returns the spaces that a line begins with.
func IndentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " "))] }

// OneOf lists alternatives: a, b or c.
func OneOf(words []string) string { return sink.ListOf(words, " or ") }

// Meant returns the end of an error message that suggests guess; "" if guess is empty.
func Meant(guess string) string {
	if guess == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", guess)
}

// Unknown is the cell of a value that is not known.
const Unknown = "-"

// OrUnknown returns cell, or Unknown if known is false.
func OrUnknown(known bool, cell string) string {
	if known {
		return cell
	}
	return Unknown
}

// OneLine returns s with its line feeds replaced by spaces.
func OneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }

// Hanging writes a name and a text that starts in column margin, wrapped to columns. Its further lines start in the
// same column.
func Hanging(b *strings.Builder, name, text string, margin, columns int) {
	lines := Wrap(text, max(columns-margin, 24)) // narrower lines would hold single words
	fmt.Fprintf(b, "%-*s%s\n", margin, name, strings.Join(lines, "\n"+strings.Repeat(" ", margin)))
}
