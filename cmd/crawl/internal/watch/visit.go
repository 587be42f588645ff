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
	Pages    int       `json:"pages,omitempty"` // of a template: how many have changed with it
	Examples []string  `json:"examples,omitempty"`
}

// visit is the response to a request.
type visit struct {
	status int
	title  string
	lines  []string // the text; nil if it was not read, for example after 304
	digest uint64
	header http.Header
	at     time.Time
}

const robotsPath = "/robots.txt"

// take is the handler of all pages: it records a visit and what the page leads to.
func (w *Watch) take(_ context.Context, p *crawl.Page) error {
	u, err := canonical.Parse(p.URL.String())
	if err != nil {
		return err
	}
	v := &visit{status: p.Status, header: p.Header, at: w.now()}
	missing := p.Status == http.StatusNotFound || p.Status == http.StatusGone
	whole := p.Err == nil && (p.Status/100 == 2 || p.RedirectTo != "" || missing && u.Path() == robotsPath)
	if whole { // slow work is done without the lock
		v.title, v.lines = p.Title(), w.reader.lines(p)
		v.digest = digest(v.lines)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail(w.store.db.Transact(func() error { return w.settle(u, p, v, whole) }))
}

// settle records a visit in the entry of its URL, and adds the URLs that the page leads to. With whole the response has
// a body that counts.
func (w *Watch) settle(u canonical.URL, p *crawl.Page, v *visit, whole bool) error {
	e := w.urls[u.String()]
	if e == nil {
		return nil
	}
	if e, ok := errors.AsType[*crawl.PageError](p.Err); ok && p.Status == 0 && e.Class == "handler" { // by ask
		return nil
	}
	e.round = w.round
	var err error
	switch {
	case whole && e.kind == page:
		err = w.seen(e, v)
	case whole || p.Status == http.StatusNotModified && e.conditional(): // ask made it conditional, not the crawl
		if whole && p.RedirectTo == "" {
			v.digest = xxhash.Sum64(p.Body) // of the whole body, which may be a single line
		}
		w.count(e, &w.counts.Unchanged)
		e.answered(v)
		err = w.store.put(e)
	case p.Status == http.StatusNotFound || p.Status == http.StatusGone:
		err = w.lost(e, v)
	default:
		why := fmt.Sprintf("status %d", p.Status)
		if p.Status == 0 && p.Err != nil {
			why = p.Err.Error()
		}
		err = w.missed(e, v.at, why)
	}
	switch {
	case err != nil || !whole:
	case p.RedirectTo != "":
		err = w.moved(e, p)
	default:
		err = w.lead(u, e, p)
	}
	return err
}

// moved adds the target of a redirect, which the crawl requests. It marks one that is not in scope, so that ask refuses it.
func (w *Watch) moved(from *entry, p *crawl.Page) error {
	u, err := canonical.Parse(p.RedirectTo)
	switch {
	case err != nil:
		return nil //nolint:nilerr // the crawl does not request it either
	case from.depth == seedDepth && from.kind == page && w.scope.Recheck(u, true).In:
		w.scope.AddSeed(u)
	case w.scope.Check(u, int(from.depth), 0, false).In:
	case from.kind == rules: // the crawl follows redirects of robots.txt to any host
		return nil
	default:
		w.outside[u.String()], w.outside[u.Host()] = true, true
		return nil
	}
	_, err = w.add(u, from.kind, from.depth)
	return err
}

// count counts a visit of a page in Visits and in one more field, as. It does not count robots.txt and sources.
func (w *Watch) count(e *entry, as *int) {
	if e.kind == page {
		w.counts.Visits++
		*as++
	}
}

// missed records a visit that failed, and why.
func (w *Watch) missed(e *entry, at time.Time, why string) error {
	w.count(e, &w.counts.Failed)
	if e.kind == page {
		w.counts.Failure = cmp.Or(w.counts.Failure, cli.Clean(e.url+": "+why))
	}
	e.failures++
	e.tried = max(at.Unix(), 1)
	return w.store.put(e)
}

// lost records that a URL answered 404 or 410. It reports a page that was there before.
func (w *Watch) lost(e *entry, v *visit) error {
	var err error
	if (e.state == live || e.state == quiet && e.visited > 0) && e.kind == page {
		w.count(e, &w.counts.Gone)
		err = w.report(&Change{Change: "gone", Time: v.at, URL: e.url, Status: v.status, Previous: since1970(e.visited)})
	}
	e.state, e.visited, e.etag, e.modified, e.digest = gone, v.at.Unix(), "", "", 0
	return errors.Join(err, w.store.db.Run(`DELETE FROM texts WHERE url = ?`, e.id), w.store.put(e))
}

// seen records a visit of a page that was read. If it has another text than before, the page is held until the round is
// over, see tell.
func (w *Watch) seen(e *entry, v *visit) error {
	other := e.state == live && e.digest != v.digest
	var err error
	switch {
	case e.state == quiet || e.state == gone && w.first:
		w.count(e, &w.counts.First)
	case e.state == found || e.state == gone:
		w.count(e, &w.counts.Added)
		err = w.report(&Change{Change: "added", Time: v.at, URL: e.url, Status: v.status, Title: v.title, Previous: since1970(e.visited)})
	case other:
		w.counts.Visits++
		err = w.store.hold(e.id, &held{
			Change: Change{Change: "changed", Time: v.at, URL: e.url, Status: v.status, Title: v.title, Previous: since1970(e.visited)},
			Ago:    modifiedAgo(v), Listed: e.word > 0, Word: e.announced(),
		})
	default:
		w.count(e, &w.counts.Unchanged)
	}
	if err == nil && (e.state != live || other) {
		err = w.store.putLines(e.id, v.lines)
	}
	if err != nil {
		return err
	}
	e.answered(v)
	return w.store.put(e)
}

// learn learns from a visit whether the URL has changed since the visit before, seconds ago. listed says whether a source
// has dates of changes for the URL, and word whether the source announced this change.
func (e *entry) learn(seconds int64, changed bool, ago time.Duration, listed, word bool) {
	if seconds <= 0 {
		return
	}
	e.history.Observe(time.Duration(seconds)*time.Second, changed, ago)
	if e.kind == page && listed {
		e.host.Trust.Observe(word, changed)
	}
}

// answered records a visit that was answered with a page or with 304. From another text of a page tell learns.
func (e *entry) answered(v *visit) {
	at, changed := v.at.Unix(), v.status != http.StatusNotModified && e.digest != v.digest
	if e.state == live && (e.kind != page || !changed) {
		e.learn(at-e.visited, changed, modifiedAgo(v), e.word > 0, e.announced())
	}
	if v.status != http.StatusNotModified {
		e.digest, e.etag, e.modified = v.digest, tag(v.header.Get("ETag")), tag(v.header.Get("Last-Modified"))
	}
	e.state, e.visited, e.failures, e.tried, e.told, e.fresh = live, at, 0, 0, e.word, freshUntil(v.header, v.at)
	e.visits++
}

// modifiedAgo returns how long before the visit the page has changed, by Last-Modified. Zero means that the host does
// not say so, or that it gives the time of its response, as programs do that generate pages.
func modifiedAgo(v *visit) time.Duration {
	t, err := http.ParseTime(v.header.Get("Last-Modified"))
	if err != nil {
		return 0
	}
	ago, answered := v.at.Sub(t), v.at.Sub(t)
	if date, err := http.ParseTime(v.header.Get("Date")); err == nil {
		answered = date.Sub(t)
	}
	if min(ago, answered) <= time.Minute {
		return 0
	}
	return ago
}

// tag returns a validator, or "" if it is too long to keep.
func tag(s string) string {
	if len(s) > 256 {
		return ""
	}
	return s
}

// freshUntil returns until when a response is fresh (RFC 9111), in seconds since 1970 and at most maxFresh after the
// visit. Zero means that the host does not say so.
func freshUntil(h http.Header, at time.Time) int64 {
	date, noDate := http.ParseTime(h.Get("Date"))
	expires, noExpiry := http.ParseTime(h.Get("Expires"))
	lifetime := expires.Sub(date)
	if noDate != nil || noExpiry != nil {
		lifetime = 0
	}
	for directive := range strings.SplitSeq(strings.ToLower(h.Get("Cache-Control")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-cache", "no-store":
			return 0
		case "max-age":
			if n, err := strconv.ParseUint(strings.Trim(value, `"`), 10, 32); err == nil || errors.Is(err, strconv.ErrRange) {
				lifetime = time.Duration(n) * time.Second
			}
		}
	}
	age, _ := strconv.ParseUint(h.Get("Age"), 10, 32) // zero without a valid Age
	if lifetime = min(lifetime, maxFresh) - time.Duration(age)*time.Second; lifetime <= 0 {
		return 0
	}
	return at.Add(lifetime).Unix()
}

// lead adds the URLs that a page, sitemap, feed or robots.txt leads to.
func (w *Watch) lead(u canonical.URL, e *entry, p *crawl.Page) error {
	if e.kind == rules {
		return w.sitemaps(u, e, p)
	}
	if e.kind == source || sitemap.Detect(p.ContentType, p.Body) != sitemap.None {
		return w.list(u, e, p)
	}
	for _, link := range p.Links() {
		if to, err := canonical.Parse(link); err == nil {
			if err := w.meet(p, e, to, page); err != nil {
				return err
			}
		}
	}
	if !w.o.Settings.Sitemaps.Enabled || !w.o.Settings.Sitemaps.Feeds {
		return nil
	}
	for feed := range p.Find(`link[rel~=alternate][type="application/rss+xml"][href], link[rel~=alternate][type="application/atom+xml"][href]`) {
		u, err := canonical.Parse(feed.URL("href"))
		if err == nil && w.scope.Reaches(u) { // unlike a sitemap, which may be on any host that robots.txt names
			if err := w.meet(p, e, u, source); err != nil {
				return err
			}
		}
	}
	return nil
}

// meet adds a page, or a source, that a page leads to, if it is in scope. It requests a new one in the current crawl if
// the budget covers it besides the URLs that wait. A source that another lists is requested when it is due, so that
// sitemaps without end get no more than their part of the budget.
func (w *Watch) meet(p *crawl.Page, from *entry, u canonical.URL, k kind) error {
	depth, in := from.depth, false
	if k == page {
		depth, u = depth+1, w.rules.Apply(u)
		in = w.scope.Check(u, int(depth), 0, false).In
	} else {
		in = w.scope.CheckSitemap(u, int(depth), 0).In
	}
	if !in {
		return nil
	}
	e, err := w.add(u, k, depth)
	if e == nil || err != nil || k == source && from.kind == source || e.host.left(w.o.Budget, w.now())-e.host.pending <= 1 {
		return err
	}
	if p.Follow(e.url).OK() {
		e.round = w.round
		e.host.pending++
	}
	return nil
}

// sitemaps adds the sitemaps that robots.txt names, or else /sitemap.xml, which may exist.
func (w *Watch) sitemaps(u canonical.URL, e *entry, p *crawl.Page) error {
	urls := robots.Parse(p.Body).Sitemaps()
	if len(urls) == 0 {
		urls = []string{"/sitemap.xml"}
	}
	for _, ref := range urls[:min(len(urls), 100)] {
		if to, err := u.Resolve(ref); err == nil {
			if err := w.meet(p, e, to, source); err != nil {
				return err
			}
		}
	}
	return nil
}

// list reads a sitemap or a feed: it adds new URLs, and records the dates of changes.
func (w *Watch) list(u canonical.URL, e *entry, p *crawl.Page) error {
	var failed error
	sitemap.Read(sitemap.Document{Body: p.Body, Base: u, Charset: p.Charset, List: true, Rules: w.rules}, func(one sitemap.Entry) bool {
		switch one.Rel {
		case sitemap.Sitemap:
			failed = w.meet(p, e, one.URL, source)
		case sitemap.Page:
			failed = w.meet(p, e, one.URL, page)
		default:
			return true
		}
		if to := w.urls[one.URL.String()]; failed == nil && to != nil && !one.LastMod.IsZero() {
			word := min(one.LastMod.Unix(), w.now().Unix())
			if word > to.word {
				to.word = word
				failed = w.store.put(to)
			}
		}
		return failed == nil
	})
	return failed
}

// report queues a change for the outputs and gives it its id.
func (w *Watch) report(c *Change) error {
	n, err := w.store.newest()
	if err != nil {
		return err
	}
	c.ID, c.Time = fmt.Sprintf("%s-%d", w.id, n+1), c.Time.UTC().Truncate(time.Second)
	return w.store.addChange(c)
}

// since1970 returns the time so many seconds after 1970; zero seconds give the zero time.
func since1970(seconds int64) (t time.Time) {
	if seconds > 0 {
		t = time.Unix(seconds, 0).UTC()
	}
	return t
}
