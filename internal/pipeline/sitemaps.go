package pipeline

import (
	"fmt"
	"log/slog"
	"math"
	pathpkg "path"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/sitemap"
	"github.com/treadlight/crawl/record"
)

// A robots.txt that has come names the sitemaps of its origin, on whichever host; if it names none, there may
// be one at the usual place. They are queued, paced and subject to robots.txt like pages. Their pages are one
// link deeper than the page for which robots.txt was asked: where that is too deep no sitemap is asked for.
// Only of hosts that the scope reaches are sitemaps looked for: when another keeps the sitemap of one that it
// does, that says nothing of its own pages. The protocol has a sitemap speak for its own directory only,
// unless robots.txt names it; here the scope alone decides what belongs to the crawl.

// Sitemaps says which lists of URLs a crawl reads. The zero Sitemaps asks for none, and reads a sitemap that
// was fetched as a page.
type Sitemaps struct {
	// Enabled asks for the sitemaps that robots.txt names, or for /sitemap.xml if it names none; without
	// robots.txt only for that of the seeds' origins. False asks for none.
	Enabled bool
	Feeds   bool // reads RSS and Atom that were fetched as pages; false takes nothing from them
	Max     int  // bounds the sitemaps of one host; zero means 1000
}

const (
	// defaultSitemaps leads to 50 million URLs of a host at most, five times what a frontier holds by default.
	defaultSitemaps = 1000
	// earlySitemaps of a host are read before its pages: most sites have no more. The others wait until no
	// page is queued, so that a site with thousands of them is not asked for hours before the first page is.
	earlySitemaps = 16
	// reasonSitemaps is the reason of sitemaps that are dropped for Sitemaps.Max.
	reasonSitemaps = "sitemaps"
	// classSitemap is of a record whose answer should have been a sitemap and is none.
	classSitemap = "sitemap"
	// partLinks is how many links go to Discovery together while a list is read: as many as it takes in
	// without keeping hosts waiting.
	partLinks = 1000
	// recordedLinks bounds the links that the record of a feed has, as those of a page.
	recordedLinks = 10_000
	// priorityRanks is how many ranks lie between the priorities 0 and 1.
	priorityRanks = 1000
)

// sitemapRank is the rank of a host's nth sitemap, from 0, so many indexes below the first: lower than any
// page's, or higher.
func sitemapRank(n, level int) int32 {
	if n < earlySitemaps {
		return math.MinInt32 + int32(level)
	}
	return math.MaxInt32 - int32(level)
}

func sitemapLevel(rank int32) int {
	if rank < 0 {
		return int(int64(rank) - math.MinInt32)
	}
	return math.MaxInt32 - int(rank)
}

// announced queues the sitemaps of an origin, after its robots.txt has come or was found not to be there.
func (d *discovery) announced(l *frontier.Lease, e robots.Entry, now time.Time) {
	cfg := &d.p.cfg
	if !cfg.Sitemaps.Enabled || e.State != robots.Known {
		return
	}
	root, err := canonical.Parse(l.Origin + "/")
	if err != nil || !cfg.Scope.Reaches(root) {
		return
	}
	if len(e.Sitemaps) == 0 {
		if e.Rules.Check(frontier.UsualSitemap).Allowed {
			d.usualSitemap(root, l.Depth, now)
		}
		return
	}
	most := min(len(e.Sitemaps), cfg.Sitemaps.Max)
	if over := len(e.Sitemaps) - most; over > 0 {
		d.overSitemaps(over, e.Sitemaps[most])
	}
	for _, name := range e.Sitemaps[:most] {
		u, err := root.Resolve(name)
		if err != nil {
			cfg.Log.Debug("a sitemap is left out", slog.String("origin", l.Origin), slog.Any("error", err))
			continue
		}
		d.offerSitemap(frontier.Item{URL: u, Found: frontier.Found{Referrer: l.Origin + "/robots.txt", Depth: l.Depth}}, now)
	}
}

func (d *discovery) usualSitemap(origin canonical.URL, depth int32, now time.Time) {
	if u, err := origin.Resolve(frontier.UsualSitemap); err == nil {
		d.offerSitemap(frontier.Item{URL: u, Found: frontier.Found{Depth: depth}}, now)
	}
}

