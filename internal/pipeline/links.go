package pipeline

import (
	"fmt"
	"slices"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/trap"
	"github.com/treadlight/crawl/record"
)

const (
	// reasonPageLinks is the reason of links that are dropped as their page has too many.
	reasonPageLinks = "page_links"
	// reasonNofollow is why a link is not followed that the page asks crawlers to leave alone.
	reasonNofollow = "nofollow"
	// maxFollows bounds what a worker keeps of memory for links, at 1 MB: few pages have as many that are new.
	maxFollows = 1 << 12
	// passedSlots bounds what a worker remembers of the links it passed on, at 256 KB.
	passedSlots = 1 << 14
)

// passed is a link that was in scope when it was passed on to the frontier, by the fingerprint of its URL.
type passed struct {
	fp    uint64
	depth int32 // at which it was found; never zero
	kind  extract.Kind
}

// passedLinks are links that one worker of Processing has passed on: most links of a page repeat from page to
// page, and the frontier takes no URL twice. Of two links that fall to one place the later one is remembered.
type passedLinks [passedSlots]passed

// covers reports whether t, or the same less deep, was passed on.
func (l *passedLinks) covers(t passed) bool {
	was := &l[t.fp%passedSlots]
	return was.fp == t.fp && was.kind == t.kind && was.depth >= t.depth
}

func (l *passedLinks) put(t passed) { l[t.fp%passedSlots] = t }

// lost counts the links of a page that were not taken: those that are too many, which are known to nobody
// then, as another page may lead there; and those longer than any URL may be.
func (w *processor) lost(page string) {
	w.p.drop(reasonPageLinks, w.found.DroppedLinks, page, "none: a page has at most 10,000 links that are followed")
	w.p.drop(trap.URLLength.String(), w.found.LongLinks, page, longFix)
}

var longFix = fmt.Sprintf("none: most servers refuse a URL of more than %d bytes", canonical.MaxLength)

// followAll follows the links of a page. They are gathered in memory that serves again, and copied when it is known
// how many there are. Once the frontier had no room it is told of every link each time: there may be room again.
func (w *processor) followAll(r *result, l *frontier.Lease) {
	if w.p.cfg.HandlersFollow {
		return
	}
	r.links = w.follows[:0]
	all := w.p.stats.full.Load()
	for i := range w.found.Links {
		link := &w.found.Links[i]
		if w.obeys(r, link) {
			continue
		}
		t := passed{link.Fingerprint, l.Depth + 1, link.Kind}
		if !all && w.passed.covers(t) {
			continue
		}
		it := frontier.Item{URL: link.URL, Found: frontier.Found{Referrer: r.rec.URL, FoundOn: l.ID, Depth: t.depth}}
		if r.follow(w.p, it, t.fp, link.Kind == extract.Resource).In {
			w.passed.put(t)
		}
	}
	gathered := r.links
	r.links = append([]found(nil), gathered...)
	if w.follows = nil; cap(gathered) <= maxFollows {
		clear(gathered)
		w.follows = gathered
	}
}

// obeys reports whether a link is not to be followed because the page says so, of it or of all its links, and
// counts it. What a page is made of is no link to its readers.
func (w *processor) obeys(r *result, l *extract.Link) bool {
	if w.p.cfg.FollowNofollow || l.Kind == extract.Resource || !w.found.NoFollow && !l.NoFollow {
		return false
	}
	w.p.stats.nofollow.Add(1)
	if w.p.cfg.OnSkip != nil {
		r.skips = append(r.skips, Skip{URL: l.URL.String(), Referrer: r.rec.URL, Reason: reasonNofollow, Detail: "the page asks crawlers not to follow it"})
	}
	return true
}

func (w *processor) list(rec *record.Record) {
	resources := 0
	for i := range w.found.Links {
		if w.found.Links[i].Kind == extract.Resource {
			resources++
		}
	}
	rec.Resources = slices.Grow(rec.Resources, resources)
	rec.Links = slices.Grow(rec.Links, len(w.found.Links)-resources)
	for i := range w.found.Links {
		link := &w.found.Links[i]
		to := &rec.Links
		if link.Kind == extract.Resource {
			to = &rec.Resources
		}
		*to = append(*to, link.URL.String())
		if link.NoFollow {
			rec.NofollowLinks = append(rec.NofollowLinks, link.URL.String())
		}
	}
}

// follow puts a URL on its way to the frontier if the scope lets it in.
func (o *outward) follow(p *Pipeline, it frontier.Item, fp uint64, resource bool) scope.Decision {
	v := p.cfg.Scope.Check(it.URL, int(it.Depth), int(it.Hops), resource)
	o.admit(p, it, fp, v)
	return v
}

func (o *outward) admit(p *Pipeline, it frontier.Item, fp uint64, v scope.Decision) {
	if v.In {
		it.Rank = p.cfg.Rank(it.URL, it.Depth)
		o.links = append(o.links, found{item: it, fp: fp, budget: p.budgets.Of(it.URL.String())})
	} else {
		o.outOfScope(p, it.URL, it.Referrer, v)
	}
}

// redirect makes the target a URL of its own, as deep as the page that sent us there.
func (w *processor) redirect(r *result, f *fetched) {
	l := f.lease
	to, err := l.URL.Resolve(canonical.Location(f.resp.Location))
	if f.resp.Location == "" {
		err = fmt.Errorf("status %d without a Location", f.resp.Status)
	}
	if err != nil {
		r.rec.Error = &record.Error{Class: classBadLocation, Message: err.Error()}
		return
	}
	if ruled := w.p.cfg.Rules.Apply(to); ruled != l.URL {
		to = ruled // else it is a redirect to a spelling that the server insists on
	}
	r.rec.RedirectTo = to.String()
	it := frontier.Item{
		URL: to, Found: frontier.Found{Referrer: l.URL.String(), FoundOn: l.ID, Depth: l.Depth, Hops: l.Hops + 1},
		Wait: w.p.cfg.waitOfTarget(f.resp),
	}
	if l.Request != "" {
		q := requestOf(&l.Item)
		q = q.moved(f.resp.Status)
		it.Request, _ = q.encode() // it was one before
	}
	if l.Kind == frontier.Sitemap {
		w.moved(r, l, it)
		return
	}
	if it.Seed = l.Seed; it.Seed {
		// The user named a site by an address it no longer lives at; where it sends us is what was meant.
		w.p.cfg.Scope.AddSeed(to)
	}
	w.tooFar(r, r.follow(w.p, it, it.Fingerprint(w.p.cfg.Key), false))
}

// tooFar reports whether a chain of redirects was too long, and notes it in the record.
func (w *processor) tooFar(r *result, v scope.Decision) bool {
	if v.Code != scope.TooManyRedirects {
		return false
	}
	r.rec.Error = &record.Error{Class: classRedirect, Message: v.Reason()}
	return true
}
