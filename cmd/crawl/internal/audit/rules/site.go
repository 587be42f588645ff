// Package rules says what is wrong with a site. [Read] makes a [Site] of the facts that an audit has gathered, and
// [Site.Check] goes through the [Table]: a rule is one [Rule] there, from which the lists, the reports and the page of the
// documentation follow.
//
// Of each URL there is a number and a small struct. A link is the number of its target, and pages that link to a URL are
// kept where something is wrong with it: their count, and the first few. So 100,000 pages with a hundred links each fit
// into some hundred megabytes.
package rules

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"unique"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

// ID is the number of a URL.
type ID = int32

// none is no URL.
const none ID = -1

// node is a URL.
type node struct {
	id       ID
	url      string
	page     *facts.Page // as a page of the site; nil: it was not visited
	out      *facts.Page // as the target of links out of scope: what GET said, else HEAD
	links    []edge
	to       ID // where it redirects
	depth    int32
	linked   bool // by another page, for readers
	named    bool // by another page in any way
	resource bool // a page is made of it
	mapped   bool // a sitemap lists it
	outside  bool
	variants bool // a sitemap lists other languages of it
	refs     refs
}

// edge is a link.
type edge struct {
	to       ID
	kind     facts.Kind
	fragment unique.Handle[string]
}

// refs are the pages that link to a URL.
type refs struct {
	n     int
	last  ID
	first []ID
}

// maxRefs is how many of them are kept.
const maxRefs = 20

func (r *refs) add(from ID) {
	if r.n > 0 && r.last == from {
		return
	}
	r.n, r.last = r.n+1, from
	if len(r.first) < maxRefs {
		r.first = append(r.first, from)
	}
}

// Site is what is known of a site.
type Site struct {
	Seeds    []string
	Partial  bool // not all of it was visited: that a page is not there says nothing
	External bool // links out of scope were asked for

	nodes   []*node
	ids     map[string]ID
	pages   []ID // HTML with a status of 200
	robots  []*facts.Page
	host    map[string]bool  // origins that answered
	medians map[string]int64 // of pages: milliseconds that half of them take at most

	Totals Totals
}

// Totals count what was looked at.
type Totals struct {
	URLs     int   `json:"urls"`     // of the site, resources among them
	Pages    int   `json:"pages"`    // HTML pages with a status of 200
	External int   `json:"external"` // links out of scope that were asked for
	Links    int64 `json:"links"`
	Bytes    int64 `json:"bytes"`
}

func (s *Site) idOf(url string) ID {
	id, known := s.ids[url]
	if !known {
		id = ID(len(s.nodes)) //nolint:gosec // a crawl knows at most a billion URLs
		n := &node{id: id, url: strings.Clone(url), to: none, depth: -1}
		s.nodes, s.ids[n.url] = append(s.nodes, n), id
	}
	return id
}

// Read makes a site of facts, a line of JSON each. A last line without an end was not committed.
func Read(in io.Reader, s *Site) error {
	s.ids, s.host = make(map[string]ID), make(map[string]bool)
	r := bufio.NewReaderSize(in, 1<<20)
	for line := 1; ; line++ {
		text, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			s.connect()
			return nil
		}
		var f facts.Page
		if err == nil {
			err = json.Unmarshal(text, &f)
		}
		if err != nil {
			return fmt.Errorf("line %d of the facts: %w", line, err)
		}
		s.add(&f)
	}
}

// add takes in what is known of one URL.
func (s *Site) add(f *facts.Page) {
	n := s.nodes[s.idOf(f.URL)]
	if f.To != "" {
		n.to = s.idOf(f.To)
	}
	switch f.Kind {
	case facts.Robots: // a page may be there as well, by a link
		s.robots = append(s.robots, f)
		return
	case facts.Outside:
		if n.outside = true; n.out == nil || f.Method == "" {
			n.out = f
		}
	case facts.Ordinary:
		s.Totals.Bytes += f.Size
		if f.Status != 0 {
			s.host[facts.Origin(f.URL)] = true
		}
		fallthrough
	default:
		n.page = f
	}
	origin := facts.Origin(f.URL)
	n.links = make([]edge, 0, len(f.Links))
	for _, text := range f.Links {
		if kind, url, fragment := facts.ParseLink(text, origin); url != "" {
			n.links = append(n.links, edge{s.idOf(url), kind, unique.Make(strings.Clone(fragment))})
		}
	}
	for _, text := range f.Alternated {
		_, url, _ := facts.ParseLink(text, origin)
		s.nodes[s.idOf(url)].variants = true
	}
	f.Links, f.Alternated = nil, nil
}

