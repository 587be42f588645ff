package integration_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	whatwg "github.com/nlnwa/whatwg-url/url"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// oracle is a slow and obvious crawler over a DOM and a library for URLs: it visits what
// a link of start's host reaches and returns the status of each URL asked for, by the
// path and query that a server sees.
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
