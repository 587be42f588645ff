package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
	manyPages = 5       // pages that must have changed at the place; of a line without numbers visits
	maxScore  = 32      // bound of a score, so that the past of a place counts for 16 pages at most
	maxPlaces = 1 << 10 // places kept per host
	maxKeys   = 1 << 16 // places of a round
)

// place is what a changed line has in common with changed lines of other pages or visits, as a hash.
type place uint64

var withDigit = lazy.Regexp(`[\pL]*\pN[\pL\pN]*`)

// own returns the place that a line has by what it says without its numbers, and whether it has none. The place of
// numbers alone is zero.
func own(line string) (p place, words bool) {
	bare := withDigit().ReplaceAllString(line, "#")
	if strings.ContainsFunc(bare, unicode.IsLetter) {
		p = place(xxhash.Sum64String(bare))
	}
	return p, bare == line
}

// behind and before return the places next to an unchanged line.
func behind(line string) place { return next("<", line) }
func before(line string) place { return next(">", line) }

// next returns a place on one side of an unchanged line. It is zero if that has noise.
func next(side, line string) place {
	if strings.Contains(line, "\x00") {
		return 0
	}
	return place(xxhash.Sum64String(side + line))
}

// seenPlace is what visits have found at a place.
type seenPlace struct {
	// Score is two for each page that has changed there at a visit, less three for each that has the place and has not.
	// So it is above zero if more than three of five have changed.
	Score int `json:"score"`
	// Pages are the first of the pages that have changed there. A page is there once for each visit if the line is words:
	// words that come back to a page rotate there, while other numbers are news.
	Pages []int64 `json:"pages"`

	template bool // it belonged to the template before the round
}

func (p *seenPlace) isTemplate() bool { return p != nil && len(p.Pages) >= manyPages && p.Score > 0 }

// template reports whether a changed line belongs to the template, and whether it did before. Next to a line of the
// template a page may have lines of its own, which have changed nowhere else.
func (e *edit) template(places map[place]*seenPlace) (its, known bool) {
	of := []place{e.own, e.near[0], e.near[1]}
	if own := places[e.own]; own != nil && len(own.Pages) == 1 {
		of = of[:1]
	}
	for _, p := range of {
		if seen := places[p]; seen.isTemplate() {
			its, known = true, known || seen.template
		}
	}
	return its, known
}

// weigh adds to places what visits since a unix time have found, of which list is what has changed.
func (s *store) weigh(ctx context.Context, places map[place]*seenPlace, h *host, list []*held, since int64) {
	same := make(map[place]int) // how many pages have the place, less those that have changed there
	for _, one := range list {
		since = min(since, one.Time.Unix())
		here := make(map[place]bool) // whether it is words
		for _, e := range s.compared(ctx, one).edits {
			here[e.own], here[e.near[0]], here[e.near[1]] = e.words, false, false
		}
		delete(here, 0)
		for p, words := range here {
			seen := places[p]
			if seen == nil && len(places) >= maxKeys {
				continue
			}
			if seen == nil {
				seen = new(seenPlace)
				places[p] = seen
			}
			seen.Score += 2
			same[p]--
			if len(seen.Pages) < manyPages && (words || !slices.Contains(seen.Pages, one.e.id)) {
				seen.Pages = append(seen.Pages, one.e.id)
			}
		}
	}
	for _, e := range h.entries { // pages visited more than once, with and without another text
		if len(places) > 0 && e.kind == page && e.state == live && e.visits > 1 && e.visited >= since {
			there := make(map[place]bool)
			for _, line := range s.lines("texts", e.id) {
				p, _ := own(line)
				there[p], there[behind(line)], there[before(line)] = true, true, true
			}
			for p := range there {
				same[p]++
			}
		}
	}
	for p, seen := range places {
		if seen.Score = min(seen.Score-3*max(0, same[p]), maxScore); seen.Score <= -maxScore {
			delete(places, p)
		}
	}
}

// placesOf and the name of a host are the key of its places in the table meta; earlier versions had others at "places ".
const placesOf = "template "

// places returns what is known of the places of a host.
func (s *store) places(h *host) map[place]*seenPlace {
	var known map[place]seenPlace
	if text := s.meta(placesOf + h.name); text != "" && json.Unmarshal([]byte(text), &known) != nil {
		s.err = sqlitedb.Damage(s.db.Path(), fmt.Sprintf("the places of host %q", h.name))
	}
	places := make(map[place]*seenPlace, len(known))
	for p, seen := range known {
		seen.template = seen.isTemplate()
		places[p] = &seen
	}
	return places
}

// savePlaces keeps the most important places of a host for later rounds.
func (s *store) savePlaces(h *host, places map[place]*seenPlace) {
	list := slices.SortedFunc(maps.Keys(places), func(a, b place) int {
		p, q := places[a], places[b]
		return cmp.Or(cmp.Compare(q.Score, p.Score), cmp.Compare(len(q.Pages), len(p.Pages)), cmp.Compare(a, b))
	})
	for _, p := range list[min(len(list), maxPlaces):] {
		delete(places, p)
	}
	s.runJSON(setMeta, places, placesOf+h.name)
}
