package rules

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/language"

	"github.com/treadlight/crawl/cmd/crawl/internal/audit/facts"
	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// indexable reports whether a search engine would list a page under its own URL.
func (n *node) indexable() bool { return n.html() != nil && n.state()&(hidden|renamed|sending) == 0 }

// translates reports whether a page names a URL as a translation of itself.
func translates(h *facts.HTML, url string) bool {
	return slices.ContainsFunc(h.Languages, func(a facts.Ref) bool { return a.URL == url })
}

var (
	// home matches the URL of a home page.
	home = lazy.Regexp(`^\w+://[^/?]*/(?:(?:[^?]*/)?(?:index|default)\.[^/?]*)?(?:\?.*)?$`)
	// notFound matches the title of a page that says that a page was not found.
	notFound = lazy.Regexp(`(?i)\b(?:page|file|document|site) (?:was |is |could )?(?:not|no longer) (?:be )?(?:found|available|exist)|^(?:error )?404\b|\bnot found\b.*\b404\b|\b404\b.*\bnot found\b|seite (?:wurde )?nicht gefunden|page introuvable|página no encontrada`)
)

func titles(h *facts.HTML) []string       { return h.Titles }
func descriptions(h *facts.HTML) []string { return h.Descriptions }
func headings(h *facts.HTML) []string     { return h.Headings }

// several finds pages with more than one of a kind of text.
func several(of func(*facts.HTML) []string) query {
	return on(pages, func(r *row) (string, bool) {
		list, more := of(r.html()), ""
		if len(list) == facts.MaxTexts {
			more = " or more"
		}
		return fmt.Sprintf("%d%s: %s", len(list), more, strings.Join(list, " | ")), len(list) > 1
	})
}

// long finds pages whose first text of a kind has more than limit characters.
func long(of func(*facts.HTML) []string, limit int) query {
	return on(indexable, func(r *row) (string, bool) {
		text, least := cmp.Or(of(r.html())...), ""
		if len(text) > facts.MaxText {
			least = "at least "
		}
		n := utf8.RuneCountInString(text)
		return fmt.Sprintf("%s%d characters: %s", least, n, text), n > limit
	})
}

// maxCompared bounds the pages with the same text that are compared with each other.
const maxCompared = 1000

// shared finds pages whose first text of a kind is also that of pages which are not their translations. It leaves out
// pages that also share their first text of the other kind, since another rule reports these.
func shared(of, other func(*facts.HTML) []string) query {
	text := func(r *row) string { return cmp.Or(of(r.html())...) }
	return func(s *Site, found func(Finding)) {
		alone := indexable.where(func(r *row) bool { return text(r) != "" })
		if other != nil {
			also := func(r *row) string { return cmp.Or(other(r.html())...) }
			told := grouped(s, indexable, also)
			alone = alone.where(func(r *row) bool { return len(told[also(r)]) < 2 })
		}
		groups := grouped(s, alone, text)
		alone(s, func(r *row) {
			group := groups[text(r)]
			f := Finding{URL: r.url, Detail: text(r), Pages: len(group) - 1}
			for _, m := range group[:min(len(group), maxCompared)] {
				switch {
				case m == r.node:
				case translates(r.html(), m.url) || translates(m.html(), r.url):
					f.Pages--
				case len(f.Where) < maxRefs:
					f.Where = append(f.Where, m.url)
				}
			}
			if f.Where != nil {
				found(f)
			}
		})
	}
}

// maxApart is how many bits the fingerprints of near-duplicates differ in, at most.
const maxApart = 3

// repeated finds pages that repeat an earlier page. Near-duplicates are neither thin nor translations.
func repeated(kind neardup.Kind, says string) query {
	return func(s *Site, found func(Finding)) {
		index := neardup.NewIndex(maxApart)
		indexable(s, func(r *row) {
			h := r.html()
			body, _ := strconv.ParseUint(r.page.Digest, 16, 64) // a digest has 16 hexadecimal digits
			match := index.Add(r.url, body, h.Sim)
			if match.Kind != kind || h.Empty {
				return
			}
			of := s.known[match.Of].html()
			less, more := min(h.Words, of.Words), max(h.Words, of.Words)
			if kind == neardup.Near && (less < thinWords || more-less > more/10 || translates(h, match.Of) || translates(of, r.url)) {
				return
			}
			found(Finding{URL: r.url, Detail: says + match.Of, Where: []string{match.Of}})
		})
	}
}