// connect finds who links to what, when all is known.
func (s *Site) connect() {
	// Of what robots.txt forbids out of scope, a record says only that.
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
	s.Totals.Pages = len(s.pages)
	s.medians = make(map[string]int64, len(times))
	for origin, list := range times {
		slices.Sort(list)
		s.medians[origin] = list[len(list)/2]
	}
	s.believe()
	s.depths()
	// Of two pages that are the same the one nearer to a seed is the first, whatever came first.
	slices.SortFunc(s.pages, func(a, b ID) int {
		x, y := s.nodes[a], s.nodes[b]
		return cmp.Or(cmp.Compare(uint32(x.depth), uint32(y.depth)), cmp.Compare(x.url, y.url)) //nolint:gosec // -1 is the last
	})
}

// refer notes what a URL links to, and where it redirects.
func (s *Site) refer(n *node) {
	for _, e := range n.links {
		to := s.nodes[e.to]
		if n.page.Kind == facts.Map {
			to.mapped = true
			continue
		}
		if to == n {
			continue
		}
		s.Totals.Links++
		to.resource = to.resource || e.kind == facts.Resource || e.kind == facts.OutsideResource
		to.named, to.linked = true, to.linked || e.kind != facts.Named
		to.referred(n)
	}
	if n.to != none && n.to != n.id {
		to := s.nodes[n.to]
		to.linked = to.linked || n.page.Kind == facts.Ordinary
		to.referred(n)
	}
}

// referred keeps who links to a URL, if it needs thought.
func (n *node) referred(from *node) {
	if a := n.answer(); n.page == nil && a != nil && a.Status/100 == 2 || n.page != nil && a.Status == http.StatusOK && a.Class == "" {
		return
	}
	n.refs.add(from.id)
}

// believe has a URL to which no page of the facts links, such as what a style sheet loads, be linked by the one that the
// crawl found it on.
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

// depths counts the clicks from a seed; a redirect is none.
func (s *Site) depths() {
	var now, next []ID
	for _, seed := range s.Seeds {
		if id, known := s.ids[seed]; known && s.nodes[id].depth < 0 {
			s.nodes[id].depth = 0
			now = append(now, id)
		}
	}
	for depth := int32(0); len(now) > 0; depth++ {
		for i := 0; i < len(now); i++ {
			n := s.nodes[now[i]]
			if n.to != none && s.nodes[n.to].depth < 0 {
				s.nodes[n.to].depth = depth
				now = append(now, n.to)
			}
			for _, e := range n.links {
				if to := s.nodes[e.to]; to.depth < 0 && (e.kind == facts.Anchor || e.kind == facts.Resource) {
					to.depth = depth + 1
					next = append(next, e.to)
				}
			}
		}
		now, next = next, now[:0]
	}
}

// answer is what came of it, as a page or outside; nil: it was not asked for.
func (n *node) answer() *facts.Page { return cmp.Or(n.page, n.out) }

// judged is what that is worth.
func (n *node) judged() (verdict, string) {
	if n == nil {
		return unknown, ""
	}
	return judge(n.answer())
}

// maxHops bounds a chain of redirects.
const maxHops = 30

// follow is where redirects lead from a URL, and the way there, the URL itself included. loop: nowhere.
func (s *Site) follow(id ID) (way []ID, loop bool) {
	for way = []ID{id}; s.nodes[id].to != none && len(way) < maxHops; way = append(way, id) {
		if id = s.nodes[id].to; slices.Contains(way, id) {
			return append(way, id), true
		}
	}
	return way, false
}

// end is the last URL of the way.
func (s *Site) end(id ID) (ID, bool) {
	way, loop := s.follow(id)
	return way[len(way)-1], loop
}

// urls are those of some numbers.
func (s *Site) urls(ids []ID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = s.nodes[id].url
	}
	return list
}

// weight is that of a page with what it is made of.
func (s *Site) weight(n *node) (bytes int64) {
	bytes = n.page.Size
	for _, e := range n.links {
		if part := s.nodes[e.to].page; e.kind == facts.Resource && part != nil {
			bytes += part.Size
		}
	}
	return bytes
}

// Measured is a page with a number of milliseconds or bytes.
type Measured struct {
	URL string `json:"url"`
	N   int64  `json:"n"`
}

// Extremes are the slowest pages and the heaviest.
func (s *Site) Extremes(most int) (slowest, heaviest []Measured) {
	for _, id := range s.pages {
		n := s.nodes[id]
		slowest, heaviest = append(slowest, Measured{n.url, n.page.Millis}), append(heaviest, Measured{n.url, s.weight(n)})
	}
	for _, list := range []*[]Measured{&slowest, &heaviest} {
		slices.SortStableFunc(*list, func(a, b Measured) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.URL, b.URL)) })
		*list = slices.Clone((*list)[:min(len(*list), most)])
	}
	return slowest, heaviest
}
