package pipeline

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/web/content"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

type calls struct {
	mu    sync.Mutex
	lines []string
}

func (l *calls) add(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}

func hookedWorld(t *testing.T, fc fetch.Config, pages http.Handler) (*world, *fetchtest.Net) {
	t.Helper()
	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": pages})
	fc.DialContext = net.DialContext
	return newWorldOn(t, fc), net
}

// Whatever is not asked for is told of once, with the reason, after the record of the page that has the link.
func TestOnSkip(t *testing.T) {
	bubble(func(t *testing.T) {
		pages := files{
			"/robots.txt": "User-agent: *\nDisallow: /private",
			"/":           `<a href=/a>1</a><a href=/private/x>2</a><a href=http://b.test/>3</a><a href=/n rel=nofollow>4</a><a href=/day/1>5</a><a href=/day/2>6</a>`,
			"/a":          `<a href=/a/deep>1</a><a href=/>2</a>`,
			"/a/deep":     `<a href=/a/deep/er>1</a>`, "/day/1": "1", "/later": "l",
		}
		w, _ := hookedWorld(t, fetch.Config{}, pages)
		w.Scope, _ = scope.New(scope.Config{MaxDepth: 2, MaxRedirects: 10})
		w.Budgets = scope.NewBudgets([]scope.Budget{{Match: regexp.MustCompile("/day/"), MaxPages: 1}})
		var l calls
		w.OnSkip = func(s Skip) {
			require.Equal(t, s.Referrer != "", slices.ContainsFunc(w.out.records, func(r *record.Record) bool { return r.URL == s.Referrer }), "before the record of its page")
			l.add("%s %s (%s)", strings.TrimPrefix(s.URL, "http://a.test"), s.Reason, s.Detail)
		}
		w.Handle = func(_ context.Context, p *Page) error {
			if p.URL == "http://a.test/a" {
				for _, ref := range []string{"/", "/later", "/later"} {
					_, _, err := p.Follow(ref, request.Request{})
					require.NoError(t, err)
				}
			}
			return nil
		}
		w.must(t, "http://a.test/", "http://a.test/")
		slices.Sort(l.lines)
		require.Equal(t, []string{
			"/ seen (it was asked for before, or is queued)", "/ seen (it was asked for before, or is queued)",
			"/a/deep/er too_deep (depth 3 > 2)",
			"/day/2 budget (no more of scope.budgets[0] is left)",
			"/later seen (it was asked for before, or is queued)",
			"/n nofollow (the page asks crawlers not to follow it)",
			"/private/x robots (robots.txt line 2: Disallow: /private)",
			"http://b.test/ other_host (host b.test is not a seed host)",
		}, l.lines)
	})(t)
}

// What there is no room for is told of by the bound.
func TestOnSkipForWantOfRoom(t *testing.T) {
	for want, set := range map[string]func(*world){
		"host_pages":    func(w *world) { w.MaxPagesPerHost = 2 },
		"frontier_full": func(w *world) { w.MaxURLs = 2 },
	} {
		t.Run(want, bubble(func(t *testing.T) {
			w, _ := hookedWorld(t, fetch.Config{}, files{"/": `<a href=/a>1</a><a href=/b>2</a>`, "/a": "a", "/b": "b"})
			set(w)
			var l calls
			w.OnSkip = func(s Skip) { l.add("%s of %s: %s", s.URL, s.Referrer, s.Reason) }
			w.must(t, "http://a.test/")
			require.Contains(t, l.lines, "http://a.test/b of http://a.test/: "+want)
		}))
	}
}

