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

// Change is what is told of a page.
type Change struct {
	ID       string    `json:"id"` // the same whenever it is told
	Time     time.Time `json:"time"`
	Change   string    `json:"change"` // added, changed or gone; template: see tell
	URL      string    `json:"url"`
	Status   int       `json:"status"`
	Title    string    `json:"title,omitempty"`
	Previous time.Time `json:"previous,omitzero"` // visit
	Added    int       `json:"lines_added,omitempty"`
	Removed  int       `json:"lines_removed,omitempty"`
	Diff     string    `json:"diff,omitempty"`
	Pages    int       `json:"pages,omitempty"` // of a template, that have changed with it
	Examples []string  `json:"examples,omitempty"`
}

// visit is what came of a request.
type visit struct {
	status int
	title  string
	lines  []string // nil: it was not read, as after 304
	digest uint64
	header http.Header
	at     time.Time
}

const robotsPath = "/robots.txt"

// take takes in what came of a URL. It is the handler of all pages.
func (w *Watch) take(_ context.Context, p *crawl.Page) error {
	u, err := canonical.Parse(p.URL.String())
	if err != nil {
		return err
	}
	v := &visit{status: p.Status, header: p.Header, at: w.now()}
	missing := p.Status == http.StatusNotFound || p.Status == http.StatusGone
	whole := p.Err == nil && (p.Status/100 == 2 || p.RedirectTo != "" || missing && u.Path() == robotsPath)
	if whole { // what takes long is not done under the lock
		v.title, v.lines = p.Title(), w.reader.lines(p)
		v.digest = digest(v.lines)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fail(w.store.db.Transact(func() error { return w.settle(u, p, v, whole) }))
}

// settle notes a visit, with what it has found.
func (w *Watch) settle(u canonical.URL, p *crawl.Page, v *visit, whole bool) error {
	e := w.urls[u.String()]
	if e == nil { // a redirect leads there
		from := w.urls[p.Referrer]
		if from == nil || p.Status == 0 { // as a seed of the next crawl it would open a private address that was refused now
			return nil
		}
		if from.depth == seedDepth && from.kind == page {
			w.scope.AddSeed(u)
		} else if !w.scope.Check(u, int(from.depth), 0, false).In {
			return nil
		}
		var err error
		if e, err = w.add(u, from.kind, from.depth); e == nil || err != nil {
			return err
		}
	}
	if e, ok := errors.AsType[*crawl.PageError](p.Err); ok && p.Status == 0 && e.Class == "handler" { // the budget is spent
		return nil
	}
	e.round = w.round
	var err error
	switch {
	case whole && e.kind == page:
		err = w.seen(e, v)
	case whole:
		if p.RedirectTo == "" {
			v.digest = xxhash.Sum64(p.Body) // all of it, as it may be a single line
		}
		if e.state == live {
			e.observe(v.at, e.digest != v.digest, modifiedAgo(v))
		}
		e.answered(v)
		err = w.store.put(e)
	case p.Status == http.StatusNotFound || p.Status == http.StatusGone:
		err = w.lost(e, v)
	case p.Status == http.StatusNotModified && e.conditional(): // which the crawl does not know
		w.count(e, &w.counts.Unchanged)
		e.observe(v.at, false, modifiedAgo(v))
		e.answered(v)
		err = w.store.put(e)
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
		w.moved(e, p)
	default:
		err = w.lead(u, e, p)
	}
	if err == nil {
		err = w.store.saveHost(u.Host(), e.host)
	}
	return err
}

// moved has ask refuse the target of a redirect that is not in scope. Any other is added once it has answered.
func (w *Watch) moved(from *entry, p *crawl.Page) {
	u, err := canonical.Parse(p.RedirectTo)
	switch {
	case err != nil || from.kind == rules: // the crawl itself follows those of robots.txt, to any host
	case from.depth == seedDepth && from.kind == page || w.scope.Check(u, int(from.depth), 0, false).In:
	default:
		w.outside[u.String()], w.outside[u.Host()] = true, true
	}
}

// count counts a visit of a page, by what it has found.
func (w *Watch) count(e *entry, as *int) {
	if e.kind == page {
		w.counts.Visits++
		*as++
	}
}

// missed notes that a visit has told nothing.
func (w *Watch) missed(e *entry, at time.Time, why string) error {
	w.count(e, &w.counts.Failed)
	if e.kind == page {
		w.counts.Failure = cmp.Or(w.counts.Failure, cli.Clean(e.url+": "+why))
	}
	e.failures++
	e.tried = max(at.Unix(), 1)
	return w.store.put(e)
}

// lost notes that a URL is gone, which is told of one that was there.
func (w *Watch) lost(e *entry, v *visit) error {
	var err error
	if (e.state == live || e.state == quiet && e.visited > 0) && e.kind == page {
		w.count(e, &w.counts.Gone)
		err = w.report(&Change{Change: "gone", Time: v.at, URL: e.url, Status: v.status, Previous: since1970(e.visited)})
	}
	e.state, e.visited, e.etag, e.modified, e.digest = gone, v.at.Unix(), "", "", 0
	if err == nil {
		err = w.store.dropLines(e.id)
	}
	if err == nil {
		err = w.store.put(e)
	}
	return err
}

// seen takes in a page. One with another text is held until the round is over: see tell.
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
	if e.state == live && !other {
		e.observe(v.at, false, modifiedAgo(v))
	}
	e.answered(v)
	return w.store.put(e)
}

