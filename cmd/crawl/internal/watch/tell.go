package watch

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

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