// A failure is told of each time, and whether the URL is asked for again; what the program's own hooks refuse is the
// record's, and costs the host nothing.
func TestOnError(t *testing.T) {
	bubble(func(t *testing.T) {
		tries := 0
		pages := noRobots(func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/":
				rw.Header().Set("Content-Type", "text/html")
				fmt.Fprint(rw, `<a href=/broken>1</a><a href=/unsigned>2</a><a href=/banned>3</a><a href=/handled>4</a><a href=/gone>5</a><a href=/known>6</a><a href=/unknown>7</a>`)
			case "/known", "/unknown":
				rw.WriteHeader(http.StatusNotModified)
			case "/broken":
				if tries++; tries < 3 {
					panic(http.ErrAbortHandler)
				}
			case "/banned":
				rw.WriteHeader(http.StatusServiceUnavailable)
			case "/gone":
				http.NotFound(rw, r)
			}
		})
		w, net := hookedWorld(t, fetch.Config{
			OnRequest: func(r *http.Request) error {
				if r.URL.Path == "/unsigned" {
					return errors.New("no key")
				}
				if r.URL.Path == "/known" {
					r.Header.Set("If-None-Match", `"a"`)
				}
				return nil
			},
			OnResponse: func(r *http.Response) error {
				if r.Request.URL.Path == "/banned" {
					return errors.New("this is a ban")
				}
				return nil
			},
		}, pages)
		var l calls
		w.OnError = func(f Failure) {
			l.add("%s %d %s %v", strings.TrimPrefix(f.URL, "http://a.test"), f.Attempt, f.Error.Class, f.Again)
		}
		w.Handle = func(_ context.Context, p *Page) error {
			if p.URL == "http://a.test/handled" {
				return errors.New("not what it was")
			}
			return nil
		}
		w.must(t, "http://a.test/")
		slices.Sort(l.lines)
		require.Equal(t, []string{
			"/banned 1 handler false", "/broken 1 network true", "/broken 1 network true", "/handled 1 handler false", "/unknown 1 unasked_304 false",
			"/unsigned 0 handler false",
		}, l.lines)
		records := w.out.byURL(t)
		require.Equal(t, []any{0, 0, "handler"}, []any{records["http://a.test/unsigned"].Status, records["http://a.test/unsigned"].Attempt, records["http://a.test/unsigned"].Error.Class})
		require.Equal(t, []any{503, "handler"}, []any{records["http://a.test/banned"].Status, records["http://a.test/banned"].Error.Class})
		require.Nil(t, records["http://a.test/broken"].Error)
		require.Equal(t, []any{304, (*record.Error)(nil)}, []any{records["http://a.test/known"].Status, records["http://a.test/known"].Error})
		require.Len(t, net.Requests(), 10)
	})(t)
}

// Without its robots.txt a host is asked for nothing, also if it is a hook that keeps it back.
func TestOnRequestRefusesRobots(t *testing.T) {
	bubble(func(t *testing.T) {
		w, net := hookedWorld(t, fetch.Config{OnRequest: func(*http.Request) error { return errors.New("no key") }}, http.NotFoundHandler())
		p := w.finish(t, EndDone, "http://a.test/")
		require.ErrorContains(t, p.Trouble(), "no key")
		require.Contains(t, w.out.byURL(t)["http://a.test/"].Error.Message, "no key")
		require.Empty(t, net.Requests())
	})(t)
}

func TestBodies(t *testing.T) {
	const large = 3 << 20
	text := strings.Repeat("0123456789abcdef", large/16)
	bubble(func(t *testing.T) {
		broken := true
		pages := noRobots(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "application/pdf")
			switch r.URL.Path {
			case "/":
				rw.Header().Set("Content-Type", "text/html")
				fmt.Fprint(rw, `<a href=/large>1</a><a href=/broken>2</a><a href=/refused>3</a><a href=/gone>4</a><a href=/stop-not>5</a>`)
			case "/broken":
				fmt.Fprint(rw, text[:100])
				if broken {
					broken = false
					rw.(http.Flusher).Flush()
					panic(http.ErrAbortHandler)
				}
			case "/gone":
				rw.WriteHeader(http.StatusNotFound)
			default:
				fmt.Fprint(rw, text)
			}
		})
		w, _ := hookedWorld(t, fetch.Config{MaxBody: 1 << 20}, pages)
		items := &itemSink{}
		w.Sinks = append(w.Sinks, items)
		var sizes calls
		w.Bodies = map[string]*BodyHandler{
			"application/pdf": {Handle: func(_ context.Context, p *Page, body io.Reader) error {
				require.Equal(t, []any{200, "application/pdf", 1}, []any{p.Status, p.ContentType, p.Depth})
				n, err := io.Copy(io.Discard, body)
				sizes.add("%s %d %v", p.URL, n, err == nil)
				_, _, ferr := p.Follow("/followed"+strings.TrimPrefix(p.URL, "http://a.test"), request.Request{})
				require.NoError(t, ferr)
				require.NoError(t, p.Emit(p.URL))
				if strings.HasSuffix(p.URL, "/refused") {
					return errors.New("disk full")
				}
				if strings.HasSuffix(p.URL, "/stop-not") {
					return ErrStop
				}
				return err
			}},
		}
		handled := calls{}
		w.Handle = func(_ context.Context, p *Page) error {
			if p.ContentType == "application/pdf" && p.Error == nil {
				handled.add("%s %d", p.URL, len(p.Body))
			}
			return nil
		}
		w.Concurrency, w.PerHost = 1, 1
		w.must(t, "http://a.test/")
		records := w.out.byURL(t)
		sum := sha256.Sum256([]byte(text))
		rec := records["http://a.test/large"]
		require.Equal(t, []any{int64(large), "sha256:" + hex.EncodeToString(sum[:]), false, (*record.Error)(nil)}, []any{rec.Bytes, rec.Digest, rec.Truncated, rec.Error})
		require.Equal(t, "handler", records["http://a.test/refused"].Error.Class)
		require.Equal(t, []any{404, (*record.Error)(nil)}, []any{records["http://a.test/gone"].Status, records["http://a.test/gone"].Error})
		require.Contains(t, sizes.lines, "http://a.test/broken 100 false")
		require.Contains(t, sizes.lines, fmt.Sprintf("http://a.test/large %d true", large))
		require.Contains(t, items.values, "http://a.test/large")
		require.NotContains(t, items.values, "http://a.test/refused", "nothing of one that fails")
		require.Contains(t, handled.lines, "http://a.test/large 0")
	})(t)
}

