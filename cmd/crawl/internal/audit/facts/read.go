package facts

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/sitemap"
)

// Bounds of what is kept of a page.
const (
	maxAnchors = 20_000
	maxCodes   = 500
	// maxFragment bounds fragments that are looked for, in bytes.
	maxFragment = 2000
)

// New is what is known of any page, without what is in it.
func New(p *crawl.Page) *Page {
	f := &Page{
		URL: p.URL.String(), Status: p.Status, To: p.RedirectTo, Type: p.ContentType, Referrer: p.Referrer,
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
	f.Wall = p.Status/100 > 3 && walled(p.Header, p.Body)
	return f
}

// walls are marks in headers, and words in bodies, of what keeps robots out.
var (
	walls     = []string{"Cf-Mitigated", "X-Datadome", "X-Sucuri-Block", "X-Amzn-Waf-Action", "X-Px-Captcha"}
	wallWords = regexp.MustCompile(`(?i)captcha|cf-challenge|challenge-platform|just a moment\.\.\.|checking your browser|are you a robot|bot detection`)
)

func walled(h http.Header, body []byte) bool {
	return slices.ContainsFunc(walls, func(name string) bool { return h.Get(name) != "" }) || wallWords.Match(body[:min(len(body), 64<<10)])
}

// ReadMap reads the URLs of a sitemap.
func ReadMap(p *crawl.Page) *Page {
	f := New(p)
	f.Kind = Map
	if p.Status/100 != 2 || len(p.Body) == 0 {
		return f
	}
	base, err := canonical.Parse(f.URL)
	if err != nil { // a canonical URL is one
		return f
	}
	origin, last := Origin(f.URL), ""
	sum := sitemap.Read(sitemap.Document{Body: p.Body, Base: base, Charset: p.Charset, Truncated: p.Truncated, List: true}, func(e sitemap.Entry) bool {
		switch e.Rel {
		case sitemap.Page:
			last = Link(Anchor, origin, e.URL.String(), "")
			f.Links = append(f.Links, last)
		case sitemap.Alternate:
			if last != "" && (len(f.Alternated) == 0 || f.Alternated[len(f.Alternated)-1] != last) {
				f.Alternated = append(f.Alternated, last)
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

// reading is one HTML page while it is read.
type reading struct {
	page   *crawl.Page
	origin string
	secure bool // the page came by https
	judge  func(url string, kind Kind) Kind

	html  *HTML
	links map[string]bool
	list  []string
	ids   []string
}

// Read reads an HTML page. judge tells of a link whether it leads out of scope.
func Read(p *crawl.Page, judge func(url string, kind Kind) Kind) *Page {
	f := New(p)
	if f.Type != "text/html" && f.Type != "application/xhtml+xml" || p.Status != http.StatusOK {
		return f
	}
	r := &reading{
		page: p, origin: Origin(f.URL), secure: p.URL.Scheme == "https", judge: judge,
		html: &HTML{Lang: clip(p.First("html").Attr("lang"))}, links: make(map[string]bool),
	}
	r.headers()
	for e := range p.First("head").Find("*") {
		r.inHead(e)
		r.anywhere(e)
	}
	for e := range p.First("body").Find("*") {
		r.inBody(e)
		r.anywhere(e)
	}
	for _, to := range p.Links() { // whatever else the crawl takes for a link
		r.link(to, "", Named)
	}
	r.text()
	r.samples()
	r.html.IDs = HashesOf(r.ids)
	f.HTML, f.Links = r.html, r.list
	return f
}

// link notes a link, once for each fragment. What is in the page both with and without one counts twice, which is no harm.
func (r *reading) link(to, fragment string, kind Kind) {
	if to == "" || len(r.list) >= maxAnchors {
		return
	}
	plain := Link('?', r.origin, to, "")
	if fragment == "" && r.links[plain] {
		return
	}
	text := Link(r.judge(to, kind), r.origin, to, fragment)
	if r.links[plain] = true; !r.links[text] {
		r.links[text] = true
		r.list = append(r.list, text)
	}
}

// headers reads what the header says of the page.
func (r *reading) headers() {
	h, html := r.page.Header, r.html
	for _, value := range h.Values("X-Robots-Tag") {
		html.Header = directives(html.Header, value)
	}
	for _, l := range parseLinks(h.Values("Link")) {
		switch to := r.resolve(l.url); {
		case l.rel == "canonical":
			html.Canonicals = append(html.Canonicals, Canonical{clip(l.url), to, "header"})
		case l.rel == "alternate" && l.hreflang != "":
			html.Languages = append(html.Languages, Alternate{clip(l.hreflang), clip(l.url), to})
		}
	}
	policy := strings.ToLower(strings.Join(h.Values("Content-Security-Policy"), ","))
	for bit, has := range map[Protection]bool{
		HSTS: h.Get("Strict-Transport-Security") != "", CSP: policy != "", NoSniff: strings.EqualFold(strings.TrimSpace(h.Get("X-Content-Type-Options")), "nosniff"),
		Frame: h.Get("X-Frame-Options") != "" || strings.Contains(policy, "frame-ancestors"), ReferrerPolicy: h.Get("Referrer-Policy") != "",
	} {
		if has {
			html.Protected |= bit
		}
	}
	if strings.Contains(policy, "upgrade-insecure-requests") {
		r.secure = false // nothing of the page is asked for without encryption
	}
}

// resolve is a reference in a header as a canonical URL; empty: it is none.
func (r *reading) resolve(ref string) string {
	base, err := canonical.Parse(r.page.URL.String())
	if err != nil {
		return ""
	}
	u, err := base.Resolve(ref)
	if err != nil {
		return ""
	}
	return u.String()
}

// directives appends those of a text to list: "noindex", without the name of a robot, unless it is that of one that does
// not matter here.
func directives(list []string, text string) []string {
	for word := range strings.SplitSeq(strings.ToLower(text), ",") {
		word = strings.TrimSpace(word)
		if agent, rest, ok := strings.Cut(word, ":"); ok && !strings.HasPrefix(agent, "max-") && agent != "unavailable_after" {
			if agent = strings.TrimSpace(agent); agent != "googlebot" && agent != "robots" && agent != "*" {
				return list
			}
			word = strings.TrimSpace(rest)
		}
		switch {
		case word == "" || len(list) >= 20:
		case word == "none":
			list = append(list, "noindex", "nofollow")
		default:
			list = append(list, clip(word))
		}
	}
	return list
}

func (r *reading) inHead(e crawl.Element) {
	html := r.html
	switch e.Name() {
	case "title":
		html.Titles = text(html.Titles, e.Text())
	case "meta":
		content := e.Attr("content")
		switch strings.ToLower(cmp.Or(e.Attr("name"), e.Attr("http-equiv"))) {
		case "description":
			html.Descriptions = text(html.Descriptions, content)
		case "robots", "googlebot":
			html.Meta = directives(html.Meta, content)
		case "refresh":
			if _, to, ok := strings.Cut(content, ";"); ok {
				_, to, _ = strings.Cut(to, "=")
				html.Refresh = r.resolve(strings.Trim(strings.TrimSpace(to), `'"`))
			}
		case "content-security-policy":
			html.Protected |= CSP
			if strings.Contains(strings.ToLower(content), "upgrade-insecure-requests") {
				r.secure = false
			}
		case "referrer":
			html.Protected |= ReferrerPolicy
		}
	case "link":
		r.linkElement(e, "head")
	}
}

// text appends a text of a page, if there is room.
func text(list []string, s string) []string {
	if len(list) >= maxTexts {
		return list
	}
	return append(list, clip(s))
}

func (r *reading) inBody(e crawl.Element) {
	html := r.html
	switch e.Name() {
	case "h1":
		if words := strings.TrimSpace(strings.TrimSuffix(e.Text(), "¶")); words != "" { // the sign is a link to the heading
			html.Headings = text(html.Headings, words)
		} else if alt := e.First("img[alt]"); alt.OK() {
			html.Headings = text(html.Headings, alt.Attr("alt"))
		}
	case "link":
		r.linkElement(e, "body")
	case "meta":
		if strings.EqualFold(e.Attr("name"), "robots") { // search engines heed it wherever it is
			html.Meta = directives(html.Meta, e.Attr("content"))
		}
	case "a", "area":
		r.anchor(e)
	case "form":
		if action := strings.TrimSpace(e.Attr("action")); r.page.URL.Scheme == "https" && strings.HasPrefix(strings.ToLower(action), "http://") {
			html.Forms.Add(action)
		}
	}
}

func (r *reading) linkElement(e crawl.Element, where string) {
	href := strings.TrimSpace(e.Attr("href"))
	for rel := range strings.FieldsSeq(strings.ToLower(e.Attr("rel"))) {
		switch rel {
		case "canonical":
			if len(r.html.Canonicals) < maxTexts {
				r.html.Canonicals = append(r.html.Canonicals, Canonical{clip(href), e.URL("href"), where})
			}
		case "alternate":
			if code := e.Attr("hreflang"); code != "" && where == "head" && len(r.html.Languages) < maxCodes {
				r.html.Languages = append(r.html.Languages, Alternate{clip(code), clip(href), e.URL("href")})
			}
		case "stylesheet":
			r.resource(e, "href", true)
		case "icon", "apple-touch-icon", "manifest", "preload", "modulepreload":
			r.resource(e, "href", false)
		}
	}
}

// anywhere reads what may stand in any part of a page.
func (r *reading) anywhere(e crawl.Element) {
	if id := e.Attr("id"); id != "" && len(r.ids) < maxAnchors {
		r.ids = append(r.ids, id)
	}
	switch e.Name() {
	case "script", "img", "iframe", "audio", "video", "source", "embed", "track", "input":
		if e.Name() != "input" || strings.EqualFold(e.Attr("type"), "image") {
			r.resource(e, "src", true)
		}
		r.resource(e, "poster", true)
		r.srcset(e)
	case "object":
		r.resource(e, "data", true)
	}
}

// resource notes a part of the page; loaded says that a browser fetches it by itself.
func (r *reading) resource(e crawl.Element, attribute string, loaded bool) {
	to := e.URL(attribute)
	if to == "" {
		return
	}
	if e.Name() == "iframe" {
		r.link(to, "", Anchor)
	} else {
		r.link(to, "", Resource)
	}
	if loaded && r.secure && strings.HasPrefix(to, "http://") && !Local(to) {
		r.html.Mixed.Add(to)
	}
}

func (r *reading) srcset(e crawl.Element) {
	set := e.Attr("srcset")
	if set == "" || strings.Contains(set, "data:") {
		return
	}
	for candidate := range strings.SplitSeq(set, ", ") {
		word, _, _ := strings.Cut(strings.TrimSpace(candidate), " ")
		if to := r.resolve(strings.TrimSuffix(word, ",")); strings.HasPrefix(to, "http://") && r.secure && !Local(to) {
			r.html.Mixed.Add(to)
		}
	}
}

// typo is the beginning of what was to be a URL with a scheme.
var typo = regexp.MustCompile(`(?i)^(?:h?tt?ps?|hh?ttt?pp?s?)(?:://|:/*$|;//|//)`)

// anchor notes a link that a reader can click.
func (r *reading) anchor(e crawl.Element) {
	name := e.Attr("name")
	if name != "" && len(r.ids) < maxAnchors {
		r.ids = append(r.ids, name)
	}
	href := strings.TrimSpace(e.Attr("href"))
	if href == "" {
		return
	}
	to, lower := e.URL("href"), strings.ToLower(href)
	switch {
	case to != "":
		good := strings.HasPrefix(lower, "http://") || strings.HasPrefix(lower, "https://")
		if typo.MatchString(href) && !good {
			r.html.BadLinks.Add(href)
		}
		_, fragment, _ := strings.Cut(href, "#")
		if len(fragment) > maxFragment || strings.ContainsAny(fragment, "\n\r") {
			fragment = ""
		}
		r.link(to, fragment, Anchor)
		if Local(to) && !Local(r.page.URL.String()) {
			r.html.LocalLinks.Add(to)
		}
	case strings.HasPrefix(lower, "file:"):
		r.html.LocalLinks.Add(href)
		return
	case typo.MatchString(href):
		r.html.BadLinks.Add(href)
		return
	default:
		return // another scheme
	}
	if e.Name() == "a" && e.Text() == "" && e.Attr("aria-label") == "" && e.Attr("aria-labelledby") == "" && e.Attr("title") == "" && e.Attr("aria-hidden") != "true" &&
		!e.First(`img[alt]:not([alt=""]), [aria-label], [aria-labelledby], svg, [title], input, iframe, object`).OK() {
		r.html.NoText.Add(href)
	}
}

// Local reports whether a URL leads to the machine of whoever follows it.
func Local(to string) bool {
	u, err := url.Parse(to)
	if err != nil {
		return false
	}
	host := u.Hostname()
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasPrefix(host, "127.") || host == "::1" || host == "0.0.0.0"
}

var readers = sync.Pool{New: func() any { return new(neardup.Reader) }}

// filler is the text that designers put where one is to come.
var filler = regexp.MustCompile(`(?i)\blorem ipsum dolor sit amet\b`)

// text reads how much there is to read.
func (r *reading) text() {
	html := r.html
	body := r.page.First("body")
	words := body.Text()
	html.Words = count(words)
	for e := range r.page.XPath(`//nav[not(ancestor::nav or ancestor::footer)] | //footer[not(ancestor::nav or ancestor::footer or ancestor::article)]`) {
		html.Words -= count(e.Text())
	}
	html.Words = max(html.Words, 0)
	html.Empty = strings.TrimSpace(words) == "" && !body.First("img, svg, video, audio, object, embed, iframe, canvas, script, picture").OK()
	html.Filler = filler.MatchString(words)
	main := r.page.First("main, [role=main]")
	if !main.OK() {
		main = body
	}
	reader := readers.Get().(*neardup.Reader)
	html.Sim = reader.Read([]byte(main.HTML()), nil).SimHash()
	readers.Put(reader)
}

// count is the number of words; of scripts without spaces two characters are about one.
func count(s string) (n int) {
	wide, in := 0, false
	for _, c := range s {
		switch {
		case unicode.In(c, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer):
			wide, in = wide+1, false
		case unicode.IsSpace(c):
			in = false
		case !in:
			n, in = n+1, true
		}
	}
	return n + (wide+1)/2
}

// samples are what selectors find.
func (r *reading) samples() {
	for e := range r.page.Find(`img:not([alt]):not([aria-label]):not([aria-labelledby]):not([role=presentation]):not([role=none]):not([aria-hidden=true])`) {
		r.html.NoAlt.Add(cmp.Or(e.URL("src"), e.Attr("src"), "an image without src"))
	}
	for range r.page.XPath(`//body//title[not(ancestor::svg)]`) {
		r.html.TitleBelow = true
	}
	for e := range r.page.Find(`script[type]`) {
		if media, _, _ := strings.Cut(strings.ToLower(e.Attr("type")), ";"); strings.TrimSpace(media) != "application/ld+json" {
			continue
		}
		_, block, _ := strings.Cut(e.HTML(), ">")
		block = strings.TrimSuffix(block, "</script>")
		var value any
		if err := json.Unmarshal([]byte(block), &value); err != nil {
			r.html.BadJSON.Add(fmt.Sprintf("%v: %.80s", err, strings.TrimSpace(block)))
		} else if kind := fmt.Sprintf("%T", value); kind != "map[string]interface {}" && kind != "[]interface {}" {
			r.html.BadJSON.Add("neither an object nor a list: " + strings.TrimSpace(block))
		}
	}
}

// headerLink is a link of the header Link.
type headerLink struct{ url, rel, hreflang string }

// linkValue is one of its values (RFC 8288), and linkParam a parameter.
var (
	linkValue = regexp.MustCompile(`<([^>]*)>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:"[^"]*"|[^\s",;]+))?)*)`)
	linkParam = regexp.MustCompile(`;\s*([\w*-]+)\s*=\s*(?:"([^"]*)"|([^\s",;]+))`)
)

func parseLinks(values []string) (links []headerLink) {
	for _, value := range values {
		for _, m := range linkValue.FindAllStringSubmatch(value, maxCodes) {
			l := headerLink{url: strings.TrimSpace(m[1])}
			for _, p := range linkParam.FindAllStringSubmatch(m[2], 20) {
				switch strings.ToLower(p[1]) {
				case "rel":
					l.rel = strings.ToLower(p[2] + p[3])
				case "hreflang":
					l.hreflang = p[2] + p[3]
				}
			}
			links = append(links, l)
		}
	}
	return links
}
