// Package watch visits the pages of a site again and again, and tells what has changed.
//
// # Rounds
//
// A round asks for what is due: package plan says of each page what a visit would gain, and each host has a budget of
// requests a day, of which robots.txt, redirects and other tries are a part. The first round visits all, and tells nothing. A round is a crawl of the
// public package that is given the URLs; links that it finds are added to the watch if they are in scope, and followed while the
// budget lasts. So pace, robots.txt and the guard of addresses are those of a crawl.
//
// # Evidence
//
// robots.txt, the sitemaps that it names, and the feeds that pages name are sources: visited on their own, between once an hour and once a
// week, for new URLs and for dates of changes. ETag and Last-Modified are sent back, except for every tenth visit, as some hosts answer 304 to
// everything. Until Cache-Control or Expires has run out, a day at most, a page is left alone unless a source says that it has changed.
//
// # What is a change
//
// The main text of a page, or what selectors select, is compared by lines, and a change is told with a diff. See compare for
// what does not count. A page with another text is held until its round is over, with the text it had: then it is known which lines have
// changed on most pages, and so are the template's. 404 and 410 are told once, and the page is visited no more until it is found again,
// but for seeds.
//
// # What is kept
//
// watch.db in the directory has what is known of URLs, their texts, and the changes that are not told yet. What comes of a visit is one
// transaction, the change to be told among it: so after kill -9 a visit has either not happened or is known with its
// change. Each output has its place in the list of changes: of a file, the last one in it is looked for, so that it has each change
// once; a webhook may get one twice, with the same id, and signed.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scope"
)

// Options say what is watched, and who is told.
type Options struct {
	// Dir has the state: of a watch, or of a crawl whose pages are to be watched. It is made if there are seeds.
	Dir string
	// Seeds are where it begins, or what is added.
	Seeds []string
	// Settings are those of the crawl.
	Settings config.Config
	// Budget is requests a day and host. Zero: as many as it has URLs, but 100 at least and 10,000 at most.
	Budget int
	// Select has the text of pages be that of the elements that it selects. Ignore is left out of each line.
	Select string
	Ignore []*regexp.Regexp
	// Flags are kept for the next time: see Saved. Not empty.
	Flags string
	Log   *slog.Logger
}

const (
	databaseFile = "watch.db"
	lockFile     = "watch.lock"

	leastBudget, mostBudget = 100, 10_000 // requests a day and host, if nobody says

	shortestInterval = 15 * time.Minute
	maxFresh         = 24 * time.Hour     // how long the host may want a page to be left alone
	recheckGone      = 7 * 24 * time.Hour // after which a page that is gone is looked for if something leads to it
	recheckSeed      = 24 * time.Hour     // and a seed in any case
	unconditional    = 10                 // one visit of so many is made without a condition
	maxURLs          = 1_000_000          // about 400 bytes each in memory
)

// Watch is what is known of the pages. It is safe for concurrent use.
type Watch struct {
	o      Options
	reader reader
	scope  *scope.Scope
	rules  *canonical.Rules
	unlock func() error
	clock  clock.Clock
	named  map[string]bool // hosts of seeds, which may have private addresses; not written to once it is open

	mu      sync.Mutex // guards what follows
	store   *store
	urls    map[string]*entry
	hosts   map[string]*host
	nextID  int64
	id      string          // of the watch, for those of changes
	first   bool            // it is the first round
	round   int             // of this process
	counts  Counts          // of the round
	failed  error           // of the disk or an output; the watch ends with it
	ended   chan struct{}   // closed by that
	outside map[string]bool // targets of redirects, and their hosts, that the crawl under way is not to ask
	crawler *crawl.Crawler  // under way
	full    bool            // there is no room for more URLs, which was said
}

// Counts are what a round has found.
type Counts struct {
	Visits    int `json:"visits"` // of pages
	First     int `json:"first"`  // the first ones, of which nothing is told
	Unchanged int `json:"unchanged"`
	Template  int `json:"template"` // of these: in the template alone
	Added     int `json:"added"`
	Changed   int `json:"changed"`
	Gone      int `json:"gone"`
	Failed    int `json:"failed"`
	Requests  int `json:"requests"`
	URLs      int `json:"urls"`    // that are watched
	Waiting   int `json:"waiting"` // that are due, and for which there is no budget

	Failure string `json:"failure,omitempty"` // one of Failed, and why
}

