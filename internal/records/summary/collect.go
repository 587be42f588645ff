package summary

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/records/sink"
)

type collector struct {
	cfg Config
	sum Summary

	statuses, errors, depths, changes tally
	types                             map[string]*Type // at most maxTypes
	sizes, latency                    histogram
	spent                             timings // milliseconds
	hosts                             map[string]*hostTally
	slowest, largest                  top

	broken    map[string]*BrokenLink // at most cfg.MaxBroken
	fallback  map[string]string      // of each, what its own record says links to it
	redirects redirects
	repeats   repeats
	maps      []Map // at most cfg.List
}

// hostTally is what is known of a host. Of at most cfg.MaxHosts there is one; the pages of
// others are counted together.
type hostTally struct {
	urls, pages, failed, bytes int64
	waited                     float64 // milliseconds
	latency                    histogram
}

func newCollector(cfg Config) *collector {
	return &collector{
		cfg:      cfg,
		statuses: tally{}, errors: tally{}, depths: tally{}, changes: tally{},
		types:  make(map[string]*Type),
		hosts:  make(map[string]*hostTally),
		broken: make(map[string]*BrokenLink), fallback: make(map[string]string),
		redirects: redirects{max: cfg.MaxRedirects, to: make(map[string]string)},
		repeats:   repeats{max: cfg.MaxDigests, list: cfg.List, groups: make(map[string]*Group), first: make(map[string]string)},
		slowest:   top{max: cfg.List}, largest: top{max: cfg.List},
	}
}

// maxNames is how many names a tally tells apart: more than there are statuses, classes of
// errors and depths worth a line. A file that was tampered with could have any number.
const maxNames = 200

// others is the name of what is beyond a bound.
const others = "others"

type tally map[string]int64

func (t tally) add(name string) {
	if _, known := t[name]; !known && len(t) >= maxNames {
		name = others
	}
	t[name]++
}

func (t tally) counts() []Count {
	list := make([]Count, 0, len(t))
	for name, n := range t {
		list = append(list, Count{name, n})
	}
	slices.SortFunc(list, func(a, b Count) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Name, b.Name)) })
	return list
}

// top keeps the largest.
type top struct {
	max   int
	pages []Page // sorted
}

func (t *top) add(p Page) {
	if p.Value <= 0 || len(t.pages) == t.max && p.Value <= t.pages[len(t.pages)-1].Value {
		return
	}
	at, _ := slices.BinarySearchFunc(t.pages, p, func(a, b Page) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.URL, b.URL))
	})
	t.pages = slices.Insert(t.pages, at, p)
	t.pages = t.pages[:min(len(t.pages), t.max)]
}

func (c *collector) note(l *List, u string) {
	l.Total++
	if len(l.URLs) < c.cfg.List {
		l.URLs = append(l.URLs, u)
	}
}

func (c *collector) add(r *record) {
	s := &c.sum
	s.Records++
	r.clamp()
	c.when(r.FetchedAt, r.Attempt)
	s.Bytes += r.Bytes
	s.WireBytes += r.WireBytes
	switch r.Kind {
	case "robots":
		s.Robots++
	case "sitemap":
		s.Sitemaps++
		c.addMap(r)
	default:
		c.addPage(r)
	}
}

// when widens the time of the crawl. What was never sent has the time at which it was given
// up.
func (c *collector) when(at time.Time, attempt int) {
	if at.IsZero() || attempt == 0 {
		return
	}
	if s := &c.sum; s.From.IsZero() || at.Before(s.From) {
		s.From = at
	}
	if c.sum.To.Before(at) {
		c.sum.To = at
	}
}

func (c *collector) addPage(r *record) {
	s := &c.sum
	s.URLs++
	page, failed := sink.Counts(r.Kind, r.Status, r.class())
	s.Pages += one(page)
	s.Failed += one(failed)
	c.depths.add(strconv.Itoa(r.Depth))
	status := "none"
	if r.Status != 0 {
		status = strconv.Itoa(r.Status)
	}
	c.statuses.add(status)
	if class := r.class(); class != "" {
		c.errors.add(class)
	}
	if r.Change != "" {
		c.changes.add(r.Change)
	}
	c.addHost(r)
	c.addAnswer(r)
	c.addLists(r)
	if r.broken() {
		c.addBroken(r)
	}
	c.redirects.add(r)
	c.repeats.add(r)
}

func (c *collector) addHost(r *record) {
	if r.Attempt == 0 && r.Status == 0 {
		return
	}
	name := hostOf(r.URL)
	h := c.hosts[name]
	if h == nil {
		if len(c.hosts) >= c.cfg.MaxHosts {
			c.sum.Hosts.Beyond++
			return
		}
		h = new(hostTally)
		c.hosts[name] = h
	}
	page, failed := sink.Counts(r.Kind, r.Status, r.class())
	h.urls++
	h.pages += one(page)
	h.failed += one(failed)
	h.bytes += r.Bytes
	h.waited += r.Timings.PermitWait
	if r.Timings.Total > 0 {
		h.latency.add(r.Timings.Total * stepsPerMS)
	}
}

