package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/treadlight/crawl/examples/internal/check"
)

func TestOutput(t *testing.T) {
	pace = check.Fast
	pages := map[string]string{
		"/a": "<title>A</title><a href=/unlisted>never asked for</a>", "/b": "<title>B</title>", "/untitled": "<p>",
		"/copy": "<title>Copy</title><link rel=canonical href=/a>",
	}
	site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sitemap.xml":
			w.Header().Set("Content-Type", "application/xml")
			_, _ = io.WriteString(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
			for _, path := range strings.Fields("/a /b /untitled /copy /gone /moved") {
				_, _ = io.WriteString(w, "<url><loc>http://"+r.Host+path+"</loc></url>")
			}
			_, _ = io.WriteString(w, "</urlset>")
		case "/moved":
			http.Redirect(w, r, "/a", http.StatusMovedPermanently)
		default:
			check.Pages(pages).ServeHTTP(w, r)
		}
	})
	check.Output(t, "audit", site, func(ctx context.Context, out io.Writer, base string) error {
		return run(ctx, out, base+"/sitemap.xml")
	})
}
