package watch

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/treadlight/crawl/cmd/crawl/internal/watch/plan"
	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// kind is what a URL is watched for.
type kind uint8

const (
	page   kind = iota
	rules       // robots.txt, for the sitemaps that it names
	source      // a sitemap or a feed
)

// state is what is known of a URL.
type state uint8

const (
	found state = iota // it was not visited, or is looked for again
	live
	gone
	quiet // as found, and it is not told when it is visited
)

// seedDepth is the depth of a seed, by which scope knows it.
const seedDepth = 0

// entry is what is known of a URL. Times are seconds since 1970; zero is never.
type entry struct {
	id       int64
	url      string
	host     *host
	history  plan.History
	etag     string
	modified string
	digest   uint64 // of its text
	visited  int64  // last, with an answer that says something
	tried    int64  // last, without
	fresh    int64  // until when its host wants it to be left alone
	word     int64  // the latest date of a change that a source gave
	told     int64  // what that was at the last visit
	failures int32  // tries in a row
	visits   int32
	depth    int32
	kind     kind
	state    state
	round    int     // in which it was asked for
	rate     float64 // of changes a day, as of the last plan
}

// announced reports whether a source has said that the page has changed since it was visited. Many say the day alone.
func (e *entry) announced() bool { return e.word > e.told && e.word > e.visited-24*3600 }

// conditional reports whether it is asked for only if it has changed. The crawl asks for robots.txt too, and needs it whole.
func (e *entry) conditional() bool {
	return e.state == live && e.kind != rules && e.visits%unconditional != unconditional-1 && e.etag+e.modified != ""
}

// host is what is known of a host.
type host struct {
	Prior   plan.Prior  `json:"prior"`
	Trust   plan.Trust  `json:"trust"`
	Factor  float64     `json:"factor"`  // of the price; see plan.Correct
	Planned int64       `json:"planned"` // when that was corrected last, in seconds since 1970
	Spent   [25]int32   `json:"spent"`   // requests by hour, of a day and what is left of one more hour
	Hour    int64       `json:"hour"`    // of the last of them, since 1970
	Places  []seenPlace `json:"places,omitempty"`
	entries []*entry
	pending int  // URLs that the crawl under way has not asked for
	asked   bool // since it was saved
}

// spend counts requests.
func (h *host) spend(now time.Time, n int32) {
	h.forget(now)
	h.Spent[h.Hour%25] += n
}

// forget removes what is older than a day.
func (h *host) forget(now time.Time) {
	hour := now.Unix() / 3600
	for range min(hour-h.Hour, 25) {
		h.Hour++
		h.Spent[h.Hour%25] = 0
	}
	h.Hour = max(hour, h.Hour)
	if h.Hour-hour > 24 { // the clock was set back
		h.Spent, h.Hour = [25]int32{}, hour
	}
}

// budget is how many requests a day there may be.
func (h *host) budget(given int) int {
	if given > 0 {
		return given
	}
	return min(max(len(h.entries), leastBudget), mostBudget)
}

// left is how many requests may still be made.
func (h *host) left(given int, now time.Time) int {
	h.forget(now)
	left := h.budget(given)
	for _, n := range h.Spent {
		left -= int(n)
	}
	return left
}

// hostOf is what is known of a host, by its canonical name.
func (w *Watch) hostOf(name string) *host {
	h := w.hosts[name]
	if h == nil {
		h = &host{Prior: plan.DefaultPrior, Factor: 1}
		w.hosts[name] = h
	}
	return h
}

// add adds a URL to what is watched, if it is new and there is room; nil if not.
func (w *Watch) add(u canonical.URL, k kind, depth int32) (*entry, error) {
	url := u.String()
	if e := w.urls[url]; e != nil {
		if e.state != gone || time.Duration(w.now().Unix()-e.visited)*time.Second < recheckGone {
			return nil, nil
		}
		e.state = found
		return e, w.store.put(e)
	}
	h := w.hostOf(u.Host())
	if most := w.o.Settings.MaxPagesPerHost; most > 0 && len(h.entries) >= int(most) {
		return nil, nil
	}
	if len(w.urls) >= w.room() {
		if !w.full {
			w.o.Log.Warn("no more URLs are watched: narrow the scope, or raise frontier.max_urls")
		}
		w.full = true
		return nil, nil
	}
	w.nextID++
	e := &entry{id: w.nextID, url: url, host: h, kind: k, depth: depth}
	if w.first {
		e.state = quiet
	}
	w.urls[url] = e
	h.entries = append(h.entries, e)
	if len(h.entries) == 1 && w.o.Settings.Robots.Enabled && w.o.Settings.Sitemaps.Enabled && k == page {
		if robots, err := canonical.Parse(u.Origin() + robotsPath); err == nil {
			if _, err := w.add(robots, rules, depth); err != nil {
				return nil, err
			}
		}
	}
	return e, w.store.put(e)
}

// room is how many URLs may be watched.
func (w *Watch) room() int {
	room := min(maxURLs, w.o.Settings.Frontier.MaxURLs)
	if pages := w.o.Settings.MaxPages; pages > 0 {
		room = min(room, int(min(pages, maxURLs)))
	}
	return room
}

