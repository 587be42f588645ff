package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/frontier/version"
	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/sitemap"
)

// Change is a change of a page as it is reported.
type Change struct {
	ID       string    `json:"id"` // the same in every report of the change
	Time     time.Time `json:"time"`
	Change   string    `json:"change"` // added, changed, gone or template; see tell
	URL      string    `json:"url"`
	Status   int       `json:"status"`
	Title    string    `json:"title,omitempty"`
	Previous time.Time `json:"previous,omitzero"` // the last visit before
	Added    int       `json:"lines_added,omitempty"`
	Removed  int       `json:"lines_removed,omitempty"`
	Diff     string    `json:"diff,omitempty"`
	Text     string    `json:"text,omitempty"`  // of an added page: its beginning
	Pages    int       `json:"pages,omitempty"` // of a template: how many have changed with it
	Examples []string  `json:"examples,omitempty"`
}

// visit is the response to a request.
type visit struct {
	*crawl.Page

	u      canonical.URL
	lines  []string // the text; nil if it was not read, for example after 304
	digest uint64
	at     time.Time
}

const robotsPath = "/robots.txt"

// take is the handler of all pages: it records a visit and what the page leads to.
func (w *Watch) take(_ context.Context, p *crawl.Page) error {
	v := &visit{Page: p, u: canonical.Restore(p.URL.String()), at: w.now()}
	missing := p.Status == http.StatusNotFound || p.Status == http.StatusGone
	whole := p.Err == nil && (p.Status/100 == 2 || p.RedirectTo != "" || missing && v.u.Path() == robotsPath)
	if whole { // slow work is done without the lock
		v.lines = w.reader.lines(p)
		v.digest = xxhash.Sum64String(strings.Join(v.lines, "\n"))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail(w.store.transact(func() { w.settle(v, whole) }))
}

// settle records a visit in the entry of its URL, and adds the URLs that the page leads to. With whole the response has
// a body that counts.
func (w *Watch) settle(v *visit, whole bool) {
	e := w.urls[v.u.String()]
	if e == nil {
		return
	}
	if e, ok := errors.AsType[*crawl.PageError](v.Err); ok && v.Status == 0 && e.Class == "handler" { // by ask
		return
	}
	e.round = w.round
	switch {
	case whole && e.kind == page:
		w.seen(e, v)
	case whole || v.Status == http.StatusNotModified && e.conditional(): // ask made it conditional, not the crawl
		if whole && v.RedirectTo == "" {
			v.digest = xxhash.Sum64(v.Body) // of the whole body, which may be a single line
		}
		w.count(e, &w.counts.Unchanged)
		w.answered(e, v)
	case v.Status == http.StatusNotFound || v.Status == http.StatusGone:
		w.lost(e, v)
	case v.Status == 0 && v.Err != nil:
		w.missed(e, v.at, v.Err.Error())
	default:
		w.missed(e, v.at, fmt.Sprintf("status %d", v.Status))
	}
	switch {
	case !whole:
	case v.RedirectTo != "":
		w.moved(e, v.RedirectTo)
	default:
		w.lead(e, v)
	}
}

// moved adds the target of a redirect, which the crawl requests. It marks one that is not in scope, so that ask refuses it.
func (w *Watch) moved(from *entry, target string) {
	u := canonical.Restore(target)
	switch {
	case from.depth == seedDepth && from.kind == page && w.scope.Recheck(u, true).In:
		w.scope.AddSeed(u)
	case w.scope.Check(u, int(from.depth), 0, false).In:
	case from.kind == rules: // the crawl follows redirects of robots.txt to any host
		return
	default:
		w.outside[u.String()], w.outside[u.Host()] = true, true
		return
	}
	w.add(u, from.kind, from.depth)
}

// count counts a visit of a page in Visits and in one more field, as. It does not count robots.txt and sources.
func (w *Watch) count(e *entry, as *int) {
	if e.kind == page {
		w.counts.Visits++
		*as++
	}
}

// missed records a visit that failed, and why.
func (w *Watch) missed(e *entry, at time.Time, why string) {
	w.count(e, &w.counts.Failed)
	if e.kind == page {
		w.counts.Failure = cmp.Or(w.counts.Failure, cli.Clean(e.url+": "+why))
	}
	e.failures++
	e.tried = max(at.Unix(), 1)
	w.store.put(e)
}

// lost records that a URL answered 404 or 410. It reports a page that was there before.
func (w *Watch) lost(e *entry, v *visit) {
	if (e.state == live || e.state == quiet && e.visited > 0) && e.kind == page {
		w.count(e, &w.counts.Gone)
		c := v.change("gone", e)
		c.Title = w.store.value(`SELECT title FROM texts WHERE url = ?`, e.id) // not that of the error page
		w.report(c)
	}
	e.state, e.visited, e.etag, e.modified, e.digest = gone, v.at.Unix(), "", "", 0
	w.store.run(`DELETE FROM texts WHERE url = ?`, e.id)
	w.store.put(e)
}

// seen records a visit of a page that was read. If it has another text than before, the page is held until the round is
// over, see tell.
func (w *Watch) seen(e *entry, v *visit) {
	other := e.state == live && e.digest != v.digest
	switch {
	case e.state == quiet || e.state == gone && w.first:
		w.count(e, &w.counts.First)
	case e.state == found || e.state == gone:
		w.count(e, &w.counts.Added)
		c := v.change("added", e)
		text := strings.Join(v.lines, "\n")
		c.Text = strings.ToValidUTF8(text[:min(len(text), maxExcerpt)], "")
		w.report(c)
	case other:
		w.counts.Visits++
		w.store.hold(e.id, &held{Change: *v.change("changed", e), Word: e.announced()})
	default:
		w.count(e, &w.counts.Unchanged)
	}
	if e.state != live || other {
		w.store.putText(e.id, v.lines, v.Title())
	}
	w.answered(e, v)
}

// change returns a change of a page that a visit has found. The entry is as of the visit before.
func (v *visit) change(what string, e *entry) *Change {
	c := &Change{Change: what, Time: v.at, URL: e.url, Status: v.Status, Title: v.Title()}
	if e.visited > 0 {
		c.Previous = time.Unix(e.visited, 0).UTC()
	}
	return c
}

// learn learns from a visit whether the URL has changed since the visit before, seconds ago. word says whether a source
// announced that.
func (e *entry) learn(seconds int64, changed, word bool) {
	if seconds <= 0 {
		return
	}
	e.history.Observe(time.Duration(seconds)*time.Second, changed)
	if e.kind == page && e.word > 0 {
		e.host.Trust.Observe(word, changed)
	}
}

// answered records a visit that was answered with a page or with 304. From another text of a page tell learns.
func (w *Watch) answered(e *entry, v *visit) {
	at, changed := v.at.Unix(), v.Status != http.StatusNotModified && e.digest != v.digest
	if e.state == live && (e.kind != page || !changed) {
		e.learn(at-e.visited, changed, e.announced())
	}
	if v.Status != http.StatusNotModified {
		e.digest = v.digest
		e.etag, e.modified = version.Validators(v.Header)
	}
	e.state, e.visited, e.failures, e.tried, e.told, e.fresh = live, at, 0, 0, e.word, freshUntil(v.Header, v.at)
	e.visits++
	w.store.put(e)
}

var maxAge = lazy.Regexp(`(?:^|[\s,])max-age="?(\d+)`)

// freshUntil returns until when a response is fresh (RFC 9111), in seconds since 1970 and at most maxFresh after the
// visit. Zero means that the host does not say so.
func freshUntil(h http.Header, at time.Time) int64 {
	control := strings.ToLower(h.Get("Cache-Control"))
	expires, _ := http.ParseTime(h.Get("Expires")) // long ago if there is none
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		date = at
	}
	lifetime := expires.Sub(date)
	if m := maxAge().FindStringSubmatch(control); m != nil {
		n, _ := strconv.ParseUint(m[1], 10, 32) // the greatest number if it is out of range
		lifetime = time.Duration(n) * time.Second
	}
	age, _ := strconv.ParseUint(h.Get("Age"), 10, 32) // zero without a valid Age
	lifetime = min(max(lifetime, 0), maxFresh) - time.Duration(age)*time.Second
	if lifetime <= 0 || strings.Contains(control, "no-cache") || strings.Contains(control, "no-store") {
		return 0
	}
	return at.Add(lifetime).Unix()
}

