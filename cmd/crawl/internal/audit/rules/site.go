// Package rules checks a site. [Read] builds a [Site] from the facts that an audit has gathered, and [Site.Check] goes
// through the [Table]. Each rule is one [Rule] there; the lists, the reports and the page of the documentation are made
// from it.
//
// Each URL has a small struct. A link is a pointer to that of its target. The pages that link to a URL are kept only if
// the URL may have a problem, as their count and the first few. So 100,000 pages with a hundred links each fit into some
// hundred megabytes.
package rules

import (
	"cmp"
	"slices"
	"strings"
	"unique"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

// node is a URL and what is known of it.
type node struct {
	url      string
	page     *facts.Page // as a page of the site; nil if it was not visited
	out      *facts.Page // as the target of links out of scope: the response to GET, or else to HEAD
	links    []edge
	places   []place // to which links lead
	to       *node   // where it redirects; nil if it does not
	depth    int32
	is       verdict // see state
	linked   bool    // by another page, with a link for readers or as a resource
	resource bool    // of a page
	mapped   bool    // a sitemap lists it
	outside  bool
	variants bool // a sitemap lists other languages of it
	refs     refs
}

// edge is a link.
type edge struct {
	to   *node
	kind facts.Kind
}

// place is a place in a page.
type place struct {
	in       *node
	fragment unique.Handle[string]
}

// maxRefs is how many of the pages that link to a URL are kept.
const maxRefs = 20

// refs are these pages.
type refs struct {
	n     int
	last  *node
	first []*node
}

func (r *refs) add(from *node) {
	if r.last == from {
		return
	}
	if r.n, r.last = r.n+1, from; len(r.first) < maxRefs {
		r.first = append(r.first, from)
	}
}

// Site is what is known of a site.
type Site struct {
	Seeds    []string
	Partial  bool // not everything was visited, so a missing page means nothing
	External bool // links out of scope were checked

	nodes   []*node
	known   map[string]*node
	pages   []*node // HTML pages with the status 200
	robots  []*facts.Page
	host    map[string]bool  // origins that answered
	medians map[string]int64 // by origin: the median time of its pages, in milliseconds

	Totals Totals
}

// Totals count what was checked.
type Totals struct {
	URLs       int   `json:"urls"`                  // of the site, including resources
	Pages      int   `json:"pages"`                 // HTML pages with the status 200
	External   int   `json:"external"`              // links out of scope that were checked
	NotChecked int   `json:"not_checked,omitempty"` // links out of scope that were not
	Links      int64 `json:"links"`
	Bytes      int64 `json:"bytes"`
}

// node returns the node of a URL, which is new if the URL is.
func (s *Site) node(url string) *node {
	n := s.known[url]
	if n == nil {
		n = &node{url: strings.Clone(url), depth: -1}
		s.nodes, s.known[n.url] = append(s.nodes, n), n
	}
	return n
}

// Read fills a site from a file of facts.
func Read(path string, s *Site) error {
	s.known, s.host = make(map[string]*node), make(map[string]bool)
	err := facts.Each(path, "", s.add)
	s.connect()
	return err
}

// add adds the facts of one URL, and what it links to.
func (s *Site) add(f *facts.Page) {
	n, origin := s.node(f.URL), facts.Origin(f.URL)
	if f.To != "" {
		n.to = s.node(f.To)
		n.to.linked = n.to.linked || n.to != n && f.Kind == facts.Ordinary
	}
	switch f.Kind {
	case facts.Robots: // a link may have led there as well, as to a page
		s.robots = append(s.robots, f)
		return
	case facts.Outside:
		if n.outside = true; n.out == nil || f.Method == "" {
			n.out = f
		}
	case facts.Ordinary:
		s.Totals.Bytes += f.Size
		s.host[origin] = s.host[origin] || f.Status != 0
		fallthrough
	default:
		n.page = f
	}
	n.links = make([]edge, 0, len(f.Links))
	for _, text := range f.Links {
		kind, url, fragment := facts.ParseLink(text)
		if url == "" {
			continue
		}
		to := s.node(url)
		n.links = append(n.links, edge{to, kind})
		if fragment != "" && kind == facts.Anchor {
			n.places = append(n.places, place{to, unique.Make(strings.Clone(fragment))})
		}
		to.outside = to.outside || kind == facts.Out
		switch {
		case f.Kind == facts.Map:
			to.mapped, to.variants = true, to.variants || kind == facts.Translated
		case to != n:
			s.Totals.Links++
			to.resource = to.resource || kind == facts.Resource || kind == facts.Part
			to.linked = to.linked || kind != facts.Named
		}
	}
	f.Links = nil
}

// connect computes what needs all facts: who links to what, the medians, the depths, and the order of the pages.
func (s *Site) connect() {
	for _, n := range s.nodes {
		// For a URL out of scope that robots.txt disallows, the facts do not say that it is out of scope.
		if n.outside && n.page != nil && n.page.Kind == facts.Ordinary && n.page.Status == 0 {
			n.out, n.page = n.page, nil
		}
		if n.out != nil {
			s.Totals.External++
		} else if n.outside && n.page == nil {
			s.Totals.NotChecked++
		}
		if n.page == nil {
			continue
		}
		if n.page.Kind == facts.Ordinary {
			s.Totals.URLs++
		}
		if n.page.HTML != nil {
			s.pages = append(s.pages, n)
		}
		n.refer()
	}
	s.Totals.Pages, s.medians = len(s.pages), make(map[string]int64)
	for origin, list := range grouped(s, pages, (*row).origin) {
		slices.SortFunc(list, func(a, b *node) int { return cmp.Compare(a.page.Millis, b.page.Millis) })
		s.medians[origin] = list[len(list)/2].page.Millis
	}
	s.depths()
	// Of two equal pages the one nearer to a seed is first, whichever was fetched first.
	slices.SortFunc(s.pages, func(a, b *node) int {
		return cmp.Or(cmp.Compare(uint32(a.depth), uint32(b.depth)), cmp.Compare(a.url, b.url)) //nolint:gosec // -1 is the last
	})
}

// refer records a page at the URLs to which it leads and that are not fine.
func (n *node) refer() {
	lead := func(to *node) {
		if to != nil && to != n && to.state()&fine == 0 {
			to.refs.add(n)
		}
	}
	for _, e := range n.links {
		if n.page.Kind != facts.Map {
			lead(e.to)
		}
	}
	lead(n.to)
}

// depths counts the clicks from a seed to each URL. A redirect does not count.
func (s *Site) depths() {
	var now, next []*node
	for _, seed := range s.Seeds {
		now = append(now, s.known[seed])
	}
	for depth := int32(0); len(now) > 0; depth++ {
		for i := 0; i < len(now); i++ {
			n := now[i]
			if n == nil || n.depth >= 0 {
				continue
			}
			n.depth, now = depth, append(now, n.to)
			for _, e := range n.links {
				if (e.kind == facts.Anchor || e.kind == facts.Resource) && e.to.depth < 0 {
					next = append(next, e.to)
				}
			}
		}
		now, next = next, now[:0]
	}
}

// answer returns the response of a URL, as a page or out of scope; nil if it was not requested.
func (n *node) answer() *facts.Page { return cmp.Or(n.page, n.out) }

// html returns the facts of a page; nil if the URL is none, or not known.
func (n *node) html() *facts.HTML {
	if n == nil || n.page == nil {
		return nil
	}
	return n.page.HTML
}

// maxHops bounds a chain of redirects.
const maxHops = 30

// follow returns the chain of redirects from a URL, including the URL itself. loop reports whether it leads back to
// itself.
func (n *node) follow() (way []*node, loop bool) {
	for way = []*node{n}; n.to != nil && len(way) < maxHops; way = append(way, n) {
		if n = n.to; slices.Contains(way, n) {
			return append(way, n), true
		}
	}
	return way, false
}

// end returns the last URL of that chain.
func (n *node) end() *node {
	way, _ := n.follow()
	return way[len(way)-1]
}

// urls returns the URLs of nodes.
func urls(of []*node) []string {
	list := make([]string, len(of))
	for i, n := range of {
		list[i] = n.url
	}
	return list
}

// weight returns the size of a page with its resources.
func (n *node) weight() (bytes int64) {
	bytes = n.page.Size
	for _, e := range n.links {
		if part := e.to.page; e.kind == facts.Resource && part != nil {
			bytes += part.Size
		}
	}
	return bytes
}

// Measured is a page and a number of milliseconds or bytes.
type Measured struct {
	URL string `json:"url"`
	N   int64  `json:"n"`
}

// Extremes returns the slowest and the heaviest pages, at most most of each.
func (s *Site) Extremes(most int) (slowest, heaviest []Measured) {
	top := func(of func(*node) int64) (list []Measured) {
		for _, n := range s.pages {
			list = append(list, Measured{n.url, of(n)})
		}
		slices.SortFunc(list, func(a, b Measured) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.URL, b.URL)) })
		return slices.Clone(list[:min(len(list), most)])
	}
	return top(func(n *node) int64 { return n.page.Millis }), top((*node).weight)
}
