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

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

// ID is the number of a URL.
type ID = int32

// none is no URL.
const none ID = -1

// node is a URL.
type node struct {
	url      string
	page     *facts.Page // as a page of the site; nil: it was not visited
	head     *facts.Page // as the target of links out of scope, by HEAD
	get      *facts.Page // and by GET
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
	fragment int32 // index of texts; zero: none
	kind     facts.Kind
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

	nodes     []*node
	ids       map[string]ID
	fragments []string
	fragIDs   map[string]int32
	pages     []ID // HTML with a status of 200
	maps      []ID
	robots    []*facts.Page
	host      map[string]bool // origins of pages

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

func (s *Site) id(url string) ID {
	if id, known := s.ids[url]; known {
		return id
	}
	id := ID(len(s.nodes)) //nolint:gosec // a crawl knows at most a billion URLs
	url = strings.Clone(url)
	s.nodes = append(s.nodes, &node{url: url, to: none, depth: -1})
	s.ids[url] = id
	return id
}

func (s *Site) fragment(text string) int32 {
	if id, known := s.fragIDs[text]; known || text == "" {
		return id
	}
	id := int32(len(s.fragments)) //nolint:gosec // there are fewer than links
	text = strings.Clone(text)
	s.fragments = append(s.fragments, text)
	s.fragIDs[text] = id
	return id
}

// Read makes a site of facts, a line of JSON each.
func Read(in io.Reader, s *Site) error {
	s.ids, s.fragIDs, s.fragments, s.host = make(map[string]ID), make(map[string]int32), []string{""}, make(map[string]bool)
	r := bufio.NewReaderSize(in, 1<<20)
	for line := 1; ; line++ {
		text, err := r.ReadBytes('\n')
		if len(text) > 0 && err == nil {
			var f facts.Page
			if err := json.Unmarshal(text, &f); err != nil {
				return fmt.Errorf("line %d of the facts: %w", line, err)
			}
			s.add(&f)
		}
		if errors.Is(err, io.EOF) { // a last line without an end was not committed
			break
		}
		if err != nil {
			return err
		}
	}
	s.connect()
	return nil
}

// add takes in what is known of one URL.
func (s *Site) add(f *facts.Page) {
	if f.Kind == facts.Robots { // a page may be there as well, by a link
		s.robots = append(s.robots, f)
		return
	}
	id := s.id(f.URL)
	n := s.nodes[id]
	if f.To != "" {
		n.to = s.id(f.To)
	}
	switch f.Kind {
	case facts.Outside:
		n.outside = true
		if f.Method != "" {
			n.head = f
		} else {
			n.get = f
		}
	case facts.Map, facts.Feed:
		n.page = f
		if f.Kind == facts.Map {
			s.maps = append(s.maps, id)
		}
	default:
		n.page = f
		if f.Status != 0 {
			s.host[facts.Origin(f.URL)] = true
		}
		if f.HTML != nil {
			s.pages = append(s.pages, id)
		}
		s.Totals.Bytes += f.Size
	}
	s.edges(n, f)
}

// edges makes numbers of the links.
func (s *Site) edges(n *node, f *facts.Page) {
	origin := facts.Origin(f.URL)
	n.links = make([]edge, 0, len(f.Links))
	for _, text := range f.Links {
		kind, url, fragment := facts.ParseLink(text, origin)
		if url != "" {
			n.links = append(n.links, edge{s.id(url), s.fragment(fragment), kind})
		}
	}
	for _, text := range f.Alternated {
		_, url, _ := facts.ParseLink(text, origin)
		s.nodes[s.id(url)].variants = true
	}
	f.Links, f.Alternated = nil, nil
}

// apart tells the targets of links that lead out of scope from the site: of what robots.txt forbids, a record says only that.
func (s *Site) apart() {
	for _, n := range s.nodes {
		for _, e := range n.links {
			if to := s.nodes[e.to]; e.kind == facts.OutsideAnchor || e.kind == facts.OutsideResource {
				to.outside = true
				if to.page != nil && to.page.Kind == facts.Ordinary && to.page.Status == 0 {
					to.head, to.page = to.page, nil
				}
			}
		}
	}
}

// connect finds who links to what.
func (s *Site) connect() {
	s.apart()
	s.pages = slices.DeleteFunc(s.pages, func(id ID) bool { p := s.nodes[id].page; return p == nil || p.HTML == nil })
	for id, n := range s.nodes {
		if n.page == nil {
			continue
		}
		for _, e := range n.links {
			to := s.nodes[e.to]
			switch {
			case n.page.Kind == facts.Map:
				to.mapped = true
				continue
			case e.to == ID(id): //nolint:gosec // see id
				continue
			case e.kind == facts.Resource || e.kind == facts.OutsideResource:
				to.resource = true
			}
			s.Totals.Links++
			to.named, to.linked = true, to.linked || e.kind != facts.Named
			if !to.fine() {
				to.refs.add(ID(id)) //nolint:gosec // see id
			}
		}
		if n.to != none && n.to != ID(id) { //nolint:gosec // see id
			to := s.nodes[n.to]
			to.linked = to.linked || n.page.Kind == facts.Ordinary
			if !to.fine() {
				to.refs.add(ID(id)) //nolint:gosec // see id
			}
		}
	}
	s.whatTheCrawlSays()
	s.depths()
}

// whatTheCrawlSays has a URL to which no page of the facts links, such as what a style sheet loads, be linked by the one
// that the crawl found it on.
func (s *Site) whatTheCrawlSays() {
	for _, n := range s.nodes {
		if n.page != nil && n.page.Kind == facts.Ordinary {
			s.Totals.URLs++
			if n.page.HTML != nil {
				s.Totals.Pages++
			}
		}
		if n.outside && (n.head != nil || n.get != nil) {
			s.Totals.External++
		}
		if n.page == nil || n.linked || n.named || n.page.Referrer == "" {
			continue
		}
		from, known := s.ids[n.page.Referrer]
		if !known || s.nodes[from].page == nil || s.nodes[from].page.Kind != facts.Ordinary {
			continue
		}
		n.linked, n.resource = true, true // all other links are in the facts
		n.refs.add(from)
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

// fine reports whether a link to it needs no thought.
func (n *node) fine() bool {
	switch {
	case n.page != nil:
		return n.page.Status == http.StatusOK && n.page.Class == ""
	case n.get != nil:
		return n.get.Status/100 == 2
	case n.head != nil:
		return n.head.Status/100 == 2
	}
	return false
}

// answer is what came of it, as a page or outside.
func (n *node) answer() *facts.Page {
	switch {
	case n.page != nil:
		return n.page
	case n.get != nil:
		return n.get
	}
	return n.head
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

// pointed is what is known of a URL that a page names otherwise than by a link; nil: it was not visited.
func (s *Site) pointed(url string) *node {
	if id, known := s.ids[url]; known {
		return s.nodes[id]
	}
	return nil
}

// urls are those of some numbers.
func (s *Site) urls(ids []ID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = s.nodes[id].url
	}
	return list
}

// Measured is a page with a number of milliseconds or bytes.
type Measured struct {
	URL string `json:"url"`
	N   int64  `json:"n"`
}

// Extremes are the slowest pages and the heaviest.
func (s *Site) Extremes(most int) (slowest, heaviest []Measured) {
	top := func(of func(*node) int64) (list []Measured) {
		for _, id := range s.pages {
			list = append(list, Measured{s.nodes[id].url, of(s.nodes[id])})
		}
		slices.SortStableFunc(list, func(a, b Measured) int { return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.URL, b.URL)) })
		return slices.Clone(list[:min(len(list), most)])
	}
	return top(func(n *node) int64 { return n.page.Millis }), top(s.weight)
}
