package crawltest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/crawltest"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// overNetwork asks a site by way of net/http.
type overNetwork struct{ http.RoundTripper }

func (o overNetwork) Fetch(ctx context.Context, r *http.Request) (*http.Response, error) {
	return o.RoundTrip(r.WithContext(ctx))
}

func TestFetchers(t *testing.T) {
	t.Run("Site", func(t *testing.T) {
		crawltest.TestFetcher(t, func(_ *testing.T, site *crawltest.Site) (crawl.Fetcher, string) { return site, "http://site.example" })
	})
	t.Run("Network", func(t *testing.T) {
		crawltest.TestFetcher(t, func(t *testing.T, site *crawltest.Site) (crawl.Fetcher, string) {
			server := httptest.NewServer(site)
			rt := new(http.Transport)
			t.Cleanup(func() { rt.CloseIdleConnections(); server.Close() })
			return overNetwork{rt}, server.URL
		})
	})
}

// lines are the URLs of a file of records, or what it has of items.
func lines(t *testing.T, path string, read func(line string) string) (all []string) {
	t.Helper()
	f := must(os.Open(path))
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		if text := read(scan.Text()); text != "" {
			all = append(all, text)
		}
	}
	return all
}

func resumed(at *record.Position) sink.Config {
	if at == nil {
		return sink.Config{Existing: sink.Overwrite}
	}
	return sink.Config{Existing: sink.Resume, Position: at.Bytes, Records: at.Records}
}

func TestSinks(t *testing.T) {
	for _, tc := range []struct {
		format sink.Format
		url    func(line string) string
	}{
		{sink.JSONL, func(line string) string {
			var r struct{ URL string }
			_ = json.Unmarshal([]byte(line), &r)
			return r.URL
		}},
		{sink.CSV, func(line string) string {
			url, _, _ := strings.Cut(line, ",")
			return strings.TrimPrefix(url, "url")
		}},
		{sink.URLs, strings.Clone},
	} {
		t.Run(string(tc.format), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "records")
			crawltest.TestSink(t, crawltest.SinkCase{
				Open: func(_ *testing.T, at *record.Position) record.Sink {
					cfg := resumed(at)
					cfg.Format = tc.format
					w := must(sink.Open(path, cfg))
					return w
				},
				URLs: func(t *testing.T) []string { return lines(t, path, tc.url) },
			})
		})
	}
	t.Run("Items", func(t *testing.T) {
		type item struct {
			N int `json:"n"`
		}
		path := filepath.Join(t.TempDir(), "items")
		crawltest.TestSink(t, crawltest.SinkCase{
			Open: func(t *testing.T, at *record.Position) record.Sink {
				if at == nil {
					require.NoError(t, os.RemoveAll(path))
				}
				s, err := crawl.Items[item](path, at)
				require.NoError(t, err)
				return s
			},
			URLs:  func(*testing.T) []string { return nil },
			Items: func(t *testing.T) []string { return lines(t, path, strings.Clone) },
			Item:  func(n int) any { return item{n} },
		})
	})
	t.Run("NotDurable", func(t *testing.T) {
		var m *memory
		crawltest.TestSink(t, crawltest.SinkCase{
			Open: func(*testing.T, *record.Position) record.Sink { m = new(memory); return m },
			URLs: func(*testing.T) []string { return m.urls },
		})
	})
}

// memory is a sink that need not be right.
type memory struct {
	urls  []string
	later []*record.Record
	keeps bool // it keeps records that are not its own
}

func (m *memory) Write(r *record.Record) error {
	if m.keeps {
		m.later = append(m.later, r)
		return nil
	}
	m.urls = append(m.urls, r.URL)
	return nil
}

func (m *memory) Flush() error {
	for _, r := range m.later {
		m.urls = append(m.urls, r.URL)
	}
	m.later = nil
	return nil
}

func (m *memory) Close() error { return m.Flush() }

// words is an extractor of plain text: the title is the first line, links are what looks like one.
type words struct{}

func (words) Extract(ctx context.Context, d *crawl.Document) (*crawl.Extracted, error) {
	out := new(crawl.Extracted)
	out.Title, _, _ = strings.Cut(string(d.Body), "\n")
	for word := range strings.FieldsSeq(string(d.Body)) {
		if strings.Contains(word, "://") {
			out.Links = append(out.Links, word)
		}
	}
	return out, ctx.Err()
}

func document() *crawl.Document {
	return &crawl.Document{URL: &url.URL{Scheme: "http", Host: "a.example", Path: "/"}, ContentType: "text/plain", Header: http.Header{}, Body: []byte("title\nhttp://b.example/ x")}
}

func TestExtractors(t *testing.T) { crawltest.TestExtractor(t, words{}, document()) }

type (
	fetchBy   func(context.Context, *http.Request) (*http.Response, error)
	extractBy func(context.Context, *crawl.Document) (*crawl.Extracted, error)
)

func (f fetchBy) Fetch(ctx context.Context, r *http.Request) (*http.Response, error) {
	return f(ctx, r)
}

