package rules

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

// Severity says how much a finding matters.
type Severity string

// The severities.
const (
	Error   Severity = "error"   // something does not work
	Warning Severity = "warning" // it works, but not as intended
	Notice  Severity = "notice"  // worth a look
)

// Severities lists all severities, the most severe first.
var Severities = []Severity{Error, Warning, Notice}

// Rule is one kind of problem, and how to find it.
type Rule struct {
	ID       string   `json:"id"`
	Group    string   `json:"group"`
	Title    string   `json:"title"`
	Severity Severity `json:"severity"`
	Help     string   `json:"help"` // when it is found, and what is left out
	Mend     string   `json:"mend"`

	query query
}

// Finding is one problem of a site.
type Finding struct {
	Rule     string   `json:"rule"`
	Severity Severity `json:"severity"`
	URL      string   `json:"url"`
	// About tells findings of one rule and URL apart. Empty means that there is only one.
	About  string `json:"about,omitempty"`
	Detail string `json:"detail,omitempty"`
	// Where has the first of Pages: pages that link to the URL, or others that the finding is about.
	Where []string `json:"where,omitempty"`
	Pages int      `json:"pages,omitempty"`
	// State compares with an older audit: "new" or "remaining". Empty means that there was no comparison.
	State string `json:"state,omitempty"`
}

// Key identifies a finding across audits. It leaves out the detail, which may be a time or a count.
func (f *Finding) Key() string { return f.Rule + "\n" + f.URL + "\n" + f.About }

// query finds the problems of one rule.
type query func(s *Site, found func(Finding))

// Check applies all rules of the table, and drops findings that skip selects. It returns the findings in the order of
// the table; those of one rule are ordered by how many pages they concern and then by URL.
func (s *Site) Check(skip func(*Finding) bool) (all []Finding) {
	for i := range Table {
		rule, from := &Table[i], len(all)
		rule.query(s, func(f Finding) {
			if f.Rule, f.Severity, f.Pages = rule.ID, rule.Severity, max(f.Pages, len(f.Where)); !skip(&f) {
				all = append(all, f)
			}
		})
		slices.SortStableFunc(all[from:], func(a, b Finding) int {
			return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.URL, b.URL), cmp.Compare(a.About, b.About))
		})
	}
	return all
}

// IDs returns the IDs of all rules.
func IDs() (list []string) {
	for i := range Table {
		list = append(list, Table[i].ID)
	}
	return list
}

// row is a URL in a set, with what the set knows of it. It is valid until the set yields the next one.
type row struct {
	*Site
	*node

	html *facts.HTML // of a page
	// verdict is that on its response, or on that of target after redirects; why is the reason in words.
	verdict verdict
	why     string

	raw    string // a reference of the page, as written
	ref    string // the reference resolved; empty if it is no URL
	place  string // where the reference is
	code   string // the language of the reference
	at     int    // the index of the reference in its list
	target *node  // the node of ref; nil if it is not known

	way     []ID  // the chain of redirects from it, including itself
	loop    bool  // the chain is a circle
	linkers bool  // findings list the pages that link to it
	usual   int64 // the median time of the pages of its host, in milliseconds
}

// set yields URLs in the order of the site.
type set func(s *Site, each func(*row))

// where returns the part of a set for which keep returns true.
func (of set) where(keep func(*row) bool) set {
	return func(s *Site, each func(*row)) {
		of(s, func(r *row) {
			if keep(r) {
				each(r)
			}
		})
	}
}

// pages yields HTML pages with the status 200.
func pages(s *Site, each func(*row)) {
	r := new(row)
	for _, id := range s.pages {
		n := s.nodes[id]
		*r = row{Site: s, node: n, html: n.page.HTML, usual: s.medians[facts.Origin(n.url)]}
		each(r)
	}
}

// indexable is the pages that search engines would list, and that were read to the end.
var indexable = set(pages).where(func(r *row) bool { return !r.page.Cut && r.indexable() })

