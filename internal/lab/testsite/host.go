package testsite

import (
	"context"
	"fmt"
	"iter"
	"net"
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
	port   int    // how far above the site's, where several hosts share an address
	gate   *gate  // of the address; nil means no limits
	robots []byte // the text of robots.txt
	urls   int    // those with content that robots.txt allows

	mu       sync.Mutex // guards what follows
	script   script
	outages  []Outage // those not yet over
	numbered int      // page requests so far, without those in outages
	answers  int      // responses to robots.txt so far
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
	kindListed  // a page that only the sitemap names
	kindSitemap // the index is 0, and its parts are 1 and up
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
	dir   string
	count int
	path  func(int) string
}

// groups returns the groups of URLs. Those with content come first, in the order of their bits in [record].served.
func (h *host) groups() [6]group {
	c := &h.cfg
	return [...]group{
		{kindPage, "p", c.Pages, pagePath},
		{kindMedia, "m", c.Media, mediaPath},
		{kindPrivate, "private", c.Private, privatePath},
		{kindListed, "s", c.Listed, listedPath},
		{kindRedirect, "r", c.Redirects, redirectPath},
		{kindSitemap, "sitemaps", h.parts(), partPath},
	}
}

const withContent = 4 // how many of the groups have content

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

// route finds what a request is for. Each target has one spelling. Any other, such as /p/07, an escaped letter or a
// query, is missing, so that each duplicate is a fault of the crawler.
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
	base, _, _ := strings.Cut(name, ".")
	n, err := strconv.Atoi(base)
	for _, g := range h.groups() {
		// Another spelling of the number is another path.
		if g.dir == dir && err == nil && n >= 0 && n < g.count && g.path(n) == path {
			if g.kind == kindSitemap {
				n++ // the index is 0
			}
			return target{kind: g.kind, n: n}
		}
	}
	return target{}
}

// disallowed compares the path as it was requested: a crawler that normalizes URLs never requests /private/../p/1.
func (h *host) disallowed(path string) bool {
	return slices.ContainsFunc(h.cfg.Robots.Disallow, func(p string) bool { return strings.HasPrefix(path, p) })
}

// expected returns how many URLs with content robots.txt allows. It tries every path, since Disallow may name any
// prefix, such as /p/1, which is also a prefix of /p/10.
func (h *host) expected() int {
	total := h.cfg.urls()
	if len(h.cfg.Robots.Disallow) == 0 {
		return total
	}
	all := h.groups()
	for _, g := range all[:withContent] {
		for n := range g.count {
			if h.disallowed(g.path(n)) {
				total--
			}
		}
	}
	return total
}

// arrive records a request and decides about it, at one instant and under the lock, so that the record, the script and
// the limits see requests in the same order.
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
	if e.content && h.rec.serve(h.slot(t)) && t.kind == kindListed {
		h.rec.ListedServed++
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

type how uint8

const (
	endAnswered how = iota
	endReset
	endHang
	endLeft
)

type ending struct {
	how     how
	status  int
	bytes   int64
	content bool // a page or document was sent in full
}

const bodyPieces = 8

// ServeHTTP answers one request as the host would. To reset a connection where there is none (in a recorder), it panics
// with [http.ErrAbortHandler].
func (h *host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t := h.route(r)
	if tell := h.site.cfg.Arrived; tell != nil {
		tell(h.index, r)
	}
	d := h.arrive(t)
	e := h.answer(w, r, t, d)
	h.finish(t, d, e)
	if e.how != endAnswered {
		hangUp(w)
	}
}

func (h *host) answer(w http.ResponseWriter, r *http.Request, t target, d decision) ending {
	// From the clock that the dates in other headers come from.
	w.Header().Set("Date", h.site.epoch.Add(time.Duration(h.site.now())).UTC().Format(http.TimeFormat))
	h.cfg.Refusal.setQuota(w.Header(), d.quota)
	switch d.act {
	case actReset:
		return ending{how: endReset}
	case actHang:
		h.hang(r.Context(), d.until)
		return ending{how: endHang}
	case actStatus:
		if d.retryAfter != "" {
			w.Header().Set("Retry-After", d.retryAfter)
		}
		if d.refused && h.cfg.Refusal.Body != "" {
			return h.send(w, r, d.status, "text/plain; charset=utf-8", []byte(h.cfg.Refusal.Body), 0)
		}
		return h.plain(w, r, d.status)
	}
	if err := clock.Sleep(r.Context(), h.site.clk, d.delay); err != nil {
		return ending{how: endLeft}
	}
	return h.serve(w, r, t)
}

// hang sends nothing until the outage is over, the client has left or the site ends.
func (h *host) hang(ctx context.Context, until clock.Instant) {
	timer := h.site.clk.NewTimer(until.Sub(h.site.now()))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	case <-h.site.stop:
	}
}

