package testsite

import (
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// host is one running host. Its lock is held for well under a microsecond, twice per request.
type host struct {
	site   *Site
	index  int
	cfg    Host // with defaults; never changes after New
	addr   netip.Addr
	seed   uint64
	port   int    // above that of the site, on an address of several hosts
	gate   *gate  // of the address; nil: nothing is limited
	robots []byte // what robots.txt says
	urls   int    // with content, and not disallowed

	mu       sync.Mutex // guards what follows
	script   script
	outages  []Outage // those not yet over
	numbered int      // page requests outside of outages so far
	answers  int      // to robots.txt so far
	rec      record
}

func newHost(s *Site, index int, p place, addr netip.Addr) *host {
	cfg := p.Host
	d := newDraw(s.cfg.Seed, 0, index)
	h := &host{
		site: s, index: index, cfg: cfg, addr: addr, port: p.port,
		seed:    d.next(),
		robots:  []byte(cfg.Robots.text()),
		script:  script{steps: cfg.Script},
		outages: cfg.Outages,
		rec:     newRecord(cfg.urls()),
	}
	h.urls = h.expected()
	return h
}

type kind uint8

const (
	kindMissing kind = iota
	kindPage
	kindMedia
	kindPrivate
	kindRedirect
	kindRobots
	kindListed  // a page that the sitemap alone names
	kindSitemap // the index, and its parts from 1 on
	kindMethod  // neither GET nor HEAD
)

type target struct {
	kind       kind
	n          int
	disallowed bool
}

func (h *Host) urls() int { return h.Pages + h.Media + h.Private + h.Listed }

type group struct {
	kind  kind
	count int
	path  func(int) string
}

// groups are in the order of their bits in [record].served.
func (h *host) groups() [4]group {
	c := &h.cfg
	return [...]group{{kindPage, c.Pages, pagePath}, {kindMedia, c.Media, mediaPath}, {kindPrivate, c.Private, privatePath}, {kindListed, c.Listed, listedPath}}
}

func (h *host) slot(t target) int {
	before := 0
	for _, g := range h.groups() {
		if g.kind == t.kind {
			break
		}
		before += g.count
	}
	return before + t.n
}

// route reads a request. A target has one spelling: another one, such as /p/07, an escaped
// letter or a query, is missing, so that every duplicate is the crawler's.
func (h *host) route(r *http.Request) target {
	path := r.URL.EscapedPath()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return target{kind: kindMethod}
	}
	t := target{kind: kindMissing}
	if r.URL.RawQuery == "" {
		t = h.find(path)
	}
	t.disallowed = t.kind != kindRobots && h.disallowed(path)
	return t
}

// find splits the path itself: a router would be the most expensive part of a request.
func (h *host) find(path string) target {
	switch path {
	case "/":
		return target{kind: kindPage}
	case "/robots.txt":
		return target{kind: kindRobots}
	case indexPath:
		if h.cfg.Listed > 0 {
			return target{kind: kindSitemap}
		}
	}
	dir, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch dir {
	case "p":
		return numbered(kindPage, path, name, h.cfg.Pages, pagePath)
	case "m":
		return numbered(kindMedia, path, name, h.cfg.Media, mediaPath)
	case "r":
		return numbered(kindRedirect, path, name, h.cfg.Redirects, redirectPath)
	case "private":
		return numbered(kindPrivate, path, name, h.cfg.Private, privatePath)
	case "s":
		return numbered(kindListed, path, name, h.cfg.Listed, listedPath)
	case "sitemaps":
		if t := numbered(kindSitemap, path, name, h.parts(), partPath); t.kind == kindSitemap {
			return target{kind: kindSitemap, n: t.n + 1}
		}
	}
	return target{}
}

// numbered is the target of that kind whose path it is, or a missing one if there are not so many or the
// path is not its one spelling.
func numbered(k kind, path, name string, count int, spelled func(int) string) target {
	base, _, _ := strings.Cut(name, ".")
	n, err := strconv.Atoi(base)
	if err != nil || n < 0 || n >= count || spelled(n) != path {
		return target{}
	}
	return target{kind: k, n: n}
}

// disallowed looks at the path as it was requested: a crawler that normalizes never requests
// /private/../p/1.
func (h *host) disallowed(path string) bool {
	return slices.ContainsFunc(h.cfg.Robots.Disallow, func(p string) bool { return strings.HasPrefix(path, p) })
}

// expected is how many URLs with content robots.txt allows. It tries every path: Disallow
// may name any prefix, such as /p/1, which is also one of /p/10.
func (h *host) expected() int {
	total := h.cfg.urls()
	if len(h.cfg.Robots.Disallow) == 0 {
		return total
	}
	for _, g := range h.groups() {
		for n := range g.count {
			if h.disallowed(g.path(n)) {
				total--
			}
		}
	}
	return total
}

// arrive records a request and decides about it, at one instant under the lock: record,
// script and limits see requests in the same order.
func (h *host) arrive(t target) decision {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.site.now()
	h.rec.arrive(now)
	if t.kind == kindRobots {
		h.rec.Robots++
	} else {
		h.rec.page(now, t.disallowed, h.cfg.Robots.CrawlDelay)
	}
	return h.decideLocked(now, t)
}

func (h *host) finish(t target, d decision, e ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rec.open--
	if d.admitted && h.gate != nil {
		h.gate.release()
	}
	h.rec.Bytes += e.bytes
	switch e.how {
	case endReset:
		h.rec.Resets++
		return
	case endHang:
		h.rec.Hangs++
		return
	case endLeft:
		h.rec.Left++
		return
	}
	h.rec.Statuses[e.status]++
	if t.kind == kindRobots && d.robots {
		h.rec.robotsAnswer(h.site.now(), e.status)
	}
	if e.content {
		if h.rec.serve(h.slot(t)) && t.kind == kindListed {
			h.rec.ListedServed++
		}
	}
}

func (h *host) outageLocked(now clock.Instant) *Outage {
	for len(h.outages) > 0 && now >= h.outages[0].end() {
		h.outages = h.outages[1:]
	}
	if len(h.outages) == 0 || now < h.outages[0].begin() {
		return nil
	}
	return &h.outages[0]
}

func (o *Outage) begin() clock.Instant { return clock.Instant(o.After) }
func (o *Outage) end() clock.Instant   { return clock.Instant(o.After + o.For) }

func (h *host) latency(t target, n int) time.Duration {
	switch {
	case t.kind == kindRobots:
		return h.cfg.Robots.Latency
	case t.kind == kindPage && t.n == 0 && h.cfg.Latency.FastRoot:
		return 0
	}
	return h.cfg.Latency.sample(newDraw(h.seed, streamLatency, n))
}
