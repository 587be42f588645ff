package pipeline

import (
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/extract"
)

// reasonNofollow is why a link is not followed that the page asks crawlers to leave alone.
const reasonNofollow = "nofollow"

// declared copies what a page says to robots, and which pages it says belong with it.
func (w *processor) declared(rec *sink.Record) {
	f := &w.found
	rec.Directives, rec.Next, rec.Prev = f.Directives, f.Next, f.Prev
	for _, a := range f.Alternates {
		rec.Alternates = append(rec.Alternates, sink.Alternate(a))
	}
	if w.p.cfg.OmitLinks {
		return
	}
	for i := range f.Links {
		if l := &f.Links[i]; l.NoFollow() {
			rec.NofollowLinks = append(rec.NofollowLinks, l.URL.String())
		}
	}
}

// obeys reports whether a link is not to be followed because the page says so, of it or
// of all its links, and counts it. What a page is made of is no link to its readers.
func (w *processor) obeys(l *extract.Link) bool {
	if w.p.cfg.FollowNofollow || l.Kind == extract.Resource || !w.found.NoFollow && !l.NoFollow() {
		return false
	}
	w.p.stats.nofollow.Add(1)
	return true
}

// unindexed reports whether a page is to be left out of the records because it says so, or
// because the time is over until which it was to be found.
func (w *processor) unindexed(l *frontier.Lease, now time.Time) bool {
	f := &w.found
	if !w.p.cfg.SkipNoindex || l.Kind != frontier.Page {
		return false
	}
	return f.NoIndex || !f.UnavailableAfter.IsZero() && f.UnavailableAfter.Before(now)
}
