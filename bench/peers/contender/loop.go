package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/net/html"
)

// loop asks for every path of a list and hands each page to read, which says how many
// links it found. It knows no frontier, no robots.txt and no limit: what it costs is
// what every Go crawler pays at least.
func loop(o options, read func(page []byte) int64) (counts, error) {
	paths, err := lines(o.list)
	if err != nil {
		return counts{}, err
	}
	base, err := url.Parse(o.origin)
	if err != nil {
		return counts{}, err
	}
	pool := &http.Transport{
		MaxIdleConnsPerHost: o.inFlight,
		DisableCompression:  true, // nobody here asks for it: decoding is not what differs
	}
	defer pool.CloseIdleConnections()
	var next, pages, found atomic.Int64
	failed := make(chan error, o.inFlight)
	var all sync.WaitGroup
	for range o.inFlight {
		all.Go(func() {
			var body bytes.Buffer
			for i := next.Add(1) - 1; i < int64(len(paths)); i = next.Add(1) - 1 {
				isPage, err := get(pool, base, paths[i], &body)
				if err != nil {
					failed <- err
					return
				}
				if isPage {
					pages.Add(1)
					found.Add(read(body.Bytes()))
				}
			}
		})
	}
	all.Wait()
	close(failed)
	return counts{pages.Load(), found.Load()}, <-failed
}

// get reads an answer whole, into memory that is used again, and tells whether it is a
// page in HTML. The path goes out as it is: some real links are no URLs to net/url.
func get(pool *http.Transport, base *url.URL, path string, body *bytes.Buffer) (isPage bool, err error) {
	resp, err := pool.RoundTrip(&http.Request{
		Method: http.MethodGet, Header: make(http.Header), URL: &url.URL{Scheme: base.Scheme, Host: base.Host, Opaque: path},
	})
	if err != nil {
		return false, err
	}
	defer resp.Body.Close() //nolint:errcheck // it was read to its end, or failed before
	body.Reset()
	if _, err := io.Copy(body, resp.Body); err != nil {
		return false, fmt.Errorf("read %s: %w", path, err)
	}
	return resp.StatusCode == http.StatusOK && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html"), nil
}

// links counts the references that lead to pages. It does not resolve them.
func links(page []byte) (n int64) {
	z := html.NewTokenizer(bytes.NewReader(page))
	for {
		switch z.Next() {
		case html.ErrorToken:
			return n
		case html.StartTagToken, html.SelfClosingTagToken:
			name, more := z.TagName()
			if want := reference(name); want != "" {
				for more {
					var key, value []byte
					key, value, more = z.TagAttr()
					if string(key) == want && len(value) > 0 {
						n++
					}
				}
			}
		}
	}
}

// reference is the attribute of an element that leads to another page; empty if it has
// none.
func reference(name []byte) string {
	switch string(name) {
	case "a", "area", "link":
		return "href"
	case "frame", "iframe":
		return "src"
	}
	return ""
}

func lines(path string) ([]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(text)), nil
}