// offerSitemap queues a sitemap that no index led to.
func (d *discovery) offerSitemap(it frontier.Item, now time.Time) {
	p := d.p
	it.Kind, it.URL, it.Rank = frontier.Sitemap, p.cfg.Rules.Apply(it.URL), sitemapRank(0, 0)
	if v := p.cfg.Scope.CheckSitemap(it.URL, int(it.Depth)+1, 0); !v.In {
		p.stats.outOfScope(v)
		d.skip(&it, v.Code.String(), v.Reason())
		return
	}
	d.addSitemap(&found{item: it, fp: d.frontier.Fingerprint(&it)}, now)
}

// addSitemap is add for a sitemap. Its rank tells its level, and is settled here. A crawl that is resumed
// counts anew; what it knows already it does not ask for, be it as a page: that is read as a list if it is one.
func (d *discovery) addSitemap(link *found, now time.Time) {
	it := &link.item
	if d.frontier.Known(link.fp) || d.frontier.Known(it.URL.Fingerprint(d.p.cfg.Key)) {
		return
	}
	n := d.sitemaps.Next(it.URL.Host())
	if n >= d.p.cfg.Sitemaps.Max {
		d.overSitemaps(1, it.URL.String())
		d.skip(it, reasonSitemaps, "the host has more sitemaps than are read")
		return
	}
	it.Rank = sitemapRank(n, sitemapLevel(it.Rank))
	d.put(link, now)
}

func (d *discovery) overSitemaps(n int, first string) {
	d.p.drop(reasonSitemaps, n, first, fmt.Sprintf("none: of a host %d sitemaps are read", d.p.cfg.Sitemaps.Max))
}

// listing reads an answer as a list of URLs, if it was asked for as one or is one. If not, it is a page.
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

// asSitemap reads what was asked for as a sitemap, whatever type it is said to be. Some sites answer with a
// page, whether they mean it or not. One that robots.txt names, or a redirect led to, is read as a page if it
// may be: nobody else might lead there. At the usual place it only says that there is no sitemap.
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
		r.rec.Error = &record.Error{Class: classSitemap, Message: sum.Problem}
	}
	return true
}

// nothingThere reports whether a sitemap was looked for at the usual place and there is none. Like robots.txt
// that is nothing to record; a host that fails is.
func nothingThere(rec *record.Record, l *frontier.Lease) bool {
	return guessed(l) && rec.Sitemap == nil && rec.Error == nil && (rec.Status/100 == 2 || rec.Status/100 == 4)
}

func isHTML(mediaType string) bool {
	return strings.EqualFold(mediaType, "text/html") || strings.EqualFold(mediaType, "application/xhtml+xml")
}

// entries follows what a list names, and notes in the record what it was.
func (w *processor) entries(r *result, f *fetched, asked bool) sitemap.Summary {
	resp, rec := f.resp, r.rec
	w.budget.DropDeadline() // its parts are sent on, and may wait
	sum := sitemap.Read(sitemap.Document{
		Body: resp.Body, Base: f.lease.URL, Charset: resp.Charset, Truncated: resp.Truncated, List: asked,
		Rules: w.p.cfg.Rules, Budget: w.budget,
	}, func(e sitemap.Entry) bool {
		if !asked && !w.p.cfg.OmitLinks && len(rec.Links)+len(rec.Resources) < recordedLinks {
			to := &rec.Links
			if e.Rel == sitemap.Resource {
				to = &rec.Resources
			}
			*to = append(*to, e.URL.String())
		}
		w.entry(r, f.lease, &e)
		if len(r.links) < partLinks {
			return true
		}
		part := &result{outward: outward{links: r.links}}
		r.links = nil
		return w.send(part) == nil
	})
	rec.Sitemap = &record.Sitemap{
		Format: sum.Format.String(), URLs: sum.URLs, Sitemaps: sum.Sitemaps, Extras: sum.Alternates + sum.Resources,
		Dropped: sum.Dropped, Problems: sum.Problems, Problem: sum.Problem, LastModified: sum.LastMod,
	}
	rec.Truncated = rec.Truncated || sum.Bound != ""
	return sum
}