// observe learns from a visit that has told whether a URL has changed since the one before.
func (e *entry) observe(at time.Time, changed bool, ago time.Duration) {
	e.learn(at.Unix()-e.visited, changed, ago, e.word > 0, e.announced())
}

// learn is observe some time later: so many seconds were between the visits; whether a source has dates for it, and had word of a change.
func (e *entry) learn(seconds int64, changed bool, ago time.Duration, listed, word bool) {
	if seconds <= 0 {
		return
	}
	e.history.Observe(time.Duration(seconds)*time.Second, changed, ago)
	if e.kind == page && listed {
		e.host.Trust.Observe(word, changed)
	}
}

// answered notes an answer that says something.
func (e *entry) answered(v *visit) {
	at := v.at.Unix()
	if v.status != http.StatusNotModified {
		e.digest, e.etag, e.modified = v.digest, tag(v.header.Get("ETag")), tag(v.header.Get("Last-Modified"))
	}
	e.state, e.visited, e.failures, e.tried, e.told, e.fresh = live, at, 0, 0, e.word, freshUntil(v.header, v.at)
	e.visits++
}

// modifiedAgo is how long ago a host says that a page has changed. Zero: it does not say, or says the time of its answer, as
// programs do that make pages.
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

// tag is a validator of a length that is worth keeping.
func tag(s string) string {
	if len(s) > 256 {
		return ""
	}
	return s
}

// freshUntil is until when a host wants an answer to be taken for fresh (RFC 9111), a day at most; zero: it does not say.
func freshUntil(h http.Header, at time.Time) int64 {
	lifetime := time.Duration(-1)
	for directive := range strings.SplitSeq(strings.ToLower(h.Get("Cache-Control")), ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(directive), "=")
		switch name {
		case "no-cache", "no-store":
			return 0
		case "max-age":
			if n, err := strconv.ParseInt(strings.Trim(value, `"`), 10, 64); err == nil && n >= 0 {
				lifetime = time.Duration(min(n, int64(maxFresh/time.Second))) * time.Second
			}
		}
	}
	if lifetime < 0 {
		expires, err := http.ParseTime(h.Get("Expires"))
		date, errDate := http.ParseTime(h.Get("Date"))
		if err != nil || errDate != nil {
			return 0
		}
		lifetime = min(expires.Sub(date), maxFresh)
	}
	age, _ := strconv.ParseInt(h.Get("Age"), 10, 64) // zero if it does not say
	if lifetime -= time.Duration(min(max(age, 0), int64(maxFresh/time.Second))) * time.Second; lifetime <= 0 {
		return 0
	}
	return at.Add(lifetime).Unix()
}

