package watch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
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

// tell reports the changes that are held, without lines that belong to the template of their host. A place where most
// pages have changed is reported once, as a change of the host with Change "template". If ctx ends, what is not told
// yet stays held. The caller holds the lock.
func (w *Watch) tell(ctx context.Context, since time.Time) error {
	list, err := w.store.allHeld()
	if err != nil {
		return err
	}
	of := make(map[*host][]*held)
	for _, one := range list {
		if one.e = w.urls[one.URL]; one.e != nil {
			of[one.e.host] = append(of[one.e.host], one)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.hosts)) { // also those without a change, whose places count visits
		if ctx.Err() != nil {
			return nil
		}
		h, counts := w.hosts[name], w.counts
		if err := w.store.transact(func() { w.tellOf(ctx, h, of[h], since) }); err != nil {
			w.counts = counts
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return nil
			}
			return err
		}
	}
	return nil
}

// tellOf does for one host what tell does for all.
func (w *Watch) tellOf(ctx context.Context, h *host, list []*held, since time.Time) {
	var places map[place]*seenPlace // nil with selectors: every line that they select is reported
	if w.reader.selectors == "" {
		if places = w.store.places(h); len(places)+len(list) > 0 {
			w.store.weigh(ctx, places, h, list, since)
		}
	}
	news := Change{Change: "template"}
	for _, one := range list {
		w.tellPage(one, w.store.compared(ctx, one), places, &news)
	}
	if news.Pages > 0 {
		w.report(&news)
	}
	if len(places) > 0 {
		w.store.savePlaces(h, places)
	}
	w.store.saveHost(h)
}

// weigh adds to places what a round since that time has found, of which list is what has changed.
func (s *store) weigh(ctx context.Context, places map[place]*seenPlace, h *host, list []*held, since time.Time) {
	same := make(map[place]int) // how many pages have the place, less those that have changed there
	for _, one := range list {
		if since.IsZero() || one.Time.Before(since) {
			since = one.Time
		}
		for p := range s.compared(ctx, one).places() {
			seen := places[p]
			if seen == nil && len(places) >= maxKeys {
				continue
			}
			if seen == nil {
				seen = &seenPlace{place: p}
				places[p] = seen
			}
			seen.Changed++
			same[p]--
			if len(seen.Pages) < manyPages && (p.Kind == words || !slices.Contains(seen.Pages, one.e.id)) {
				seen.Pages = append(seen.Pages, one.e.id)
			}
		}
	}
	for _, e := range h.entries { // pages visited more than once, with and without another text
		if len(places) > 0 && e.kind == page && e.state == live && e.visits > 1 && e.visited >= since.Unix() {
			for p := range placesIn(s.lines("texts", e.id)) {
				if places[p] != nil {
					same[p]++
				}
			}
		}
	}
	for _, p := range places {
		p.Same += float32(max(0, same[p.place]))
	}
}

// compared compares the text of a held page before its change with its text now, unless ctx has ended. It has no edits
// if the page is gone by now.
func (s *store) compared(ctx context.Context, one *held) *comparison {
	if s.err == nil {
		s.err = ctx.Err()
	}
	old, now := s.lines("held", one.e.id), s.lines("texts", one.e.id)
	if now == nil {
		return new(comparison)
	}
	return compare(old, now, one.Previous, one.Time)
}

// tellPage reports the change of one page, or adds the page to news, the change of the template.
func (w *Watch) tellPage(one *held, c *comparison, places map[place]*seenPlace, news *Change) {
	if w.store.err != nil {
		return
	}
	template, unknown := false, false
	isTemplate := func(e *edit) bool {
		its, known := e.template(places)
		template, unknown = template || its, unknown || its && !known
		return its
	}
	one.Diff, one.Added, one.Removed = c.diff(func(e *edit) bool { return !isTemplate(e) })
	if unknown {
		if news.Pages++; news.Pages == 1 {
			news.Time, news.Status, news.URL = one.Time, one.Status, canonical.Restore(one.e.url).Origin()+"/"
			news.Diff, news.Added, news.Removed = c.diff(isTemplate)
		}
		if len(news.Examples) < maxExamples && len(strings.Join(news.Examples, ""))+len(one.URL) <= maxListed {
			news.Examples = append(news.Examples, one.URL)
		}
	}
	told := one.Diff != ""
	switch {
	case told:
		w.counts.Changed++
		w.report(&one.Change)
	case template:
		w.counts.Template++
		fallthrough
	default:
		w.counts.Unchanged++
	}
	if !one.Previous.IsZero() {
		one.e.learn(int64(one.Time.Sub(one.Previous)/time.Second), told, one.Ago, one.Listed, one.Word)
		w.store.put(one.e)
	}
	w.store.run(`DELETE FROM held WHERE url = ?`, one.e.id)
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
