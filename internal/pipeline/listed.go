package pipeline

import (
	pathpkg "path"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/sitemap"
)

// What is read in sitemaps and feeds. The protocol has a sitemap speak for its own directory
// only, unless robots.txt names it; here the scope decides, for it alone says what belongs to
// the crawl, and the worst that a sitemap can do is to name a page in scope that no page
// links to.

const (
	// classSitemap is of a record whose answer should have been a sitemap and is none.
	classSitemap = "sitemap"
	// partLinks is how many links go to Discovery together while a list is read: as many as
	// it takes in without keeping hosts waiting.
	partLinks = 1000
	// recordedLinks bounds the links that the record of a feed has, as those of a page.
	recordedLinks = 10_000
	// priorityRanks is how many ranks lie between the priorities 0 and 1.
	priorityRanks = 1000
)

// listing reads an answer as a list of URLs, if it was asked for as one or is one. If not,
// it is a page.
func (w *processor) listing(r *result, f *fetched) bool {
	if f.lease.Kind == frontier.Sitemap {
		return w.asSitemap(r, f)
	}
	format := sitemap.Detect(f.resp.ContentType, f.resp.Body)
	if format == sitemap.None || format.Feed() && !w.p.cfg.Sitemaps.Feeds {
		return false
	}
	w.entries(r, f, false)
	return true
}

// asSitemap reads what was asked for as a sitemap, whatever type it is said to be. Some sites
// answer with a page, whether they mean it or not. One that robots.txt names, or a redirect
// led to, is read as a page if it may be: nobody else might lead there. At the usual place it
// only says that there is no sitemap.
func (w *processor) asSitemap(r *result, f *fetched) bool {
	l := f.lease
	sum := w.entries(r, f, true)
	if sum.Format != sitemap.None {
		return true
	}
	r.rec.Sitemap = nil
	switch {
	case guessed(l):
	case isHTML(f.resp.ContentType) && w.p.cfg.Scope.Check(l.URL, int(l.Depth), int(l.Hops), false).In:
		r.rec.Kind = frontier.Page.String()
		return false
	case r.rec.Error == nil:
		r.rec.Error = &sink.Error{Class: classSitemap, Message: sum.Problem}
	}
	return true
}

// nothingThere reports whether a sitemap was looked for at the usual place and there is none.
// Like robots.txt that is nothing to record; a host that fails is.
func nothingThere(rec *sink.Record, l *frontier.Lease) bool {
	return guessed(l) && rec.Sitemap == nil && rec.Error == nil &&
		(rec.Status/100 == 2 || rec.Status/100 == 4)
}

func isHTML(mediaType string) bool {
	return strings.EqualFold(mediaType, "text/html") || strings.EqualFold(mediaType, "application/xhtml+xml")
}

// entries follows what a list names, and notes in the record what it was.
func (w *processor) entries(r *result, f *fetched, asked bool) sitemap.Summary {
	resp, rec := f.resp, r.rec
	w.budget.DropDeadline() // its parts are sent on, and may wait
	sum := sitemap.Read(sitemap.Document{
		Body: resp.Body, Base: f.lease.URL, Charset: resp.Charset, Truncated: resp.Truncated, List: asked, Rules: w.p.cfg.Rules, Budget: w.budget,
	}, func(e sitemap.Entry) bool {
		if !asked && !w.p.cfg.OmitLinks && len(rec.Links)+len(rec.Resources) < recordedLinks {
			if e.Rel == sitemap.Resource {
				rec.Resources = append(rec.Resources, e.URL.String())
			} else {
				rec.Links = append(rec.Links, e.URL.String())
			}
		}
		w.entry(r, f.lease, &e)
		return len(r.links) < partLinks || w.send(&result{links: r.take()}) == nil
	})
	rec.Sitemap = &sink.Sitemap{
		Format: sum.Format.String(), URLs: sum.URLs, Sitemaps: sum.Sitemaps, Extras: sum.Alternates + sum.Resources,
		Dropped: sum.Dropped, Problems: sum.Problems, Problem: sum.Problem, LastModified: sum.LastMod,
	}
	rec.Truncated = rec.Truncated || sum.Bound != ""
	return sum
}

// take hands the links of a result over.
func (r *result) take() []found {
	links := r.links
	r.links = nil
	return links
}

