package facts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/sitemap"
)

// Bounds of what is kept of a page.
const (
	maxAnchors  = 20_000
	maxCodes    = 500
	maxProblems = 20   // of a robots.txt
	maxFragment = 2000 // bytes: a longer fragment is not checked
)

// New returns what is known of any page, without its content.
func New(p *crawl.Page) *Page {
	f := &Page{
		URL: p.URL.String(), Status: p.Status, To: p.RedirectTo, Type: p.ContentType,
		Size: int64(len(p.Body)), Millis: (p.Timings.FirstByte + p.Timings.Body).Milliseconds(), Cut: p.Truncated,
	}
	if p.Method != http.MethodGet {
		f.Method = p.Method
	}
	if e, ok := errors.AsType[*crawl.PageError](p.Err); ok {
		f.Class, f.Message = e.Class, clip(e.Message)
	}
	if digest, ok := strings.CutPrefix(p.Digest, "sha256:"); ok && len(p.Body) > 0 {
		f.Digest = digest[:min(16, len(digest))]
	}
	walled := func(name string) bool { return p.Header.Get(name) != "" }
	f.Wall = p.Status/100 > 3 && (slices.ContainsFunc(walls, walled) || wallWords().Match(p.Body[:min(len(p.Body), 64<<10)]))
	return f
}

// walls and wallWords are headers, and words in bodies, of responses that keep robots out.
var (
	walls     = []string{"Cf-Mitigated", "X-Datadome", "X-Sucuri-Block", "X-Amzn-Waf-Action", "X-Px-Captcha"}
	wallWords = lazy.Regexp(`(?i)captcha|cf-challenge|challenge-platform|just a moment\.\.\.|checking your browser|are you a robot|bot detection`)
)

// ReadRobots returns the facts of a robots.txt and its faults.
func ReadRobots(p *crawl.Page) *Page {
	f := New(p)
	if f.Kind = Robots; p.Status == http.StatusOK {
		for _, fault := range robots.Faults(p.Body, maxProblems) {
			f.Problems = append(f.Problems, clip(fault))
		}
	}
	return f
}

// ReadMap returns the facts of a sitemap or a feed, with the URLs that a sitemap lists.
func ReadMap(p *crawl.Page) *Page {
	f := New(p)
	f.Kind = Map
	if p.Status/100 != 2 || len(p.Body) == 0 {
		return f
	}
	sum := sitemap.Read(sitemap.Document{Body: p.Body, Base: canonical.Restore(f.URL), Charset: p.Charset, Truncated: p.Truncated, List: true}, func(e sitemap.Entry) bool {
		switch e.Rel {
		case sitemap.Page:
			f.Links = append(f.Links, Link(Anchor, e.URL.String(), ""))
		case sitemap.Alternate:
			if n := len(f.Links); n > 0 {
				f.Links[n-1] = string(Translated) + f.Links[n-1][1:]
			}
		}
		return true
	})
	switch {
	case sum.Format.Feed():
		f.Kind, f.Links = Feed, nil
	case sum.Format == sitemap.None:
		f.Problems = append(f.Problems, "it is no sitemap: "+clip(sum.Problem))
	case sum.Problems > 0:
		f.Problems = append(f.Problems, clip(sum.Problem))
	}
	if sum.Dropped > 0 || sum.Bound != "" {
		f.Problems = append(f.Problems, fmt.Sprintf("it has more than %d URLs or %d MiB: the rest is not read", sitemap.MaxURLs, sitemap.MaxBytes>>20))
	}
	return f
}

// reading is an HTML page that is being read.
type reading struct {
	*Page
	*HTML

	page   *crawl.Page
	base   canonical.URL
	secure bool // by https, so that a browser refuses resources by http
	judge  func(url string, kind Kind) Kind
	links  map[string]bool

	named, nameless string // the last link with text, and one without that is still to be noted

	robots, robotsHeader []string // directives, in lower case
	protected, referrer  bool     // there is a policy for content, for referrers
}

