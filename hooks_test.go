package crawl_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/crawltest"
	"github.com/treadlight/crawl/record"
)

const shop = "http://shop.example"

type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, fmt.Sprintf(format, args...))
}

func (j *journal) about(text string) (lines []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if before, after, found := strings.Cut(line, text); found {
			lines = append(lines, strings.TrimSpace(before+after))
		}
	}
	return lines
}

// sinkFunc is a sink that is called with each record.
type sinkFunc func(*record.Record)

func (f sinkFunc) Write(r *record.Record) error { f(r); return nil }
func (sinkFunc) Flush() error                   { return nil }
func (sinkFunc) Close() error                   { return nil }

// sink notes URLs and classes of errors.
func (j *journal) sink() record.Sink {
	return sinkFunc(func(r *record.Record) {
		class := ""
		if r.Error != nil {
			class = r.Error.Class
		}
		j.add("sink %s %s", strings.TrimPrefix(r.URL, shop), class)
	})
}

func crawlOf(t *testing.T, site *crawltest.Site, o crawl.Options) error {
	t.Helper()
	o.Fetcher = site
	c := must(crawl.New(o))
	return c.Run(t.Context(), shop)
}

// Each URL goes through the hooks in one order.
func TestHooksInOrder(t *testing.T) {
	crawltest.FakeClock(t, func(t *testing.T) {
		var j journal
		tries := 0
		site := crawltest.NewSite(map[string]crawltest.Page{
			"/": {Body: `<a href=/a/>a</a><a href=http://other.example/>o</a>`},
			"/a/": {Handler: func(w http.ResponseWriter, _ *http.Request) {
				if tries++; tries == 1 {
					w.WriteHeader(http.StatusServiceUnavailable)
				}
			}},
		})
		router := crawl.NewRouter()
		router.Handle("/a/", func(_ context.Context, p *crawl.Page) error {
			j.add("route %s", p.URL.Path)
			f := p.Follow("/")
			require.True(t, f.OK())
			return errors.New("no good")
		})
		router.Handle("/", func(_ context.Context, p *crawl.Page) error {
			require.True(t, p.Follow("/").OK(), "whether it was seen is known later")
			return nil
		})
		require.NoError(t, crawlOf(t, site, crawl.Options{
			OnRequest: func(r *http.Request) error {
				j.add("request %s", r.URL.Path)
				r.Header.Set("X-Signature", "s"+r.URL.Path)
				return nil
			},
			OnResponse: func(r *http.Response) error { j.add("response %d %s", r.StatusCode, r.Request.URL.Path); return nil },
			OnError:    func(f crawl.Failure) { j.add("error %s %v", strings.TrimPrefix(f.URL, shop), f.Err) },
			OnSkip:     func(s crawl.Skipped) { j.add("skip %s of %s: %s", s.URL, s.Referrer, s.Reason) },
			OnPage:     func(_ context.Context, p *crawl.Page) error { j.add("page %d %s", p.Status, p.URL.Path); return nil },
			Router:     router, Sinks: []record.Sink{j.sink()},
		}))
		require.Equal(t, []string{
			"request", "response 503", "request", "response 200", "page 200", "route", "error  no good", "sink  handler",
		}, j.about("/a/"))
		require.Equal(t, []string{"request", "response 404"}, j.about("/robots.txt"))
		j.lines = slices.DeleteFunc(j.lines, func(l string) bool { return !strings.HasPrefix(l, "skip") && !strings.HasPrefix(l, "sink / ") })
		require.Equal(t, []string{
			"sink / ", "skip http://other.example/ of http://shop.example/: other_host", "skip http://shop.example/ of http://shop.example/: seen",
		}, j.lines, "the failed handler has followed nothing")
		for _, r := range site.Requests() {
			require.Equal(t, "s"+strings.TrimPrefix(r.URL, shop), r.Header.Get("X-Signature"))
		}
	})
}

