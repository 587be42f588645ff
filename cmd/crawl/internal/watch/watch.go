// Package watch visits the pages of a site again and again, and reports what has changed.
//
// # Rounds
//
// A round requests what is due: package plan says for each page what a visit would gain, and each host has a budget of
// requests a day, which includes robots.txt, redirects and retries. The first round visits everything and reports
// nothing. A round is a crawl of the public package that gets the URLs as seeds. Links that it finds are added to the
// watch if they are in scope, and followed while the budget lasts. So the pace, robots.txt and the guard of addresses
// are those of a crawl.
//
// # Evidence
//
// robots.txt, the sitemaps that it names, and the feeds that pages name are sources. They have visits of their own, at
// intervals between an hour and a week, and bring new URLs and dates of changes. Requests are conditional (ETag and
// Last-Modified), except for every tenth visit, as some hosts answer 304 to everything. Until Cache-Control or Expires
// has run out, for a day at most, a page is not requested unless a source says that it has changed.
//
// # What is a change
//
// The main text of a page, or what selectors select, is compared line by line, and a change is reported with a diff.
// See compare for what does not count. A page with another text is held until its round is over, together with its
// former text. By then it is known which lines have changed on most pages, and so belong to the template. A page that
// answers 404 or 410 is reported once. It is visited again only if it is found again, or if it is a seed.
//
// # What is kept
//
// watch.db in the directory has what is known of URLs, their texts, and the changes that are not yet reported. The
// results of a visit, including the change to report, are one transaction. So after kill -9 a visit has either not
// happened, or is known with its change. Each output has a position in the list of changes. For a file, the watch looks
// for the last change in it, so that the file has each change once. A webhook may get a change twice, with the same id;
// its requests can be signed.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/cmd/crawl/internal/job"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/frontier/version"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/scope"
)

// Options say what a watch visits, and how.
type Options struct {
	// Dir is the directory of the state: of a watch, or of a crawl whose pages are to be watched. It is created if
	// there are seeds.
	Dir string
	// Seeds are the URLs to begin at. An existing watch adds them.
	Seeds []string
	// Settings are those of the crawls.
	Settings config.Config
	// Budget is requests a day to each host. Zero means one per URL of the host, but at least 100 and at most 10,000.
	Budget int
	// Select is a CSS selector: the text that is compared is that of the elements it selects. Empty means the main
	// text. Matches of Ignore are left out of each line.
	Select string
	Ignore []*regexp.Regexp
	// Flags is kept for the next run, see Saved. It must not be empty.
	Flags string
	Log   *slog.Logger
}

const (
	databaseFile = "watch.db"
	lockFile     = "watch.lock"

	leastBudget, mostBudget = 100, 10_000 // requests a day and host, if Budget is zero

	shortestInterval = 15 * time.Minute
	maxFresh         = 24 * time.Hour     // longest freshness of a page that is respected
	recheckGone      = 7 * 24 * time.Hour // after that time a link leads to a visit of a page that was gone
	recheckSeed      = 24 * time.Hour     // after that time a seed that was gone is visited in any case
	unconditional    = 10                 // one visit of so many is unconditional
	maxURLs          = 1_000_000          // about 400 bytes of memory each
)

// Watch is the watched URLs and what is known of them. It is safe for concurrent use.
type Watch struct {
	o      Options
	reader reader
	scope  *scope.Scope
	rules  *canonical.Rules
	clock  clock.Clock
	named  map[string]bool // hosts of seeds that the user gave, in this run or before; they may have private addresses; constant once open

	closers []func() error // of what is open, the lock of the directory first
	outputs []*output
	retry   time.Duration // the pause before the second try of a webhook; it doubles each time

	mu      sync.Mutex // guards what follows
	store   *store
	urls    map[string]*entry
	hosts   map[string]*host
	nextID  int64
	id      string          // of the watch; the ids of changes begin with it
	first   bool            // the first round is not over
	round   int             // counts the rounds of this process
	counts  Counts          // of the current round
	failed  error           // of the disk; it ends the watch
	outside map[string]bool // redirect targets, and their hosts, that the current crawl must not request
	crawler *crawl.Crawler  // the current crawl
	full    bool            // a warning has said that no more URLs fit
}