// Open takes hold of a directory.
func Open(o Options) (*Watch, error) {
	w := &Watch{
		o: o, reader: reader{selectors: o.Select, ignore: o.Ignore}, clock: clock.System(), named: make(map[string]bool), urls: make(map[string]*entry), hosts: make(map[string]*host),
		ended: make(chan struct{}),
	}
	if _, err := os.Stat(filepath.Join(o.Dir, databaseFile)); err != nil && len(o.Seeds) == 0 {
		if _, err := disk.Look(o.Dir); err != nil {
			return nil, cli.Usagef("%s has no crawl and no watch: name the URL to begin at", o.Dir)
		}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, cli.Open("the state", err)
	}
	var err error
	if w.unlock, err = sqlitedb.Lock(filepath.Join(o.Dir, lockFile)); err != nil {
		return nil, cli.IO(err)
	}
	if err := w.open(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *Watch) open() error {
	c := &w.o.Settings
	sc := scope.Config{Include: c.Scope.Include, Exclude: c.Scope.Exclude, MaxDepth: c.Depth, MaxRedirects: c.Fetch.MaxRedirects, Resources: c.Scope.Resources}
	err := sc.Mode.UnmarshalText([]byte(c.Scope.Mode))
	if err == nil {
		w.scope, err = scope.New(sc)
	}
	if err == nil {
		w.rules, err = canonical.NewRules(c.Scope.Canonical)
	}
	if err != nil {
		return cli.Usage(err)
	}
	if w.store, err = openStore(filepath.Join(w.o.Dir, databaseFile)); err != nil {
		return cli.IO(err)
	}
	err = w.store.load(w.know, func(name string, h *host) { w.hosts[name] = h })
	if err == nil {
		err = w.store.db.Transact(w.begin)
	}
	if err != nil && !cli.Has[*cli.Error](err) {
		err = cli.IO(err)
	}
	return err
}

// name notes a URL that the user named.
func (w *Watch) name(u canonical.URL) {
	w.scope.AddSeed(u)
	w.named[u.Host()] = true
}

// know takes in a URL of the database.
func (w *Watch) know(e *entry) error {
	u, err := canonical.Parse(e.url)
	if err != nil {
		return sqlitedb.Damage(w.store.db.Path(), fmt.Sprintf("row %d of urls: %v", e.id, err))
	}
	w.urls[e.url], e.host = e, w.hostOf(u.Host())
	w.nextID = max(w.nextID, e.id)
	e.host.entries = append(e.host.entries, e)
	if e.depth == seedDepth && e.kind == page {
		w.name(u)
	}
	return nil
}

// begin adds the seeds: those given, and of a new watch the pages of the crawl that is there.
func (w *Watch) begin() error {
	var err error
	if w.id, err = w.store.meta("id"); err != nil {
		return err
	}
	begun, err := w.store.meta("begun")
	if w.first = begun == ""; err == nil && w.first && w.complete() {
		err = w.hasBegun()
	}
	if err != nil {
		return err
	}
	for _, seed := range w.o.Seeds {
		u, err := canonical.ParseTyped(seed)
		if err != nil {
			return cli.Usagef("%s: %w", seed, err)
		}
		u = w.rules.Apply(u)
		w.name(u)
		if _, err := w.add(u, page, seedDepth); err != nil {
			return err
		}
	}
	if w.id == "" {
		if err := w.adopt(); err != nil {
			return err
		}
		w.id = fmt.Sprintf("%x", w.now().UnixNano())
		if err := w.store.setMeta("id", w.id); err != nil {
			return err
		}
	}
	if len(w.urls) == 0 {
		return cli.Usagef("%s has a crawl without a page: name the URL to begin at", w.o.Dir)
	}
	if err := w.reread(); err != nil {
		return err
	}
	text, err := w.o.Settings.SaveIn(w.o.Dir)
	if err == nil {
		err = w.store.setMeta("settings", text)
	}
	if err == nil {
		err = w.store.setMeta("flags", w.o.Flags)
	}
	return err
}

// reread has all pages visited anew, in silence, if their text is another one by what is selected or ignored now.
func (w *Watch) reread() error {
	now := fmt.Sprintf("%q %q", w.o.Select, w.o.Ignore)
	was, err := w.store.meta("reader")
	if err != nil || was == now {
		return err
	}
	for _, e := range w.urls {
		if e.kind == page && e.state == live {
			e.state = quiet
			if err := w.store.put(e); err != nil {
				return err
			}
		}
	}
	return w.store.setMeta("reader", now)
}

// Saved is what a watch was given the last time, or the crawl whose pages it is to watch: settings, or nil if there is none of
// either, and Options.Flags.
func Saved(dir string) (settings *config.Config, flags string, err error) {
	path, text := filepath.Join(dir, databaseFile), ""
	if _, err := os.Stat(path); err == nil {
		s, err := openStore(path)
		if err != nil {
			return nil, "", cli.IO(err)
		}
		text, err = s.meta("settings")
		if err == nil {
			flags, err = s.meta("flags")
		}
		if err = errors.Join(err, s.db.Close()); err != nil {
			return nil, "", cli.IO(err)
		}
	}
	if text == "" { // maybe as a watch was killed before it knew anything
		if view, err := disk.Look(dir); err == nil {
			if text, err = view.Meta("settings"); err != nil {
				return nil, "", cli.IO(err)
			}
		}
	}
	if text == "" {
		return nil, "", nil
	}
	saved, err := config.LoadSaved(dir, text)
	if err != nil {
		return nil, "", cli.IO(err)
	}
	return &saved, flags, nil
}

// Close gives up the directory.
func (w *Watch) Close() error {
	var errs []error
	if w.store != nil {
		errs = append(errs, w.store.db.Close())
	}
	if w.unlock != nil {
		errs = append(errs, w.unlock())
	}
	return errors.Join(errs...)
}

// Round visits what is due, or all that is watched. Supervise runs each crawl that it takes. It returns when nothing more is due, or
// the budget is spent; interrupted says that it was stopped.
func (w *Watch) Round(ctx context.Context, all bool, supervise func(context.Context, *crawl.Crawler, func(context.Context) error) error) (counts Counts, interrupted bool, err error) {
	w.mu.Lock()
	w.round++
	began := w.now()
	w.counts, err = Counts{}, w.failed // of an output
	w.mu.Unlock()
	for err == nil && !interrupted {
		var urls []string
		if urls, err = w.due(w.now(), all); err != nil || len(urls) == 0 {
			break
		}
		var c *crawl.Crawler
		if c, err = crawl.New(w.options()); err != nil {
			break
		}
		w.mu.Lock()
		w.crawler, w.outside = c, make(map[string]bool)
		w.mu.Unlock()
		err = supervise(ctx, c, func(ctx context.Context) error { return c.Run(ctx, urls...) })
		state := c.Snapshot().State
		interrupted = state == "interrupted"
		if state == "limit" { // of time
			break
		}
		if errors.Is(err, crawl.ErrUnreachable) || errors.Is(err, crawl.ErrBlocked) {
			err = nil // which the next round sees for itself
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		_ = w.fail(w.store.db.Transact(func() error { return w.store.saveHosts(w.hosts) }))
		_ = w.fail(w.tell(began))
	}
	if w.failed != nil {
		err = w.failed
	}
	if err == nil && !interrupted && w.first && w.counts.Visits > w.counts.Failed && w.counts.Waiting == 0 {
		err = w.hasBegun()
	}
	for _, e := range w.urls {
		if e.state == live && e.kind == page {
			w.counts.URLs++
		}
	}
	return w.counts, interrupted, err
}

// hasBegun notes that the first round is over.
func (w *Watch) hasBegun() error {
	w.first = false
	return w.store.setMeta("begun", w.now().UTC().Format(time.RFC3339))
}

// complete reports whether the first round has asked for all, although it may have been killed before it could say so.
func (w *Watch) complete() bool {
	visited := false
	for _, e := range w.urls {
		if e.state == quiet && e.visited+e.tried == 0 {
			return false
		}
		visited = visited || e.state == live && e.kind == page
	}
	return visited
}

// options are those of a crawl of a round.
func (w *Watch) options() crawl.Options {
	o := crawl.Options{Version: cli.Version(), Log: w.o.Log}
	config.ToProgram(&w.o.Settings, &o)
	if o.Scope.Mode == "prefix" { // the seeds of a round are not those of the watch, which has a scope of its own
		o.Scope.Mode = ""
	}
	o.Depth, o.MaxPages, o.MaxPagesPerHost, o.StateDir, o.HandlersFollow = 0, 0, 0, "", true
	o.Scope.IgnoreSitemaps, o.Scope.IgnoreFeeds, o.Scope.Include = true, true, nil
	o.OnPage, o.OnRequest, o.OnSkip = w.take, w.ask, w.skipped
	o.Named = func(host string) bool { return w.named[host] }
	if o.Politeness.Remember == "" {
		o.Politeness.Remember = filepath.Join(w.o.Dir, "watch.rates")
	}
	return o
}

// ask counts a request, and asks for a page only if it has changed.
func (w *Watch) ask(r *http.Request) error {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.urls[r.URL.String()] // which is canonical
	if known := w.hosts[r.URL.Host]; e == nil && (w.outside[r.URL.String()] || w.outside[r.URL.Host] && (known == nil || len(known.entries) == 0)) {
		return errOutside
	}
	h := w.hostOf(r.URL.Host)
	if h.left(w.o.Budget, now) <= 0 {
		return errBudget
	}
	h.spend(now, 1)
	h.asked = true
	h.pending = max(0, h.pending-1)
	w.counts.Requests++
	if e == nil || !e.conditional() {
		return nil
	}
	if e.etag != "" {
		r.Header.Set("If-None-Match", e.etag)
	}
	if e.modified != "" {
		r.Header.Set("If-Modified-Since", e.modified)
	}
	return nil
}

var (
	errBudget  = errors.New("the budget of the host is spent for today")
	errOutside = errors.New("a redirect leads there, and it is not watched")
)

// Failed is closed when the watch can go no further, because of a disk or an output.
func (w *Watch) Failed() <-chan struct{} { return w.ended }

// skipped notes a URL that was not asked for.
func (w *Watch) skipped(s crawl.Skipped) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.urls[s.URL]
	switch {
	case e == nil || s.Reason == "seen" || e.round != w.round || e.state == live:
	case s.Reason == "trap":
		e.state, e.visited = gone, w.now().Unix()
		_ = w.fail(w.store.put(e)) // the watch ends with it
	case e.tried == 0:
		_ = w.fail(w.missed(e, w.now(), cmp.Or(s.Detail, s.Reason)))
	}
}

// fail ends the watch because of a disk.
func (w *Watch) fail(err error) error {
	if err != nil && w.failed == nil {
		w.failed = err
		close(w.ended)
		if w.crawler != nil {
			w.crawler.Stop()
		}
	}
	return err
}