func brokenFragments(s *Site, found func(Finding)) {
	missing := make(map[place]refs)
	pages(s, func(r *row) {
		for _, at := range r.places {
			if to := at.in.end(); to.html() != nil && !to.page.Cut && !hasFragment(to.html(), at.fragment.Value()) {
				from := missing[at]
				from.add(r.node)
				missing[at] = from
			}
		}
	})
	for at, from := range missing {
		fragment := at.fragment.Value()
		found(Finding{URL: at.in.url + "#" + fragment, Detail: "no element has the id " + fragment, Where: urls(from.first), Pages: from.n})
	}
}

// hasFragment reports whether a page has the element that a fragment names, or a fragment names none, but the top,
// a text to search for, or the route of a script.
func hasFragment(html *facts.HTML, fragment string) bool {
	if strings.EqualFold(fragment, "top") || strings.ContainsAny(fragment, "=&") || strings.ContainsAny(fragment[:1], "/!") || strings.Contains(fragment, ":~:") {
		return true
	}
	decoded, err := url.PathUnescape(fragment)
	return html.HasID(fragment) || err == nil && html.HasID(decoded)
}

// redirectLoops reports each circle once, if possible by a URL that a page, a sitemap or the user names.
func redirectLoops(s *Site, found func(Finding)) {
	told := make(map[*node]bool) // members of circles that were reported
	for _, of := range []set{usedRedirects, redirects} {
		on(of, func(r *row) (string, bool) {
			way, loop := r.follow()
			circle := way[slices.Index(way, way[len(way)-1]):]
			if !loop || told[circle[0]] {
				return "", false
			}
			for _, member := range circle {
				told[member] = true
			}
			return strings.Join(urls(way), " → "), true
		})(s, found)
	}
}

// codeFault returns what is wrong with the code of a language; "" if nothing is.
func codeFault(code string) string {
	tag, err := language.Raw.Parse(code)
	_, _, region := tag.Raw()
	number := strings.Trim(region.String(), "0123456789") == "" // such as es-419, which is widely understood
	country := region.IsCountry() && region.Canonicalize() == region && region.String() != "EU" && region.String() != "UN"
	switch {
	case strings.EqualFold(code, "x-default"):
		return ""
	case strings.Contains(code, "_"):
		return "write - for _"
	case err != nil, !strings.EqualFold(tag.String(), code), len(tag.Variants())+len(tag.Extensions()) > 0, region.String() != "ZZ" && !number && !country:
		return "it is no language of ISO 639-1, alone or with a script of ISO 15924 and a country of ISO 3166-1"
	}
	return ""
}

// hreflangConflict compares a translation with the one before it that has the same code.
func hreflangConflict(r *row) (string, bool) {
	for _, a := range slices.Backward(r.html().Languages[:r.at]) {
		if strings.EqualFold(a.By, r.code) {
			return a.URL + " and " + r.ref.URL, a.URL != r.ref.URL
		}
	}
	return "", false
}

// langMismatch compares the language of a page with that of its own hreflang.
func langMismatch(r *row) (string, bool) {
	said, err := language.Parse(r.html().Lang)
	if r.html().Lang == "" || err != nil {
		return "", false
	}
	own, match := "", false
	for _, a := range r.html().Languages {
		if tag, err := language.Parse(a.By); a.URL == r.url && err == nil {
			x, _ := tag.Base()
			y, _ := said.Base()
			own, match = a.By, match || x == y
		}
	}
	return fmt.Sprintf("lang is %s, hreflang %s", r.html().Lang, own), own != "" && !match
}

func robotsInvalid(s *Site, found func(Finding)) {
	for _, f := range s.robots {
		for _, problem := range f.Problems {
			found(Finding{URL: f.URL, About: problem, Detail: problem})
		}
	}
}

// unmapped is the indexable pages in no sitemap, if some sitemap lists URLs and all sitemaps were read.
func unmapped(s *Site, each func(*row)) {
	filled, unread := false, false
	sitemaps(s, func(r *row) {
		filled = filled || len(r.links) > 0
		unread = unread || r.state()&(fine|moved) == 0 || r.page.Cut
	})
	if filled && !unread {
		indexable.where(func(r *row) bool { return !r.mapped })(s, each)
	}
}