// entry follows one URL of a list.
func (w *processor) entry(r *result, l *frontier.Lease, e *sitemap.Entry) {
	switch {
	case e.Rel == sitemap.Resource && !w.p.cfg.Extract.Resources:
		return
	case e.Rel == sitemap.Sitemap && w.p.cfg.Sitemaps.Enabled:
		w.deeper(r, l, e.URL)
		return
	}
	kind := extract.Navigation
	if e.Rel == sitemap.Resource {
		kind = extract.Resource
	}
	t := passed{e.URL.Fingerprint(w.p.cfg.Key), l.Depth + 1, kind}
	if !w.p.refuses() && w.passed.covers(t) {
		return
	}
	it := frontier.Item{URL: e.URL, Found: frontier.Found{Referrer: r.rec.URL, FoundOn: l.ID, Depth: t.depth}}
	if !w.follow(r, it, t.fp, kind == extract.Resource).In {
		return
	}
	w.passed.put(t)
	if e.Rel == sitemap.Page && !w.p.cfg.ranked {
		r.links[len(r.links)-1].item.Rank = priorityRank(e.Priority)
	}
}

// priorityRank orders the pages of a site as its sitemap wants, where the user has no order
// of their own: those above the usual priority before all that are found by links, those
// below behind.
func priorityRank(priority float32) int32 {
	return int32((sitemap.DefaultPriority - priority) * priorityRanks)
}

// deeper follows an index to one of its sitemaps: on the index's own host, or on one that the
// scope reaches.
func (w *processor) deeper(r *result, l *frontier.Lease, u canonical.URL) {
	sc := w.p.cfg.Scope
	it, ok := below(l, u)
	switch v := sc.CheckSitemap(u, int(l.Depth)+1, 0); {
	case !ok:
		w.p.sitemaps.over.Add(1)
	case !v.In:
		w.p.stats.outOfScope(v)
	case u.Host() != l.URL.Host() && !sc.Reaches(u):
		w.p.stats.outOfScope(sc.Check(u, int(l.Depth)+1, 0, false))
	default:
		r.links = append(r.links, found{item: it, fp: u.Fingerprint(w.p.cfg.Key)})
	}
}

// guessed reports whether a sitemap was looked for at the usual place: that it is there, or
// where that led, nobody has said.
func guessed(l *frontier.Lease) bool { return l.Kind == frontier.Sitemap && l.Referrer == "" }

// leadsToPage reports whether a redirect of a sitemap is rather one to a page: sites send what
// they have not to their home page. Asked for as a sitemap, that would be none that a link or
// the redirect of a seed leads to. A page that is a sitemap after all is read as one.
func leadsToPage(l *frontier.Lease, to canonical.URL) bool {
	path, query, _ := strings.Cut(to.Path(), "?")
	if path == "/" && query == "" {
		return true
	}
	return guessed(l) && to.Path() != l.URL.Path() &&
		!slices.Contains([]string{".xml", ".gz", ".txt"}, strings.ToLower(pathpkg.Ext(path)))
}

// moved follows a redirect of a sitemap, which is a sitemap of the same level.
func (w *processor) moved(r *result, f *fetched, to canonical.URL) {
	l := f.lease
	it := frontier.Item{
		URL: to, Found: frontier.Found{Referrer: l.URL.String(), FoundOn: l.ID, Depth: l.Depth, Hops: l.Hops + 1},
		Wait: w.p.waitOfTarget(f.resp),
	}
	if leadsToPage(l, to) {
		r.quiet = guessed(l) // there is none
		w.follow(r, it, to.Fingerprint(w.p.cfg.Key), false)
		return
	}
	if it.Kind, it.Rank = frontier.Sitemap, l.Rank; guessed(l) {
		it.Referrer = ""
	}
	v := w.p.cfg.Scope.CheckSitemap(to, int(l.Depth)+1, int(it.Hops))
	switch {
	case v.In:
		r.links = append(r.links, found{item: it, fp: to.Fingerprint(w.p.cfg.Key)})
	case v.Code == scope.TooManyRedirects:
		r.rec.Error = &sink.Error{Class: classRedirect, Message: v.Reason()}
	default:
		w.p.stats.outOfScope(v)
	}
}
