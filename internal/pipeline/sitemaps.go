package pipeline

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/mediatype"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/sitemap"
	"github.com/treadlight/crawl/record"
)

// A robots.txt names the sitemaps of its origin, which may be on any host. If it names none, there may be one at
// the usual place. Sitemaps are queued, paced and subject to robots.txt like pages. Their pages are one link deeper
// than the page for which robots.txt was requested; if that is too deep, no sitemap is requested. Sitemaps are
// looked for only on hosts that the scope reaches: another host that keeps the sitemap of such a host does not
// become part of the crawl by that. By the protocol a sitemap may list only URLs of its own directory, unless
// robots.txt names it. Here the scope alone decides which URLs belong to the crawl.

// Sitemaps says which lists of URLs a crawl reads. The zero Sitemaps requests none. A sitemap that was fetched as a
// page is read in any case.
type Sitemaps struct {
	// Enabled requests the sitemaps that robots.txt names, or /sitemap.xml if it names none. If robots.txt is ignored,
	// only the /sitemap.xml of the seeds' origins is requested. False requests none.
	Enabled bool
	Feeds   bool // reads RSS and Atom feeds that were fetched as pages; false does not
	Max     int  // bounds the sitemaps of one host; zero means 1000
}

const (
	// defaultSitemaps allows at most 50 million URLs of a host, five times what a frontier holds by default.
	defaultSitemaps = 1000
	// reasonSitemaps is the reason of sitemaps that are dropped because of Sitemaps.Max.
	reasonSitemaps = "sitemaps"
	// classSitemap is the error class of a record whose response should have been a sitemap and is not.
	classSitemap = "sitemap"
	// partLinks is how many links are sent to Discovery at a time while a list is read: as many as it handles without
	// delaying requests.
	partLinks = 1000
	// recordedLinks bounds the links in the record of a feed, like those of a page.
	recordedLinks = 10_000
)

// announced queues the sitemaps of an origin, once its robots.txt has arrived or is known to be absent.
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

// offerSitemap queues a sitemap that was not found in an index.
func (d *discovery) offerSitemap(it frontier.Item, now time.Time) {
	p := d.p
	it.Kind, it.URL, it.Rank = frontier.Sitemap, p.cfg.Rules.Apply(it.URL), sitemap.Rank(0, 0)
	if v := p.cfg.Scope.CheckSitemap(it.URL, int(it.Depth)+1, 0); !v.In {
		p.stats.out[v.Code].Add(1)
		d.skip(&it, v.Code.String(), v.Reason())
		return
	}
	d.addSitemap(&found{item: it, fp: d.frontier.Fingerprint(&it)}, now)
}

// addSitemap is add for sitemaps. On entry the rank has the level; it is set here. A resumed crawl counts from zero
// again. A URL that is known, also as a page, is not queued again: a page that turns out to be a list is read as one.
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
	it.Rank = sitemap.Rank(n, sitemap.Level(it.Rank))
	d.put(link, now)
}

func (d *discovery) overSitemaps(n int, first string) {
	d.p.drop(reasonSitemaps, n, first, fmt.Sprintf("none: of a host %d sitemaps are read", d.p.cfg.Sitemaps.Max))
}

// listing reads a response as a list of URLs if it was requested as one or is one. It returns false for a page.
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

// asSitemap reads what was requested as a sitemap, whatever its media type. Some sites respond with a page instead, on
// purpose or not. If robots.txt names the URL, or a redirect led to it, the page is read as a page if scope allows, as
// nothing else might lead there. At the usual place a page only means that there is no sitemap.
func (w *processor) asSitemap(r *result, f *fetched) bool {
	l := f.lease
	sum := w.entries(r, f, true)
	if sum.Format != sitemap.None {
		return true
	}
	r.rec.Sitemap = nil
	switch {
	case guessed(l):
	case mediatype.IsHTML(f.resp.ContentType) && w.p.cfg.Scope.Check(l.URL, int(l.Depth), int(l.Hops), false).In:
		r.rec.Kind = frontier.Page.String()
		return false
	case r.rec.Error == nil:
		r.rec.Error = &record.Error{Class: classSitemap, Message: sum.Problem}
	}
	return true
}

// nothingThere reports whether there is no sitemap at the usual place. That is not worth a record, as for robots.txt. A
// host that fails is.
func nothingThere(rec *record.Record, l *frontier.Lease) bool {
	return guessed(l) && rec.Sitemap == nil && rec.Error == nil && (rec.Status/100 == 2 || rec.Status/100 == 4)
}

// entries follows the URLs of a list, and notes in the record what the list was.
func (w *processor) entries(r *result, f *fetched, asked bool) sitemap.Summary {
	resp, rec := f.resp, r.rec
	w.budget.DropDeadline() // sending its parts may block
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
	rec.Sitemap = sum.Record()
	rec.Truncated = rec.Truncated || sum.Bound != ""
	return sum
}

func (w *processor) entry(r *result, l *frontier.Lease, e *sitemap.Entry) {
	kind := extract.Navigation
	switch {
	case w.p.cfg.HandlersFollow && !w.p.cfg.Sitemaps.Enabled:
		return
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
	if !r.follow(w.p, below(r, e.URL), t.fp, kind == extract.Resource).In {
		return
	}
	w.passed.put(t)
	if e.Rel == sitemap.Page && w.p.cfg.Rank == nil {
		r.links[len(r.links)-1].item.Rank = sitemap.PageRank(e.Priority)
	}
}

// deeper follows an entry of an index to a sitemap on the same host, or on one that the scope reaches.
func (w *processor) deeper(r *result, l *frontier.Lease, u canonical.URL) {
	level := 1
	if l.Kind == frontier.Sitemap {
		level += sitemap.Level(l.Rank)
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
			URL: u, Rank: sitemap.Rank(0, level), Found: frontier.Found{Referrer: l.URL.String(), FoundOn: l.ID, Depth: l.Depth},
		})
	}
}

func (w *processor) sitemap(r *result, it frontier.Item) {
	it.Kind = frontier.Sitemap
	r.links = append(r.links, found{item: it, fp: it.Fingerprint(w.p.cfg.Key)})
}

// guessed reports whether a sitemap was requested at the usual place, or where that redirected to, without a hint that
// there is one.
func guessed(l *frontier.Lease) bool { return l.Kind == frontier.Sitemap && l.Referrer == "" }

// moved follows a redirect of a sitemap. The target is a sitemap of the same level, unless it more likely is a page: if
// that were queued as a sitemap, it would not be visited as a page when a link or the redirect of a seed leads there. A
// page that turns out to be a sitemap is read as one.
func (w *processor) moved(r *result, l *frontier.Lease, it frontier.Item) {
	if sitemap.LeadsToPage(l.URL, it.URL, guessed(l)) {
		r.quiet = guessed(l) // there is no sitemap
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