// urls yields all URLs that are known.
func urls(s *Site, each func(*row)) {
	r := new(row)
	for _, n := range s.nodes {
		*r = row{Site: s, node: n}
		each(r)
	}
}

// judged returns the URLs of a set whose response has one of the given verdicts. Without verdicts it returns all, with
// their verdicts.
func judged(of set, want ...verdict) set {
	return of.where(func(r *row) bool {
		r.verdict, r.why = judge(r.page)
		return len(want) == 0 || slices.Contains(want, r.verdict)
	})
}

// own returns the URLs of the site to which a link or a seed leads, with a verdict.
func own(want verdict) set {
	return judged(set(urls).where(func(r *row) bool {
		r.linkers = true
		return r.page != nil && r.page.Kind == facts.Ordinary && (r.refs.n > 0 || r.depth == 0)
	}), want)
}

// listed returns the URLs in sitemaps.
func listed(want ...verdict) set {
	return judged(set(urls).where(func(r *row) bool { return r.mapped }), want...)
}

var sitemaps = judged(set(urls).where(func(r *row) bool { return r.page != nil && r.page.Kind == facts.Map }))

// external returns the targets of links out of scope, with one of the given verdicts. If a target redirects, the end of
// the chain counts.
func external(want ...verdict) set {
	return set(urls).where(func(r *row) bool {
		if !r.outside || r.out == nil || r.page != nil && r.page.Status != 0 ||
			!slices.ContainsFunc(r.refs.first, func(id ID) bool { return r.nodes[id].page != nil }) {
			return false
		}
		r.way, r.loop = r.follow(r.id)
		r.linkers = true
		end := r.nodes[r.way[len(r.way)-1]]
		if r.verdict, r.why = judge(end.answer()); r.loop {
			r.verdict, r.why = broken, "it redirects in a circle"
		}
		if len(r.way) > 1 {
			r.why = fmt.Sprintf("%s, behind a redirect to %s", r.why, end.url)
		}
		return slices.Contains(want, r.verdict)
	})
}

// redirects is the URLs of the site that redirect.
var redirects = set(urls).where(func(r *row) bool {
	if r.to == none || r.page == nil || r.page.Kind != facts.Ordinary {
		return false
	}
	r.way, r.loop = r.follow(r.id)
	r.linkers = true
	return true
})

// usedRedirects is those redirects that a page, a sitemap or the user names, not only another redirect.
var usedRedirects = redirects.where(func(r *row) bool {
	return r.depth == 0 || r.mapped || slices.ContainsFunc(r.refs.first, func(id ID) bool { return r.nodes[id].to == none })
})

// names sets a reference of the page, and what is known of its target.
func (r *row) names(raw, ref, place string) *row {
	r.raw, r.ref, r.place, r.target, r.verdict, r.why, r.loop = raw, ref, place, nil, unknown, "", false
	if id, known := r.ids[ref]; known {
		way, loop := r.follow(id)
		r.target, r.loop = r.nodes[id], loop
		r.verdict, r.why = judge(r.nodes[way[len(way)-1]].answer())
	}
	return r
}

// there reports whether the verdict is not an error.
func (r *row) there() bool { return r.verdict != broken && r.verdict != failing }

// targetHTML returns the HTML facts of target, or nil.
func (r *row) targetHTML() *facts.HTML {
	if r.target == nil || r.target.page == nil {
		return nil
	}
	return r.target.page.HTML
}

// canonicals yields each canonical link of each page.
func canonicals(s *Site, each func(*row)) {
	pages(s, func(r *row) {
		for _, l := range r.html.Canonicals {
			each(r.names(l.Raw, l.URL, l.Where))
		}
	})
}

// heeded is the canonical links in the head or the header. Search engines ignore others.
var heeded = set(canonicals).where(func(r *row) bool { return r.place != "body" })

// canonicalsOf returns the canonical links of a page that search engines obey; none for nil.
func canonicalsOf(h *facts.HTML) []facts.Canonical {
	if h == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(h.Canonicals), func(l facts.Canonical) bool { return l.Where == "body" })
}

