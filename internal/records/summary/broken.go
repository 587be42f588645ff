package summary

import (
	"cmp"
	"fmt"
	"slices"
)

// addBroken keeps a page that is none, for the second reading.
func (c *collector) addBroken(r *record) {
	c.sum.Broken.Total++
	if len(c.broken) >= c.cfg.MaxBroken {
		return
	}
	c.broken[r.URL] = &BrokenLink{URL: r.URL, Status: r.Status, Class: r.class()}
	if r.Referrer != "" {
		c.fallback[r.URL] = r.Referrer
	}
}

// link looks at what a record links to.
func (c *collector) link(l *linker) {
	for _, to := range l.Links {
		c.refer(to, l.URL)
	}
	for _, to := range l.Resources {
		c.refer(to, l.URL)
	}
	if l.RedirectTo != "" {
		c.refer(l.RedirectTo, l.URL)
	}
}

// refer notes that one page links to another. A page that has it among its links and among
// its resources links once.
func (c *collector) refer(to, from string) {
	b := c.broken[to]
	if b == nil || len(b.Referrers) > 0 && b.Referrers[len(b.Referrers)-1] == from {
		return
	}
	b.Pages++
	if len(b.Referrers) < c.cfg.Referrers {
		b.Referrers = append(b.Referrers, from)
	}
}

// listBroken is the list: what most pages link to comes first.
func (c *collector) listBroken() []BrokenLink {
	list := make([]BrokenLink, 0, len(c.broken))
	for u, b := range c.broken {
		// What a sitemap names, or a page whose record has no links, is in no list of links.
		if from := c.fallback[u]; b.Pages == 0 && from != "" {
			b.Pages, b.Referrers = 1, []string{from}
		}
		list = append(list, *b)
	}
	slices.SortFunc(list, func(a, b BrokenLink) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.URL, b.URL))
	})
	return list[:min(len(list), c.cfg.List)]
}

// finish sorts what was collected.
func (c *collector) finish() *Summary {
	s := &c.sum
	s.Statuses, s.Errors, s.Depths = c.statuses.counts(), c.errors.counts(), c.depths.counts()
	slices.SortFunc(s.Depths, func(a, b Count) int { // "10" comes behind "9"
		return cmp.Or(cmp.Compare(len(a.Name), len(b.Name)), cmp.Compare(a.Name, b.Name))
	})
	s.Types = make([]Type, 0, len(c.types))
	for _, t := range c.types {
		s.Types = append(s.Types, *t)
	}
	slices.SortFunc(s.Types, func(a, b Type) int { return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Name, b.Name)) })
	s.Sizes, s.Latency = c.sizes.spread(1), c.latency.spread(micros)
	s.Spent = c.spent.told()
	s.Hosts.Total, s.Hosts.Listed = len(c.hosts), c.listHosts()
	s.Slowest, s.Largest = c.slowest.pages, c.largest.pages
	s.Broken.Listed = c.listBroken()
	s.Redirects = c.redirects.list(c.broken, c.cfg.List)
	s.Duplicates = c.repeats.told()
	s.Changes.Counts = c.changes.counts()
	slices.SortStableFunc(c.maps, func(a, b Map) int { return cmp.Compare(b.Problems, a.Problems) })
	s.Maps.Listed = c.maps
	s.Left = c.left()
	return s
}

// listHosts is the hosts with the slowest first.
func (c *collector) listHosts() []Host {
	list := make([]Host, 0, len(c.hosts))
	for name, h := range c.hosts {
		list = append(list, Host{
			Host: name, URLs: h.urls, Pages: h.pages, Failed: h.failed, Bytes: h.bytes,
			Latency: h.latency.spread(micros), Waited: h.waited / 1000,
		})
	}
	slices.SortFunc(list, func(a, b Host) int {
		return cmp.Or(cmp.Compare(b.Latency.P95, a.Latency.P95), cmp.Compare(a.Host, b.Host))
	})
	return list[:min(len(list), c.cfg.List)]
}

// told is where the time went, what took most first; what took none is left out.
func (t *timings) told() []Spent {
	list := []Spent{
		{"waiting for the rate limiter", t.PermitWait / 1000},
		{"looking up names", t.DNS / 1000},
		{"connecting", t.Connect / 1000},
		{"TLS handshakes", t.TLS / 1000},
		{"waiting for the first byte", t.FirstByte / 1000},
		{"reading bodies", t.Body / 1000},
	}
	slices.SortStableFunc(list, func(a, b Spent) int { return cmp.Compare(b.Seconds, a.Seconds) })
	return slices.DeleteFunc(list, func(s Spent) bool { return s.Seconds <= 0 })
}

// left says what has reached a bound.
func (c *collector) left() []string {
	var out []string
	say := func(n int64, format string, args ...any) {
		if n > 0 {
			out = append(out, fmt.Sprintf(format, args...))
		}
	}
	say(c.sum.Hosts.Beyond, "hosts beyond the first %d are not told apart: they have %d pages", c.cfg.MaxHosts, c.sum.Hosts.Beyond)
	n := c.sum.Broken.Total - int64(len(c.broken))
	say(n, "of broken pages beyond the first %d it is not told who links to them: they are %d", c.cfg.MaxBroken, n)
	say(c.redirects.beyond, "chains of redirects are followed through the first %d: there are %d more", c.cfg.MaxRedirects, c.redirects.beyond)
	say(c.repeats.beyond, "repetitions were looked for among the first %d bodies and groups: %d pages were beyond", c.cfg.MaxDigests, c.repeats.beyond)
	return out
}
