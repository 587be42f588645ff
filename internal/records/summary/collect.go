package summary

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/records/sink"
)

const (
	// maxNames is how many names a tally distinguishes: more than there are statuses, error classes and depths worth a
	// line. A manipulated file could have any number.
	maxNames = 200
	// others is the name for everything beyond a bound.
	others = "others"
)

type collector struct {
	cfg Config
	sum Summary

	statuses, errors, depths, changes tally
	types                             map[string]*Type // at most maxNames
	sizes, latency                    histogram
	spent                             timings // milliseconds
	hosts                             map[string]*hostTally

	broken    map[string]*BrokenLink // at most cfg.MaxBroken
	fallback  map[string]string      // by broken URL: the referrer that its own record names
	redirects redirects
	repeats   repeats
}

// hostTally is what is known about a host. There are at most cfg.MaxHosts; the pages of other hosts are counted
// together.
type hostTally struct {
	Host
	latency histogram
}

func newCollector(cfg Config) *collector {
	return &collector{
		cfg:      cfg,
		statuses: tally{}, errors: tally{}, depths: tally{}, changes: tally{},
		types: map[string]*Type{}, hosts: map[string]*hostTally{},
		broken: map[string]*BrokenLink{}, fallback: map[string]string{},
		redirects: redirects{max: cfg.MaxRedirects, to: map[string]string{}},
		repeats:   repeats{max: cfg.MaxDigests, groups: map[string]*Group{}, first: map[string]string{}},
	}
}

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

// keep inserts a page into the list of the largest, if it is one of them.
func (c *collector) keep(largest []Page, r *visit, value float64) []Page {
	if full := len(largest) == c.cfg.List; value <= 0 || full && value <= largest[len(largest)-1].Value {
		return largest
	}
	p := Page{URL: r.URL, Status: r.Status, Value: value}
	at, _ := slices.BinarySearchFunc(largest, p, func(a, b Page) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.URL, b.URL))
	})
	largest = slices.Insert(largest, at, p)
	return largest[:min(len(largest), c.cfg.List)]
}

