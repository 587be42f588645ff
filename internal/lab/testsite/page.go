package testsite

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// words are what texts are made of. There are 64, so that one draw of 64 bits is a sentence of
// ten words.
var words = strings.Fields(`
	apple bread candle door early field garden house island journey kitchen lamp
	morning number ocean paper quiet river summer table under valley winter yellow
	about before corner distance evening forest gentle harbour inside jacket kettle
	ladder market narrow orange pencil question road silver tower useful village
	water yesterday above bridge copper dinner empty friend green history iron
	letter mirror north open pocket rain street`)

const wordsPerSentence = 10

// sentencesPerParagraph makes paragraphs of some 400 bytes.
const sentencesPerParagraph = 6

type mediaKind struct{ ext, contentType, before, after string }

var mediaKinds = [...]mediaKind{
	{".txt", "text/plain; charset=utf-8", "", "\n"},
	{".json", "application/json", `{"text":"`, "\"}\n"},
	{".svg", "image/svg+xml", `<svg xmlns="http://www.w3.org/2000/svg"><title>`, "</title></svg>\n"},
	{".bin", "application/octet-stream", "\x00\x01", "\x00"},
}

var redirectStatuses = [...]int{
	http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect, http.StatusPermanentRedirect,
}

// pagePath is the one spelling of page n. The home page has no number.
func pagePath(n int) string {
	if n == 0 {
		return "/"
	}
	return "/p/" + strconv.Itoa(n)
}

func mediaPath(n int) string { return "/m/" + strconv.Itoa(n) + mediaKinds[n%len(mediaKinds)].ext }

func redirectPath(n int) string { return "/r/" + strconv.Itoa(n) }

func privatePath(n int) string { return "/private/" + strconv.Itoa(n) }

func (h *host) appendPage(b []byte, n int) []byte {
	d := newDraw(h.seed, streamPage, n)
	b = h.appendHead(b, &d, n)
	b = appendText(b, &d, h.cfg.Size.sample(&d))
	b = append(b, "</p>\n<ul>\n"...)
	b = h.appendTreeLinks(b, n)
	b = h.appendRandomLinks(b, &d)
	b = h.appendItemLinks(b, n)
	return append(b, "</ul>\n</body></html>\n"...)
}

func add(b []byte, texts ...string) []byte {
	for _, text := range texts {
		b = append(b, text...)
	}
	return b
}

func (h *host) appendHead(b []byte, d *draw, n int) []byte {
	first, second := words[d.below(len(words))], words[d.below(len(words))]
	for _, open := range [...]string{
		"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>",
		"</title></head>\n<body>\n<h1>",
	} {
		b = strconv.AppendInt(add(b, open, first, " ", second, ", ", h.cfg.Name, " "), int64(n), 10)
	}
	return append(b, "</h1>\n<p>"...)
}

func appendText(b []byte, d *draw, size int) []byte {
	end := len(b) + size
	for s := 1; len(b) < end; s++ {
		bits := d.next()
		for range wordsPerSentence {
			b = append(b, words[bits%64]...)
			b = append(b, ' ')
			bits >>= 6
		}
		b[len(b)-1] = '.'
		if s%sentencesPerParagraph == 0 {
			b = append(b, "</p>\n<p>"...)
		} else {
			b = append(b, ' ')
		}
	}
	return b
}

// appendTreeLinks writes the links that make every page reachable: page n is the
// parent of the Fanout pages from n*Fanout+1 on.
func (h *host) appendTreeLinks(b []byte, n int) []byte {
	from := n*h.cfg.Fanout + 1
	for child := from; child < min(from+h.cfg.Fanout, h.cfg.Pages); child++ {
		b = appendLink(b, "", "/p/", child, "")
	}
	return b
}