// Whatever of a program panics, its page has a record with the class, and the crawl goes on.
func TestPanicsAreThePages(t *testing.T) {
	boom := func() { panic("boom") }
	at := func(url string) {
		if strings.HasSuffix(url, "/bad") {
			boom()
		}
	}
	for name, tc := range map[string]struct {
		o     crawl.Options
		class string
	}{
		"OnRequest":  {crawl.Options{OnRequest: func(r *http.Request) error { at(r.URL.Path); return nil }}, "handler"},
		"OnResponse": {crawl.Options{OnResponse: func(r *http.Response) error { at(r.Request.URL.Path); return nil }}, "handler"},
		"OnPage": {crawl.Options{OnPage: func(_ context.Context, p *crawl.Page) error {
			if p.URL.Path == "/bad" {
				require.True(t, p.Follow("/extra").OK())
			}
			at(p.URL.Path)
			return nil
		}}, "handler"},
		"OnSkip":  {crawl.Options{OnSkip: func(crawl.Skipped) { boom() }}, ""},
		"OnEvent": {crawl.Options{OnEvent: func(crawl.Event) { boom() }}, ""},
		"OnError": {crawl.Options{OnError: func(crawl.Failure) { boom() }, OnPage: func(_ context.Context, p *crawl.Page) error {
			if p.URL.Path == "/bad" {
				return errors.New("x")
			}
			return nil
		}}, "handler"},
		"Bodies": {crawl.Options{Bodies: map[string]crawl.BodyHandler{"text/x": {Handle: func(context.Context, *crawl.Page, io.Reader) error { panic("boom") }}}}, "handler"},
		"Extractors": {crawl.Options{Extractors: map[string]crawl.Extractor{"text/x": extractorFunc(func(context.Context, *crawl.Document) (*crawl.Extracted, error) {
			panic("boom")
		})}}, "extractor"},
		"Fetcher": {crawl.Options{Fetcher: fetcherFunc(func(ctx context.Context, r *http.Request) (*http.Response, error) {
			at(r.URL.Path)
			return pagesWithBad().Fetch(ctx, r)
		})}, "protocol"},
		"body of a Transport": {crawl.Options{Transport: tripFunc(func(r *http.Request) (*http.Response, error) {
			resp, err := pagesWithBad().Fetch(r.Context(), r)
			if r.URL.Path == "/bad" {
				resp.Body, resp.ContentLength = panicking{}, -1
			}
			return resp, err
		})}, "protocol"},
	} {
		t.Run(name, func(t *testing.T) {
			crawltest.FakeClock(t, func(t *testing.T) {
				var j journal
				var log strings.Builder
				if tc.o.Fetcher == nil && tc.o.Transport == nil {
					tc.o.Fetcher = pagesWithBad()
				}
				tc.o.Sinks, tc.o.Log = []record.Sink{j.sink()}, slog.New(slog.NewTextHandler(&lockedWriter{w: &log}, nil))
				require.NoError(t, must(crawl.New(tc.o)).Run(t.Context(), shop))
				require.Equal(t, []string{strings.TrimSpace("sink  " + tc.class)}, j.about("/bad"))
				require.Equal(t, []string{"sink"}, j.about("/good"))
				require.Empty(t, j.about("/extra"), "the handler that panicked has followed nothing")
				if name != "OnEvent" { // of which there may be none
					require.Contains(t, log.String(), "boom")
					require.Contains(t, log.String(), "hooks_test.go", "the stack")
				}
			})
		})
	}
}

func pagesWithBad() *crawltest.Site {
	return crawltest.NewSite(map[string]crawltest.Page{
		"/":    {Body: `<a href=/bad>b</a><a href=/good>g</a><a href=http://other.example/>o</a>`},
		"/bad": {Body: "x", Header: http.Header{"Content-Type": {"text/x"}}}, "/good": {Body: "g"},
	})
}

type (
	extractorFunc func(context.Context, *crawl.Document) (*crawl.Extracted, error)
	fetcherFunc   func(context.Context, *http.Request) (*http.Response, error)
	tripFunc      func(*http.Request) (*http.Response, error)
	panicking     struct{}
	lockedWriter  struct {
		mu sync.Mutex
		w  io.Writer
	}
)

func (f extractorFunc) Extract(ctx context.Context, d *crawl.Document) (*crawl.Extracted, error) {
	return f(ctx, d)
}

