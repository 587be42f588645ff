package watch

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cespare/xxhash/v2"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/treadlight/crawl/internal/lazy"
)

// A changed line belongs to the template, such as a counter, a list of the latest posts or the number of a build, if
// most pages that have its place, or a line that differs from it in numbers alone, have changed there. It belongs to it
// too if a page has changed there at most visits, mostly back to what it had before.
const (
	manyPages   = 5       // pages that must have changed at the place
	mostOfPages = 0.6     // share of the visited pages with the place that must have changed there, or
	manyOfPages = 0.3     // if most of the new lines are from a stock of the host, of at least
	leastStock  = 5       // lines
	fewest      = 4       // visits at which one page must have changed at the place
	maxPlaces   = 1 << 10 // places kept per host
	maxWeight   = 16      // pages for which the past of a place counts at most
	maxKeys     = 1 << 16
	deepest     = 32 // lines from the unchanged line
	maxExamples = 100
	maxListed   = 32 << 10 // bytes of the examples
	leastWords  = 2        // words in a line that has a shape
)

// place is what a changed line has in common with changed lines of other pages or visits: another line, and how many
// lines behind it the changed line is. From is negative if the changed line is before the other. The other line is one
// that has not changed, the beginning or the end of the text, or the shape of a changed line next to this one; if From
// is zero it is the shape of this one, and if From is itself it is this one.
type place struct {
	Context uint64 `json:"context"` // hash of the other line
	From    int8   `json:"from"`
	Page    int64  `json:"page,omitempty"` // zero means every page of the host
}

const itself = 127

// edge is the Context of the beginning and the end of a text.
var edge = xxhash.Sum64String("")

var withDigit = lazy.Regexp(`[\pL]*\pN[\pL\pN]*`)

// shape returns a hash of a line without its numbers. It returns false if the line has too few words to tell it from
// others.
func shape(line string) (uint64, bool) {
	line = withDigit().ReplaceAllString(line, "#")
	words := 0
	for word := range strings.FieldsSeq(line) {
		if strings.IndexFunc(word, unicode.IsLetter) >= 0 {
			words++
		}
	}
	return xxhash.Sum64String("\n" + line), words >= leastWords
}

// seenPlace is a place and what visits have found there.
type seenPlace struct {
	place
	Changed float32 `json:"changed"`         // visits of pages that have changed there
	Same    float32 `json:"same"`            // other visits of pages that have the place
	Back    float32 `json:"back,omitempty"`  // how many of Changed have brought a line of the stock: that the page had before, or without a page that others have
	Stock   int     `json:"stock,omitempty"` // how many different lines of the stock a round has brought
	Pages   []int64 `json:"pages"`           // the first manyPages of the pages that have changed there
	Told    bool    `json:"told,omitempty"`  // it was reported as part of the template

	changed int      // pages that have changed there in this round
	brought []uint64 // the new lines in this round
}

// template reports whether the place belongs to the template. At its beginning and end, each page may change in words of
// its own.
func (p *seenPlace) template() bool {
	seen := p.Changed + p.Same
	back := p.Back >= mostOfPages*p.Changed
	switch many := len(p.Pages) >= manyPages; {
	case p.From == itself:
		return false
	case p.Page != 0:
		return back && p.Changed >= fewest && p.Changed >= mostOfPages*seen
	case many && back && p.Stock >= leastStock:
		return p.Changed >= manyOfPages*seen
	default:
		return many && p.Changed >= mostOfPages*seen && p.Context != edge
	}
}

// on returns the places of an edit, and the same places of one page alone.
func (e *edit) on(page int64) []place {
	all := slices.Clone(e.places)
	for _, p := range e.places {
		p.Page = page
		all = append(all, p)
	}
	return all
}

// edit is a changed line: a removed one or a new one.
type edit struct {
	removed bool
	text    string // without noise
	places  []place
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
	before, begin := "", 0 // the last unchanged line, and the first edit after it
	close := func(after string) {
		if len(old) > 1 && len(now) > 1 {
			c.locate(c.edits[begin:], before, after)
		}
		before, begin = after, len(c.edits)
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
// end of the text.
func (c *comparison) locate(edits []edit, before, after string) {
	of := map[bool]int{}
	for i := range edits {
		of[edits[i].removed]++
	}
	n := map[bool]int{}
	for i := range edits {
		e := &edits[i]
		for _, from := range []int{-1, 0, 1} {
			if j := i - from; j >= 0 && j < len(edits) && edits[j].removed == e.removed {
				if hash, ok := shape(edits[j].text); ok {
					e.places = append(e.places, place{hash, int8(from), 0})
				}
			}
		}
		n[e.removed]++
		e.add(e.text, itself)
		e.add(before, n[e.removed])
		e.add(after, n[e.removed]-1-of[e.removed])
	}
}

func (e *edit) add(context string, from int) {
	if (from == itself || from <= deepest && from >= -deepest) && !strings.Contains(context, "\x00") { // not if it has noise
		e.places = append(e.places, place{xxhash.Sum64String(context), int8(from), 0})
	}
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