// appendRandomLinks writes links that lead mostly to pages already known to a crawler.
func (h *host) appendRandomLinks(b []byte, d *draw) []byte {
	for range h.cfg.CrossLinks {
		b = appendPageLink(b, "", d.below(h.cfg.Pages))
	}
	others := len(h.site.hosts) - 1
	for range h.cfg.HostLinks * min(1, others) {
		other := h.site.hosts[(h.index+1+d.below(others))%len(h.site.hosts)]
		b = appendPageLink(b, h.site.URL(other.index), d.below(other.cfg.Pages))
	}
	return b
}

// appendItemLinks writes the links to media, redirects, missing and private pages: item j is
// linked from page j modulo Pages.
func (h *host) appendItemLinks(b []byte, n int) []byte {
	for j := n; j < h.cfg.Media; j += h.cfg.Pages {
		b = appendLink(b, "", "/m/", j, mediaKinds[j%len(mediaKinds)].ext)
	}
	for _, items := range [...]struct {
		dir   string
		count int
	}{{"/r/", h.cfg.Redirects}, {"/x/", h.cfg.Missing}, {"/private/", h.cfg.Private}} {
		for j := n; j < items.count; j += h.cfg.Pages {
			b = appendLink(b, "", items.dir, j, "")
		}
	}
	return b
}

func appendPageLink(b []byte, origin string, n int) []byte {
	if n > 0 {
		return appendLink(b, origin, "/p/", n, "")
	}
	return add(b, `<li><a href="`, origin, "/\">home</a></li>\n")
}

// appendLink writes a link without building its path first: a page has many.
func appendLink(b []byte, origin, dir string, n int, ext string) []byte {
	b = strconv.AppendInt(add(b, `<li><a href="`, origin, dir), int64(n), 10)
	return append(strconv.AppendInt(add(b, ext, `">`), int64(n), 10), "</a></li>\n"...)
}

func (h *host) appendMedia(b []byte, n int) []byte {
	kind := &mediaKinds[n%len(mediaKinds)]
	d := newDraw(h.seed, streamMedia, n)
	b = append(b, kind.before...)
	for end := len(b) + h.cfg.Size.sample(&d); len(b) < end; {
		b = append(b, words[d.below(len(words))]...)
		b = append(b, ' ')
	}
	return append(b, kind.after...)
}

// leaf writes a page whose only link leads home: no other page may be reachable only through
// a disallowed page or through the sitemap.
func (h *host) leaf(stream int) func(b []byte, n int) []byte {
	return func(b []byte, n int) []byte {
		d := newDraw(h.seed, stream, n)
		b = h.appendHead(b, &d, n)
		b = appendText(b, &d, h.cfg.Size.sample(&d))
		b = append(b, "</p>\n<ul>\n"...)
		b = appendPageLink(b, "", 0)
		return append(b, "</ul>\n</body></html>\n"...)
	}
}

func (h *host) redirect(n int) (status int, location string) {
	status = redirectStatuses[n%len(redirectStatuses)]
	if n%4 == 2 && n+1 < h.cfg.Redirects {
		return status, redirectPath(n + 1)
	}
	d := newDraw(h.seed, streamRedirect, n)
	return status, pagePath(d.below(h.cfg.Pages))
}

func (r *Robots) exists() bool {
	return r.Allow || len(r.Disallow) > 0 || r.CrawlDelay > 0 || r.Text != ""
}

// text is the file that the other fields describe. Without a Disallow it has an Allow: parsers
// differ about a group without rules.
func (r *Robots) text() string {
	if r.Text != "" || !r.exists() {
		return r.Text
	}
	var b strings.Builder
	b.WriteString("User-agent: *\n")
	if r.CrawlDelay > 0 {
		fmt.Fprintf(&b, "Crawl-delay: %s\n", strconv.FormatFloat(r.CrawlDelay.Seconds(), 'f', -1, 64))
	}
	for _, p := range r.Disallow {
		fmt.Fprintf(&b, "Disallow: %s\n", p)
	}
	if len(r.Disallow) == 0 {
		b.WriteString("Allow: /\n")
	}
	return b.String()
}
