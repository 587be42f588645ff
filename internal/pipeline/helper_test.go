package pipeline

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

func bubble(test func(t *testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type memorySink struct {
	mu      sync.Mutex // guards what follows
	records []*record.Record
	fail    error
}

func (s *memorySink) Write(rec *record.Record) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.records = append(s.records, rec)
	return nil
}

func (s *memorySink) breakOff(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}
func (*memorySink) Flush() error { return nil }
func (*memorySink) Close() error { return nil }

// byURL holds the records by URL, and fails the test if one has two.
func (s *memorySink) byURL(t *testing.T) map[string]*record.Record {
	t.Helper()
	m := map[string]*record.Record{}
	for _, rec := range s.records {
		require.NotContains(t, m, rec.URL, "two records of one URL")
		m[rec.URL] = rec
	}
	return m
}

// world is a crawl of hosts in memory, inside a synctest bubble.
type world struct {
	Config
	limits ratelimit.Config
	out    *memorySink
	client *fetch.Client
	site   *testsite.Site
	began  time.Time
}

func newWorld(t *testing.T, cfg testsite.Config) *world {
	t.Helper()
	var network fetchtest.Memory
	cfg.Listen = network.Listen
	site, err := testsite.New(cfg)
	require.NoError(t, err)
	require.NoError(t, site.Listen())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- site.Run(ctx) }()
	w := newWorldOn(t, fetch.Config{DialContext: network.DialContext, MaxConnsPerHost: 100})
	w.site = site
	t.Cleanup(func() {
		w.client.Close()
		stop()
		require.NoError(t, <-served)
	})
	return w
}

func newWorldOn(t *testing.T, fc fetch.Config) *world {
	t.Helper()
	client, err := fetch.New(fc)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	sc, err := scope.New(scope.Config{MaxDepth: scope.Unlimited, MaxRedirects: 10})
	require.NoError(t, err)
	cache, err := robots.New(robots.Config{Agent: "Treadlight"})
	require.NoError(t, err)
	w := &world{out: &memorySink{}, client: client, limits: ratelimit.DefaultConfig(), began: time.Now()}
	w.Config = Config{
		Fetcher: client, Scope: sc, Sinks: []record.Sink{w.out},
		Robots:  cache,
		Retries: 3, Backoff: backoff.Policy{Base: 200 * time.Millisecond, Max: 30 * time.Second},
		MaxBlocked: 5 * time.Minute, Processors: 2,
	}
	return w
}

func served(t *testing.T, hosts map[string]http.Handler) (*world, *fetchtest.Net) {
	t.Helper()
	net := fetchtest.Serve(t, hosts)
	return newWorldOn(t, fetch.Config{DialContext: net.DialContext}), net
}

func noRobots(pages http.HandlerFunc) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(rw, r)
			return
		}
		pages(rw, r)
	}
}

func (w *world) build(t *testing.T) *Pipeline {
	t.Helper()
	limiter, err := ratelimit.New(w.limits)
	require.NoError(t, err)
	w.Limiter = limiter
	p, err := New(w.Config)
	require.NoError(t, err)
	return p
}

func (w *world) crawl(t *testing.T, seeds ...string) (*Pipeline, error) {
	t.Helper()
	p := w.build(t)
	if len(seeds) == 0 {
		seeds = w.site.URLs()
	}
	return p, w.run(t.Context(), t, p, seeds...)
}

// must is crawl for one that has no error, and finish for one that ends so too.
func (w *world) must(t *testing.T, seeds ...string) *Pipeline {
	t.Helper()
	p, err := w.crawl(t, seeds...)
	require.NoError(t, err)
	return p
}

func (w *world) finish(t *testing.T, want End, seeds ...string) *Pipeline {
	t.Helper()
	p := w.must(t, seeds...)
	requireEnd(t, p, want)
	return p
}

func (w *world) run(ctx context.Context, t *testing.T, p *Pipeline, seeds ...string) error {
	t.Helper()
	var urls []request.Seed
	for _, s := range seeds {
		u, err := canonical.Parse(s)
		require.NoError(t, err)
		urls = append(urls, request.Seed{URL: u})
	}
	return p.Run(ctx, slices.Values(urls))
}

func requireEnd(t *testing.T, p *Pipeline, want End) {
	t.Helper()
	end, reason := p.End()
	require.Equal(t, want.String(), end.String(), reason)
}

// requireWhole fails the test unless every URL of the site was visited, once, and
// nothing was asked that the hosts object to.
func (w *world) requireWhole(t *testing.T) testsite.Report {
	t.Helper()
	r := w.site.Report()
	for _, h := range r.Hosts {
		require.EqualValues(t, h.URLs, h.Distinct, "%s: URLs served", h.Name)
		require.Zero(t, h.Duplicates, "%s: served twice", h.Name)
		require.Zero(t, h.InsideRetryAfter, "%s: inside a Retry-After", h.Name)
		require.Zero(t, h.RobotsViolations, "%s: disallowed", h.Name)
		require.Zero(t, h.DelayViolations, "%s: under the Crawl-delay", h.Name)
		require.Zero(t, h.BeforeRobots, "%s: before robots.txt", h.Name)
	}
	w.out.byURL(t)
	return r
}

var errFull = errors.New("no space left on device")

// files is a host of fixed answers by path; the type goes by what they begin with. What is not among them is not found.
type files map[string]string

func (f files) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	body, ok := f[r.RequestURI]
	to, moved := strings.CutPrefix(body, "-> ")
	switch {
	case !ok:
		http.NotFound(rw, r)
		return
	case moved:
		http.Redirect(rw, r, to, http.StatusFound)
		return
	case strings.HasPrefix(body, "\x1f\x8b"):
		rw.Header().Set("Content-Type", "application/gzip")
	case r.RequestURI == "/robots.txt":
		rw.Header().Set("Content-Type", "text/plain")
	case strings.HasPrefix(body, "<?xml"):
		rw.Header().Set("Content-Type", "application/xml")
	default:
		rw.Header().Set("Content-Type", "text/html")
	}
	_, _ = rw.Write([]byte(body))
}

func sitemapOf(urls ...string) string {
	return `<?xml version="1.0"?><urlset><url><loc>` + strings.Join(urls, "</loc></url><url><loc>") + "</loc></url></urlset>"
}

func indexOf(urls ...string) string {
	return `<?xml version="1.0"?><sitemapindex><sitemap><loc>` + strings.Join(urls, "</loc></sitemap><sitemap><loc>") + "</loc></sitemap></sitemapindex>"
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(s)) // of a buffer: neither can fail
	_ = w.Close()
	return b.String()
}