func (w *processor) entry(r *result, l *frontier.Lease, e *sitemap.Entry) {
	kind := extract.Navigation
	switch {
	case e.Rel == sitemap.Sitemap && w.p.cfg.Sitemaps.Enabled:
		w.deeper(r, l, e.URL)
		return
	case e.Rel == sitemap.Resource:
		if kind = extract.Resource; !w.p.cfg.Extract.Resources {
			return
		}
	}
	t := passed{e.URL.Fingerprint(w.p.cfg.Key), l.Depth + 1, kind}
	if !w.p.stats.full.Load() && w.passed.covers(t) {
		return
	}
	it := frontier.Item{URL: e.URL, Found: frontier.Found{Referrer: r.rec.URL, FoundOn: l.ID, Depth: t.depth}}
	if !r.follow(w.p, it, t.fp, kind == extract.Resource).In {
		return
	}
	w.passed.put(t)
	if e.Rel == sitemap.Page && !w.p.cfg.ranked {
		r.links[len(r.links)-1].item.Rank = priorityRank(e.Priority)
	}
}

// priorityRank orders the pages of a site as its sitemap wants, where the user has no order of their own: those
// above the usual priority before all that are found by links, those below behind.
func priorityRank(priority float32) int32 {
	return int32((sitemap.DefaultPriority - priority) * priorityRanks)
}

// deeper follows an index to one of its sitemaps: on the index's own host, or on one that the scope reaches.
func (w *processor) deeper(r *result, l *frontier.Lease, u canonical.URL) {
	level := 1
	if l.Kind == frontier.Sitemap {
		level += sitemapLevel(l.Rank)
	}
	sc := w.p.cfg.Scope
	switch v := sc.CheckSitemap(u, int(l.Depth)+1, 0); {
	case level > sitemap.MaxLevel:
		w.p.stats.tally(w.p.stats.n.Dropped, reasonSitemaps, 1)
	case !v.In:
		r.outOfScope(w.p, u, l.URL.String(), v)
	case u.Host() != l.URL.Host() && !sc.Reaches(u):
		r.outOfScope(w.p, u, l.URL.String(), sc.Check(u, int(l.Depth)+1, 0, false))
	default:
		w.sitemap(r, frontier.Item{
			URL: u, Rank: sitemapRank(0, level), Found: frontier.Found{Referrer: l.URL.String(), FoundOn: l.ID, Depth: l.Depth},
		})
	}
}

func (w *processor) sitemap(r *result, it frontier.Item) {
	it.Kind = frontier.Sitemap
	r.links = append(r.links, found{item: it, fp: it.Fingerprint(w.p.cfg.Key)})
}

// guessed reports whether a sitemap was looked for at the usual place: that it is there, or where that led,
// nobody has said.
func guessed(l *frontier.Lease) bool { return l.Kind == frontier.Sitemap && l.Referrer == "" }

// leadsToPage reports whether a redirect of a sitemap is rather one to a page: sites send what they have not to
// their home page. Asked for as a sitemap, that would be none that a link or the redirect of a seed leads to.
// A page that is a sitemap after all is read as one.
func leadsToPage(l *frontier.Lease, to canonical.URL) bool {
	path, query, _ := strings.Cut(to.Path(), "?")
	if path == "/" && query == "" {
		return true
	}
	return guessed(l) && to.Path() != l.URL.Path() &&
		!slices.Contains([]string{".xml", ".gz", ".txt"}, strings.ToLower(pathpkg.Ext(path)))
}

// moved follows a redirect of a sitemap, which is a sitemap of the same level.
func (w *processor) moved(r *result, l *frontier.Lease, it frontier.Item) {
	if leadsToPage(l, it.URL) {
		r.quiet = guessed(l) // there is none
		r.follow(w.p, it, it.URL.Fingerprint(w.p.cfg.Key), false)
		return
	}
	if it.Rank = l.Rank; guessed(l) {
		it.Referrer = ""
	}
	v := w.p.cfg.Scope.CheckSitemap(it.URL, int(l.Depth)+1, int(it.Hops))
	switch {
	case v.In:
		w.sitemap(r, it)
	case w.tooFar(r, v):
	default:
		r.outOfScope(w.p, it.URL, it.Referrer, v)
	}
}
