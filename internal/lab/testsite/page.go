package testsite

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// words are the words of all texts. There are 64, so that one draw of 64 bits makes a sentence of ten words.
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

// pagePath returns the one spelling of page n. The home page has no number.
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

// appendTreeLinks writes the links that make every page reachable: page n is the parent of the Fanout pages from
// n*Fanout+1 on.
func (h *host) appendTreeLinks(b []byte, n int) []byte {
	from := n*h.cfg.Fanout + 1
	for child := from; child < min(from+h.cfg.Fanout, h.cfg.Pages); child++ {
		b = appendLink(b, "", "/p/", child, "")
	}
	return b
}

// appendRandomLinks writes links that mostly lead to pages that a crawler knows already.
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

// appendItemLinks writes the links to media, redirects, missing and private pages. Page j modulo Pages links to item j.
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

// appendLink writes a link without building its path first, since a page has many.
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

// leaf returns a function that writes a page whose only link leads home. So no other page is reachable only through a
// disallowed page or through the sitemap.
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

// text returns the file that the other fields describe. Without a Disallow it has an Allow, since parsers differ about
// a group without rules.
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

// draw is a stream of pseudo-random numbers, SplitMix64 (Steele, Lea and Flood, 2014). It does not change with the Go
// release, and any number can begin a stream, so page i can be drawn without the pages before it.
type draw uint64

// The streams of one host. They are independent of each other.
const (
	streamPage = iota + 1
	streamMedia
	streamPrivate
	streamRedirect
	streamLatency
	streamFlaky
	streamLoad
	streamListed
)

// newDraw returns the stream of the n-th item of a kind on a host. Without the two rounds of mixing, page n+1 would
// repeat page n shifted by one draw.
func newDraw(hostSeed uint64, stream, n int) draw {
	d := draw(hostSeed ^ uint64(stream)<<56)
	d = draw(d.next() + uint64(n))
	return draw(d.next())
}

func (d *draw) next() uint64 {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1. Its bias is below 2^-40 for every n in use.
func (d *draw) below(n int) int { return int(d.next() % uint64(n)) }

// unit returns a number strictly between 0 and 1, so that its logarithm and quantile exist.
func (d *draw) unit() float64 { return (float64(d.next()>>11) + 0.5) / (1 << 53) }

// tailCut bounds the lognormal distribution, so that a rare draw does not decide how long a test takes.
const tailCut = 20

func (l *Latency) sample(d draw) time.Duration {
	typical := float64(l.Typical)
	switch l.Dist {
	case distUniform:
		return time.Duration(typical * (1 + l.Spread*(2*d.unit()-1)))
	case distLognormal:
		normal := math.Sqrt2 * math.Erfinv(2*d.unit()-1)
		return time.Duration(typical * min(tailCut, math.Exp(l.Spread*normal)))
	}
	return l.Typical
}

func (s Size) sample(d *draw) int { return s.Min + d.below(s.Max-s.Min+1) }

const indexPath = "/sitemap.xml"

const partURLs = 1000

func (h *host) parts() int { return (h.cfg.Listed + partURLs - 1) / partURLs }

func partPath(n int) string {
	if n%2 == 1 {
		return "/sitemaps/" + strconv.Itoa(n) + ".xml.gz"
	}
	return "/sitemaps/" + strconv.Itoa(n) + ".xml"
}

func listedPath(n int) string { return "/s/" + strconv.Itoa(n) }

// robotsFile returns robots.txt with the line that names the sitemap index, which contains the host's address.
func (h *host) robotsFile() []byte {
	if h.cfg.Listed == 0 {
		return h.robots
	}
	text := append([]byte(nil), h.robots...)
	if len(text) == 0 {
		text = append(text, "User-agent: *\nAllow: /\n"...)
	}
	if text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	return append(text, "Sitemap: "+h.site.URL(h.index)+indexPath+"\n"...)
}

const sitemapHead = `<?xml version="1.0" encoding="UTF-8"?>` + "\n"

const sitemapSpace = ` xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">` + "\n"

func (h *host) sitemap(w http.ResponseWriter, r *http.Request, n int) ending {
	body := []byte(sitemapHead)
	origin := h.site.URL(h.index)
	add := func(element, path string) {
		body = append(body, "<"+element+"><loc>"+origin+path+"</loc></"+element+">\n"...)
	}
	if n == 0 {
		body = append(body, "<sitemapindex"+sitemapSpace...)
		for part := range h.parts() {
			add("sitemap", partPath(part))
		}
		return h.send(w, r, http.StatusOK, "application/xml", append(body, "</sitemapindex>\n"...), 0)
	}
	n--
	body = append(body, "<urlset"+sitemapSpace...)
	for page := n * partURLs; page < min((n+1)*partURLs, h.cfg.Listed); page++ {
		add("url", listedPath(page))
	}
	body = append(body, "</urlset>\n"...)
	if n%2 == 0 {
		return h.send(w, r, http.StatusOK, "application/xml", body, 0)
	}
	return h.send(w, r, http.StatusOK, "application/gzip", compressed(body), 0)
}

func compressed(body []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(body) // a Buffer never fails
	_ = z.Close()
	return b.Bytes()
}