// lead adds the URLs that a page, sitemap, feed or robots.txt leads to.
func (w *Watch) lead(e *entry, v *visit) {
	if e.kind != page || sitemap.Detect(v.ContentType, v.Body) != sitemap.None {
		w.list(e, v)
		return
	}
	for _, link := range v.Links() {
		w.meet(v, e, canonical.Restore(link), page)
	}
	if !w.o.Settings.Sitemaps.Enabled || !w.o.Settings.Sitemaps.Feeds {
		return
	}
	for feed := range v.Find(`link[rel~=alternate][type="application/rss+xml"][href], link[rel~=alternate][type="application/atom+xml"][href]`) {
		if to, err := canonical.Parse(feed.URL("href")); err == nil && w.scope.Reaches(to) { // unlike a sitemap, which may be on any host that robots.txt names
			w.meet(v, e, to, source)
		}
	}
}

// meet adds a page, or a source, that a page leads to, if it is in scope. It requests a new one in the current crawl if
// the budget covers it besides the URLs that wait. A source that another lists is requested when it is due, so that
// sitemaps without end get no more than their part of the budget.
func (w *Watch) meet(v *visit, from *entry, u canonical.URL, k kind) {
	depth, in := from.depth, false
	if k == page {
		depth, u = depth+1, w.rules.Apply(u)
		in = w.scope.Check(u, int(depth), 0, false).In
	} else {
		in = w.scope.CheckSitemap(u, int(depth), 0).In
	}
	if !in {
		return
	}
	e := w.add(u, k, depth)
	if e == nil || k == source && from.kind == source || e.host.left(w.o.Budget, w.now())-e.host.pending <= 1 {
		return
	}
	if v.Follow(e.url).OK() {
		e.round = w.round
		e.host.pending++
	}
}