func (f fetcherFunc) Fetch(ctx context.Context, r *http.Request) (*http.Response, error) {
	return f(ctx, r)
}
func (f tripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
func (panicking) Read([]byte) (int, error)                           { panic("boom") }
func (panicking) Close() error                                       { return nil }
func (l *lockedWriter) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Hooks may call the crawler back, block, and end it.
func TestHooksCallBack(t *testing.T) {
	crawltest.FakeClock(t, func(t *testing.T) {
		var c *crawl.Crawler
		var extra sync.Once
		use := func() {
			c.Snapshot()
			c.Paused()
			require.NoError(t, c.Block("blocked.example"))
			require.NoError(t, c.Unblock("blocked.example"))
			extra.Do(func() { require.NoError(t, c.AddSeed(shop+"/extra")) })
			time.Sleep(time.Second)
		}
		site := pagesWithBad()
		site.Set("/extra", crawltest.Page{Body: "e"})
		c = must(crawl.New(crawl.Options{
			Fetcher: site, OnRequest: func(*http.Request) error { use(); return nil }, OnResponse: func(*http.Response) error { use(); return nil },
			OnError: func(crawl.Failure) { use() }, OnSkip: func(crawl.Skipped) { use() },
			OnPage: func(_ context.Context, p *crawl.Page) error { use(); return p.Err },
			Bodies: map[string]crawl.BodyHandler{"text/x": {Handle: func(context.Context, *crawl.Page, io.Reader) error { use(); return errors.New("x") }}},
		}))
		require.NoError(t, c.Run(t.Context(), shop))
		require.Equal(t, []int{1, 1, 1}, []int{site.Count("/bad"), site.Count("/good"), site.Count("/extra")})
	})
}

// A hook or handler that stops or cancels the crawl ends it in order; one that blocks until its context ends is waited for no
// longer than Grace; and what is followed later is not.
func TestHooksEndTheCrawl(t *testing.T) {
	for name, tc := range map[string]struct {
		o    func(c **crawl.Crawler, cancel func()) crawl.Options
		err  error
		ends time.Duration
	}{
		"stop in OnRequest": {func(c **crawl.Crawler, _ func()) crawl.Options {
			return crawl.Options{OnRequest: func(*http.Request) error { (*c).Stop(); return nil }}
		}, nil, 3 * time.Second},
		"stop in OnSkip": {func(c **crawl.Crawler, _ func()) crawl.Options {
			return crawl.Options{OnSkip: func(crawl.Skipped) { (*c).Stop() }}
		}, nil, 10 * time.Second},
		"cancel in OnPage": {func(_ **crawl.Crawler, cancel func()) crawl.Options {
			return crawl.Options{OnPage: func(context.Context, *crawl.Page) error { cancel(); return nil }}
		}, context.Canceled, 10 * time.Second},
		"cancel in response": {func(_ **crawl.Crawler, cancel func()) crawl.Options {
			return crawl.Options{OnResponse: func(*http.Response) error { cancel(); return nil }}
		}, context.Canceled, 3 * time.Second},
		"blocks in OnPage": {func(c **crawl.Crawler, _ func()) crawl.Options {
			return crawl.Options{OnPage: func(ctx context.Context, _ *crawl.Page) error { (*c).Stop(); <-ctx.Done(); return ctx.Err() }}
		}, nil, 10 * time.Second},
		"blocks in a body": {func(c **crawl.Crawler, _ func()) crawl.Options {
			return crawl.Options{Bodies: map[string]crawl.BodyHandler{"*/*": {Handle: func(ctx context.Context, _ *crawl.Page, _ io.Reader) error {
				(*c).Stop()
				<-ctx.Done()
				return ctx.Err()
			}}}}
		}, nil, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			crawltest.FakeClock(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				var c *crawl.Crawler
				o := tc.o(&c, cancel)
				o.Fetcher = pagesWithBad()
				c = must(crawl.New(o))
				begin := time.Now()
				require.ErrorIs(t, c.Run(ctx, shop), tc.err)
				require.LessOrEqual(t, time.Since(begin), tc.ends)
			})
		})
	}
}

