package rules

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
)

// row is a URL in a set, with what the set knows of it. It is valid until the next one.
type row struct {
	*Site
	*node

	html *facts.HTML // of a page
	// verdict is what its answer is worth, or that of target behind its redirects; why says so in words.
	verdict verdict
	why     string

	raw    string // what the page names, as it is written
	ref    string // and resolved; empty: it is no URL
	place  string // and where that stands
	code   string // and its language
	target *node  // what is known of ref; nil: nothing

	way     []ID  // where redirects lead from it, itself included
	loop    bool  // they lead nowhere
	linkers bool  // what is wrong with it is the matter of pages that link to it
	usual   int64 // what half of the pages of its host take, in milliseconds
}

// set yields URLs, in the order in which the site knows them.
type set func(s *Site, each func(*row))

// where is a part of a set.
func (of set) where(keep func(*row) bool) set {
	return func(s *Site, each func(*row)) {
		of(s, func(r *row) {
			if keep(r) {
				each(r)
			}
		})
	}
}

// pages are HTML with a status of 200.
func pages(s *Site, each func(*row)) {
	r := new(row)
	for _, id := range s.pages {
		n := s.nodes[id]
		*r = row{Site: s, node: n, html: n.page.HTML, usual: s.medians[facts.Origin(n.url)]}
		each(r)
	}
}

// indexable are the pages that search engines would list and that were read to the end.
var indexable = set(pages).where(func(r *row) bool { return !r.page.Cut && r.indexable() })

// urls yields whatever is known.
func urls(s *Site, each func(*row)) {
	r := new(row)
	for _, n := range s.nodes {
		*r = row{Site: s, node: n}
		each(r)
	}
}

// judged are the URLs of a set that have a page whose answer has one of some verdicts; without any, all.
func judged(of set, want ...verdict) set {
	return of.where(func(r *row) bool {
		r.verdict, r.why = judge(r.page)
		return len(want) == 0 || slices.Contains(want, r.verdict)
	})
}

// own are the URLs of the site that links or a seed led to.
func own(want verdict) set {
	return judged(set(urls).where(func(r *row) bool {
		r.linkers = true
		return r.page != nil && r.page.Kind == facts.Ordinary && (r.refs.n > 0 || r.depth == 0)
	}), want)
}

// listed are the URLs in sitemaps, and sitemaps these themselves.
func listed(want ...verdict) set {
	return judged(set(urls).where(func(r *row) bool { return r.mapped }), want...)
}

var sitemaps = judged(set(urls).where(func(r *row) bool { return r.page != nil && r.page.Kind == facts.Map }))

// external are the targets of links out of scope that pages have. Where one redirects, its end counts.
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

// redirects are the URLs of the site that redirect.
var redirects = set(urls).where(func(r *row) bool {
	if r.to == none || r.page == nil || r.page.Kind != facts.Ordinary {
		return false
	}
	r.way, r.loop = r.follow(r.id)
	r.linkers = true
	return true
})

// usedRedirects are those that pages, sitemaps or the user name, not only another redirect.
var usedRedirects = redirects.where(func(r *row) bool {
	return r.depth == 0 || r.mapped || slices.ContainsFunc(r.refs.first, func(id ID) bool { return r.nodes[id].to == none })
})

// names fills in what a page names, and what is known of that.
func (r *row) names(raw, ref, place string) *row {
	r.raw, r.ref, r.place, r.target, r.verdict, r.why, r.loop = raw, ref, place, nil, unknown, "", false
	if id, known := r.ids[ref]; known {
		way, loop := r.follow(id)
		r.target, r.loop = r.nodes[id], loop
		r.verdict, r.why = judge(r.nodes[way[len(way)-1]].answer())
	}
	return r
}

// there reports whether the answer, of target or otherwise, is no error.
func (r *row) there() bool { return r.verdict != broken && r.verdict != failing }

// targetHTML is the page that target is; nil: it is none.
func (r *row) targetHTML() *facts.HTML {
	if r.target == nil || r.target.page == nil {
		return nil
	}
	return r.target.page.HTML
}

