package integration_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/lab/realserver"
	"github.com/treadlight/crawl/record"
)

// Every page of a real site that a link reaches is fetched exactly once, and nothing
// else is: what nginx saw equals what an obvious crawler over a DOM visits.
func TestRealDocumentation(t *testing.T) {
	for _, site := range []struct {
		name  string
		dir   func(testing.TB) string
		start string
	}{
		{"python3-doc", pythonDocs, "/index.html"},
		{"libboost-doc", boostDocs, "/html/index.html"},
	} {
		t.Run(site.name, func(t *testing.T) {
			t.Parallel()
			root := site.dir(t)
			want := oracle(t, realserver.Nginx(t, root, "", "").URL+site.start)
			server := realserver.Nginx(t, root, "", "")
			cfg := unpaced()
			cfg.Sitemaps.Enabled = false // the oracle has none
			got, snap := visit(t, cfg, server.URL+site.start)

			seen := map[string]int{}
			server.Stop()
			for _, h := range server.Hits() {
				if h.URI == "/robots.txt" {
					require.Equal(t, 404, h.Status)
					continue
				}
				if _, twice := seen[h.URI]; twice && h.Status != 403 { // which may have meant "later"
					t.Errorf("%s was asked for twice", h.URI)
				}
				seen[h.URI] = h.Status
			}
			requireSameURLs(t, want, seen)
			require.Equal(t, len(want), len(got), "one record per URL")
			for _, rec := range got {
				require.Equal(t, want[strings.TrimPrefix(rec.URL, server.URL)], rec.Status, rec.URL)
			}
			requireOnDisk(t, root, got, server.URL)
			t.Logf("%d URLs, %d pages, %d bytes in %.2fs", len(got), snap.Pages, snap.Bytes, snap.ElapsedSeconds)
		})
	}
}

func requireSameURLs(t *testing.T, want, got map[string]int) {
	t.Helper()
	for _, uri := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[uri]; !ok {
			t.Errorf("%s is reached by a link and was not asked for", uri)
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[uri]; !ok {
			t.Errorf("%s was asked for and no link reaches it", uri)
		}
	}
}

// requireOnDisk holds the records against the files they came from: what answered 200 is a file, byte for byte.
func requireOnDisk(t *testing.T, root string, got []record.Record, origin string) {
	t.Helper()
	for i := range got {
		rec := &got[i]
		if rec.Status != 200 {
			continue
		}
		u, err := url.Parse(rec.URL)
		require.NoError(t, err)
		path := filepath.FromSlash(u.Path)
		if strings.HasSuffix(path, "/") {
			path += "index.html"
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err, strings.TrimPrefix(rec.URL, origin))
		if int64(len(data)) != rec.Bytes || fmt.Sprintf("sha256:%x", sha256.Sum256(data)) != rec.Digest && len(data) > 0 {
			t.Errorf("%s: %d bytes, %s: not the file", rec.URL, rec.Bytes, rec.Digest)
		}
	}
}

// oracle is a slow and obvious crawler over a DOM and a library for URLs: it visits what a link of start's host
// reaches and returns the status of each URL asked for, by the path and query that a server sees.
func oracle(t *testing.T, start string) map[string]int {
	t.Helper()
	first, err := whatwg.Parse(start)
	require.NoError(t, err)
	visited := map[string]int{}
	queue := []*whatwg.Url{first}
	push := func(base *whatwg.Url, ref string) {
		if u, err := base.Parse(ref); err == nil && u.Host() == first.Host() && u.Scheme() == first.Scheme() {
			queue = append(queue, u)
		}
	}
	for len(queue) > 0 {
		u := queue[0]
		queue = queue[1:]
		uri := u.Pathname() + u.Search()
		if _, ok := visited[uri]; ok {
			continue
		}
		resp := get(t, u.Host(), uri)
		visited[uri] = resp.StatusCode
		if to := resp.Header.Get("Location"); to != "" {
			push(u, to)
		}
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") && resp.StatusCode == http.StatusOK {
			doc, err := html.Parse(resp.Body)
			require.NoError(t, err)
			walk(doc, u, push)
		}
		resp.Body.Close()
	}
	return visited
}

// get asks for a URI as it is, also for one that package net/http would refuse to send.
func get(t *testing.T, host, uri string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", host)
	require.NoError(t, err)
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n\r\n", uri, host)
	require.NoError(t, err)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp
}

// walk finds what leads from a page to another page.
func walk(n *html.Node, base *whatwg.Url, push func(*whatwg.Url, string)) {
	for c := range n.Descendants() {
		if c.Type != html.ElementNode {
			continue
		}
		attr := map[string]string{}
		for _, a := range c.Attr {
			attr[a.Key] = a.Val
		}
		if slices.Contains(strings.Fields(strings.ToLower(attr["rel"])), "nofollow") {
			continue
		}
		switch c.Data {
		case "a", "area":
			if ref, ok := attr["href"]; ok {
				push(base, ref)
			}
		case "iframe", "frame":
			if ref, ok := attr["src"]; ok {
				push(base, ref)
			}
		case "link":
			if kind := attr["type"]; pageRel(attr["rel"]) && (kind == "" || kind == "text/html") {
				push(base, attr["href"])
			}
		}
	}
}

// pageRel reports whether a link element of that rel leads to a page (HTML, section
// "Link types", those that make hyperlinks), and not to something the page is made of.
func pageRel(rel string) bool {
	page := false
	for token := range strings.FieldsSeq(strings.ToLower(rel)) {
		switch token {
		case "stylesheet", "icon":
			return false
		case "alternate", "author", "canonical", "help", "license", "next", "prev", "search":
			page = true
		}
	}
	return page
}

// documentation is the directory of a Debian documentation package.
func documentation(t testing.TB, dirs ...string) string {
	t.Helper()
	for _, dir := range dirs {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return real
		}
	}
	realserver.Need(t, "the documentation in "+dirs[0])
	return ""
}

func pythonDocs(t testing.TB) string {
	return documentation(t, "/usr/share/doc/python3-doc/html", "/usr/share/doc/python3/html")
}

func boostDocs(t testing.TB) string {
	return documentation(t, "/usr/share/doc/libboost-doc/doc")
}
