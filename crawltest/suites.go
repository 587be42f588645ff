package crawltest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/record"
)

// soon is how long a suite waits for something that must be quick.
const soon = 10 * time.Second

// fetchPages returns the pages that the suite for fetchers requests.
func fetchPages() map[string]Page {
	return map[string]Page{
		"/":           {Body: "<title>home</title>"},
		"/robots.txt": {Body: "User-agent: *\nDisallow: /no\n"},
		"/query?a=b":  {Body: "query"},
		"/moved":      {Location: "/", Body: "moved"},
		"/gone":       {Status: http.StatusGone, Body: "gone"},
		"/empty":      {Header: http.Header{"Content-Type": {"image/png"}}},
		"/large":      {Body: strings.Repeat("0123456789abcdef", 1<<16)},
	}
}

// TestFetcher runs the suite for fetchers. open returns a fetcher that answers with the pages of site: it may read them
// from [Site.Pages], or send requests to site, which is an http.Handler. base is the URL of the page "/" for that
// fetcher, such as "http://site.example" or the URL of a server. What open starts, it must end by [testing.T.Cleanup].
//
// The site has a robots.txt, a redirect, a page with status 410, an empty image and a page of 1 MiB beside HTML.
//
// A fetcher must answer each request with the status, type and body of its page; return redirects and error statuses as
// they are; leave the request's header unchanged; serve several goroutines; serve other requests while a body is open;
// and return an error when the context has ended.
func TestFetcher(t *testing.T, open func(t *testing.T, site *Site) (fetcher crawl.Fetcher, base string)) {
	t.Helper()
	pages := fetchPages()
	begin := func(t *testing.T) func(context.Context, string) (*http.Response, error) {
		t.Helper()
		f, base := open(t, NewSite(pages))
		base = strings.TrimSuffix(base, "/")
		return func(ctx context.Context, path string) (*http.Response, error) {
			u, err := url.Parse(base + path)
			if err != nil {
				return nil, err
			}
			req := (&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: http.Header{"User-Agent": {"crawltest"}}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
			resp, err := f.Fetch(ctx, req)
			if got := req.Header.Get("User-Agent"); got != "crawltest" {
				t.Errorf("%s: User-Agent of the request is %q after Fetch, want it as it was", path, got)
			}
			if (resp == nil) == (err == nil) {
				t.Errorf("%s: Fetch = %v, %v, want either a response or an error", path, resp, err)
			}
			return resp, err
		}
	}
	t.Run("Pages", func(t *testing.T) {
		fetch := begin(t) //nolint:bodyclose // a function over responses, not one
		for path := range pages {
			checkPage(t, fetch, path, pages[path])
		}
		checkPage(t, fetch, "/none", Page{Status: http.StatusNotFound, Body: "?"})
	})
	t.Run("Concurrent", func(t *testing.T) {
		fetch := begin(t) //nolint:bodyclose // a function over responses, not one
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for path := range pages {
					checkPage(t, fetch, path, pages[path])
				}
			})
		}
		all.Wait()
	})
	t.Run("OpenBody", func(t *testing.T) {
		fetch := begin(t) //nolint:bodyclose // a function over responses, not one
		open, err := fetch(t.Context(), "/large")
		if err != nil {
			t.Fatalf("/large: %v", err)
		}
		checkPage(t, fetch, "/", pages["/"])
		if err := open.Body.Close(); err != nil {
			t.Errorf("close a body that was not read: %v", err)
		}
		checkPage(t, fetch, "/large", pages["/large"])
	})
	t.Run("EndedContext", func(t *testing.T) {
		fetch := begin(t) //nolint:bodyclose // a function over responses, not one
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		within(t, "Fetch after the end of its context", func() {
			if resp, err := fetch(ctx, "/"); err == nil {
				_ = resp.Body.Close()
				t.Error("Fetch after the end of its context has no error")
			}
		})
		checkPage(t, fetch, "/", pages["/"])
	})
}

// checkPage fetches a path and compares the response with the page.
func checkPage(t *testing.T, fetch func(context.Context, string) (*http.Response, error), path string, want Page) {
	resp, err := fetch(t.Context(), path)
	if err != nil {
		t.Errorf("%s: %v", path, err)
		return
	}
	status := want.Status
	if status == 0 {
		status = http.StatusOK
		if want.Location != "" {
			status = http.StatusFound
		}
	}
	if resp.StatusCode != status {
		t.Errorf("%s: status %d, want %d: a redirect or an error is a response like another", path, resp.StatusCode, status)
	}
	if got := resp.Header.Get("Location"); got != want.Location {
		t.Errorf("%s: Location %q, want %q", path, got, want.Location)
	}
	if types := want.Header.Get("Content-Type"); types != "" && resp.Header.Get("Content-Type") != types {
		t.Errorf("%s: Content-Type %q, want %q", path, resp.Header.Get("Content-Type"), types)
	}
	var body []byte
	if resp.Body != nil {
		if body, err = io.ReadAll(resp.Body); err != nil {
			t.Errorf("%s: read the body: %v", path, err)
		}
		if err := resp.Body.Close(); err != nil {
			t.Errorf("%s: close the body: %v", path, err)
		}
	}
	if want.Body != "?" && string(body) != want.Body {
		t.Errorf("%s: a body of %d bytes, want these %d: %.40q", path, len(body), len(want.Body), want.Body)
	}
}