// canonicals are the canonical links of pages, each.
func canonicals(s *Site, each func(*row)) {
	pages(s, func(r *row) {
		for _, l := range r.html.Canonicals {
			each(r.names(l.Raw, l.URL, l.Where))
		}
	})
}

// heeded are those of the head and the header; the others are ignored.
var heeded = set(canonicals).where(func(r *row) bool { return r.place != "body" })

// canonicalsOf are those of a page that are heeded.
func canonicalsOf(h *facts.HTML) []facts.Canonical {
	return slices.DeleteFunc(slices.Clone(h.Canonicals), func(l facts.Canonical) bool { return l.Where == "body" })
}

func conflicting(list []facts.Canonical) bool {
	return slices.ContainsFunc(list, func(l facts.Canonical) bool { return l.URL != list[0].URL })
}

// elsewhere are pages with one canonical URL that is not their own.
func elsewhere(s *Site, each func(*row)) {
	pages(s, func(r *row) {
		if list := canonicalsOf(r.html); len(list) > 0 && list[0].URL != "" && list[0].URL != r.url && !conflicting(list) {
			each(r.names(list[0].Raw, list[0].URL, list[0].Where))
		}
	})
}

// languages are the translations that pages name.
func languages(s *Site, each func(*row)) {
	pages(s, func(r *row) {
		for _, a := range r.html.Languages {
			r.code = a.Code
			each(r.names(a.Raw, a.URL, "head"))
		}
	})
}

// query finds what is wrong.
type query func(*checking)

// say is what is wrong with a URL, and whether something is.
type say func(*row) (string, bool)

// because says that it is wrong to be in the set, for the reason of its verdict.
func because(r *row) (string, bool) { return r.why, true }

// on finds what is wrong with the URLs of a set.
func on(of set, what say) query {
	return func(c *checking) {
		of(c.Site, func(r *row) {
			if text, wrong := what(r); wrong {
				f := Finding{URL: r.url, Detail: text}
				if r.code != "" {
					f.About, f.Detail = r.code, r.code+": "+text
				}
				if r.linkers {
					f.Where, f.Pages = c.urls(r.refs.first), r.refs.n
				}
				c.found(f)
			}
		})
	}
}

// sampled finds pages that have some of a sample.
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

// fewPages are too few to say that something is so for the whole site, manyPages if there are exceptions.
const (
	fewPages  = 3
	manyPages = 20
)

// lacking finds pages that lack something: one finding for a host where nearly all do, else one for each.
func lacking(of set, lacks func(r *row) bool) query {
	return func(c *checking) {
		all, without := make(map[string]int), make(map[string][]*node)
		of(c.Site, func(r *row) {
			origin := facts.Origin(r.url)
			if all[origin]++; lacks(r) {
				without[origin] = append(without[origin], r.node)
			}
		})
		for _, origin := range slices.Sorted(maps.Keys(without)) {
			list, others := without[origin], all[origin]-len(without[origin])
			if others == 0 && len(list) >= fewPages || len(list) > max(manyPages, all[origin]*9/10) {
				c.found(Finding{URL: origin + "/", About: "site", Detail: fmt.Sprintf("%d of %d pages", len(list), all[origin])})
				continue
			}
			for _, n := range list {
				c.found(Finding{URL: n.url, Detail: fmt.Sprintf("%d other pages have it", others)})
			}
		}
	}
}

// header finds pages without a security header.
func header(bit facts.Protection) query {
	return lacking(set(pages).where(func(r *row) bool {
		return bit != facts.HSTS || strings.HasPrefix(r.url, "https://") // it is ignored elsewhere
	}), func(r *row) bool { return r.html.Protected&bit == 0 })
}

// hosts are the home pages of those that have pages.
func hosts(s *Site, each func(*row)) {
	for _, origin := range slices.Sorted(maps.Keys(s.medians)) {
		each(&row{Site: s, node: &node{url: origin + "/"}, usual: s.medians[origin]})
	}
}

// images are those of the site.
var images = set(urls).where(func(r *row) bool {
	return r.page != nil && r.page.Status == http.StatusOK && strings.HasPrefix(r.page.Type, "image/")
})