type itemSink struct {
	memorySink
	values []string
}

func (*itemSink) Takes(any) bool { return true }
func (s *itemSink) WriteItem(_ *record.Record, item record.Item) error {
	s.values = append(s.values, item.Value.(string))
	return nil
}
func (*itemSink) Write(*record.Record) error { return nil }

func TestExtractors(t *testing.T) {
	bubble(func(t *testing.T) {
		pages := noRobots(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "Text/Gemini; charset=x")
			fmt.Fprint(rw, map[string]string{
				"/": "=> a\n=> http://b.test/\n=> http://\n=> a\n=> fails\n=> nothing\n=> slow", "/a": "", "/fails": "", "/nothing": "", "/slow": "",
			}[r.URL.Path])
		})
		w, _ := hookedWorld(t, fetch.Config{}, pages)
		w.Extract.Text, w.PageTime = true, time.Second
		w.Extractors = map[string]content.Extractor{"text/gemini": func(ctx context.Context, d *extract.Document) (*content.Extracted, error) {
			switch d.URL.Path() {
			case "/fails":
				return nil, errors.New("broken")
			case "/nothing":
				return nil, nil //nolint:nilnil // as a program might
			case "/slow":
				<-ctx.Done()
				return nil, ctx.Err()
			}
			out := &content.Extracted{Title: strings.Repeat("t", 2000), Lang: "de", Text: "text\xff", Values: map[string][]string{"n": {"1"}}}
			for line := range strings.Lines(string(d.Body)) {
				out.Links = append(out.Links, strings.TrimPrefix(line, "=> "))
			}
			return out, nil
		}}
		w.must(t, "http://a.test/")
		records := w.out.byURL(t)
		require.Len(t, records, 5)
		rec := records["http://a.test/"]
		require.Equal(t, []any{1024, "de", "text", []string{"http://a.test/a", "http://b.test/", "http://a.test/fails", "http://a.test/nothing", "http://a.test/slow"}, "1"},
			[]any{len(rec.Title), rec.Lang, rec.Text, rec.Links, rec.Fields[0].Values[0]})
		for _, path := range []string{"fails", "nothing", "slow"} {
			require.Equal(t, "extractor", records["http://a.test/"+path].Error.Class, path)
		}
		require.Nil(t, records["http://a.test/a"].Error)
	})(t)
}

// A page without a response has nothing of the page that was read before it.
func TestFailedPageHasNoText(t *testing.T) {
	bubble(func(t *testing.T) {
		pages := noRobots(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/broken" {
				panic(http.ErrAbortHandler)
			}
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, `<title>First</title><p>text of the first page<a href=/broken>1</a>`)
		})
		w, _ := hookedWorld(t, fetch.Config{}, pages)
		w.Processors, w.Retries = 1, 0
		w.Options.Extract.Text = true
		texts := map[string]string{}
		w.Handle = func(_ context.Context, p *Page) error {
			texts[p.URL] = p.Text
			return nil
		}
		w.must(t, "http://a.test/")
		require.NotEmpty(t, texts["http://a.test/"])
		require.Contains(t, texts, "http://a.test/broken")
		require.Empty(t, texts["http://a.test/broken"])
	})(t)
}