// within calls do and fails the test if that takes too long. It waits for do in any case.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	begin := clock.System().Now()
	do()
	if d := clock.System().Since(begin); d > soon {
		t.Errorf("%s took %v, want it at once", what, d)
	}
}

// SinkCase describes a kind of sink for [TestSink]: one that keeps its records.
type SinkCase struct {
	// Open opens the sink. If at is nil, the destination must be new and empty. Otherwise the sink is opened again
	// after a crash, and at is the last Position that it returned: whatever the destination has after that must be
	// removed. A sink that is not [record.Durable] is opened only with nil. Required.
	Open func(t *testing.T, at *record.Position) record.Sink
	// URLs returns the URLs of the records in the destination, in their order. It is called after Flush or Close.
	// Required.
	URLs func(t *testing.T) []string
	// Items returns the items in the destination as JSON, in their order. Nil means that the sink takes no items.
	Items func(t *testing.T) []string
	// Item returns a value that the sink takes as an item, a different one for each n. Nil means that the sink takes no
	// items.
	Item func(n int) any
}

// TestSink runs the suite for sinks: records and items come out once and in order; Flush makes them readable; a record
// may be changed after Write; and a [record.Durable] that is opened at a Position it has returned continues there,
// whatever was written after it.
func TestSink(t *testing.T, c SinkCase) {
	t.Helper()
	t.Run("Records", func(t *testing.T) {
		s := c.Open(t, nil)
		d := sinkDriver{t, c, s, 0}
		d.write(3)
		d.flush(3)
		d.write(400)
		d.flush(403)
		if err := s.Flush(); err != nil {
			t.Errorf("Flush of nothing: %v", err)
		}
		d.write(1)
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		d.holds(404, "after Close, which flushes")
	})
	t.Run("OddRecords", func(t *testing.T) {
		s := c.Open(t, nil)
		for _, r := range oddRecords() {
			if err := s.Write(r); err != nil {
				t.Errorf("Write of %q: %v", r.URL, err)
			}
		}
		if err := errors.Join(s.Flush(), s.Close()); err != nil {
			t.Errorf("Flush and Close: %v", err)
		}
	})
	t.Run("Crash", func(t *testing.T) {
		s, durable := c.Open(t, nil).(record.Durable)
		if !durable {
			t.Skip("it is not record.Durable: after a crash records may come twice")
		}
		d := sinkDriver{t, c, s, 0}
		d.write(5)
		d.flush(5)
		for _, lost := range []int{3, 0, 50} {
			at, done := s.Mark(), d.n
			if at.Records != int64(done) && c.Item == nil {
				t.Errorf("Mark after %d records: Records = %d", done, at.Records)
			}
			d.write(lost) // a crash leaves this behind the last Position
			if err := errors.Join(s.Flush(), s.Sync(), s.Close()); err != nil {
				t.Fatalf("Flush, Sync and Close: %v", err)
			}
			s, d.n = c.Open(t, &at).(record.Durable), done
			if d.s = s; s.Mark().Path != at.Path {
				t.Errorf("Mark after it was opened again: Path = %q, want %q", s.Mark().Path, at.Path)
			}
			d.write(4)
			d.flush(done + 4)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		d.holds(17, "after three crashes")
	})
}

// sinkDriver writes numbered records and items to a sink.
type sinkDriver struct {
	t *testing.T
	c SinkCase
	s record.Sink
	n int
}

func sinkURL(n int) string { return fmt.Sprintf("http://sink.example/%d", n) }

func (d *sinkDriver) write(count int) {
	d.t.Helper()
	for range count {
		r := &record.Record{URL: sinkURL(d.n), Kind: "page", Status: http.StatusOK, ContentType: "text/html", Attempt: 1, FetchedAt: time.Unix(int64(d.n), 0)}
		if d.c.Item != nil {
			d.item(r)
		}
		if err := d.s.Write(r); err != nil {
			d.t.Fatalf("Write of record %d: %v", d.n, err)
		}
		r.URL = "http://sink.example/changed-after-write"
		d.n++
	}
}

func (d *sinkDriver) item(r *record.Record) {
	d.t.Helper()
	to, ok := d.s.(record.ItemSink)
	value := d.c.Item(d.n)
	if !ok || !to.Takes(value) {
		d.t.Fatalf("the sink does not take items of type %T", value)
	}
	if err := to.WriteItem(r, record.Item{Value: value, JSON: itemJSON(d.n)}); err != nil {
		d.t.Fatalf("WriteItem of item %d: %v", d.n, err)
	}
}

func itemJSON(n int) []byte { return fmt.Appendf(nil, `{"n":%d}`, n) }

func (d *sinkDriver) flush(want int) {
	d.t.Helper()
	if err := d.s.Flush(); err != nil {
		d.t.Fatalf("Flush: %v", err)
	}
	d.holds(want, "after Flush")
}

// holds checks that the destination has exactly the first want items or, if the sink takes no items, records.
func (d *sinkDriver) holds(want int, when string) {
	d.t.Helper()
	urls, items := make([]string, want), make([]string, want)
	for i := range want {
		urls[i], items[i] = sinkURL(i), string(itemJSON(i))
	}
	if got := d.c.URLs(d.t); d.c.Item == nil && !slices.Equal(got, urls) {
		d.t.Fatalf("%s the sink has %d records, want the first %d that were written, in their order: %.200q", when, len(got), want, got)
	}
	if d.c.Items == nil {
		return
	}
	if got := d.c.Items(d.t); !slices.Equal(got, items) {
		d.t.Fatalf("%s the sink has %d items, want the first %d that were emitted, in their order: %.200q", when, len(got), want, got)
	}
}

// oddRecords returns unusual records, such as servers may cause.
func oddRecords() []*record.Record {
	return []*record.Record{
		{},
		{URL: "http://sink.example/\xff\x00\u2028", Title: "a\nb\r\"'\\,;\t=cmd", Kind: "page", Status: 999},
		{URL: "http://sink.example/failed", Kind: "robots", Error: &record.Error{Class: "timeout", Message: "no header in 20s"}},
		{URL: "http://sink.example/" + strings.Repeat("long", 2000), Kind: "sitemap", Links: slices.Repeat([]string{"http://sink.example/"}, 1000)},
		{URL: "http://sink.example/body", Kind: "page", BodyBase64: []byte{0, 1, 2}, Fields: []record.Values{{Name: "n"}, {Name: "", Values: []string{"", "x"}, List: true}}},
	}
}

// TestExtractor runs the suite for extractors. documents should be of the kind that the extractor is for; the suite
// also uses what hosts send in place of them: nothing, noise, and truncated bodies. An extractor must not panic, must
// not change the document, must return the same result for the same document, also when called concurrently, and must
// end when its context ends.
func TestExtractor(t *testing.T, e crawl.Extractor, documents ...*crawl.Document) {
	t.Helper()
	if len(documents) == 0 {
		t.Fatal("give at least one document that the extractor is for")
	}
	t.Run("Documents", func(t *testing.T) {
		for i, d := range documents {
			got, err := extract(t, t.Context(), e, d)
			if err != nil || got == nil {
				t.Errorf("document %d: Extract = %v, %v, want what is in it", i, got, err)
			}
		}
	})
	t.Run("Spoilt", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // noise, the same each time
		for _, d := range documents {
			for _, body := range spoilt(r, d.Body) {
				other := *d
				other.Body = body
				got, err := extract(t, t.Context(), e, &other)
				if got == nil && err == nil {
					t.Errorf("Extract of %.40q has neither a result nor an error", body)
				}
			}
			_, _ = extract(t, t.Context(), e, &crawl.Document{URL: d.URL, ContentType: d.ContentType, Body: d.Body})
		}
	})
	t.Run("Concurrent", func(t *testing.T) {
		want := make([]*crawl.Extracted, len(documents))
		for i, d := range documents {
			want[i], _ = extract(t, t.Context(), e, d)
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for i, d := range documents {
					if got, _ := extract(t, t.Context(), e, d); !reflect.DeepEqual(got, want[i]) {
						t.Errorf("document %d: Extract beside others is another than alone", i)
					}
				}
			})
		}
		all.Wait()
	})
	t.Run("EndedContext", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		within(t, "Extract after the end of its context", func() { _, _ = extract(t, ctx, e, documents[0]) })
	})
}

