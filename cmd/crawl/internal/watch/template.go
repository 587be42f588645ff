package watch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
)

// A changed line belongs to the template of its host, such as a counter, a list of the latest posts or the number of a
// build, if one of its places is the template's: there, several pages have changed, and most visits have found a change.
const (
	manyPages   = 5       // pages that must have changed at the place; of a line without numbers visits
	mostOfPages = 0.6     // of the visited pages with the place, more must have changed there
	maxPlaces   = 1 << 10 // places kept per host
	maxWeight   = 16      // pages for which the past of a place counts at most
	maxKeys     = 1 << 16
	maxExamples = 100
	maxListed   = 32 << 10 // bytes of the examples
)

// place is what a changed line has in common with changed lines of other pages or visits.
type place struct {
	Line uint64 `json:"line"` // hash
	Kind uint8  `json:"kind"`
}

// Kinds of places, by what their line is.
const (
	behind  = iota // the last unchanged line before the changed line
	before         // the first unchanged line behind it
	numbers        // the changed line without its numbers
	words          // the changed line, which has no numbers
)

var withDigit = lazy.Regexp(`[\pL]*\pN[\pL\pN]*`)

// own returns the place that a line has by what it says. It returns false for numbers alone.
func own(line string) (place, bool) {
	bare, kind := withDigit().ReplaceAllString(line, "#"), uint8(numbers)
	if bare == line {
		kind = words
	}
	return place{xxhash.Sum64String(bare), kind}, strings.IndexFunc(bare, unicode.IsLetter) >= 0
}

// placesIn returns the places that a text has.
func placesIn(lines []string) map[place]bool {
	there := make(map[place]bool)
	for _, line := range lines {
		if p, ok := own(line); ok {
			there[p] = true
		}
		hash := xxhash.Sum64String(line)
		there[place{hash, behind}], there[place{hash, before}] = true, true
	}
	return there
}

// seenPlace is a place and what visits have found there.
type seenPlace struct {
	place
	Changed float32 `json:"changed"` // visits of pages that have changed there
	Same    float32 `json:"same"`    // other visits of pages that have the place
	// Pages are the first of the pages that have changed there. A page is there once for each visit if the line is words:
	// words that come back to a page rotate there, while other numbers are news.
	Pages []int64 `json:"pages"`
	Told  bool    `json:"told,omitempty"` // it was reported as part of the template
}

// template reports whether the place belongs to the template.
func (p *seenPlace) template() bool {
	return len(p.Pages) >= manyPages && p.Changed > mostOfPages*(p.Changed+p.Same)
}

// template reports whether a changed line belongs to the template, and whether that was told before. Next to a line of the
// template a page may have lines of its own, which have changed nowhere else.
func (e *edit) template(places map[place]*seenPlace) (its, told bool) {
	elsewhere := true
	for _, p := range e.places {
		seen := places[p]
		if seen != nil && p.Kind >= numbers {
			elsewhere = len(seen.Pages) > 1
		}
		if seen != nil && elsewhere && seen.template() {
			its, told = true, told || seen.Told
		}
	}
	return its, told
}

// places returns what is known of the places of a host.
func (s *store) places(h *host) map[place]*seenPlace {
	var known []seenPlace
	if text := s.meta(placesOf + h.name); text != "" && json.Unmarshal([]byte(text), &known) != nil {
		s.err = sqlitedb.Damage(s.db.Path(), fmt.Sprintf("the places of host %q", h.name))
	}
	places := make(map[place]*seenPlace, len(known))
	for _, p := range known {
		places[p.place] = &p
	}
	return places
}

// placesOf and the name of a host are the key of its places in the table meta.
const placesOf = "places "

// savePlaces keeps the most important places of a host for later rounds.
func (s *store) savePlaces(h *host, places map[place]*seenPlace) {
	list := make([]*seenPlace, 0, len(places))
	for _, p := range places {
		p.Told = p.Told && p.Changed > p.Same || p.template()
		if weight := p.Changed + p.Same; weight > maxWeight {
			p.Changed, p.Same = p.Changed/weight*maxWeight, p.Same/weight*maxWeight
		}
		if p.Changed >= 1 {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *seenPlace) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(a.Same, b.Same), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Kind, b.Kind))
	})
	s.runJSON(setMeta, list[:min(len(list), maxPlaces)], placesOf+h.name)
}
