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
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
	"github.com/treadlight/crawl/internal/lab/docpage"
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

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return data
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
	url := serve(t, site)
	for path, rules := range map[string][]string{
		"/":           {"--item", "css:.quote", "--field", "text=css:.text", "--field", "author=css:.author", "--field", "tags:all=css:.tags .tag", "--next", "css:li.next a"},
		"/api/quotes": {"--item", "json:quotes", "--field", "text=json:text", "--field", "author=json:author.name", "--field", "tags:all=json:tags", "--next", "param:page"},
	} {
		file := filepath.Join(t.TempDir(), "quotes.csv")
		_, stderr := crawls(t, 0, slices.Concat(fast, []string{url + path, "-o", file}, rules)...)
		sameRows(t, site.Rows, tableOf(t, file, site.Rows[0]), "text", "author", "tags")
		require.Contains(t, stderr, "97 items")
		require.Contains(t, stderr, map[string]string{"/": "done: 10 pages", "/api/quotes": "done: 11 pages"}[path], "numbers end at the first page without items")
	}
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
	records := readFile(t, dir+"/out/records.csv")
	require.Equal(t, 1+5+93, strings.Count(string(records), "\n"), "the pages have their records as ever")
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

var consoleBlock = regexp.MustCompile("(?s)```console\n(.*?)```")

// The output in the documentation of items and logins is what the commands print, line by line and in that order.
func TestPagesOfItemsAndLogins(t *testing.T) {
	members := newMembers(1, 12, "ann", secretPassword)
	for page, site := range map[string]struct {
		address string
		handler http.Handler
	}{
		"docs/how-to/items.md": {"http://127.0.0.1:8941", booksSite(1, 45)},
		"docs/how-to/login.md": {"http://127.0.0.1:8942", members},
	} {
		t.Run(page, func(t *testing.T) {
			dir, url := t.TempDir(), serve(t, site.handler)
			text := strings.ReplaceAll(docpage.Read(t, page), site.address, url)
			require.NoError(t, os.WriteFile(dir+"/login.yml", []byte("page: "+url+"/login\nuser: ann\npassword: ${SHOP_PASSWORD}\nsuccess: css:a[href='/logout']\n"), 0o644))
			blocks := consoleBlock.FindAllStringSubmatch(text, -1)
			require.NotEmpty(t, blocks)
			for _, block := range blocks {
				for _, step := range strings.Split(block[1], "$ ")[1:] {
					line, shown, _ := strings.Cut(step, "\n")
					fast := strings.Replace(line, "crawl ", "crawl --strategy off --no-robots --contact a@b.test --progress none ", 1)
					fast = strings.Replace(fast, "crawl --strategy off --no-robots --contact a@b.test --progress none try ", "crawl try --strategy off --no-robots ", 1)
					cmd := exec.CommandContext(t.Context(), "sh", "-c", fast)
					cmd.Dir, cmd.Env = dir, append(os.Environ(), "SHOP_PASSWORD="+secretPassword)
					var out bytes.Buffer
					cmd.Stdout, cmd.Stderr = &out, &out
					_ = cmd.Run() // the documentation shows failures too
					rest := strings.Join(strings.Fields(out.String()), " ")
					for want := range strings.Lines(shown) {
						want = strings.Join(strings.Fields(want), " ")
						_, after, found := strings.Cut(rest, want)
						require.True(t, found, "%s\nhas not printed %q (in that order), but\n%s", line, want, out.String())
						rest = after
					}
				}
			}
		})
	}
}