// extract calls the extractor with a copy of a document, and checks that the copy is not changed.
func extract(t *testing.T, ctx context.Context, e crawl.Extractor, d *crawl.Document) (got *crawl.Extracted, err error) { //nolint:revive // t first, as in all tests
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("Extract of %.40q panicked: %v", d.Body, v)
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	u := *d.URL
	own := crawl.Document{URL: &u, ContentType: d.ContentType, Charset: d.Charset, Header: d.Header.Clone(), Body: bytes.Clone(d.Body)}
	got, err = e.Extract(ctx, &own)
	if u != *d.URL || !reflect.DeepEqual(own.Header, d.Header.Clone()) || !bytes.Equal(own.Body, d.Body) {
		t.Errorf("Extract has changed the document %.40q", d.Body)
	}
	return got, err
}

// spoilt returns bodies that such a document should not have.
func spoilt(r *rand.Rand, body []byte) [][]byte {
	noise := make([]byte, 4096)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	all := [][]byte{nil, {}, {0}, noise, []byte("<html>"), []byte("{"), bytes.Repeat([]byte("["), 10_000)}
	for range 8 {
		all = append(all, body[:r.IntN(len(body)+1)])
		flipped := bytes.Clone(body)
		for range min(len(flipped), 4) {
			flipped[r.IntN(len(flipped))] ^= byte(1 + r.IntN(255))
		}
		all = append(all, flipped)
	}
	return all
}
