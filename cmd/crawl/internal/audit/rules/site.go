// Package rules checks a site. [Read] builds a [Site] from the facts that an audit has gathered, and [Site.Check] goes
// through the [Table]. Each rule is one [Rule] there; the lists, the reports and the page of the documentation are made
// from it.
//
// Each URL has a number and a small struct. A link is the number of its target. The pages that link to a URL are kept
// only if the URL may have a problem, as their count and the first few. So 100,000 pages with a hundred links each fit
// into some hundred megabytes.
package rules

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"unique"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

// ID is the number of a URL.
type ID = int32

// none is the ID of no URL.
const none ID = -1

// node is a URL and what is known of it.
type node struct {
	id       ID
	url      string
	page     *facts.Page // as a page of the site; nil if it was not visited
	out      *facts.Page // as the target of links out of scope: the response to GET, or else to HEAD
	links    []edge
	to       ID // where it redirects
	depth    int32
	linked   bool // by another page, with a link for readers or as a resource
	named    bool // by another page, in any way
	resource bool // of a page
	mapped   bool // a sitemap lists it
	outside  bool
	variants bool // a sitemap lists other languages of it
	refs     refs
}

// edge is a link.
type edge struct {
	to       ID // where it redirects to, or none
	kind     facts.Kind
	fragment unique.Handle[string]
}

// maxRefs is how many of the pages that link to a URL are kept.
const maxRefs = 20

// refs are these pages.
type refs struct {
	n     int
	last  ID
	first []ID
}