// Counts is what a round has found. It counts pages unless a field says otherwise.
type Counts struct {
	Visits    int `json:"visits"` // all visits of pages
	First     int `json:"first"`  // first visits, which are not reported
	Unchanged int `json:"unchanged"`
	Added     int `json:"added"`
	Changed   int `json:"changed"`
	Gone      int `json:"gone"`
	Failed    int `json:"failed"`
	Requests  int `json:"requests"`
	URLs      int `json:"urls"`    // pages that are watched
	Waiting   int `json:"waiting"` // URLs that are due and exceed the budget

	Failure string `json:"failure,omitempty"` // the URL of one failed visit, and why it failed
	Advice  string `json:"-"`                 // what to do if no host was reached; "" if one was, or if that is not known
}

// Open opens the watch in a directory and locks it, or creates it there. It is an error if there is neither a watch nor
// a crawl and no seed.
func Open(o Options) (*Watch, error) {
	w := &Watch{
		o: o, reader: reader{selectors: o.Select, ignore: o.Ignore}, clock: clock.System(), named: make(map[string]bool), urls: make(map[string]*entry), hosts: make(map[string]*host),
		retry: time.Second,
	}
	if o.Select != "" {
		if _, err := fields.ParseSelector(o.Select); err != nil {
			return nil, cli.Usagef("--select: %w", err)
		}
	}
	if _, err := os.Stat(filepath.Join(o.Dir, databaseFile)); err != nil && len(o.Seeds) == 0 {
		if _, err := disk.Look(o.Dir); err != nil {
			if strings.HasPrefix(o.Dir, "http://") || strings.HasPrefix(o.Dir, "https://") {
				return nil, cli.Usagef("a watch is kept in a directory, which comes before the URL: crawl watch DIR %s", cli.ShellWord(redact.URL(o.Dir)))
			}
			return nil, cli.Usagef("%s has no crawl and no watch: name the URL to begin at", o.Dir)
		}
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, cli.Open("the state", err)
	}
	unlock, err := sqlitedb.Lock(filepath.Join(o.Dir, lockFile))
	if err != nil {
		return nil, cli.IO(err)
	}
	w.closers = append(w.closers, unlock)
	if err := w.open(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

func (w *Watch) open() error {
	var err error
	if w.scope, err = assembly.NewScope(&w.o.Settings); err == nil {
		w.rules, err = canonical.NewRules(w.o.Settings.Scope.Canonical)
	}
	if err != nil {
		return cli.Usage(err)
	}
	if w.store, err = openStore(filepath.Join(w.o.Dir, databaseFile)); err == nil {
		w.closers = append(w.closers, w.store.db.Close)
		err = w.store.load(w.know, w.hosts)
	}
	if err == nil {
		err = w.begin()
	}
	return onDisk(err)
}

// onDisk gives an error the exit code of failures of the disk, unless it has another.
func onDisk(err error) error {
	if err != nil && !cli.Has[*cli.Error](err) {
		err = cli.IO(err)
	}
	return err
}

// name records a URL that the user gave: a seed.
func (w *Watch) name(u canonical.URL) {
	w.scope.AddSeed(u)
	w.named[u.Host()] = true
}

// know adds a URL that the database has.
func (w *Watch) know(e *entry) error {
	u, err := canonical.Parse(e.url)
	if err != nil {
		return sqlitedb.Damage(w.store.db.Path(), fmt.Sprintf("row %d of urls: %v", e.id, err))
	}
	w.urls[e.url], e.host = e, w.hostOf(u.Host())
	w.nextID = max(w.nextID, e.id)
	e.host.entries = append(e.host.entries, e)
	if e.depth == seedDepth && e.kind == page { // a seed, or the target of its redirect, which the user did not name
		w.scope.AddSeed(u)
	}
	return nil
}

// begin adds the given seeds and, if the watch is new, the pages of the crawl in the directory. If another part of texts
// is compared than in the last run, the next visits of all pages go unreported.
func (w *Watch) begin() error {
	settings, err := w.o.Settings.SaveIn(w.o.Dir)
	if err != nil {
		return err
	}
	w.id = w.store.meta("id")
	reader := fmt.Sprintf("%q %q", w.o.Select, w.o.Ignore)
	other := w.store.meta("reader") != reader
	if other { // what the last run has held and not told, as it was read
		if err := w.tell(context.Background(), w.now()); err != nil {
			return err
		}
	}
	return w.store.db.Transact(func() error {
		for host := range strings.FieldsSeq(w.store.meta("named")) { // by earlier runs
			w.named[host] = true
		}
		w.first = !w.complete()
		for _, e := range w.urls {
			if other && e.kind == page && e.state == live {
				e.state = quiet
				w.store.put(e)
			}
		}
		for _, seed := range w.o.Seeds {
			u, err := canonical.ParseTyped(seed)
			if err != nil {
				return cli.Usagef("%s: %w", seed, err)
			}
			u = w.rules.Apply(u)
			w.name(u)
			w.add(u, page, seedDepth)
		}
		if w.id == "" {
			if err := w.adopt(); err != nil {
				return err
			}
			w.id = fmt.Sprintf("%x", w.now().UnixNano())
		}
		if len(w.urls) == 0 {
			return cli.Usagef("%s has a crawl without a page: name the URL to begin at", w.o.Dir)
		}
		named := strings.Join(slices.Sorted(maps.Keys(w.named)), " ")
		for key, value := range map[string]string{"id": w.id, "settings": settings, "named": named, "flags": w.o.Flags, "reader": reader} {
			w.store.run(setMeta, key, value)
		}
		return w.store.failed()
	})
}

// Saved returns the settings of the last run and its Options.Flags. If the directory has no watch, it returns the
// settings of the crawl there and no flags; nil if there is no crawl either.
func Saved(dir string) (settings *config.Config, flags string, err error) {
	path, text := filepath.Join(dir, databaseFile), ""
	if _, none := os.Stat(path); none == nil {
		s, err := openStore(path)
		if err == nil {
			text, flags = s.meta("settings"), s.meta("flags")
			err = errors.Join(s.failed(), s.db.Close())
		}
		if err != nil {
			return nil, "", onDisk(err)
		}
	}
	if view, none := disk.Look(dir); text == "" && none == nil { // also if a watch was killed before it saved anything
		text, err = view.Meta("settings")
	}
	if text == "" || err != nil {
		return nil, "", onDisk(err)
	}
	saved, err := config.LoadSaved(dir, text)
	return &saved, flags, onDisk(err)
}

// Close closes the outputs and the database, and unlocks the directory.
func (w *Watch) Close() error {
	var errs []error
	for _, closer := range slices.Backward(w.closers) {
		errs = append(errs, closer())
	}
	return errors.Join(errs...)
}

// Round visits what is due, or all that is watched, until nothing more is due or the budget is spent. It runs each of
// its crawls by supervise. It returns what the round has found; interrupted reports whether it was stopped.
func (w *Watch) Round(ctx context.Context, all bool, supervise func(context.Context, *crawl.Crawler, func(context.Context) error) error) (counts Counts, interrupted bool, err error) {
	w.mu.Lock()
	w.round++
	began := w.now()
	w.counts, err = Counts{}, w.failed
	w.mu.Unlock()
	for err == nil && !interrupted {
		urls := w.due(w.now(), all)
		if len(urls) == 0 {
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
		if state == "limit" { // the time limit
			break
		}
		if errors.Is(err, crawl.ErrUnreachable) || errors.Is(err, crawl.ErrBlocked) {
			w.mu.Lock()
			w.counts.Advice = cli.AdviceOf(err)
			w.mu.Unlock()
			err = nil // the next round sees these hosts again
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		telling, stop := job.UntilInterrupt(ctx)
		_ = w.fail(w.tell(telling, began))
		interrupted = interrupted || telling.Err() != nil
		stop()
	}
	if w.failed != nil {
		err = w.failed
	}
	w.first = w.first && !w.complete()
	for _, e := range w.urls {
		if e.state == live && e.kind == page {
			w.counts.URLs++
		}
	}
	return w.counts, interrupted, err
}

// complete reports whether the first round has requested everything.
func (w *Watch) complete() bool {
	visited := false
	for _, e := range w.urls {
		if e.state == quiet && e.visited+e.tried == 0 {
			return false
		}
		visited = visited || e.visited > 0 && e.kind == page
	}
	return visited
}

// options returns the options of the crawls of a round.
func (w *Watch) options() crawl.Options {
	o := job.OptionsOf(&w.o.Settings)
	if o.Scope.Mode == "prefix" { // the seeds of a round are not those of the watch, whose own scope decides
		o.Scope.Mode = ""
	}
	o.Depth, o.MaxPages, o.MaxPagesPerHost, o.StateDir, o.HandlersFollow = 0, 0, 0, "", true
	o.Scope.IgnoreSitemaps, o.Scope.IgnoreFeeds, o.Scope.Include = true, true, nil
	o.OnPage, o.OnRequest, o.OnSkip, o.Log = w.take, w.ask, w.skipped, w.o.Log
	o.Named = func(host string) bool { return w.named[host] }
	o.Politeness.Remember = cmp.Or(o.Politeness.Remember, filepath.Join(w.o.Dir, "watch.rates"))
	return o
}

// ask counts a request and makes it conditional where that is right. It returns an error for a request beyond the
// budget, and for a redirect target that is not watched.
func (w *Watch) ask(r *http.Request) error {
	now := w.now()
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.urls[r.URL.String()] // the crawl requests canonical URLs
	if known := w.hosts[r.URL.Host]; e == nil && (w.outside[r.URL.String()] || w.outside[r.URL.Host] && (known == nil || len(known.entries) == 0)) {
		return errOutside
	}
	h := w.hostOf(r.URL.Host)
	if h.left(w.o.Budget, now) <= 0 {
		return errBudget
	}
	h.Spent[hourOf(now)]++
	h.pending = max(0, h.pending-1)
	w.counts.Requests++
	w.store.saveHost(h)
	if err := w.fail(w.store.failed()); err != nil { // also of a request that is not answered
		return err
	}
	if e != nil && e.conditional() {
		version.SetCondition(r.Header, e.etag, e.modified)
	}
	return nil
}

var (
	errBudget  = errors.New("the budget of the host is spent for today")
	errOutside = errors.New("a redirect leads there, and it is not watched")
)

// skipped records a URL that the crawl did not request.
func (w *Watch) skipped(s crawl.Skipped) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.urls[s.URL]
	switch {
	case e == nil || s.Reason == "seen" || e.round != w.round || e.state == live:
	case s.Reason == "trap":
		e.state, e.visited = gone, w.now().Unix()
		w.store.put(e)
	case e.tried == 0:
		w.missed(e, w.now(), cmp.Or(s.Detail, s.Reason))
	}
	_ = w.fail(w.store.failed()) // it ends the watch
}

// fail ends the watch if err is not nil: it keeps the first error, and stops the current crawl. It returns err. The
// caller holds the lock.
func (w *Watch) fail(err error) error {
	if err != nil && w.failed == nil {
		w.failed = onDisk(err)
		if w.crawler != nil {
			w.crawler.Stop()
		}
	}
	return err
}
