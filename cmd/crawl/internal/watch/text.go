package watch

import (
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
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
	var b strings.Builder
	if r.selectors != "" {
		for e := range p.Find(r.selectors) {
			b.WriteString(e.Text())
			b.WriteByte('\n')
		}
		return b.String()
	}
	if title := p.Title(); title != "" {
		b.WriteString(title)
		b.WriteByte('\n')
	}
	text, err := p.MainText()
	if err != nil || text == "" { // the plain text is one line: split it for the comparison
		text = sentenceEnd().ReplaceAllString(p.Text(), "$1\n")
	}
	b.WriteString(text)
	return b.String()
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
	clocks = lazy.Regexp(`\b(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,]\d+)?)?(?: ?[AaPp]\.?[Mm]\b\.?)?(?: ?(?:UTC|GMT|Z|CES?T|[ECMP][SD]T)\b|[+-]\d{2}:?\d{2}\b)?`)
	dates  = lazy.Regexp(`(?i)(?:\b(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?,? )?\b(?:\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}|\d{1,2}(?:st|nd|rd|th)?\.? [a-z]{3,9}\.?,? \d{4}|[a-z]{3,9}\.? \d{1,2}(?:st|nd|rd|th)?,? \d{4})(?:T|\b)`)
	stamps = lazy.Regexp(`\b\d{10}(?:\d{3})?\b`)
	nonces = lazy.Regexp(`\b[0-9A-Za-z_-]{16,}\b`)
	part   = lazy.Regexp(`\d+|\b(?:jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec)(?:uary|ruary|ch|il|ust|ember|ober)?\b`) // of a date
)

// noise returns a line without what the time of its visit alone explains: dates within two days of it, times with its
// minute, ages ("5 minutes ago"), and random identifiers. It puts a NUL in their place.
func noise(line string, at time.Time) string {
	line = ages().ReplaceAllString(line, "\x00")
	step := 60 // minutes by which time zones differ; next to a date, half hours count too
	line = dates().ReplaceAllStringFunc(line, func(s string) string {
		if near(s, at) {
			step = 30
			return "\x00"
		}
		return s
	})
	line = clocks().ReplaceAllStringFunc(line, func(s string) string {
		m := clocks().FindStringSubmatch(s)
		minute, _ := strconv.Atoi(m[2])
		if away := (minute - at.Minute() + 60) % step; away <= 2 || away >= step-2 {
			return "\x00"
		}
		return s
	})
	line = stamps().ReplaceAllStringFunc(line, func(s string) string {
		n, _ := strconv.ParseInt(s[:10], 10, 64)
		if away := time.Unix(n, 0).Sub(at).Abs(); away <= 2*24*time.Hour {
			return "\x00"
		}
		return s
	})
	if strings.Contains(line, " sha256:") { // a digest, see lines
		return line
	}
	return nonces().ReplaceAllStringFunc(line, func(s string) string {
		if random(s) {
			return "\x00"
		}
		return s
	})
}

// near reports whether a date is within two days of a time. The day may come before or after the month.
func near(date string, at time.Time) bool {
	parts := part().FindAllString(strings.ToLower(date), -1)
	for i, name := range parts {
		if name[0] > '9' {
			parts[i] = name[:3]
		}
	}
	for _, layout := range []string{"2006 1 2", "1 2 2006", "2 1 2006", "2 Jan 2006", "Jan 2 2006"} {
		day, err := time.Parse(layout, strings.Join(parts, " "))
		if err == nil && day.Sub(at.UTC().Truncate(24*time.Hour)).Abs() <= 48*time.Hour {
			return true
		}
	}
	return false
}

// random reports whether a word is an identifier made by a program: hexadecimal, or with digits among letters of both
// cases in a long run without hyphens. Names of products often have hyphens.
func random(s string) bool {
	for run := range strings.SplitSeq(s, "-") {
		if len(run) >= 20 && count(run, unicode.IsDigit) >= 3 && count(run, unicode.IsUpper) >= 3 && count(run, unicode.IsLower) >= 3 {
			return true
		}
	}
	plain := strings.ReplaceAll(s, "-", "")
	digits := count(plain, unicode.IsDigit)
	_, err := hex.DecodeString(plain[:len(plain)/2*2])
	return err == nil && digits >= 3 && digits < len(plain)
}

// count returns how many characters of a text are of a class.
func count(s string, is func(rune) bool) (n int) {
	for _, c := range s {
		if is(c) {
			n++
		}
	}
	return n
}
