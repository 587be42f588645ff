package watch

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/lazy"
)

const (
	maxText    = 64 << 10 // bytes of text kept of a page
	maxDiff    = 8 << 10  // bytes of a diff
	maxExcerpt = 1 << 10  // bytes of the text of an added page that are reported
)

// reader finds the text of a page that is compared.
type reader struct {
	selectors string           // of the elements with the text; empty means the title and the main text
	ignore    []*regexp.Regexp // matches are left out of each line
}

// lines returns the text of a page. For a redirect it is a line with the target, and for a body that is no text a line
// with its digest.
func (r *reader) lines(p *crawl.Page) []string {
	if p.RedirectTo != "" {
		return []string{"redirects to " + p.RedirectTo}
	}
	text := ""
	switch kind, _, _ := strings.Cut(p.ContentType, "/"); {
	case p.ContentType == "text/html" || p.ContentType == "application/xhtml+xml":
		text = r.html(p)
	case kind == "text" || strings.HasSuffix(p.ContentType, "json") || strings.HasSuffix(p.ContentType, "xml"):
		if utf8.Valid(p.Body) {
			text = string(p.Body)
		}
	}
	if text == "" && len(p.Body) > 0 && r.selectors == "" {
		return []string{p.ContentType + " " + p.Digest}
	}
	return r.clean(text)
}

func (r *reader) html(p *crawl.Page) string {
	if r.selectors != "" {
		var b strings.Builder
		for e := range p.Find(r.selectors) {
			b.WriteString(e.Text())
			b.WriteByte('\n')
		}
		return b.String()
	}
	text, err := p.MainText()
	if err != nil || text == "" { // the plain text is one line: split it for the comparison
		text = sentenceEnd().ReplaceAllString(p.Text(), "$1\n")
	}
	return strings.TrimPrefix(p.Title()+"\n", "\n") + text
}

var sentenceEnd = lazy.Regexp(`([.!?;:]) `)

// clean splits a text into lines. It normalizes their space, and drops empty lines and matches of ignore. It ends after
// maxText bytes.
func (r *reader) clean(text string) []string {
	var lines []string
	room := maxText
	for line := range strings.Lines(text) {
		for _, re := range r.ignore {
			line = re.ReplaceAllString(line, "")
		}
		line = strings.Join(strings.Fields(line), " ")
		if line == "" {
			continue
		}
		if len(line) >= maxText { // for example minified text: the part that fits
			line = strings.ToValidUTF8(line[:max(0, room-1)], "")
		}
		if room -= len(line) + 1; room < 0 || line == "" {
			break
		}
		lines = append(lines, line)
	}
	return lines
}

// keys returns the strings by which the lines of a text are compared: a line that the other text has too is its own
// key, and any other line is without its noise.
func keys(lines, other []string, at time.Time) []string {
	there := setOf(other)
	keys := slices.Clone(lines)
	for i, line := range lines {
		if !there[line] {
			keys[i] = noise(line, at)
		}
	}
	return keys
}

// Patterns of what does not count as a change if it follows from the time of a visit, or if it is new at every visit.
var (
	ages   = lazy.Regexp(`(?i)\b(?:just now|(?:\d+|an?|one|a few) (?:sec(?:ond)?|min(?:ute)?|hour|day|week|month|year)s? ago)\b`)
	clocks = lazy.Regexp(`\b\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\b\.?)?(?: ?(?:UTC|GMT|Z|CES?T|[ECMP][SD]T)\b|[+-]\d{2}:?\d{2}\b)?`)
	dates  = lazy.Regexp(`(?i)(?:\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,? )?\b(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{1,2}(?:st|nd|rd|th)?\.? [a-z]{3,9}\.?,? \d{4}|[a-z]{3,9}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4})(?:T|\b)`)
	stamps = lazy.Regexp(`\b\d{10}(?:\d{3})?\b`)
	nonces = lazy.Regexp(`(?i)\b(?:[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}|[\da-z]{16,})\b`)
	number = lazy.Regexp(`\d+`)
	part   = lazy.Regexp(`(?i)\d+|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)`) // of a date
)

// noise returns a line without what the time of its visit alone explains: dates within two days of it, times with its
// minute, ages ("5 minutes ago"), and random identifiers. It puts a NUL in their place.
func noise(line string, at time.Time) string {
	drop := func(these *regexp.Regexp, is func(string) bool) {
		line = these.ReplaceAllStringFunc(line, func(s string) string {
			if is(s) {
				return "\x00"
			}
			return s
		})
	}
	step := 60 // minutes by which time zones differ; next to a date, half hours count too
	drop(ages(), func(string) bool { return true })
	drop(dates(), func(s string) bool {
		is := recent(s, at)
		if is {
			step = 30
		}
		return is
	})
	drop(clocks(), func(s string) bool {
		minute, _ := strconv.Atoi(s[strings.IndexByte(s, ':')+1:][:2])
		away := (minute - at.Minute() + 60) % step
		return away <= 2 || away >= step-2
	})
	drop(stamps(), func(s string) bool {
		n, _ := strconv.ParseInt(s[:10], 10, 64)
		return time.Unix(n, 0).Sub(at).Abs() <= 2*24*time.Hour
	})
	drop(nonces(), func(s string) bool { // unlike numbers and names, letters and digits alternate; a digest counts, see lines
		return len(number().FindAllString(s, -1)) >= 3 && !strings.Contains(line, " sha256:")
	})
	return line
}

// recent reports whether a date is within two days of a time. The day may come before or after the month.
func recent(date string, at time.Time) bool {
	parts := strings.Join(part().FindAllString(date, -1), " ")
	for _, layout := range []string{"2006 1 2", "1 2 2006", "2 1 2006", "2 Jan 2006", "Jan 2 2006"} {
		day, err := time.Parse(layout, parts)
		if err == nil && day.Sub(at.UTC().Truncate(24*time.Hour)).Abs() <= 48*time.Hour {
			return true
		}
	}
	return false
}
