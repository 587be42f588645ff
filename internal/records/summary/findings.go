package summary

import (
	"cmp"
	"fmt"
	"slices"
)

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

func (c *collector) link(l *linkRecord) {
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
	s.Sizes, s.Latency = c.sizes.spread(1), c.latency.spread(stepsPerMS)
	s.Spent = c.spent.result()
	s.Hosts.Total, s.Hosts.Listed = len(c.hosts), c.listHosts()
	s.Slowest, s.Largest = c.slowest.pages, c.largest.pages
	s.Broken.Listed = c.listBroken()
	s.Redirects = c.redirects.list(c.broken, c.cfg.List)
	s.Duplicates = c.repeats.result()
	s.Changes.Counts = c.changes.counts()
	slices.SortStableFunc(c.maps, func(a, b Map) int { return cmp.Compare(b.Problems, a.Problems) })
	s.Maps.Listed = c.maps
	s.Left = c.left()
	return s
}

func (c *collector) listHosts() []Host {
	list := make([]Host, 0, len(c.hosts))
	for name, h := range c.hosts {
		list = append(list, Host{
			Host: name, URLs: h.urls, Pages: h.pages, Failed: h.failed, Bytes: h.bytes,
			Latency: h.latency.spread(stepsPerMS), Waited: h.waited / 1000,
		})
	}
	slices.SortFunc(list, func(a, b Host) int {
		return cmp.Or(cmp.Compare(b.Latency.P95, a.Latency.P95), cmp.Compare(a.Host, b.Host))
	})
	return list[:min(len(list), c.cfg.List)]
}

// result is where the time went, what took most first; what took none is left out.
func (t *timings) result() []Spent {
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

// redirects are where URLs lead, for at most max of them.
type redirects struct {
	max    int
	to     map[string]string
	result Redirects
	beyond int64
}

func (x *redirects) add(r *record) {
	if r.RedirectTo == "" || r.Status < 300 || r.Status > 399 {
		return
	}
	x.result.Total++
	if r.Status == 301 || r.Status == 308 {
		x.result.Permanent++
	}
	if len(x.to) >= x.max {
		x.beyond++
		return
	}
	x.to[r.URL] = r.RedirectTo
}

// longestChain is where a chain is cut: crawls follow no longer ones.
const longestChain = 50

// list finds the chains. A chain begins where no redirect leads; what is then still not in
// one is a loop, or what leads into one.
func (x *redirects) list(broken map[string]*BrokenLink, most int) Redirects {
	led := make(map[string]bool, len(x.to))
	for from, to := range x.to {
		if from != to {
			led[to] = true
		}
	}
	var chains []Chain
	seen := make(map[string]bool, len(x.to))
	for _, from := range x.starts(led) {
		if seen[from] {
			continue
		}
		c := x.follow(from, seen)
		if b := broken[c.URLs[len(c.URLs)-1]]; b != nil {
			c.Status, c.Class = b.Status, b.Class
		}
		switch {
		case c.Loop:
			x.result.Loops++
		case len(c.URLs) > 2:
			x.result.Chains++
		case c.Status == 0 && c.Class == "":
			continue
		}
		chains = append(chains, c)
	}
	slices.SortStableFunc(chains, func(a, b Chain) int {
		if a.Loop != b.Loop {
			if a.Loop {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(len(b.URLs), len(a.URLs)), cmp.Compare(a.URLs[0], b.URLs[0]))
	})
	x.result.Listed = chains[:min(len(chains), most)]
	return x.result
}

// starts are all redirects, those first to which none leads, so that a chain is found from
// its beginning.
func (x *redirects) starts(led map[string]bool) []string {
	all := make([]string, 0, len(x.to))
	for from := range x.to {
		all = append(all, from)
	}
	slices.SortFunc(all, func(a, b string) int {
		if led[a] != led[b] {
			if led[b] {
				return -1
			}
			return 1
		}
		return cmp.Compare(a, b)
	})
	return all
}

// follow walks a chain to its end, to where it comes back, or to where it gets too long.
func (x *redirects) follow(from string, seen map[string]bool) Chain {
	c := Chain{URLs: []string{from}}
	for at := from; len(c.URLs) <= longestChain; {
		seen[at] = true
		to, more := x.to[at]
		if !more {
			break
		}
		c.Loop = slices.Contains(c.URLs, to)
		c.URLs = append(c.URLs, to)
		if c.Loop {
			break
		}
		at = to
	}
	return c
}

// repeats finds pages that repeat others: those that the crawl has marked, and of those it
// has not, the ones with the same digest. It keeps at most max digests and as many groups.
type repeats struct {
	max, list int
	groups    map[string]*Group // by the page that is repeated
	first     map[string]string // digests, and the page that had it first
	total     Duplicates
	beyond    int64
}

func (x *repeats) add(r *record) {
	of := r.DuplicateOf
	switch {
	case r.Duplicate == "near":
		x.total.Near++
	case r.Duplicate != "":
		x.total.Exact++
	case r.Digest == "" || r.Bytes == 0 || r.Status != 200:
		return
	default:
		if of = x.same(r); of == "" {
			return
		}
		x.total.Exact++
	}
	g := x.groups[of]
	if g == nil {
		if len(x.groups) >= x.max {
			x.beyond++
			return
		}
		g = &Group{Of: of}
		x.groups[of] = g
	}
	g.Total++
	if len(g.URLs) < listedOfGroup {
		g.URLs = append(g.URLs, r.URL)
	}
}

// listedOfGroup is how many pages of a group are named: enough to see the pattern.
const listedOfGroup = 5

// same is the page before it with the same body; empty if there is none, or it is the same
// URL in another record.
func (x *repeats) same(r *record) string {
	of, known := x.first[r.Digest]
	switch {
	case known && of != r.URL:
		return of
	case known:
	case len(x.first) >= x.max:
		x.beyond++
	default:
		x.first[r.Digest] = r.URL
	}
	return ""
}

func (x *repeats) result() Duplicates {
	for _, g := range x.groups {
		x.total.Groups = append(x.total.Groups, *g)
	}
	slices.SortFunc(x.total.Groups, func(a, b Group) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Of, b.Of))
	})
	x.total.Groups = x.total.Groups[:min(len(x.total.Groups), x.list)]
	return x.total
}