func (f extractBy) Extract(ctx context.Context, d *crawl.Document) (*crawl.Extracted, error) {
	return f(ctx, d)
}

// breach is an implementation that does not keep to its contract, and what its suite says.
type breach struct {
	run  func(t *testing.T)
	says string
}

// broken has each breach, by what it does.
func broken() map[string]breach {
	all := brokenFetchers()
	maps.Copy(all, brokenSinks())
	maps.Copy(all, brokenExtractors())
	return all
}

func brokenFetchers() map[string]breach {
	fetcher := func(fetch func(ctx context.Context, s *crawltest.Site, r *http.Request) (*http.Response, error)) func(*testing.T) {
		return func(t *testing.T) {
			crawltest.TestFetcher(t, func(_ *testing.T, site *crawltest.Site) (crawl.Fetcher, string) {
				return fetchBy(func(ctx context.Context, r *http.Request) (*http.Response, error) { return fetch(ctx, site, r) }), "http://site.example"
			})
		}
	}
	return map[string]breach{
		"errors for statuses": {fetcher(func(ctx context.Context, s *crawltest.Site, r *http.Request) (*http.Response, error) {
			resp, err := s.Fetch(ctx, r)
			if err == nil && resp.StatusCode >= 400 {
				return nil, errors.New(resp.Status)
			}
			return resp, err
		}), "404"},
		"follows redirects": {fetcher(func(ctx context.Context, s *crawltest.Site, r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/moved" {
				r.URL.Path = "/"
			}
			return s.Fetch(ctx, r)
		}), "status 200, want 302"},
		"changes the request": {fetcher(func(ctx context.Context, s *crawltest.Site, r *http.Request) (*http.Response, error) {
			r.Header.Set("User-Agent", "other")
			return s.Fetch(ctx, r)
		}), "User-Agent"},
		"ignores its context": {fetcher(func(_ context.Context, s *crawltest.Site, r *http.Request) (*http.Response, error) {
			return s.Fetch(context.Background(), r)
		}), "after the end of its context has no error"},
		"cuts bodies": {fetcher(func(ctx context.Context, s *crawltest.Site, r *http.Request) (*http.Response, error) {
			resp, err := s.Fetch(ctx, r)
			if err == nil {
				resp.Body = io.NopCloser(io.LimitReader(resp.Body, 1000))
			}
			return resp, err
		}), "1000 bytes"},
	}
}

func brokenSinks() map[string]breach {
	return map[string]breach{
		"keeps records": {func(t *testing.T) {
			var m *memory
			crawltest.TestSink(t, crawltest.SinkCase{
				Open: func(*testing.T, *record.Position) record.Sink { m = &memory{keeps: true}; return m },
				URLs: func(*testing.T) []string { return m.urls },
			})
		}, "changed-after-write"},
		"appends after a crash": {func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "r")
			crawltest.TestSink(t, crawltest.SinkCase{
				Open: func(_ *testing.T, at *record.Position) record.Sink {
					cfg := resumed(at)
					if at != nil {
						info := must(os.Stat(path))
						cfg.Position = info.Size()
					}
					cfg.Format = sink.URLs
					w := must(sink.Open(path, cfg))
					return w
				},
				URLs: func(t *testing.T) []string { return lines(t, path, strings.Clone) },
			})
		}, "want the first 9"},
	}
}

func brokenExtractors() map[string]breach {
	extractor := func(e extractBy) func(*testing.T) {
		return func(t *testing.T) { crawltest.TestExtractor(t, e, document()) }
	}
	var mu sync.Mutex
	calls := 0
	return map[string]breach{
		"panics on noise": {extractor(func(_ context.Context, d *crawl.Document) (*crawl.Extracted, error) {
			return &crawl.Extracted{Title: string(d.Body[:5])}, nil
		}), "panicked"},
		"changes the document": {extractor(func(_ context.Context, d *crawl.Document) (*crawl.Extracted, error) {
			clear(d.Body)
			return new(crawl.Extracted), nil
		}), "changed the document"},
		"has state": {extractor(func(context.Context, *crawl.Document) (*crawl.Extracted, error) {
			mu.Lock()
			defer mu.Unlock()
			calls++
			return &crawl.Extracted{Links: make([]string, calls)}, nil
		}), "another than alone"},
	}
}

const brokenEnv = "CRAWLTEST_BROKEN"

// Each suite finds what it is for; it fails in a process of its own.
func TestSuitesCanFail(t *testing.T) {
	self := must(os.Executable())
	for name, tc := range broken() {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestBroken$")
			cmd.Env = append(os.Environ(), brokenEnv+"="+name)
			out, err := cmd.CombinedOutput()
			require.Error(t, err, "the suite has passed it: %s", out)
			require.Contains(t, string(out), tc.says)
		})
	}
}

func TestBroken(t *testing.T) {
	tc, found := broken()[os.Getenv(brokenEnv)]
	if !found {
		t.Skip("it is for TestSuitesCanFail")
	}
	tc.run(t)
}

// must returns v, and panics for an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