// verdict is what can be said of a URL as the target of a link: one of unknown to forbidden, and of a page also others.
type verdict uint16

const (
	unknown   verdict = 1 << iota // it was not requested
	fine                          // it exists
	moved                         // it redirects
	broken                        // it does not exist
	failing                       // its server fails, for now or permanently
	unclear                       // it may exist: a defense against robots, a login, no response in time
	forbidden                     // robots.txt disallows it

	hidden  // it is noindex
	renamed // it names another canonical URL
	sending // it sends readers to another URL by meta refresh
)

// state returns all verdicts on a URL. It computes them once, since the facts do not change.
func (n *node) state() verdict {
	if n.is != 0 {
		return n.is
	}
	n.is, _ = judge(n.answer())
	if h := n.html(); h != nil {
		if h.NoIndex {
			n.is |= hidden
		}
		if n.canonical() != "" {
			n.is |= renamed
		}
		if h.Refresh != "" && h.Refresh != n.url {
			n.is |= sending
		}
	}
	return n.is
}

// has reports whether a URL has one of some verdicts, and returns the reason in words.
func (n *node) has(want verdict) (why string, has bool) {
	switch want &= n.state(); {
	case want == 0:
		return "", false
	case want&hidden != 0:
		return "it is noindex", true
	case want&renamed != 0:
		return "its canonical URL is " + n.canonical(), true
	case want&sending != 0:
		return "it sends readers to " + n.html().Refresh, true
	}
	_, why = judge(n.answer())
	return why, true
}

// conflicting reports whether a page names different canonical URLs.
func conflicting(h *facts.HTML) bool {
	return slices.ContainsFunc(h.Canonicals, func(to facts.Ref) bool { return to.URL != h.Canonicals[0].URL })
}

// canonical returns a canonical URL that a page names and that is not its own; "" if there is none.
func (n *node) canonical() string {
	for _, to := range n.html().Canonicals {
		if to.URL != "" && to.URL != n.url {
			return to.URL
		}
	}
	return ""
}

// refusals are statuses of URLs that may exist for others.
var refusals = []int{
	http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable, http.StatusProxyAuthRequired,
	http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests, http.StatusUnavailableForLegalReasons, 999,
}

// badCertificate matches the errors of a certificate for another name or another time. Other errors may be the fault of
// this machine.
var badCertificate = lazy.Regexp(`valid for|expired|any names|IP SANs`)

// unread are classes of errors after which the answer is not known as a whole.
var unread = []string{"decode", "network", "protocol", "timeout"}

// judge returns the verdict on a response, and the reason in words.
func judge(f *facts.Page) (verdict, string) {
	if f == nil {
		return unknown, ""
	}
	text := fmt.Sprintf("%d %s", f.Status, cmp.Or(http.StatusText(f.Status), "(unknown status)"))
	silent := f.Status == 0 || f.Class == "tls"
	switch kind := f.Status / 100; {
	case f.Class == "robots":
		return forbidden, "robots.txt forbids it"
	case f.Class == "no_host":
		return broken, "the host does not exist: " + f.Message
	case silent && f.Class == "network" && strings.Contains(f.Message, "refused"):
		return broken, "the connection was refused: " + f.Message
	case f.Class == "tls" && badCertificate().MatchString(f.Message):
		return broken, "its certificate is wrong: " + f.Message
	case f.Class == "address_denied":
		return unclear, "it leads to a private address, which is not asked without --allow-private: " + f.Message
	case silent && slices.Contains([]string{"too_large", "filtered", "bomb", "truncated"}, f.Class):
		return fine, ""
	case silent:
		return unclear, f.Message
	case kind == 2 && slices.Contains(unread, f.Class):
		return unclear, text + ", and then: " + f.Message
	case kind == 2, f.Status == http.StatusNotModified:
		return fine, ""
	case kind == 3 && f.To != "":
		return moved, fmt.Sprintf("%d to %s", f.Status, f.To)
	case kind == 3:
		return broken, text + " without a usable Location"
	case slices.Contains(refusals, f.Status):
		return unclear, text
	case f.Wall && (kind == 4 && f.Status != http.StatusNotFound && f.Status != http.StatusGone || f.Status == http.StatusServiceUnavailable):
		return unclear, text + ", by a wall against robots"
	case kind == 4:
		return broken, text
	case kind == 5:
		return failing, text
	}
	return unclear, text
}