// list reads a list of URLs: robots.txt, which names sitemaps, or a sitemap or feed. It adds new URLs, and records the
// dates of changes.
func (w *Watch) list(e *entry, v *visit) {
	if e.kind == rules {
		named := robots.Parse(v.Body).Sitemaps()
		if len(named) == 0 {
			named = []string{"/sitemap.xml"} // which may exist
		}
		for _, ref := range named[:min(len(named), 100)] {
			if to, err := v.u.Resolve(ref); err == nil {
				w.meet(v, e, to, source)
			}
		}
		return
	}
	kinds := map[sitemap.Rel]kind{sitemap.Sitemap: source, sitemap.Page: page}
	sitemap.Read(sitemap.Document{Body: v.Body, Base: v.u, Charset: v.Charset, List: true, Rules: w.rules}, func(one sitemap.Entry) bool {
		k, ok := kinds[one.Rel]
		if !ok {
			return true
		}
		w.meet(v, e, one.URL, k)
		if to := w.urls[one.URL.String()]; to != nil && !one.LastMod.IsZero() {
			if word := min(one.LastMod.Unix(), w.now().Unix()); word > to.word {
				to.word = word
				w.store.put(to)
			}
		}
		return true
	})
}

// report queues a change for the outputs and gives it its id.
func (w *Watch) report(c *Change) {
	c.ID, c.Time = fmt.Sprintf("%s-%d", w.id, w.store.newest()+1), c.Time.UTC().Truncate(time.Second)
	w.store.addChange(c)
}