// Read returns the facts of a page or a resource. judge returns the kind of a link, which says whether the link leads
// out of scope.
func Read(p *crawl.Page, judge func(url string, kind Kind) Kind) *Page {
	f, others := New(p), Anchor
	r := &reading{Page: f, page: p, base: canonical.Restore(f.URL), secure: p.URL.Scheme == "https", judge: judge, links: make(map[string]bool)}
	if (f.Type == "text/html" || f.Type == "application/xhtml+xml") && p.Status == http.StatusOK && f.Class != "decode" {
		f.HTML = &HTML{Lang: clip(p.First("html").Attr("lang")), Found: make(map[string]Sample)}
		r.HTML, others = f.HTML, Named // the elements say which links are to click
		r.header()
		for _, part := range []string{"head", "body"} {
			for e := range p.First(part).Find("*") {
				r.element(e, part)
			}
		}
		r.text()
		r.finish()
	}
	for _, to := range p.Resources() {
		r.link(to, "", Part)
	}
	for _, to := range p.Links() {
		r.link(to, "", others)
	}
	return f
}

// link adds a link, once for each fragment. A link that occurs with and without a fragment may be added twice, which
// does no harm.
func (r *reading) link(to, fragment string, kind Kind) {
	if to == "" || len(r.Links) >= maxAnchors || fragment == "" && r.links[to] {
		return
	}
	text := Link(r.judge(to, kind), to, fragment)
	if r.links[to] = true; !r.links[text] {
		r.links[text] = true
		r.Links = append(r.Links, text)
	}
}

// header reads the headers of the response.
func (r *reading) header() {
	h := r.page.Header
	for _, value := range h.Values("X-Robots-Tag") {
		r.robotsHeader = slices.AppendSeq(r.robotsHeader, extract.Directives(value, "googlebot", true))
	}
	for _, rest := range h.Values("Link") {
		for n := 0; rest != "" && n < maxCodes; n++ {
			var l extract.HeaderLink
			l, rest = extract.NextLink(rest)
			to := strings.TrimSpace(l.Target)
			r.related(l.Params["rel"], l.Params["hreflang"], to, r.resolve(to), "header")
		}
	}
	r.policy(strings.Join(h.Values("Content-Security-Policy"), ","))
}

// policy reads a Content-Security-Policy. With upgrade-insecure-requests no resource is requested without encryption.
func (r *reading) policy(text string) {
	r.protected = r.protected || text != ""
	r.secure = r.secure && !strings.Contains(strings.ToLower(text), "upgrade-insecure-requests")
}

// finish notes what follows from the header and the whole page.
func (r *reading) finish() {
	r.bare("")
	both, h := slices.Concat(r.robots, r.robotsHeader), r.page.Header
	if r.NoIndex = slices.Contains(both, "noindex") || slices.Contains(both, "none"); r.NoIndex && (slices.Contains(both, "index") || slices.Contains(both, "all")) {
		r.note("robots-conflict", fmt.Sprintf("meta: %s; header: %s", strings.Join(r.robots, ", "), strings.Join(r.robotsHeader, ", ")))
	}
	for rule, has := range map[string]bool{
		"header-hsts":     h.Get("Strict-Transport-Security") != "" || r.page.URL.Scheme == "http", // it is ignored without https
		"header-csp":      r.protected,
		"header-nosniff":  strings.EqualFold(strings.TrimSpace(h.Get("X-Content-Type-Options")), "nosniff"),
		"header-frame":    h.Get("X-Frame-Options") != "" || strings.Contains(strings.ToLower(strings.Join(h.Values("Content-Security-Policy"), ",")), "frame-ancestors"),
		"header-referrer": h.Get("Referrer-Policy") != "" || r.referrer,
	} {
		if !has {
			r.Lacks += " " + rule
		}
	}
}

// resolve resolves a reference to a canonical URL; "" if it is none.
func (r *reading) resolve(ref string) string {
	u, _ := r.base.Resolve(ref) // zero with an error
	return u.String()
}

// text appends a text to list, if there is room.
func text(list []string, s string) []string {
	if len(list) >= MaxTexts {
		return list
	}
	return append(list, clip(s))
}

// id adds what a fragment can name, if there is room.
func (r *reading) id(id string) {
	if id != "" && len(r.IDs) < maxAnchors {
		r.IDs = append(r.IDs, Hash(id))
	}
}