func TestBodiesAndFollow(t *testing.T) {
	crawltest.FakeClock(t, func(t *testing.T) {
		large := strings.Repeat("x", 20<<20)
		site := crawltest.NewSite(map[string]crawltest.Page{
			"/":     {Body: `<a href=/film>f</a><a href=/late>l</a>`},
			"/film": {Body: large, Header: http.Header{"Content-Type": {"video/mp4"}}}, "/also": {Body: "also"},
		})
		dir := t.TempDir()
		kept := must(crawl.Items[string](filepath.Join(dir, "items.jsonl"), nil))
		var page *crawl.Page
		var digest string
		require.NoError(t, crawlOf(t, site, crawl.Options{
			Sinks: []record.Sink{kept},
			Bodies: map[string]crawl.BodyHandler{
				"text/plain": {Handle: func(context.Context, *crawl.Page, io.Reader) error { return nil }},
				"*/*":        {Handle: func(context.Context, *crawl.Page, io.Reader) error { return errors.New("the other is more specific") }},
				"video/*": {MaxBytes: 30 << 20, Handle: func(_ context.Context, p *crawl.Page, body io.Reader) error {
					page = p
					f, err := os.Create(filepath.Join(dir, "film"))
					if err != nil {
						return err
					}
					defer f.Close()
					_, err = io.Copy(f, body)
					require.True(t, p.Follow("/also").OK())
					return errors.Join(err, p.Emit(p.URL.String()))
				}},
				"text/html": {Handle: func(_ context.Context, p *crawl.Page, body io.Reader) error {
					_, err := io.Copy(io.Discard, body)
					p.Follow("/film")
					return err
				}},
			},
			OnPage: func(_ context.Context, p *crawl.Page) error {
				if p.ContentType == "video/mp4" {
					digest = p.Digest
					require.Empty(t, p.Body)
				}
				return nil
			},
		}))
		require.NoError(t, kept.Close())
		require.Equal(t, fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(large))), digest)
		require.EqualValues(t, len(large), must(os.Stat(filepath.Join(dir, "film"))).Size())
		require.Equal(t, "\"http://shop.example/film\"\n", string(must(os.ReadFile(filepath.Join(dir, "items.jsonl")))))
		require.Equal(t, []int{1, 1, 0}, []int{site.Count("/film"), site.Count("/also"), site.Count("/late")}, "links of a body are its handler's to find")
		require.Equal(t, "over", page.Follow("/late").Reason)
	})
}

func TestExtractorsFindLinks(t *testing.T) {
	crawltest.FakeClock(t, func(t *testing.T) {
		gemini := http.Header{"Content-Type": {"text/gemini; charset=utf-8"}}
		site := crawltest.NewSite(map[string]crawltest.Page{
			"/": {Header: gemini, Body: "# Home\n=> a/b words\n"}, "/a/b": {Header: gemini, Body: "# B\n=> ../c words\n"}, "/c": {Header: gemini, Body: "no title"},
		})
		titles := map[string]string{}
		require.NoError(t, crawlOf(t, site, crawl.Options{
			Concurrency: 1,
			Extractors: map[string]crawl.Extractor{"text/gemini": extractorFunc(func(_ context.Context, d *crawl.Document) (*crawl.Extracted, error) {
				out := &crawl.Extracted{Text: string(d.Body), Values: map[string][]string{"bytes": {fmt.Sprint(len(d.Body))}}}
				for line := range strings.Lines(string(d.Body)) {
					if title, ok := strings.CutPrefix(line, "# "); ok {
						out.Title = strings.TrimSpace(title)
					}
					if ref, ok := strings.CutPrefix(line, "=> "); ok {
						out.Links = append(out.Links, strings.Fields(ref)[0])
					}
				}
				require.Equal(t, []string{"shop.example", "text/gemini", "utf-8"}, []string{d.URL.Host, d.ContentType, d.Charset})
				return out, nil
			})},
			OnPage: func(_ context.Context, p *crawl.Page) error {
				titles[p.URL.Path] = p.Title() + " " + p.Values("bytes")[0] + " " + strings.TrimSpace(p.Text())
				return nil
			},
		}))
		require.Equal(t, map[string]string{"/": "Home 20 # Home\n=> a/b words", "/a/b": "B 18 # B\n=> ../c words", "/c": " 8 no title"}, titles)
	})
}

