package docs_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/admit"
	"github.com/treadlight/crawl/crawltest"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/record"
	"github.com/treadlight/crawl/resilience/binder"
)

// Book is an item of the code below.
type Book struct{ Title, Price, List string }

// The Go code of docs/how-to/use-in-go.md, in its order. It is compiled here, and the test
// below says what of it is not as it is there.
var goCode = []any{
	func(ctx context.Context) error {
		c, err := crawl.New(crawl.Options{})
		if err != nil {
			return err
		}
		for page, err := range c.Crawl(ctx, "https://example.com/") {
			if err != nil {
				return err
			}
			if page.OK() { // no redirect, error page or sitemap
				fmt.Println(page.URL, page.Title(), len(page.Body))
			}
		}
		return nil
	},
	func(ctx context.Context) error {
		o, err := crawl.Load("crawl.yaml") // or begin with crawl.Options{}
		if err != nil {
			return err
		}
		o.MaxPages, o.Politeness.Retries = 1000, -1 // no retries
		o.Fetch.Contact, o.Log = "https://example.com/bot", slog.Default()
		c, err := crawl.New(o)
		if err != nil {
			return err // names what is wrong: "Options.Politeness.MaxRPS: -1 is below 0.001; …"
		}
		// A seed with more than a URL, before or while the crawl runs:
		err = c.AddSeed("https://example.com/search", crawl.WithBody("application/json", []byte(`{"q":"cups"}`)), crawl.WithLabel("search"))
		if err != nil {
			return err
		}
		return c.Run(ctx, "https://example.com/")
	},
	func(ctx context.Context) error {
		r := crawl.NewRouter()
		r.Handle("/catalogue/page-{n}", func(_ context.Context, p *crawl.Page) error {
			for a := range p.Find("article h3 a") {
				p.Follow(a.Attr("href"), crawl.WithPriority(1), crawl.WithMeta("list", p.Param("n")))
			}
			return nil
		})
		r.Handle("/catalogue/{name}/index.html", func(_ context.Context, p *crawl.Page) error {
			return p.Emit(Book{Title: p.First("h1").Text(), Price: p.First(".price").Text(), List: p.Meta("list")})
		})
		books, err := crawl.Items[Book]("books.jsonl", nil) // a line of JSON each
		if err != nil {
			return err
		}
		defer books.Close()
		c, err := crawl.New(crawl.Options{Router: r, Sinks: []record.Sink{books}})
		if err != nil {
			return err
		}
		return c.Run(ctx, "https://books.example/catalogue/page-1")
	},
	func(ctx context.Context) error {
		o := crawl.Options{StateDir: "books.state"}
		seeds, at := []string{"https://books.example/"}, (*record.Position)(nil)
		state, err := crawl.OpenState(crawl.StateConfig{Dir: o.StateDir})
		switch {
		case err == nil: // there is one: go on with its options and URLs, and cut the items back to where it was
			o, seeds = state.Options(), nil
			position := state.Position("books.jsonl")
			at = &position
		case !errors.Is(err, fs.ErrNotExist):
			return err
		}
		books, err := crawl.Items[Book]("books.jsonl", at)
		if err != nil {
			return err
		}
		defer books.Close()
		o.Sinks, o.OnPage = []record.Sink{books}, func(_ context.Context, p *crawl.Page) error {
			return p.Emit(Book{Title: p.First("h1").Text()})
		}
		c, err := crawl.New(o)
		if err != nil {
			return err
		}
		return c.Run(ctx, seeds...)
	},
	func(sign func(string) string) error {
		c, err := crawl.New(crawl.Options{
			OnRequest: func(r *http.Request) error {
				r.Header.Set("X-Signature", sign(r.URL.Path))
				return nil
			},
			OnSkip: func(s crawl.Skipped) { log.Print(s.URL, " ", s.Reason, ": ", s.Detail) },
			Bodies: map[string]crawl.BodyHandler{"application/pdf": {
				MaxBytes: 200 << 20,
				Handle: func(_ context.Context, p *crawl.Page, body io.Reader) error {
					f, err := os.Create(filepath.Base(p.URL.Path))
					if err != nil {
						return err
					}
					_, err = io.Copy(f, body)
					return errors.Join(err, f.Close())
				},
			}},
		})
		_ = c
		return err
	},
	func(t *testing.T) {
		crawltest.FakeClock(t, func(t *testing.T) {
			site := crawltest.NewSite(map[string]crawltest.Page{
				"/":     {Body: `<a href="/cups">Cups</a>`},
				"/cups": {Body: `<h1>Cups</h1>`},
			})
			c, err := crawl.New(crawl.Options{Fetcher: site})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Run(t.Context(), "http://shop.example/"); err != nil {
				t.Fatal(err)
			}
			if n := site.Count("/cups"); n != 1 {
				t.Errorf("/cups was asked for %d times, want once", n)
			}
		})
	},
	func() error {
		client, err := crawl.NewClient(crawl.ClientConfig{UserAgent: "feedreader/1.0 (+mailto:ops@example.org)"})
		if err != nil {
			return err
		}
		defer client.Close()
		res, err := client.Get("https://example.com/feed.xml") // waits for its turn at this host
		if err != nil {
			return err
		}
		defer res.Body.Close()
		return nil
	},
	func(ctx context.Context, send func() (int, http.Header, error)) error {
		polite, err := crawl.NewPoliteness(crawl.PolitenessOptions{MaxRPS: 5}) // with Remember, kept from run to run
		if err != nil {
			return err
		}
		defer polite.Close()
		news, err := crawl.New(crawl.Options{Shared: polite})
		if err != nil {
			return err
		}
		client, err := crawl.NewClient(crawl.ClientConfig{Shared: polite})
		if err != nil {
			return err
		}
		defer client.Close()
		// Code of your own, whatever it sends its requests with:
		permit, err := polite.Acquire(ctx, "https://example.com/feed.xml") // waits for the turn of one request
		if err != nil {
			return err
		}
		began := time.Now()
		status, header, err := send()
		polite.Feedback("example.com", crawl.Feedback{StatusCode: status, Header: header, Latency: time.Since(began), Err: err})
		permit.Release()
		_ = news
		return nil
	},
	func(mux *http.ServeMux) error {
		limits, err := admit.New(admit.Config{Store: "redis://127.0.0.1:6379"}) // or "sqlite:limits.db", or memory
		if err != nil {
			return err
		}
		defer limits.Close()
		return http.ListenAndServe(":8080", limits.Handler(mux)) //nolint:gosec // as short as can be
	},
}