// adopt adds the pages of the crawl that is kept in the directory, if there is one.
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
		if _, err := w.add(u, page, int32(p.Depth)); err != nil {
			return err
		}
	}
	return nil
}

// wait is for how long a URL that failed so often is left alone.
func wait(failures int32) time.Duration {
	return min(time.Hour<<min(failures-1, 10), 7*24*time.Hour)
}

// sourcePrior has sources, of which nothing is known, change twice a day.
var sourcePrior = plan.Prior{Mean: math.Log(2), Variance: 4}

// candidate is a URL that is due.
type candidate struct {
	e     *entry
	class int     // what goes first: sources, new pages, pages
	value float64 // of visits, in terms of what is due
}

// value is what there is to gain by a visit of a URL; below one it is not due. With all, whatever is watched is.
func (e *entry) value(h *plan.Host, now time.Time, all bool) (class int, value float64) {
	at := now.Unix()
	if e.failures > 0 && at < e.tried+int64(wait(e.failures)/time.Second) {
		return 0, 0
	}
	elapsed := time.Duration(at-e.visited) * time.Second
	switch {
	case e.state == gone && (e.depth != seedDepth || e.kind != page || elapsed < recheckSeed):
		return 0, 0
	case e.state == live && elapsed < shortestInterval && !all:
		return 0, 0
	case e.state != live && e.kind == page:
		return 1, math.MaxFloat64
	case e.state != live:
		return 0, math.MaxFloat64
	case all:
		return 2, plan.Days(elapsed) + 1
	case e.kind == rules:
		return 0, plan.Days(elapsed)
	case e.kind == source:
		rate, _ := sourcePrior.Rate(&e.history)
		interval := min(max(time.Duration(12/rate*float64(time.Hour)), time.Hour), 7*24*time.Hour) // half of what passes between changes
		if e.announced() {
			interval = time.Hour
		}
		return 0, float64(elapsed) / float64(interval)
	}
	p := plan.Page{Rate: e.rate, Last: time.Unix(e.visited, 0), Covered: e.word != 0, Word: e.announced()}
	if e.fresh > 0 {
		p.NotBefore = time.Unix(e.fresh, 0)
	}
	return 2, h.Value(&p, now)
}

// due are the URLs to ask for next: of each host as many as its budget has left.
func (w *Watch) due(now time.Time, all bool) (urls []string, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.Waiting = 0
	for _, h := range w.hosts {
		list := w.dueOf(h, now, all)
		h.pending = 0
		left := h.left(w.o.Budget, now) - 1 // robots.txt is asked for
		part := max(1, left/5)
		taken := [3]int{}
		for i, c := range list {
			// Sources have a fifth at most, and what is new leaves a fifth to what is known.
			if c.class == 0 && taken[0] >= part || c.class == 1 && taken[1] >= max(1, left-taken[0]-part) && list[len(list)-1].class == 2 {
				w.counts.Waiting++
				continue
			}
			if taken[0]+taken[1]+taken[2] >= left {
				w.counts.Waiting += len(list) - i
				break
			}
			taken[c.class]++
			h.pending++
			c.e.round = w.round
			urls = append(urls, c.e.url)
		}
	}
	slices.Sort(urls)
	return urls, nil
}

// dueOf are the URLs of a host that are due, the best first, without those that were asked for in this round.
func (w *Watch) dueOf(h *host, now time.Time, all bool) (list []candidate) {
	p := h.plan(w.o.Budget, now)
	for _, e := range h.entries {
		if e.round == w.round {
			continue
		}
		if class, value := e.value(&p, now, all); value >= 1 {
			list = append(list, candidate{e, class, value})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.class, b.class), cmp.Compare(b.value, a.value), cmp.Compare(a.e.depth, b.e.depth), cmp.Compare(a.e.id, b.e.id))
	})
	return list
}

// plan fits what is known of a host to what visits of its pages have told.
func (h *host) plan(budget int, now time.Time) plan.Host {
	var pages []*entry
	var histories []*plan.History
	for _, e := range h.entries {
		if e.kind == page && e.state == live {
			pages, histories = append(pages, e), append(histories, &e.history)
		}
	}
	h.Prior = h.Prior.Fit(histories)
	rates := make([]float64, len(pages))
	for i, e := range pages {
		e.rate, _ = h.Prior.Rate(&e.history)
		rates[i] = e.rate
	}
	const hour = 3600
	switch perDay := h.budget(budget); {
	case h.Planned == 0 || h.Planned > now.Unix():
		h.Planned = now.Unix()
	case now.Unix()-h.Planned >= hour:
		h.Factor = plan.Correct(h.Factor, float64(perDay-h.left(budget, now)), float64(perDay), time.Duration(now.Unix()-h.Planned)*time.Second)
		h.Planned = now.Unix()
	}
	return plan.Host{Price: h.Factor * plan.Price(rates, float64(h.budget(budget)), shortestInterval), Trust: h.Trust}
}

func (w *Watch) now() time.Time { return w.clock.Now() }
