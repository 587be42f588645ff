package watch

import (
	"cmp"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/watch/plan"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// kind says why a URL is watched.
type kind uint8

const (
	page   kind = iota
	rules       // robots.txt, which names sitemaps
	source      // a sitemap or a feed
)

// state is the state of a URL.
type state uint8

const (
	found state = iota // not visited yet, or to be visited again after it was gone
	live
	gone
	quiet // like found, but the next visit is not reported
)

// seedDepth is the depth at which the scope expects a seed.
const seedDepth = 0

// entry is a watched URL and what is known of it. Times are in seconds since 1970; zero means never.
type entry struct {
	id       int64
	url      string
	host     *host
	history  plan.History
	etag     string
	modified string
	digest   uint64 // of the text
	visited  int64  // the last visit that was answered with a page, 304, 404 or 410
	tried    int64  // the last visit that failed
	fresh    int64  // until when the host says that the page is fresh
	word     int64  // the latest date of a change that a source gave
	told     int64  // the value of word at the last visit
	failures int32  // consecutive failures
	visits   int32
	depth    int32
	kind     kind
	state    state
	round    int // the last round that requested it
}

// announced reports whether a source has said that the page has changed since its last visit. Many sources give the day
// of a change without its time.
func (e *entry) announced() bool { return e.word > e.told && e.word > e.visited-24*3600 }

// conditional reports whether the next request is conditional. That of robots.txt is not, because the crawl needs its
// body.
func (e *entry) conditional() bool {
	return e.state == live && e.kind != rules && e.visits%unconditional != unconditional-1 && e.etag+e.modified != ""
}

// host is a host and what is known of it.
type host struct {
	Trust   plan.Trust    `json:"trust"`
	Planned int64         `json:"planned"`  // when known pages had their turn last, in seconds since 1970
	Spent   map[int64]int `json:"requests"` // by hours since 1970: those of a day and of a part of one more hour
	name    string
	entries []*entry
	pending int // URLs of the current crawl that are not yet requested
}

// budget returns the requests allowed per day; given is Options.Budget.
func (h *host) budget(given int) int {
	if given > 0 {
		return given
	}
	return min(max(len(h.entries), leastBudget), mostBudget)
}

// left returns how many requests the budget of the day still allows. It may be negative.
func (h *host) left(given int, now time.Time) int {
	left, this := h.budget(given), hourOf(now)
	for hour, n := range h.Spent {
		if hour < this-24 || hour > this+24 { // over, or the clock was set back
			delete(h.Spent, hour)
			continue
		}
		left -= n
	}
	return left
}

func hourOf(t time.Time) int64 { return t.Unix() / 3600 }

// hostOf returns the host with this canonical name, and adds it if it is new.
func (w *Watch) hostOf(name string) *host {
	h := w.hosts[name]
	if h == nil {
		h = &host{name: name, Spent: make(map[int64]int)}
		w.hosts[name] = h
	}
	return h
}

// add adds a URL to the watch and returns its entry. It returns nil if the URL is known, if its host has enough pages,
// or if there is no room. A page that has been gone for a while counts as new.
func (w *Watch) add(u canonical.URL, k kind, depth int32) *entry {
	url := u.String()
	if e := w.urls[url]; e != nil {
		if e.state != gone || time.Duration(w.now().Unix()-e.visited)*time.Second < recheckGone {
			return nil
		}
		e.state = found
		w.store.put(e)
		return e
	}
	h := w.hostOf(u.Host())
	if most := w.o.Settings.MaxPagesPerHost; most > 0 && len(h.entries) >= int(most) {
		return nil
	}
	room, fix := min(maxURLs, w.o.Settings.Frontier.MaxURLs), "narrow the scope, or raise frontier.max_urls, up to a million"
	if most := w.o.Settings.MaxPages; most > 0 && most < int64(room) {
		room, fix = int(most), "raise --max-pages, which counts robots.txt, sitemaps and feeds too"
	}
	if len(w.urls) >= room {
		if !w.full {
			w.o.Log.Warn("no more URLs are watched", slog.Int("watched", len(w.urls)), slog.String("fix", fix))
		}
		w.full = true
		return nil
	}
	w.nextID++
	e := &entry{id: w.nextID, url: url, host: h, kind: k, depth: depth}
	if w.first {
		e.state = quiet
	}
	w.urls[url] = e
	h.entries = append(h.entries, e)
	if len(h.entries) == 1 && w.o.Settings.Robots.Enabled && w.o.Settings.Sitemaps.Enabled && k == page {
		w.add(canonical.Restore(u.Origin()+robotsPath), rules, depth)
	}
	w.store.put(e)
	return e
}

// adopt adds the pages of the crawl in the directory, if there is one.
func (w *Watch) adopt() error {
	view, err := disk.Look(w.o.Dir)
	if err != nil {
		return nil //nolint:nilerr // there is none
	}
	for p, err := range view.Answered() {
		if err != nil {
			return err
		}
		u, err := canonical.Parse(p.URL)
		if err != nil {
			return err
		}
		if p.Seed {
			w.name(u)
		}
		w.add(u, page, int32(p.Depth))
	}
	return nil
}

// sourcePrior assumes that a source changes twice a day until more is known.
var sourcePrior = plan.Prior{Mean: math.Log(2), Variance: 4}

// candidate is a URL that is due.
type candidate struct {
	e     *entry
	class int     // the first key of the order: sources, then new pages, then known pages
	value float64 // the second key, see entry.value
}

// value returns what a visit of a URL would gain. A source is due from one on, a page above zero. With all, every watched
// URL is due unless it failed recently, also a page that is gone.
func (e *entry) value(now time.Time, all bool) (class int, value float64) {
	at := now.Unix()
	if wait := min(time.Hour<<min(max(e.failures, 1)-1, 10), 7*24*time.Hour); e.failures > 0 && at < e.tried+int64(wait/time.Second) {
		return 0, 0
	}
	elapsed := time.Duration(at-e.visited) * time.Second
	switch {
	case e.state == gone && (e.kind != page || !all && (e.depth != seedDepth || elapsed < recheckSeed)):
		return 0, 0
	case e.state == live && elapsed < shortestInterval && !all:
		return 0, 0
	case e.state != live && e.kind == page:
		return 1, math.MaxFloat64
	case e.state != live:
		return 0, math.MaxFloat64
	case all:
		return 2, plan.Days(elapsed) + 1
	case e.kind != page:
		rate := sourcePrior.Rate(&e.history)
		interval := min(max(time.Duration(12/rate*float64(time.Hour)), time.Hour), 7*24*time.Hour) // half the time between two changes
		if e.announced() {
			interval = time.Hour
		}
		return 0, float64(elapsed) / float64(interval)
	}
	p := plan.Page{Rate: plan.PagePrior.Rate(&e.history), Last: time.Unix(e.visited, 0), Covered: e.word != 0, Word: e.announced()}
	if e.fresh > 0 {
		p.NotBefore = time.Unix(e.fresh, 0)
	}
	return 2, p.Value(&e.host.Trust, now)
}

// due returns the URLs to request next: for each host as many as its budget allows. Without all, known pages get what
// the budget brings in the time since they had their turn last, so that their visits are spread over the day.
func (w *Watch) due(now time.Time, all bool) (urls []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Waiting = 0
	for _, h := range w.hosts {
		list := w.dueOf(h, now, all)
		h.pending = 0
		left := h.left(w.o.Budget, now) - 1 // one for robots.txt
		part := max(1, left/5)
		h.Planned = min(h.Planned, now.Unix()) // the clock may have been set back
		turn := int(float64(h.budget(w.o.Budget)) * min(1, plan.Days(now.Sub(time.Unix(h.Planned, 0)))))
		if turn > 0 {
			h.Planned = now.Unix()
		}
		taken := [3]int{}
		for _, c := range list {
			n := taken[0] + taken[1] + taken[2]
			if c.class == 2 && !all && (n >= left || taken[2] >= turn) {
				break
			}
			// Sources get at most a fifth. New pages leave a fifth to known pages.
			if n >= left || c.class == 0 && taken[0] >= part || c.class == 1 && n >= max(1, left-part) && list[len(list)-1].class == 2 {
				w.counts.Waiting++
				continue
			}
			taken[c.class]++
			h.pending++
			c.e.round = w.round
			urls = append(urls, c.e.url)
		}
	}
	slices.Sort(urls)
	return urls
}

// dueOf returns the URLs of a host that are due, the best first, without those that this round has requested.
func (w *Watch) dueOf(h *host, now time.Time, all bool) (list []candidate) {
	at := now.Unix()
	for _, e := range h.entries {
		if e.visited > at || e.tried > at { // the clock was set back
			e.visited, e.tried, e.fresh, e.word, e.told = min(e.visited, at), min(e.tried, at), 0, min(e.word, at), min(e.told, at)
		}
		if e.round == w.round {
			continue
		}
		if class, value := e.value(now, all); value >= 1 || value > 0 && class == 2 {
			list = append(list, candidate{e, class, value})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(b.value, a.value), cmp.Compare(a.e.depth, b.e.depth), cmp.Compare(a.e.id, b.e.id))
	})
	return list
}

func (w *Watch) now() time.Time { return w.clock.Now() }