// blocks are those of a language in a text.
func blocks(text, language string) (all []string) {
	fence := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, m := range fence.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	return all
}

func TestGoCodeCompiles(t *testing.T) {
	here, err := os.ReadFile("code_test.go")
	require.NoError(t, err)
	code := strings.NewReplacer(" //nolint:gosec // as short as can be", "", "\n\t\t", "\n").Replace(string(here))
	at := 0
	const page = "docs/how-to/use-in-go.md"
	found := blocks(docpage.Read(t, page), "go")
	require.Len(t, found, len(goCode))
	for _, block := range found {
		next := strings.Index(code[at:], block)
		require.GreaterOrEqual(t, next, 0, "%s has other code, or in another order, than goCode:\n%s", page, block)
		at += next + len(block)
	}
	for _, name := range docpage.Pages(t) {
		if name != page && !strings.Contains(name, "/coming-from-") { // which TestCodeOfPeersPagesCompiles is for
			require.Empty(t, blocks(docpage.Read(t, name), "go"), "%s has Go code that no test compiles", name)
		}
	}
}

// The settings and the policies that the pages show can be had as they are.
func TestSettingsLoad(t *testing.T) {
	t.Setenv("OTLP_TOKEN", "0123456789abcdef")
	seen := 0
	for _, name := range docpage.Pages(t) {
		text := docpage.Read(t, name)
		for _, block := range blocks(text, "yaml") {
			seen++
			_, err := config.Load(config.Sources{File: "crawl.yaml", Reader: strings.NewReader(block)})
			require.NoError(t, err, "%s:\n%s", name, block)
		}
		for _, block := range blocks(text, "json") {
			seen++
			_, err := binder.Load([]byte(block))
			require.NoError(t, err, "%s:\n%s", name, block)
		}
	}
	require.GreaterOrEqual(t, seen, 6)
}
