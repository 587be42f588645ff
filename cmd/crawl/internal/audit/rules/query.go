package rules

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
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

// wholeSite is the About of a finding that a rule has in place of those of nearly all pages of a site; see lacking.
const wholeSite = "site"

// SiteKey is the key of that finding.
func (f *Finding) SiteKey() string {
	return (&Finding{Rule: f.Rule, URL: facts.Origin(f.URL) + "/", About: wholeSite}).Key()
}

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

// row is a URL in a set, with what the set knows of it. It is valid until the set yields the next one.
type row struct {
	*Site
	*node

	ref     facts.Ref // a reference of the page
	at      int       // its index in its list
	code    string    // its language
	target  *node     // where it leads; nil if that is not known
	linkers bool      // findings list the pages that link to the URL
}

func (r *row) origin() string { return facts.Origin(r.url) }

// usual returns the median time of the pages of its host, in milliseconds.
func (r *row) usual() int64 { return r.medians[r.origin()] }

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

// grouped returns the URLs of a set by a text that they have in common.
func grouped(s *Site, of set, text func(*row) string) map[string][]*node {
	groups := make(map[string][]*node)
	of(s, func(r *row) { groups[text(r)] = append(groups[text(r)], r.node) })
	return groups
}

// among returns the set of the nodes that list returns.
func among(list func(*Site) []*node) set {
	return func(s *Site, each func(*row)) {
		r := new(row)
		for _, n := range list(s) {
			*r = row{Site: s, node: n}
			each(r)
		}
	}
}

var (
	// all is all URLs that are known, pages the HTML pages with the status 200.
	all   = among(func(s *Site) []*node { return s.nodes })
	pages = among(func(s *Site) []*node { return s.pages })
	// indexable is the pages that search engines would list, and that were read to the end.
	indexable = pages.where(func(r *row) bool { return !r.page.Cut && r.indexable() })
	// targets is all URLs; findings about them list the pages that link to them.
	targets = all.where(func(r *row) bool { r.linkers = true; return true })
	// own is the URLs of the site to which a link or a seed leads.
	own = targets.where(func(r *row) bool {
		return r.page != nil && r.page.Kind == facts.Ordinary && (r.refs.n > 0 || r.depth == 0)
	})
	ownPages  = own.where(func(r *row) bool { return !r.resource })
	ownParts  = own.where(func(r *row) bool { return r.resource })
	ownImages = all.where(func(r *row) bool {
		return r.page != nil && r.page.Status == http.StatusOK && strings.HasPrefix(r.page.Type, "image/")
	})
	sitemaps = all.where(func(r *row) bool { return r.page != nil && r.page.Kind == facts.Map })
	// listed is the URLs in sitemaps.
	listed = all.where(func(r *row) bool { return r.mapped })
	// external is the targets of links out of scope.
	external = targets.where(func(r *row) bool {
		return r.outside && r.out != nil && (r.page == nil || r.page.Status == 0) && slices.ContainsFunc(r.refs.first, func(n *node) bool { return n.page != nil })
	})
	// redirects is the URLs of the site that redirect, usedRedirects those of them that a page, a sitemap or the user
	// names, not only another redirect.
	redirects = targets.where(func(r *row) bool {
		return r.to != nil && r.page != nil && r.page.Kind == facts.Ordinary
	})
	usedRedirects = redirects.where(func(r *row) bool {
		return r.depth == 0 || r.mapped || slices.ContainsFunc(r.refs.first, func(n *node) bool { return n.to == nil })
	})
	// elsewhere is the pages with one canonical URL that is not their own.
	elsewhere = pages.where(func(r *row) bool {
		if len(r.html().Canonicals) == 0 || conflicting(r.html()) {
			return false
		}
		r.ref = r.html().Canonicals[0]
		r.target = r.known[r.ref.URL]
		return r.ref.URL != "" && r.ref.URL != r.url
	})
	// hosts is the home page of each host that has pages.
	hosts = among(func(s *Site) (list []*node) {
		for origin := range s.medians {
			list = append(list, &node{url: origin + "/"})
		}
		return list
	})
)

// languages yields each translation that each page names.
func languages(s *Site, each func(*row)) {
	pages(s, func(r *row) {
		for r.at, r.ref = range r.html().Languages {
			r.code, r.target = r.ref.By, r.known[r.ref.URL]
			each(r)
		}
	})
}

// say returns what is wrong with a URL, and whether something is.
type say func(*row) (string, bool)

// is says that the URL has one of some verdicts.
func is(want verdict) say { return func(r *row) (string, bool) { return r.has(want) } }

// ends says that the URL has one of some verdicts, or if it redirects, the end of the chain.
func ends(want verdict) say {
	return func(r *row) (string, bool) {
		way, loop := r.follow()
		end := way[len(way)-1]
		why, has := end.has(want)
		if loop {
			why, has = "it redirects in a circle", want&broken != 0
		}
		if len(way) > 1 {
			why = fmt.Sprintf("%s, behind a redirect to %s", why, end.url)
		}
		return why, has
	}
}

// leads says that the reference leads to another URL with one of some verdicts. A redirect to an error is an error.
func leads(want verdict) say {
	return func(r *row) (string, bool) {
		to := r.target
		if to == nil || to == r.node {
			return "", false
		}
		if end := to.end(); end.state()&(broken|failing) != 0 {
			to = end
		}
		why, has := to.has(want)
		return r.ref.URL + ": " + why, has
	}
}

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
				f.Where, f.Pages = urls(r.refs.first), r.refs.n
			}
			found(f)
		})
	}
}

// noted finds the pages with notes under the ID of a rule.
func noted(rule, what string) query {
	return on(pages, func(r *row) (string, bool) {
		sample, text := r.html().Found[rule], ""
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
func lacking(of set, thing func(r *row) bool) query {
	return func(s *Site, found func(Finding)) {
		all := grouped(s, of, (*row).origin)
		for origin, list := range grouped(s, of.where(thing), (*row).origin) {
			others := len(all[origin]) - len(list)
			if others == 0 && len(list) >= fewPages || len(list) > max(manyPages, len(all[origin])*9/10) {
				found(Finding{URL: origin + "/", About: wholeSite, Detail: fmt.Sprintf("%d of %d pages", len(list), len(all[origin]))})
				continue
			}
			for _, n := range list {
				found(Finding{URL: n.url, Detail: cli.Plural(others, "other page") + " with it"})
			}
		}
	}
}

// lacks reports whether a page lacks what the rule with that ID is about.
func lacks(rule string) func(*row) bool {
	return func(r *row) bool { return strings.Contains(r.html().Lacks, rule) }
}
