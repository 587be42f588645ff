//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// If a crawl that writes a tree of Markdown is killed at any instant and resumed, the tree is that of an uninterrupted
// crawl: every file, the list and the chunks.
func TestMarkdownKill(t *testing.T) {
	site := &killSite{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site.note(r.URL.Path)
		var n int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &n); err != nil || n >= pagesOfHost || moved(n) {
			servePage(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, "<!DOCTYPE html><html lang=en><title>Page %d</title><main><h1>Page %[1]d</h1>", n)
		for i := range 2 + n%5 {
			_, _ = fmt.Fprintf(w, "<h2>Part %d</h2><p>%s</p><ul><li>one of %d<li>two</ul>", i, strings.Repeat("It says, in so many words, what there is to say. ", 8), n)
		}
		_, _ = fmt.Fprint(w, "</main><nav>")
		for _, next := range linksOf(n) {
			_, _ = fmt.Fprintf(w, "<a href=/%d>%d</a>", next, next)
		}
	}))
	t.Cleanup(server.Close)
	site.seeds = []string{server.URL + "/0"}
	crawlInto := func(dir string) kept {
		return kept{dir: dir, records: filepath.Join(dir, "chunks.jsonl"), format: "markdown"}
	}
	whole := crawlInto(filepath.Join(t.TempDir(), "whole"))
	code, out := plainly(t)(whole.first(site.seeds))
	require.Zero(t, code, out)
	want := treeOf(t, whole.dir)
	require.Greater(t, len(want), pagesOfHost*9/10)

	for trial := range max(1, *kills/20) {
		rnd := rand.New(rand.NewPCG(uint64(trial), 11))
		k := crawlInto(filepath.Join(t.TempDir(), "killed"))
		for range 3 {
			site.goOn(t, k, func(args []string) (int, string) {
				return killed(t, syscall.SIGKILL, site.after(1+rnd.IntN(30)), deadline, args)
			})
			for name, text := range treeOf(t, k.dir) {
				if strings.HasSuffix(name, ".md") {
					require.Equal(t, want[name], text, "%s is not whole", name)
				}
			}
		}
		code, out := site.goOn(t, k, plainly(t))
		require.Zero(t, code, out)
		require.Equal(t, want, treeOf(t, k.dir))
	}
}

// fetchedLine matches the line that says when a page was fetched.
var fetchedLine = regexp.MustCompile(`(?m)^fetched: .*\n`)

// treeOf returns the content of the files of a tree by their names. It sorts the lines of the chunks, since pages come
// in any order.
func treeOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !slices.Contains([]string{".md", ".txt", ".jsonl"}, filepath.Ext(path)) {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files[name] = fetchedLine.ReplaceAllString(string(text), "")
		if strings.HasSuffix(name, ".jsonl") {
			lines := strings.Split(files[name], "\n")
			slices.Sort(lines)
			files[name] = strings.Join(lines, "\n")
		}
		return err
	}))
	return files
}
