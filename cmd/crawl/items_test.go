//go:build unix

package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

func crawls(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	got := run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &err})
	require.Equal(t, code, got, "%v\n%s", args, err.String())
	return out.String(), err.String()
}

func crawlsAny(t *testing.T, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	run(t.Context(), args, cli.Streams{In: strings.NewReader(""), Out: &out, Err: &err})
	return out.String(), err.String()
}

const secretPassword = "hunter2-Zähne/+&=%"

// fast are the flags with which a test crawls its own site.
var fast = []string{"--strategy", "off", "--contact", "a@b.test", "--no-robots", "--progress", "none"}

func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

// tableOf reads a CSV file of items as rows of a practice site. The columns that are numbers or lists in like are so in
// the rows.
func tableOf(t *testing.T, path string, like practiceRow) (rows []practiceRow) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	require.NoError(t, err)
	for _, line := range lines[1:] {
		row := practiceRow{}
		for i, name := range lines[0] {
			switch like[name].(type) {
			case float64:
				if line[i] != "" {
					row[name], err = strconv.ParseFloat(line[i], 64)
					require.NoError(t, err, name)
				}
			case []string:
				var list []string
				if line[i] != "" {
					require.NoError(t, json.Unmarshal([]byte(line[i]), &list))
				}
				row[name] = list
			case string:
				row[name] = strings.TrimPrefix(line[i], "'") // the quote that keeps spreadsheets from reading a formula
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// sameRows compares the rows that were found with the true ones, in these fields and in any order.
func sameRows(t *testing.T, want, got []practiceRow, names ...string) {
	t.Helper()
	text := func(rows []practiceRow) (all []string) {
		for _, row := range rows {
			line := ""
			for _, name := range names {
				v := row[name]
				if s, ok := v.(string); ok {
					v = strings.Join(strings.Fields(s), " ")
				}
				line += fmt.Sprintf("%s=%v|", name, v)
			}
			all = append(all, line)
		}
		slices.Sort(all)
		return all
	}
	expected, found := text(want), text(got)
	for i := range min(len(expected), len(found)) {
		require.Equal(t, expected[i], found[i])
	}
	require.Len(t, found, len(expected))
}

func TestItemsOfQuotes(t *testing.T) {
	site := quotesSite(1, 97)
	url, file := serve(t, site), filepath.Join(t.TempDir(), "quotes.csv")
	_, stderr := crawls(t, 0, append(fast, url, "-o", file, "--item", "css:.quote", "--field", "text=css:.text", "--field", "author=css:.author",
		"--field", "tags:all=css:.tags .tag", "--next", "css:li.next a")...)
	sameRows(t, site.Rows, tableOf(t, file, site.Rows[0]), "text", "author", "tags")
	require.Contains(t, stderr, "97 items")
	require.Contains(t, stderr, "done: 10 pages")
}

func TestItemsOfBooks(t *testing.T) {
	site := booksSite(2, 93)
	url, dir := serve(t, site), t.TempDir()
	rules := filepath.Join(dir, "books.yaml")
	require.NoError(t, os.WriteFile(rules, []byte(`
extract:
  items:
    listed:
      item: css:.product_pod
      match: '/(catalogue/page-\d+\.html)?$'
      fields: {title: "css:h3 a@title", price: {css: .price_color, type: number}}
      next: [css:li.next a, css:h3 a]
    book:
      item: page
      match: /catalogue/.*/index\.html$
      fields:
        title: css:h1
        price: {css: .product_main .price_color, type: number}
        stock: {css: .product_main .availability, type: number}
        category: css:.breadcrumb li:nth-child(3)
        description: "css:#product_description + p"
        upc: "xpath://th[.='UPC']/following-sibling::td"
        reviews: {xpath: "//tr[th='Number of reviews']/td", type: number}
        rating: "xpath:substring-after(//*[contains(@class,'product_main')]/*[contains(@class,'star-rating')]/@class, ' ')"
`), 0o600))
	crawls(t, 0, append(fast, url, "--config", rules, "-o", dir+"/out/", "--format", "csv")...)
	sameRows(t, site.Rows, tableOf(t, dir+"/out/book.csv", site.Rows[0]), "title", "price", "stock", "category", "description", "upc", "reviews", "rating")
	sameRows(t, site.Rows, tableOf(t, dir+"/out/listed.csv", site.Rows[0]), "title", "price")
	records, err := os.ReadFile(dir + "/out/records.csv")
	require.NoError(t, err)
	require.Equal(t, 1+5+93, strings.Count(string(records), "\n"), "the pages have their records as ever")
}

func TestItemsOfAScroll(t *testing.T) {
	site := scrollSite(4, 35)
	url, file := serve(t, site), filepath.Join(t.TempDir(), "quotes.csv")
	crawls(t, 0, append(fast, url+"/api/quotes", "-o", file, "--item", "json:quotes", "--field", "text=json:text", "--field", "author=json:author.name",
		"--field", "tags:all=json:tags", "--next", "param:page")...)
	sameRows(t, site.Rows, tableOf(t, file, site.Rows[0]), "text", "author", "tags")
}

func TestItemsOfTeams(t *testing.T) {
	site := teamsSite(5, 582)
	url, file := serve(t, site), filepath.Join(t.TempDir(), "teams.csv")
	args := append(fast, url+"/pages/forms/", "-o", file, "--item", "css:tr.team", "--field", "name=css:.name")
	for _, name := range []string{"year", "wins", "losses", "pct", "gf", "ga", "diff"} {
		args = append(args, "--field", name+":number=css:."+name)
	}
	crawls(t, 0, append(args, "--field", "ot:number=css:.ot-losses", "--next", "css:a[aria-label=Next]")...)
	rows := tableOf(t, file, site.Rows[len(site.Rows)-1])
	sameRows(t, site.Rows, rows, "name", "year", "wins", "losses", "ot", "pct", "gf", "ga", "diff")
}

// A crawl that is killed again and again has each item once in every file.
func TestItemsOfACrawlThatIsKilled(t *testing.T) {
	site := quotesSite(6, 160)
	var served atomic.Int64
	hits := make(chan struct{}, 1000)
	url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site.ServeHTTP(w, r)
		if n := served.Add(1); n == 4 || n == 12 || n == 20 {
			hits <- struct{}{}
		}
	}))
	dir := t.TempDir()
	args := append([]string{
		"crawl", url, "-o", dir + "/out/", "--format", "csv", "--item", "quote=css:.quote", "--field", "text=css:.text",
		"--item", "person=css:.author", "--field", "name=css::scope", "--next", "css:li.next a",
	}, fast...)
	runs := 0
	for ; runs < 20; runs++ {
		again := make(chan struct{})
		go func() { <-hits; close(again) }()
		if code, out := killed(t, syscall.SIGKILL, again, time.Minute, args); code == 0 {
			hits <- struct{}{} // wakes the killer
			break
		} else if _, err := os.Stat(dir + "/out/state.db"); err == nil && !strings.Contains(out, "given up before it began") {
			args = []string{"crawl", "resume", dir + "/out", "--progress", "none"}
		}
	}
	require.Greater(t, runs, 1, "it was killed in the midst of it")
	require.Less(t, runs, 20)
	sameRows(t, site.Rows, tableOf(t, dir+"/out/quote.csv", site.Rows[0]), "text")
	require.Len(t, tableOf(t, dir+"/out/person.csv", practiceRow{"name": ""}), 160)
}
