package testsite

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strconv"
)

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

// robotsFile is robots.txt with the line that names the index, which has the host's address.
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
	_, _ = z.Write(body) // a buffer takes everything
	_ = z.Close()
	return b.Bytes()
}