// A session begins with a request of the program's own and goes on in a jar that it shares with the crawl.
func TestCookieJar(t *testing.T) {
	crawltest.FakeClock(t, func(t *testing.T) {
		jar := must(cookiejar.New(nil))
		site := crawltest.NewSite(map[string]crawltest.Page{"/": {Handler: func(w http.ResponseWriter, r *http.Request) {
			c, err := r.Cookie("sid")
			if err != nil {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			http.SetCookie(w, &http.Cookie{Name: "seen", Value: c.Value})
		}}})
		u := &url.URL{Scheme: "http", Host: "shop.example", Path: "/"}
		jar.SetCookies(u, []*http.Cookie{{Name: "sid", Value: "7"}})
		require.NoError(t, crawlOf(t, site, crawl.Options{CookieJar: jar, OnPage: func(_ context.Context, p *crawl.Page) error {
			require.Equal(t, 200, p.Status)
			return nil
		}}))
		require.Len(t, jar.Cookies(u), 2)
	})
}

// Options that exclude each other, or make no sense, are errors of New which name the field.
func TestOwnPartsAreChecked(t *testing.T) {
	jar := must(cookiejar.New(nil))
	body := crawl.BodyHandler{Handle: func(context.Context, *crawl.Page, io.Reader) error { return nil }}
	var twice [2]record.Sink
	items := filepath.Join(t.TempDir(), "items.jsonl")
	for i := range twice {
		twice[i] = must(crawl.Items[int](items, nil))
		defer func() { require.NoError(t, twice[i].Close()) }()
	}
	for want, o := range map[string]crawl.Options{
		"Options.Sinks[0]: it is nil":    {Sinks: []record.Sink{nil}},
		"Options.Archives[0]: it is nil": {Archives: []record.Sink{nil}},
		"as Options.Sinks[0] does":       {Sinks: twice[:]},
		"Options.Transport: ":            {Transport: http.DefaultTransport, Fetcher: crawltest.NewSite(nil)},
		"Options.CookieJar: ":            {CookieJar: jar, Access: crawl.AccessOptions{Cookies: true}},
		"Options.Access.Proxy: ":         {Fetcher: crawltest.NewSite(nil), Access: crawl.AccessOptions{Proxy: "http://p.example"}},
		`Options.Bodies["pdf"]: `:        {Bodies: map[string]crawl.BodyHandler{"pdf": body}},
		`Options.Bodies["*/pdf"]: `:      {Bodies: map[string]crawl.BodyHandler{"*/pdf": body}},
		`Options.Bodies["Text/X"]: `:     {Bodies: map[string]crawl.BodyHandler{"Text/X": body}},
		`Options.Bodies["text/x;a=b"]: `: {Bodies: map[string]crawl.BodyHandler{"text/x;a=b": body}},
		`Options.Bodies["text/y"]: set`:  {Bodies: map[string]crawl.BodyHandler{"text/y": {}}},
		`Options.Bodies["text/z"]: set`:  {Bodies: map[string]crawl.BodyHandler{"text/z": {Timeout: -1, Handle: body.Handle}}},
		`Options.Extractors["text/*"]: `: {Extractors: map[string]crawl.Extractor{"text/*": extractorFunc(nil)}},
		`Options.Extractors["a/b"]: `:    {Extractors: map[string]crawl.Extractor{"a/b": nil}},
	} {
		_, err := crawl.New(o)
		require.ErrorContains(t, err, want)
	}
}

// The end of a crawl that reached nobody says why, and one without seeds that there were none.
func TestUnreachable(t *testing.T) {
	crawltest.FakeClock(t, func(t *testing.T) {
		site := crawltest.NewSite(map[string]crawltest.Page{"/": {Err: syscall.ECONNREFUSED}, "/robots.txt": {Err: syscall.ECONNREFUSED}})
		err := crawlOf(t, site, crawl.Options{})
		require.ErrorIs(t, err, crawl.ErrUnreachable)
		require.ErrorIs(t, err, syscall.ECONNREFUSED)
		c := must(crawl.New(crawl.Options{Fetcher: site}))
		err = c.Run(t.Context())
		require.ErrorIs(t, err, crawl.ErrSeed)
		require.NotErrorIs(t, err, crawl.ErrUnreachable)
		synctest.Wait()
	})
}
