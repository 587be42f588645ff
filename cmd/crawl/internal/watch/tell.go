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

const (
	maxExamples = 100
	maxListed   = 32 << 10 // bytes of the examples
)

// tell reports the changes that are held, without lines that belong to the template of their host. A place where most
// pages have changed is reported once, as a change of the host with Change "template". since is when the round began. If
// ctx ends, all stay held. The caller holds the lock, if the watch is open.
func (w *Watch) tell(ctx context.Context, since time.Time) error {
	counts := w.counts
	err := w.store.transact(func() {
		of := w.store.allHeld(w.urls)
		for _, name := range slices.Sorted(maps.Keys(w.hosts)) { // also those without a change, whose places count visits
			w.store.stop(ctx)
			w.tellOf(ctx, w.hosts[name], of[w.hosts[name]], since.Unix())
		}
	})
	if err != nil {
		w.counts = counts
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// tellOf does for one host what tell does for all.
func (w *Watch) tellOf(ctx context.Context, h *host, list []*held, since int64) {
	var places map[place]*seenPlace // nil with selectors: every line that they select is reported
	if w.reader.selectors == "" {
		places = w.store.places(h)
		w.store.weigh(ctx, places, h, list, since)
		w.store.savePlaces(h, places)
	}
	news := Change{Change: "template"}
	for _, one := range list {
		w.tellPage(one, w.store.compared(ctx, one), places, &news)
	}
	if news.Pages > 0 {
		w.report(&news)
	}
	w.store.saveHost(h)
}

// compared compares the text of a held page before its change with its text now, unless ctx has ended. It has no edits
// if the page is gone by now.
func (s *store) compared(ctx context.Context, one *held) *comparison {
	s.stop(ctx)
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
	unknown := false
	isTemplate := func(e *edit) bool {
		its, known := e.template(places)
		unknown = unknown || its && !known
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
	if told {
		w.counts.Changed++
		w.report(&one.Change)
	} else {
		w.counts.Unchanged++
	}
	if !one.Previous.IsZero() {
		one.e.learn(int64(one.Time.Sub(one.Previous)/time.Second), told, one.Word)
		w.store.put(one.e)
	}
	w.store.run(`DELETE FROM held WHERE url = ?`, one.e.id)
}