func conflicting(list []facts.Canonical) bool {
	return slices.ContainsFunc(list, func(l facts.Canonical) bool { return l.URL != list[0].URL })
}

// elsewhere yields pages with one canonical URL that is not their own.
func elsewhere(s *Site, each func(*row)) {
	pages(s, func(r *row) {
		if list := canonicalsOf(r.html); len(list) > 0 && list[0].URL != "" && list[0].URL != r.url && !conflicting(list) {
			each(r.names(list[0].Raw, list[0].URL, list[0].Where))
		}
	})
}

// languages yields each translation that each page names.
func languages(s *Site, each func(*row)) {
	pages(s, func(r *row) {
		for i, a := range r.html.Languages {
			r.code, r.at = a.Code, i
			each(r.names(a.Raw, a.URL, "head"))
		}
	})
}

// say returns what is wrong with a URL, and whether something is.
type say func(*row) (string, bool)

// because says that each URL of the set is wrong, with the reason of its verdict.
func because(r *row) (string, bool) { return r.why, true }

// on returns a query for the URLs of a set with which something is wrong.
func on(of set, what say) query {
	return func(s *Site, found func(Finding)) {
		of(s, func(r *row) {
			text, wrong := what(r)
			if !wrong {
				return
			}
			f := Finding{URL: r.url, Detail: text}
			if r.code != "" {
				f.About, f.Detail = r.code, r.code+": "+text
			}
			if r.linkers {
				f.Where, f.Pages = s.urls(r.refs.first), r.refs.n
			}
			found(f)
		})
	}
}

// sampled finds pages with a sample that is not empty.
func sampled(of func(*facts.HTML) *facts.Sample, what string) query {
	return on(pages, func(r *row) (string, bool) {
		sample, text := of(r.html), ""
		if sample.N > 1 {
			text = fmt.Sprintf("%d %s: ", sample.N, what)
		}
		text += strings.Join(sample.First, " ")
		if sample.N > len(sample.First) {
			text += " …"
		}
		return text, sample.N > 0
	})
}

// fewPages is the least number of pages from which a problem of all of them counts as one of the site, and manyPages is
// that number if there are exceptions.
const (
	fewPages  = 3
	manyPages = 20
)

// lacking finds pages that lack something. If nearly all pages of a host lack it, there is one finding for the host,
// otherwise one per page.
func lacking(of set, lacks func(r *row) bool) query {
	return func(s *Site, found func(Finding)) {
		all, without := make(map[string]int), make(map[string][]string) // by origin
		of(s, func(r *row) {
			origin := facts.Origin(r.url)
			if all[origin]++; lacks(r) {
				without[origin] = append(without[origin], r.url)
			}
		})
		for origin, list := range without {
			others := all[origin] - len(list)
			if others == 0 && len(list) >= fewPages || len(list) > max(manyPages, all[origin]*9/10) {
				found(Finding{URL: origin + "/", About: "site", Detail: fmt.Sprintf("%d of %d pages", len(list), all[origin])})
				continue
			}
			for _, url := range list {
				found(Finding{URL: url, Detail: fmt.Sprintf("%d other pages have it", others)})
			}
		}
	}
}

// header finds pages without a security header.
func header(bit facts.Protection) query {
	return lacking(set(pages).where(func(r *row) bool {
		return bit != facts.HSTS || strings.HasPrefix(r.url, "https://") // HSTS is ignored without https
	}), func(r *row) bool { return r.html.Protected&bit == 0 })
}

// hosts yields the home page of each host that has pages.
func hosts(s *Site, each func(*row)) {
	for origin, usual := range s.medians {
		each(&row{Site: s, node: &node{url: origin + "/"}, usual: usual})
	}
}

// images is the images of the site.
var images = set(urls).where(func(r *row) bool {
	return r.page != nil && r.page.Status == http.StatusOK && strings.HasPrefix(r.page.Type, "image/")
})