// element reads an element. part is "head" or "body", as the parser has divided them.
func (r *reading) element(e crawl.Element, part string) {
	r.id(e.Attr("id"))
	switch e.Name() {
	case "title":
		if part == "head" {
			r.Titles = text(r.Titles, e.Text())
		}
	case "meta":
		r.meta(e, part)
	case "link":
		href := strings.TrimSpace(e.Attr("href"))
		for rel := range strings.FieldsSeq(strings.ToLower(e.Attr("rel"))) {
			if r.related(rel, e.Attr("hreflang"), href, e.URL("href"), part); rel == "stylesheet" {
				r.load(e.URL("href"))
			}
		}
	case "h1":
		if words := strings.TrimSpace(strings.TrimSuffix(e.Text(), "¶")); words != "" { // a link to the heading
			r.Headings = text(r.Headings, words)
		} else if alt := e.First("img[alt]"); alt.OK() {
			r.Headings = text(r.Headings, alt.Attr("alt"))
		}
	case "a", "area":
		r.anchor(e)
	case "form":
		if action := strings.TrimSpace(e.Attr("action")); r.page.URL.Scheme == "https" && strings.HasPrefix(strings.ToLower(action), "http://") {
			r.note("insecure-form", action)
		}
	case "script":
		if media, _, _ := strings.Cut(strings.ToLower(e.Attr("type")), ";"); strings.TrimSpace(media) == "application/ld+json" {
			r.jsonld(e)
		}
		r.load(e.URL("src"))
	case "iframe":
		r.link(e.URL("src"), "", Anchor)
		r.load(e.URL("src"))
	case "img", "input", "audio", "video", "source", "embed", "track", "object":
		for _, attribute := range []string{"src", "poster", "data"} {
			r.load(e.URL(attribute))
		}
		for set := []byte(e.Attr("srcset")); len(set) > 0; {
			var ref []byte
			ref, set = extract.NextImage(set)
			r.link(r.resolve(string(ref)), "", Part) // of several a browser fetches one
			r.load(r.resolve(string(ref)))
		}
	}
}

func (r *reading) meta(e crawl.Element, part string) {
	content := e.Attr("content")
	switch name := strings.ToLower(cmp.Or(e.Attr("name"), e.Attr("http-equiv"))); {
	case name == "robots", name == "googlebot" && part == "head": // search engines obey robots anywhere
		r.robots = slices.AppendSeq(r.robots, extract.Directives(content, "googlebot", false))
	case part != "head":
	case name == "description":
		r.Descriptions = text(r.Descriptions, content)
	case name == "refresh":
		if to := extract.RefreshTarget([]byte(content)); len(to) > 0 {
			r.Refresh = r.resolve(string(to))
		}
	case name == "content-security-policy":
		r.policy(content)
	case name == "referrer":
		r.referrer = true
	}
}

// related adds the canonical URL or the translation that a link element or a header names.
func (r *reading) related(rel, code, raw, to, where string) {
	switch strings.ToLower(rel) {
	case "canonical":
		if where == "body" { // search engines ignore it
			r.note("canonical-misplaced", raw)
			return
		}
		if to == "" || strings.Contains(raw, "#") {
			r.note("canonical-invalid", strconv.Quote(raw))
		}
		if to != "" && !Absolute().MatchString(raw) {
			r.note("canonical-relative", strconv.Quote(raw))
		}
		if len(r.Canonicals) < MaxTexts {
			r.Canonicals = append(r.Canonicals, Ref{clip(raw), to, where})
		}
	case "alternate":
		if code != "" && where != "body" && len(r.Languages) < maxCodes {
			r.Languages = append(r.Languages, Ref{clip(raw), to, clip(code)})
		}
	}
}

// load adds a resource that a browser fetches by itself. It notes one that a browser refuses to fetch because the page is
// encrypted and the resource is not.
func (r *reading) load(to string) {
	if r.link(to, "", Resource); r.secure && strings.HasPrefix(to, "http://") && !Local(to) {
		r.note("mixed-content", to)
	}
}

// jsonld notes a block of JSON-LD that is not valid JSON.
func (r *reading) jsonld(e crawl.Element) {
	_, block, _ := strings.Cut(e.HTML(), ">")
	block = strings.TrimSpace(strings.TrimSuffix(block, "</script>"))
	var value any
	if err := json.Unmarshal([]byte(block), &value); err != nil {
		r.note("jsonld-invalid", fmt.Sprintf("%v: %.80s", err, block))
	} else if strings.IndexAny(block, "{[") != 0 {
		r.note("jsonld-invalid", "neither an object nor a list: "+block)
	}
}

