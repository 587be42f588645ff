// Package check runs the examples: each against a server on loopback, its output beside that in README.md.
package check

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/treadlight/crawl"
)

// Fast is how fast a server on this machine may be asked.
var Fast = crawl.PolitenessOptions{InitialRPS: 500, MaxRPS: 1000}

// Output runs a program on a server of h, and compares what it prints, but for the order of lines, with the block below
// the heading of that name in README.md. RENEW=1 writes the block anew.
func Output(t *testing.T, name string, h http.Handler, run func(ctx context.Context, out io.Writer, base string) error) {
	t.Helper()
	server := httptest.NewServer(h)
	defer server.Close()
	var out bytes.Buffer
	if err := run(t.Context(), &out, server.URL); err != nil {
		t.Fatal(err)
	}
	got := strings.ReplaceAll(out.String(), server.URL, "http://site.example")
	Text(t, name, got)
}

// Text is Output of what was printed already.
func Text(t *testing.T, name, got string) {
	t.Helper()
	readme := filepath.Join("..", "README.md")
	page, err := os.ReadFile(readme)
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)(\n## `" + regexp.QuoteMeta(name) + "`\n.*?\n```text\n)(.*?)(```\n)")
	found := block.FindSubmatch(page)
	if found == nil {
		t.Fatalf("README.md has no output of %s", name)
	}
	if got = sorted(got); got == sorted(string(found[2])) {
		return
	}
	if os.Getenv("RENEW") == "" {
		t.Fatalf("%s prints\n%s\nand not what README.md says:\n%s\nRENEW=1 go test renews it", name, got, found[2])
	}
	renewed := block.ReplaceAll(page, []byte("${1}"+strings.ReplaceAll(got, "$", "$$")+"${3}"))
	if err := os.WriteFile(readme, renewed, 0o600); err != nil {
		t.Fatal(err)
	}
}

func sorted(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Pages is a site of HTML pages by their paths; "" is not found.
func Pages(pages map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := pages[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(body, "<") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		_, _ = io.WriteString(w, body)
	})
}

// Books is a catalogue: two lists with two books each.
var Books = map[string]string{
	"/":                  `<title>Books</title><a href="/catalogue/page-1">all books</a>`,
	"/catalogue/page-1":  `<title>Page 1</title><article class="book"><h3><a href="/catalogue/dune">Dune</a></h3></article><article class="book"><h3><a href="/catalogue/emma">Emma</a></h3></article><a class="next" href="page-2">next</a>`,
	"/catalogue/page-2":  `<title>Page 2</title><article class="book"><h3><a href="/catalogue/ulysses">Ulysses</a></h3></article>`,
	"/catalogue/dune":    `<title>Dune</title><h1>Dune</h1><p class="price">9.50</p>`,
	"/catalogue/emma":    `<title>Emma</title><h1>Emma</h1><p class="price">7.20</p>`,
	"/catalogue/ulysses": `<title>Ulysses</title><h1>Ulysses</h1><p class="price">12.00</p>`,
}

// Ask asks an API for a note, more often than two at once may be had, by two users, and whether it is well.
func Ask(ctx context.Context, out io.Writer, base string) error {
	for _, ask := range [][2]string{
		{"ann", "/notes/1"}, {"ann", "/notes/2"}, {"ann", "/notes/3"}, {"bob", "/notes/4"}, {"ann", "/healthz"},
	} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+ask[1], http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("X-User", ask[0])
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		_ = res.Body.Close()
		if _, err := fmt.Fprintln(out, ask[0], ask[1], res.StatusCode); err != nil {
			return err
		}
	}
	return nil
}
