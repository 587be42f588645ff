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

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

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
	for _, one := range list {
		if since.IsZero() || one.Time.Before(since) {
			since = one.Time
		}
		s.compared(ctx, one).count(places, one.e.id)
	}
	pages := make(map[uint64]int, len(places)) // how many pages have the line, by its hash
	for p, seen := range places {
		pages[p.Context] = 0
		for _, line := range seen.brought {
			pages[line] = 0
		}
	}
	visited := make(map[int64]int)
	for _, e := range h.entries { // pages visited more than once, with and without another text
		if len(places) > 0 && e.kind == page && e.state == live && e.visits > 1 && e.visited >= since.Unix() {
			visited[e.id] = 1
			countLines(s.lines("texts", e.id), pages)
		}
	}
	for _, p := range places {
		stock := make(map[uint64]bool) // see seenPlace.Back
		back := 0
		for _, line := range p.brought {
			if l := places[place{line, itself, p.Page}]; l != nil && l.Changed > 0 || p.Page == 0 && (pages[line] > 1 || l != nil && l.changed > 1) {
				stock[line] = true
				back++
			}
		}
		p.Back += float32(min(back, p.changed))
		p.Stock = max(p.Stock, len(stock))
		has := pages[p.Context]
		if p.Page != 0 {
			has = visited[p.Page]
		}
		p.Same += float32(max(0, has-p.changed))
	}
	for _, p := range places {
		p.Changed += float32(p.changed)
	}
}

// count adds a page to the places where it has changed.
func (c *comparison) count(places map[place]*seenPlace, page int64) {
	here := make(map[place]bool)
	for _, e := range c.edits {
		_, words := shape(e.text)
		brings := !e.removed && words && !withDigit().MatchString(e.text)
		for _, p := range e.on(page) {
			seen := places[p]
			switch {
			case seen != nil:
			case len(places) >= maxKeys || p.Page != 0 && len(places) >= maxKeys/2:
				continue
			default:
				seen = &seenPlace{place: p}
				places[p] = seen
			}
			if brings && p.From != itself {
				seen.brought = append(seen.brought, xxhash.Sum64String(e.text))
			}
			if !here[p] {
				here[p] = true
				seen.changed++
			}
			if p.Page == 0 && len(seen.Pages) < manyPages && !slices.Contains(seen.Pages, page) {
				seen.Pages = append(seen.Pages, page)
			}
		}
	}
}

// countLines adds one to the counts in pages of the lines that a page has. Each page has the empty line.
func countLines(lines []string, pages map[uint64]int) {
	has := map[uint64]bool{edge: true}
	for _, line := range lines {
		has[xxhash.Sum64String(line)] = true
		if hash, ok := shape(line); ok {
			has[hash] = true
		}
	}
	for hash := range has {
		if _, asked := pages[hash]; asked {
			pages[hash]++
		}
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
		its, known := false, false
		for _, p := range e.on(one.e.id) {
			if seen := places[p]; seen != nil && seen.template() {
				its, known = true, known || seen.Told
			}
		}
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
			p.Changed, p.Same, p.Back = p.Changed/weight*maxWeight, p.Same/weight*maxWeight, p.Back/weight*maxWeight
		}
		if p.Changed >= 1 {
			list = append(list, p)
		}
	}
	slices.SortFunc(list, func(a, b *seenPlace) int {
		return cmp.Or(cmp.Compare(b.Changed, a.Changed), cmp.Compare(b.changed, a.changed), cmp.Compare(a.Same, b.Same), cmp.Compare(a.Context, b.Context), cmp.Compare(a.From, b.From), cmp.Compare(a.Page, b.Page))
	})
	s.runJSON(setMeta, list[:min(len(list), maxPlaces)], placesOf+h.name)
}