func (c *collector) add(r *visit) {
	s := &c.sum
	s.Records++
	r.clamp()
	// A URL that was never requested has the time when it was given up.
	if at := r.FetchedAt; !at.IsZero() && r.Attempt != 0 {
		if s.From.IsZero() || at.Before(s.From) {
			s.From = at
		}
		if s.To.Before(at) {
			s.To = at
		}
	}
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

func (c *collector) addPage(r *visit) {
	s := &c.sum
	s.URLs++
	page, failed := sink.Counts(r.Kind, r.Status, r.Error.Class)
	s.Pages += one(page)
	s.Failed += one(failed)
	c.depths.add(strconv.Itoa(r.Depth))
	status := "none"
	if r.Status != 0 {
		status = strconv.Itoa(r.Status)
	}
	c.statuses.add(status)
	if r.Error.Class != "" {
		c.errors.add(r.Error.Class)
	}
	if r.Change != "" {
		c.changes.add(r.Change)
	}
	if r.Attempt != 0 || r.Status != 0 {
		c.addHost(r, page, failed)
	}
	c.addAnswer(r)
	c.addLists(r)
	if r.broken() {
		c.addBroken(r)
	}
	c.redirects.add(r)
	c.repeats.add(r)
}

func (c *collector) addHost(r *visit, page, failed bool) {
	name := "" // for something that is no URL
	if u, err := url.Parse(r.URL); err == nil {
		name = u.Host
	}
	h := c.hosts[name]
	if h == nil {
		if len(c.hosts) >= c.cfg.MaxHosts {
			c.sum.Hosts.Beyond++
			return
		}
		h = &hostTally{Host: Host{Host: strings.Clone(name)}} // a substring would keep the whole URL in memory
		c.hosts[h.Host.Host] = h
	}
	h.URLs++
	h.Pages += one(page)
	h.Failed += one(failed)
	h.Bytes += r.Bytes
	h.Waited += r.Timings.PermitWait / 1000
	if r.Timings.Total > 0 {
		h.latency.add(r.Timings.Total * stepsPerMS)
	}
}

// one returns 1 for true and 0 for false.
func one(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func (c *collector) addAnswer(r *visit) {
	spent := c.spent.all()
	for i, v := range r.Timings.all() {
		*spent[i] += *v
	}
	if total := r.Timings.Total; total > 0 {
		c.latency.add(total * stepsPerMS)
		c.sum.Slowest = c.keep(c.sum.Slowest, r, total)
	}
	if r.Status == 0 {
		return
	}
	c.sizes.add(float64(r.Bytes))
	c.sum.Largest = c.keep(c.sum.Largest, r, float64(r.Bytes))
	if r.fromState {
		return
	}
	name := cmp.Or(r.ContentType, "none")
	if c.types[name] == nil && len(c.types) >= maxNames {
		name = others
	}
	kind := c.types[name]
	if kind == nil {
		kind = &Type{Name: name}
		c.types[name] = kind
	}
	kind.Pages++
	kind.Bytes += r.Bytes
}

// addLists adds a page to the lists for which its directives, its host or the crawl qualify it.
func (c *collector) addLists(r *visit) {
	s := &c.sum
	s.NoFollowLinks += int64(len(r.Nofollow))
	says := func(word string) bool {
		return slices.Contains(r.Directives, word) || slices.Contains(r.Directives, "none")
	}
	html := r.ContentType == "text/html" || r.ContentType == "application/xhtml+xml"
	untitled := html && r.Status == 200 && r.Error.Class == "" && strings.TrimSpace(r.Title) == "" && !says("noindex") && !r.fromState
	for _, x := range []struct {
		list *List
		is   bool
	}{
		{&s.NoIndex, says("noindex")},
		{&s.NoFollow, says("nofollow")},
		{&s.Untitled, untitled},
		{&s.Truncated, r.Truncated},
		{&s.Refused, r.Error.Class == classRobots},
		{&s.Filtered, r.Error.Class == classFiltered},
		{&s.Changes.New, r.Change == "new"},
		{&s.Changes.Changed, r.Change == "changed"},
		{&s.Changes.Gone, r.Change == "gone"},
	} {
		if !x.is {
			continue
		}
		if x.list.Total++; len(x.list.URLs) < c.cfg.List {
			x.list.URLs = append(x.list.URLs, r.URL)
		}
	}
}

// addMap counts a sitemap. Only one with a problem is listed.
func (c *collector) addMap(r *visit) {
	var m Map
	all := &c.sum.Maps
	all.Total++
	if x := r.Sitemap; x != nil {
		m = x.Map
		all.URLs += x.URLs
		all.Dropped += x.Dropped
		all.Problems += x.Problems
	} else if r.broken() {
		m.Problem = cmp.Or(r.Error.Class, fmt.Sprintf("status %d", r.Status))
	}
	m.URL, m.Status = r.URL, r.Status
	if m.Problem != "" && len(all.Listed) < c.cfg.List {
		all.Listed = append(all.Listed, m)
	}
}

const (
	// perOctave is how many steps of a histogram there are per doubling: the middle of a step differs by at most 4.4
	// percent from the values in it.
	perOctave = 8
	// stepsPerMS is how many units of a histogram of times there are per millisecond.
	stepsPerMS = 1000
)

// histogram counts values from 1 up in steps that grow with the value. The zero histogram is ready to use. Its length
// is what its largest value needs, 8 counters per doubling.
type histogram struct {
	steps []uint32
	n     int64
	max   float64
}

// add counts a value. Values below 1, and NaN, count as 1.
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
	if v > h.max { // false for NaN
		h.max = v
	}
}

// quantile returns the value that the fraction q of all values does not exceed; zero if there are no values.
func (h *histogram) quantile(q float64) float64 {
	rank := max(int64(math.Ceil(q*float64(h.n))), 1)
	for step, n := range h.steps {
		if rank -= int64(n); rank <= 0 {
			return min(math.Exp2((float64(step)+0.5)/perOctave), h.max)
		}
	}
	return 0
}

// spread returns the distribution of the values, each divided by unit.
func (h *histogram) spread(unit float64) Spread {
	return Spread{P50: h.quantile(0.5) / unit, P95: h.quantile(0.95) / unit, P99: h.quantile(0.99) / unit, Max: h.max / unit}
}