// lead adds what a page, sitemap, feed or robots.txt leads to.
func (w *Watch) lead(u canonical.URL, e *entry, p *crawl.Page) error {
	if e.kind == rules {
		return w.sitemaps(u, e, p)
	}
	if e.kind == source || sitemap.Detect(p.ContentType, p.Body) != sitemap.None {
		return w.list(u, e, p)
	}
	for _, link := range p.Links() {
		to, err := canonical.Parse(link)
		if err == nil {
			err = w.link(p, e, to)
		}
		if err != nil {
			return err
		}
	}
	if !w.o.Settings.Sitemaps.Enabled || !w.o.Settings.Sitemaps.Feeds {
		return nil
	}
	for _, kind := range []string{"application/rss+xml", "application/atom+xml"} {
		for feed := range p.Find(fmt.Sprintf(`link[rel~=alternate][type=%q][href]`, kind)) {
			u, err := canonical.Parse(feed.URL("href"))
			if err != nil || !w.scope.Reaches(u) { // a sitemap may be anywhere, as robots.txt of the host says where
				continue
			}
			if err := w.source(p, e, u); err != nil {
				return err
			}
		}
	}
	return nil
}

// link adds a page that is in scope, and asks for it while there is budget.
func (w *Watch) link(p *crawl.Page, from *entry, u canonical.URL) error {
	if u = w.rules.Apply(u); !w.scope.Check(u, int(from.depth)+1, 0, false).In {
		return nil
	}
	e, err := w.add(u, page, from.depth+1)
	if e == nil || err != nil {
		return err
	}
	return w.follow(p, e)
}

// follow asks for what was added, in the crawl that is under way, while there is budget for it and what waits.
func (w *Watch) follow(p *crawl.Page, e *entry) error {
	if e.host.left(w.o.Budget, w.now())-e.host.pending <= 1 {
		return nil
	}
	if f := p.Follow(e.url); f.OK() {
		e.round = w.round
		e.host.pending++
	}
	return nil
}

// source adds a sitemap or a feed.
func (w *Watch) source(p *crawl.Page, from *entry, u canonical.URL) error {
	if !w.scope.CheckSitemap(u, int(from.depth), 0).In {
		return nil
	}
	e, err := w.add(u, source, from.depth)
	if e == nil || err != nil {
		return err
	}
	return w.follow(p, e)
}

// sitemaps adds those that robots.txt names, or else the one that may be there.
func (w *Watch) sitemaps(u canonical.URL, e *entry, p *crawl.Page) error {
	urls := robots.Parse(p.Body).Sitemaps()
	if len(urls) == 0 {
		urls = []string{"/sitemap.xml"}
	}
	for _, ref := range urls[:min(len(urls), 100)] {
		if to, err := u.Resolve(ref); err == nil {
			if err := w.source(p, e, to); err != nil {
				return err
			}
		}
	}
	return nil
}

// list takes in a sitemap or feed: pages that are new, and dates of changes.
func (w *Watch) list(u canonical.URL, e *entry, p *crawl.Page) error {
	var failed error
	sitemap.Read(sitemap.Document{Body: p.Body, Base: u, Charset: p.Charset, List: true, Rules: w.rules}, func(one sitemap.Entry) bool {
		switch one.Rel {
		case sitemap.Sitemap:
			failed = w.source(p, e, one.URL)
		case sitemap.Page:
			failed = w.link(p, e, one.URL)
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

// report queues a change.
func (w *Watch) report(c *Change) error {
	n, err := w.store.newest()
	if err != nil {
		return err
	}
	c.ID, c.Time = fmt.Sprintf("%s-%d", w.id, n+1), c.Time.UTC().Truncate(time.Second)
	return w.store.addChange(c)
}

// since1970 is a time; zero is none.
func since1970(seconds int64) (t time.Time) {
	if seconds > 0 {
		t = time.Unix(seconds, 0).UTC()
	}
	return t
}
