package docs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/docpage"
)

// The commands of the page about plans print what it shows, but for times and sizes.
func TestPlanPageRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the command")
	}
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			fmt.Fprintf(w, "User-agent: *\nDisallow: /private\nCrawl-delay: 0.1\nSitemap: http://%s/sitemaps.xml\n", r.Host)
		case path == "/sitemaps.xml":
			fmt.Fprint(w, "<sitemapindex>")
			for i := range 40 {
				fmt.Fprintf(w, "<sitemap><loc>/%d.xml</loc></sitemap>", i+1)
			}
			fmt.Fprint(w, "</sitemapindex>")
		case strings.HasSuffix(path, ".xml"):
			fmt.Fprint(w, "<urlset>")
			for i := range 1000 {
				fmt.Fprintf(w, "<url><loc>/news%s/%d</loc></url>", path, i)
			}
			fmt.Fprint(w, "</urlset>")
		default:
			fmt.Fprint(w, "<title>A page</title>", strings.Repeat("<p>text ", 100), `<a href="https://shop.example/">s</a><a href="/private/a">p</a>`)
			for i := range 60 {
				fmt.Fprintf(w, `<a href="/news/%d">n</a>`, i)
			}
		}
	}))
	defer site.Close()
	bin, dir := program(t), t.TempDir()
	digits := regexp.MustCompile(`in \d+s|\d+ B|[:_]\d+`) // times, and what has a port in it
	plain := func(s string) string { return digits.ReplaceAllString(strings.Join(strings.Fields(s), " "), "N") }
	text := strings.ReplaceAll(docpage.Read(t, "docs/how-to/plan-a-crawl.md"), "http://127.0.0.1:8123", site.URL)
	for _, block := range blocks(text, "console") {
		line, shown, _ := strings.Cut(strings.TrimPrefix(block, "$ "), "\n")
		out, err := shell(ctx, bin, dir, line).CombinedOutput()
		require.NoError(t, err, "%s", out)
		for want := range strings.SplitSeq(shown, "\n\n") {
			require.Contains(t, plain(string(out)), plain(want), "%s\n%s", line, out)
		}
	}
}
