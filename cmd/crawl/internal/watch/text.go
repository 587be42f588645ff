package watch

import (
	"cmp"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/rogpeppe/go-internal/diff"

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

// edit is a changed line: a removed one or a new one.
type edit struct {
	removed bool
	text    string  // without noise
	places  []place // what it says is the first
}

// comparison is a comparison of two texts of a page: their lines, the keys of these, and the edits.
type comparison struct {
	old, now, was, is []string
	edits             []edit
}

// compare returns the lines by which a text differs from an earlier one. It finds no edits if the difference has no
// meaning: another order of the lines, or what follows from the time of the visit (see noise). The edits have no places
// if one of the texts has a single line, such as a digest or the target of a redirect: such a text has no template.
func compare(old, now []string, oldAt, nowAt time.Time) *comparison {
	c := &comparison{old: old, now: now, was: keys(old, now, oldAt), is: keys(now, old, nowAt)}
	inOld, inNow := setOf(c.was), setOf(c.is)
	first, begin := "", 0 // the last unchanged line, and the first edit after it
	close := func(last string) {
		if len(old) > 1 && len(now) > 1 {
			locate(c.edits[begin:], first, last)
		}
		first, begin = last, len(c.edits)
	}
	for line := range strings.Lines(unified(c.was, c.is)) {
		switch sign, line := line[0], strings.TrimSuffix(line[1:], "\n"); sign {
		case '@':
			close("")
		case ' ':
			close(line)
		default:
			if sign == '-' && !inNow[line] || sign == '+' && !inOld[line] {
				c.edits = append(c.edits, edit{removed: sign == '-', text: line})
			}
		}
	}
	close("")
	return c
}

// locate adds the places of edits that are between two unchanged lines. An empty line stands for the beginning or the
// end of the text, where each page may change in words of its own.
func locate(edits []edit, first, last string) {
	for i := range edits {
		e := &edits[i]
		if p, ok := own(e.text); ok {
			e.places = append(e.places, p)
		}
		for kind, line := range []string{behind: first, before: last} {
			if line != "" && !strings.Contains(line, "\x00") { // not if it has noise
				e.places = append(e.places, place{xxhash.Sum64String(line), uint8(kind)})
			}
		}
	}
}

// places returns the places at which the page has changed.
func (c *comparison) places() map[place]bool {
	here := make(map[place]bool)
	for _, e := range c.edits {
		for _, p := range e.places {
			here[p] = true
		}
	}
	return here
}

// diff returns a diff of the edits for which told is true, and how many lines it adds and removes.
func (c *comparison) diff(told func(*edit) bool) (text string, added, removed int) {
	shown := make(map[string]bool, len(c.edits)) // by the texts of edits
	for i := range c.edits {
		e := &c.edits[i]
		is := told(e)
		switch {
		case !is || shown[e.text]:
		case e.removed:
			removed++
		default:
			added++
		}
		shown[e.text] = is || shown[e.text]
	}
	if added+removed == 0 {
		return "", 0, 0
	}
	was := make(map[string]string, len(c.old)) // by keys: a line that differs in noise alone stays as it was
	for i, key := range c.was {
		was[key] = c.old[i]
	}
	kept := func(lines, keys []string) (list []string) {
		for i, key := range keys {
			if is, edited := shown[key]; is || !edited {
				list = append(list, cmp.Or(was[key], lines[i]))
			}
		}
		return list
	}
	text = unified(kept(c.old, c.was), kept(c.now, c.is))
	if len(text) > maxDiff {
		text = text[:strings.LastIndexByte(text[:maxDiff], '\n')+1] + "...\n"
	}
	return strings.ToValidUTF8(text, "\uFFFD"), added, removed
}

// unified returns a unified diff of two texts.
func unified(old, now []string) string {
	joined := func(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }
	_, text, _ := strings.Cut(string(diff.Diff("", joined(old), "now", joined(now))), "+++ now\n")
	return text
}

func setOf(lines []string) map[string]bool {
	set := make(map[string]bool, len(lines))
	for _, line := range lines {
		set[line] = true
	}
	return set
}