// one counts what is true.
func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// hostOf is the host of a URL with its port, by which crawls name hosts. What is no URL is
// a host of no name.
func hostOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.Clone(u.Host) // the URL need not be kept for it
}

func (c *collector) addAnswer(r *record) {
	t := &r.Timings
	c.spent.PermitWait += t.PermitWait
	c.spent.DNS += t.DNS
	c.spent.Connect += t.Connect
	c.spent.TLS += t.TLS
	c.spent.FirstByte += t.FirstByte
	c.spent.Body += t.Body
	if t.Total > 0 {
		c.latency.add(t.Total * stepsPerMS)
		c.slowest.add(Page{URL: r.URL, Status: r.Status, Value: t.Total})
	}
	if r.Status == 0 {
		return
	}
	c.sizes.add(float64(r.Bytes))
	c.largest.add(Page{URL: r.URL, Status: r.Status, Value: float64(r.Bytes)})
	if !r.fromState {
		c.addType(r)
	}
}

func (c *collector) addType(r *record) {
	name := cmp.Or(r.ContentType, "none")
	kind := c.types[name]
	if kind == nil {
		if len(c.types) >= maxNames {
			name = others
		}
		if kind = c.types[name]; kind == nil {
			kind = &Type{Name: name}
			c.types[name] = kind
		}
	}
	kind.Pages++
	kind.Bytes += r.Bytes
}

// addLists notes what the page, its host or the crawl itself has to say of it.
func (c *collector) addLists(r *record) {
	s := &c.sum
	s.NoFollowLinks += int64(len(r.Nofollow))
	hidden := slices.Contains(r.Directives, "noindex") || slices.Contains(r.Directives, "none")
	if hidden {
		c.note(&s.NoIndex, r.URL)
	}
	if slices.Contains(r.Directives, "nofollow") || slices.Contains(r.Directives, "none") {
		c.note(&s.NoFollow, r.URL)
	}
	html := r.ContentType == "text/html" || r.ContentType == "application/xhtml+xml"
	if html && r.Status == 200 && r.Error == nil && strings.TrimSpace(r.Title) == "" && !hidden && !r.fromState {
		c.note(&s.Untitled, r.URL)
	}
	if r.Truncated {
		c.note(&s.Truncated, r.URL)
	}
	switch r.class() {
	case classRobots:
		c.note(&s.Refused, r.URL)
	case classFiltered:
		c.note(&s.Filtered, r.URL)
	}
	switch r.Change {
	case "new":
		c.note(&s.Changes.New, r.URL)
	case "changed":
		c.note(&s.Changes.Changed, r.URL)
	case "gone":
		c.note(&s.Changes.Gone, r.URL)
	}
}

// addMap counts a sitemap. What there is nothing to say of is not listed.
func (c *collector) addMap(r *record) {
	m := Map{URL: r.URL, Status: r.Status}
	all := &c.sum.Maps
	all.Total++
	if x := r.Sitemap; x != nil {
		m.Format, m.URLs, m.Problems, m.Problem = x.Format, x.URLs, x.Problems, x.Problem
		all.URLs += x.URLs
		all.Dropped += x.Dropped
		all.Problems += x.Problems
	} else if r.broken() {
		m.Problem = cmp.Or(r.class(), fmt.Sprintf("status %d", r.Status))
	}
	if m.Problem != "" && len(c.maps) < c.cfg.List {
		c.maps = append(c.maps, m)
	}
}

// perOctave is how many steps of a histogram a doubling has: the middle of one is at most
// 4.4 percent from what lies in it.
const perOctave = 8

// histogram counts values from 1 up in steps that grow with them. The zero histogram is
// ready to use; it is as long as its largest value needs, 8 counters for each doubling.
type histogram struct {
	steps []uint32
	n     int64
	max   float64
}

// add counts a value; what is below 1, or no number, counts as 1.
func (h *histogram) add(v float64) {
	const longest = 64 * perOctave
	step := 0
	if v > 1 {
		step = int(min(math.Log2(v)*perOctave, longest))
	}
	for len(h.steps) <= step {
		h.steps = append(h.steps, 0)
	}
	h.steps[step]++
	h.n++
	if v > h.max { // NaN is not
		h.max = v
	}
}

// quantile is the value that the share q of all is at or below; zero if there is none.
func (h *histogram) quantile(q float64) float64 {
	rank := max(int64(math.Ceil(q*float64(h.n))), 1)
	for step, n := range h.steps {
		if rank -= int64(n); rank <= 0 {
			middle := math.Exp2((float64(step) + 0.5) / perOctave)
			return min(middle, h.max)
		}
	}
	return 0
}

// spread is what is told of the values, each divided by unit.
func (h *histogram) spread(unit float64) Spread {
	return Spread{P50: h.quantile(0.5) / unit, P95: h.quantile(0.95) / unit, P99: h.quantile(0.99) / unit, Max: h.max / unit}
}

// stepsPerMS is how many steps of a histogram of times there are in a millisecond.
const stepsPerMS = 1000