// typo matches the beginning of a mistyped URL with a scheme.
var typo = lazy.Regexp(`(?i)^(?:h?tt?ps?|hh?ttt?pp?s?)(?:://|:/*$|;//|//)`)

// Absolute matches the beginning of a reference with a scheme of the web.
var Absolute = lazy.Regexp(`(?i)^https?://`)

// anchor adds a link that a reader can click.
func (r *reading) anchor(e crawl.Element) {
	r.id(e.Attr("name"))
	href, to := strings.TrimSpace(e.Attr("href")), e.URL("href")
	if href == "" {
		return
	}
	if typo().MatchString(href) && (to == "" || !Absolute().MatchString(href)) {
		r.note("malformed-link", href)
	}
	if Local(to) && !Local(r.page.URL.String()) {
		r.note("local-link", to)
	} else if strings.HasPrefix(strings.ToLower(href), "file:") {
		r.note("local-link", href)
	}
	if to == "" {
		return // another scheme
	}
	_, fragment, _ := strings.Cut(href, "#")
	if len(fragment) > maxFragment || strings.ContainsAny(fragment, "\n\r") {
		fragment = ""
	}
	r.link(to, fragment, Anchor)
	if e.Name() == "a" && e.Text() == "" && e.Attr("aria-label")+e.Attr("aria-labelledby")+e.Attr("title") == "" && e.Attr("aria-hidden") != "true" &&
		!e.First(`img[alt]:not([alt=""]), [aria-label], [aria-labelledby], svg, [title], input, iframe, object`).OK() {
		r.bare(href)
		return
	}
	if r.named = href; r.nameless == href {
		r.nameless = ""
	}
	r.bare("")
}

// bare notes a link without text, unless the link before or after it leads to the same place and has text. For a link
// that is not closed, or one within another, parsers make an additional empty link.
func (r *reading) bare(href string) {
	if r.nameless != "" && r.nameless != href {
		r.note("link-without-text", r.nameless)
	}
	if r.nameless = href; href == r.named {
		r.nameless = ""
	}
}

// local matches a URL of the machine of whoever follows it.
var local = lazy.Regexp(`^https?://(?:(?:[^/?]*\.)?localhost|127\.[\d.]+|0\.0\.0\.0|\[::1\])(?:[:/?]|$)`)

// Local reports whether a canonical URL leads to the machine of whoever follows it.
func Local(to string) bool { return local().MatchString(to) }

var readers = sync.Pool{New: func() any { return new(neardup.Reader) }}

// filler matches the text that designers use as a placeholder.
var filler = lazy.Regexp(`(?i)\blorem ipsum dolor sit amet\b`)

// aside matches elements that are no text of the page: navigation and footers.
const aside = `self::nav or @role="navigation" or @role="contentinfo" or self::footer[not(ancestor::article)]`

// text reads how much there is to read on the page, and what needs selectors.
func (r *reading) text() {
	body := r.page.First("body")
	main, words := cmp.Or(r.page.First("main, [role=main]"), body), body.Text()
	r.Words = dom.Words(main.Text())
	for e := range main.XPath(`.//*[` + aside + `][not(ancestor::*[` + aside + `])]`) {
		r.Words = max(0, r.Words-dom.Words(e.Text()))
	}
	r.Empty = strings.TrimSpace(words) == "" && !body.First("img, svg, video, audio, object, embed, iframe, canvas, script, picture").OK()
	if filler().MatchString(words) {
		r.note("placeholder", "lorem ipsum dolor sit amet")
	}
	reader := readers.Get().(*neardup.Reader)
	r.Sim = reader.Read([]byte(main.HTML()), nil).SimHash()
	readers.Put(reader)
	for e := range r.page.Find(`img:not([alt]):not([aria-label]):not([aria-labelledby]):not([role=presentation]):not([role=none]):not([aria-hidden=true])`) {
		r.note("alt-missing", cmp.Or(e.URL("src"), e.Attr("src"), "an image without src"))
	}
	for range r.page.XPath(`//body//title[not(ancestor::svg)]`) {
		r.note("title-misplaced", "")
		break
	}
}