func (r *refs) add(from ID) {
	if r.n > 0 && r.last == from {
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
	ids     map[string]ID
	pages   []ID // HTML pages with the status 200
	robots  []*facts.Page
	host    map[string]bool  // origins that answered
	medians map[string]int64 // by origin: the median time of its pages, in milliseconds

	Totals Totals
}

// Totals count what was checked.
type Totals struct {
	URLs     int   `json:"urls"`     // of the site, including resources
	Pages    int   `json:"pages"`    // HTML pages with the status 200
	External int   `json:"external"` // links out of scope that were checked
	Links    int64 `json:"links"`
	Bytes    int64 `json:"bytes"`
}

// node returns the node of a URL, which is new if the URL is.
func (s *Site) node(url string) *node {
	id, known := s.ids[url]
	if !known {
		id = ID(len(s.nodes)) //nolint:gosec // a crawl knows at most a billion URLs
		n := &node{id: id, url: strings.Clone(url), to: none, depth: -1}
		s.nodes, s.ids[n.url] = append(s.nodes, n), id
	}
	return s.nodes[id]
}

// Read fills a site from a file of facts.
func Read(path string, s *Site) error {
	s.ids, s.host = make(map[string]ID), make(map[string]bool)
	err := facts.Each(path, "", s.add)
	s.connect()
	return err
}

// add adds the facts of one URL.
func (s *Site) add(f *facts.Page) {
	n, origin := s.node(f.URL), facts.Origin(f.URL)
	if f.To != "" {
		n.to = s.node(f.To).id
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
		if kind, url, fragment := facts.ParseLink(text, origin); url != "" {
			n.links = append(n.links, edge{s.node(url).id, kind, unique.Make(strings.Clone(fragment))})
		}
	}
	for _, text := range f.Alternated {
		_, url, _ := facts.ParseLink(text, origin)
		s.node(url).variants = true
	}
	f.Links, f.Alternated = nil, nil
}

// connect computes what needs all facts: who links to what, the medians, the depths, and the order of the pages.
func (s *Site) connect() {
	// For a URL out of scope that robots.txt disallows, the facts do not say that it is out of scope.
	for _, n := range s.nodes {
		for _, e := range n.links {
			if to := s.nodes[e.to]; e.kind == facts.OutsideAnchor || e.kind == facts.OutsideResource {
				to.outside = true
				if to.page != nil && to.page.Kind == facts.Ordinary && to.page.Status == 0 {
					to.out, to.page = to.page, nil
				}
			}
		}
	}
	times := make(map[string][]int64)
	for _, n := range s.nodes {
		if n.out != nil {
			s.Totals.External++
		}
		if n.page == nil {
			continue
		}
		if n.page.Kind == facts.Ordinary {
			s.Totals.URLs++
		}
		if n.page.HTML != nil {
			s.pages = append(s.pages, n.id)
			times[facts.Origin(n.url)] = append(times[facts.Origin(n.url)], n.page.Millis)
		}
		s.refer(n)
	}
	s.Totals.Pages, s.medians = len(s.pages), make(map[string]int64, len(times))
	for origin, list := range times {
		slices.Sort(list)
		s.medians[origin] = list[len(list)/2]
	}
	s.believe()
	s.depths()
	// Of two equal pages the one nearer to a seed is first, whichever was fetched first.
	slices.SortFunc(s.pages, func(a, b ID) int {
		x, y := s.nodes[a], s.nodes[b]
		return cmp.Or(cmp.Compare(uint32(x.depth), uint32(y.depth)), cmp.Compare(x.url, y.url)) //nolint:gosec // -1 is the last
	})
}

// refer records what a URL links to and where it redirects to.
func (s *Site) refer(n *node) {
	for _, e := range n.links {
		to := s.nodes[e.to]
		switch {
		case n.page.Kind == facts.Map:
			to.mapped = true
		case to != n:
			s.Totals.Links++
			to.resource = to.resource || e.kind == facts.Resource || e.kind == facts.OutsideResource
			to.named, to.linked = true, to.linked || e.kind != facts.Named
			to.referred(n)
		}
	}
	if n.to != none && n.to != n.id {
		to := s.nodes[n.to]
		to.linked = to.linked || n.page.Kind == facts.Ordinary
		to.referred(n)
	}
}

// referred records who links to a URL, unless the URL is fine.
func (n *node) referred(from *node) {
	if a := n.answer(); a == nil || a.Status != http.StatusOK && (n.page != nil || a.Status/100 != 2) || n.page != nil && a.Class != "" {
		n.refs.add(from.id)
	}
}

// believe adds the referrer of the crawl as a link, if no page in the facts links to a URL, as for a resource that a
// style sheet loads.
func (s *Site) believe() {
	for _, n := range s.nodes {
		if n.page == nil || n.linked || n.named || n.page.Referrer == "" {
			continue
		}
		if from, known := s.ids[n.page.Referrer]; known && s.nodes[from].page != nil && s.nodes[from].page.Kind == facts.Ordinary {
			n.linked, n.resource = true, true // all other links are in the facts
			n.refs.add(from)
		}
	}
}

// depths counts the clicks from a seed to each URL. A redirect does not count.
func (s *Site) depths() {
	var now, next []ID
	reach := func(list *[]ID, id ID, depth int32) {
		if n := s.nodes[id]; n.depth < 0 {
			n.depth = depth
			*list = append(*list, id)
		}
	}
	for _, seed := range s.Seeds {
		if id, known := s.ids[seed]; known {
			reach(&now, id, 0)
		}
	}
	for depth := int32(0); len(now) > 0; depth++ {
		for i := 0; i < len(now); i++ {
			n := s.nodes[now[i]]
			if n.to != none {
				reach(&now, n.to, depth)
			}
			for _, e := range n.links {
				if e.kind == facts.Anchor || e.kind == facts.Resource {
					reach(&next, e.to, depth+1)
				}
			}
		}
		now, next = next, now[:0]
	}
}

// answer returns the response of a URL, as a page or out of scope; nil if it was not requested.
func (n *node) answer() *facts.Page { return cmp.Or(n.page, n.out) }

// judged returns the verdict on that response. A nil node is unknown.
func (n *node) judged() (verdict, string) {
	if n == nil {
		return unknown, ""
	}
	return judge(n.answer())
}

// maxHops bounds a chain of redirects.
const maxHops = 30

// follow returns the chain of redirects from a URL, including the URL itself. loop reports whether it leads back to
// itself.
func (s *Site) follow(id ID) (way []ID, loop bool) {
	for way = []ID{id}; s.nodes[id].to != none && len(way) < maxHops; way = append(way, id) {
		if id = s.nodes[id].to; slices.Contains(way, id) {
			return append(way, id), true
		}
	}
	return way, false
}

// end returns the last URL of that chain.
func (s *Site) end(id ID) ID {
	way, _ := s.follow(id)
	return way[len(way)-1]
}

// urls returns the URLs of IDs.
func (s *Site) urls(ids []ID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = s.nodes[id].url
	}
	return list
}

// weight returns the size of a page with its resources.
func (s *Site) weight(n *node) (bytes int64) {
	bytes = n.page.Size
	for _, e := range n.links {
		if part := s.nodes[e.to].page; e.kind == facts.Resource && part != nil {
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
	top := func(of func(*node) int64) []Measured {
		list := make([]Measured, len(s.pages))
		for i, id := range s.pages {
			list[i] = Measured{s.nodes[id].url, of(s.nodes[id])}
		}
		slices.SortStableFunc(list, func(a, b Measured) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.URL, b.URL)) })
		return slices.Clone(list[:min(len(list), most)])
	}
	return top(func(n *node) int64 { return n.page.Millis }), top(s.weight)
}