func (h *host) serve(w http.ResponseWriter, r *http.Request, t target) ending {
	switch t.kind {
	case kindPage:
		return h.generated(w, r, "text/html; charset=utf-8", h.appendPage, t.n)
	case kindPrivate:
		return h.generated(w, r, "text/html; charset=utf-8", h.leaf(streamPrivate), t.n)
	case kindListed:
		return h.generated(w, r, "text/html; charset=utf-8", h.leaf(streamListed), t.n)
	case kindSitemap:
		return h.sitemap(w, r, t.n)
	case kindMedia:
		return h.generated(w, r, mediaKinds[t.n%len(mediaKinds)].contentType, h.appendMedia, t.n)
	case kindRobots:
		if h.cfg.Robots.exists() || h.cfg.Listed > 0 {
			return h.send(w, r, http.StatusOK, "text/plain; charset=utf-8", h.robotsFile(), 0)
		}
	case kindRedirect:
		status, location := h.redirect(t.n)
		w.Header().Set("Location", location)
		return h.plain(w, r, status)
	case kindMethod:
		w.Header().Set("Allow", "GET, HEAD")
		return h.plain(w, r, http.StatusMethodNotAllowed)
	}
	return h.plain(w, r, http.StatusNotFound)
}

func (h *host) plain(w http.ResponseWriter, r *http.Request, status int) ending {
	line := fmt.Appendf(nil, "%d %s\n", status, http.StatusText(status))
	return h.send(w, r, status, "text/plain; charset=utf-8", line, 0)
}

// generated sends a document that is built in a reused buffer.
func (h *host) generated(w http.ResponseWriter, r *http.Request, contentType string, build func([]byte, int) []byte, n int) ending {
	buf := h.site.buffers.Get().(*[]byte)
	defer h.site.buffers.Put(buf)
	*buf = build((*buf)[:0], n)
	e := h.send(w, r, http.StatusOK, contentType, *buf, h.cfg.Latency.Body)
	e.content = e.how == endAnswered && r.Method == http.MethodGet
	return e
}

// send writes a response, and spreads its body over the given time. The response has a Content-Length, so that a client
// notices a body that was cut off.
//
// The last byte is written separately. net/http keeps it until the handler has returned, so a client that has the whole
// response finds it counted and its slot free.
func (h *host) send(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte, over time.Duration) ending {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	e := ending{status: status}
	if r.Method == http.MethodHead {
		return e
	}
	for part := range pieces(body, over) {
		var err error
		if over > 0 {
			err = h.trickle(w, r, over/bodyPieces)
		}
		if err == nil {
			err = e.write(w, part[:len(part)-1])
		}
		if err == nil {
			err = e.write(w, part[len(part)-1:])
		}
		if err != nil {
			e.how = endLeft
			return e
		}
	}
	return e
}

func (e *ending) write(w http.ResponseWriter, part []byte) error {
	n, err := w.Write(part)
	e.bytes += int64(n)
	return err
}

func pieces(body []byte, over time.Duration) iter.Seq[[]byte] {
	n := 1
	if over > 0 {
		n = bodyPieces
	}
	return slices.Chunk(body, max(1, (len(body)+n-1)/n))
}

// trickle sends what has been written, at first the header, and pauses.
func (h *host) trickle(w http.ResponseWriter, r *http.Request, pause time.Duration) error {
	if err := http.NewResponseController(w).Flush(); err != nil {
		return err
	}
	return clock.Sleep(r.Context(), h.site.clk, pause)
}

// hangUp closes the connection during a response. Over TCP it sends a reset, as a crashed server does.
func hangUp(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // on an error an ordinary close will do
	}
	_ = conn.Close() // an error could be reported to nobody
}
