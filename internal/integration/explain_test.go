package integration_test

import (
	"context"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/record"
)

// robotsAt is a server whose robots.txt is given by a handler, and that fails the test when
// it is asked for anything else.
func robotsAt(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/robots.txt", answer)
	mux.HandleFunc("/elsewhere.txt", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("User-agent: treadlight\nDisallow: /moved\n"))
	})
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) })
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

func explain(t *testing.T, cfg assembly.ExplainConfig, url string) assembly.Explanation {
	t.Helper()
	all, err := assembly.Explain(t.Context(), cfg, url)
	require.NoError(t, err)
	require.Len(t, all, 1)
	return all[0]
}

// TestExplainRobots has every answer that a host may give to the question for its rules.
func TestExplainRobots(t *testing.T) {
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		verdict string
		reason  string
	}{
		"rules": {
			func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte("User-agent: *\nDisallow: /\n\nUser-agent: Treadlight\nDisallow: /moved\n"))
			},
			"refused", "robots.txt line 5: Disallow: /moved",
		},
		"none":   {http.NotFound, "allowed", "there is no robots.txt: status 404"},
		"moved":  {http.RedirectHandler("/elsewhere.txt", http.StatusFound).ServeHTTP, "refused", "robots.txt line 2: Disallow: /moved"},
		"loop":   {http.RedirectHandler("/robots.txt", http.StatusFound).ServeHTTP, "allowed", "there is no robots.txt: more than 5 redirects"},
		"astray": {http.RedirectHandler("mailto:a", http.StatusFound).ServeHTTP, "allowed", "there is no robots.txt: moved to mailto:a: scheme is not http or https"},
		"broken": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "refused", "robots.txt cannot be had: status 502"},
		"busy":   {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) }, "unknown", "robots.txt cannot be had yet: status 429"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := assembly.ExplainConfig{Config: assembly.DefaultConfig()}
			cfg.RateLimit.InitialRPS, cfg.RateLimit.MaxRPS = 1000, 1000
			e := explain(t, cfg, robotsAt(t, c.answer)+"/moved")
			require.Equal(t, c.verdict, e.Robots.Verdict)
			require.Equal(t, c.reason, e.Robots.Reason)
			require.True(t, e.Scope.In)
		})
	}
}

// TestExplainAsksNobody when it is told so, or when the settings do not ask for rules.
func TestExplainAsksNobody(t *testing.T) {
	url := robotsAt(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("asked for %s", r.URL) })
	cfg := assembly.ExplainConfig{Config: assembly.DefaultConfig(), Offline: true}
	require.Equal(t, "unknown", explain(t, cfg, url).Robots.Verdict)
	cfg.Offline, cfg.Robots = false, []byte("User-agent: *\nDisallow: /\n")
	require.Equal(t, "refused", explain(t, cfg, url).Robots.Verdict)
	cfg.Robots, cfg.Settings.Robots.Enabled = nil, false
	require.Equal(t, "robots.txt is not asked for, as robots.enabled is false", explain(t, cfg, url).Robots.Reason)
}

// TestExplainScope: a seed is in even where a link would not be.
func TestExplainScope(t *testing.T) {
	cfg := assembly.ExplainConfig{Config: assembly.DefaultConfig(), Offline: true, Seeds: []string{"example.com/a?utm_source=x"}}
	cfg.Depth, cfg.Scope.Include, cfg.Scope.Canonical = 0, []string{"/never/"}, []string{"tracking"}
	require.Equal(t, assembly.ExplainScope{In: true, Reason: "it is a seed"}, explain(t, cfg, "https://example.com/a").Scope)
	require.Equal(t, assembly.ExplainScope{Reason: "depth 1 > 0"}, explain(t, cfg, "https://example.com/b").Scope)
	cfg.Depth = -1
	require.Equal(t, assembly.ExplainScope{Reason: "matches no include pattern"}, explain(t, cfg, "https://example.com/b").Scope)
	cfg.Scope.Exclude = []string{"/a$"}
	require.Equal(t, assembly.ExplainScope{Reason: "excluded by //a$/"}, explain(t, cfg, "https://example.com/a").Scope)
}

func TestExplainMistakes(t *testing.T) {
	cfg := assembly.ExplainConfig{Config: assembly.DefaultConfig(), Offline: true, Seeds: []string{"mailto:a"}}
	_, err := assembly.Explain(t.Context(), cfg, "example.com")
	require.ErrorIs(t, err, assembly.ErrSeed)
	cfg.Seeds, cfg.Concurrency = nil, 0
	_, err = assembly.Explain(t.Context(), cfg, "example.com")
	require.ErrorContains(t, err, "concurrency")

	cfg = assembly.ExplainConfig{Config: assembly.DefaultConfig()}
	ctx, cancel := context.WithCancel(t.Context())
	url := robotsAt(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	_, err = assembly.Explain(ctx, cfg, url)
	require.ErrorIs(t, err, context.Canceled)
}

// traced is a site of four URLs, one of which fails once, and the spans of a crawl of it.
type traced struct {
	mu      sync.Mutex // guards what follows
	failed  bool
	parents []string // of requests, by their headers; empty for none
	spans   []*tracepb.Span
}

func (s *traced) page(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parents = append(s.parents, r.Header.Get("Traceparent"))
	switch r.URL.Path {
	case "/robots.txt":
		_, _ = io.WriteString(w, "User-agent: *\nDisallow: /no\n")
	case "/":
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<a href="/a">a</a> <a href="/no">no</a> <a href="/flaky">flaky</a>`)
	case "/flaky":
		if !s.failed {
			s.failed = true
			w.WriteHeader(http.StatusBadGateway)
		}
	}
}

func (s *traced) collect(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var data tracepb.TracesData
	if err != nil || proto.Unmarshal(body, &data) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rs := range data.GetResourceSpans() {
		for _, ss := range rs.GetScopeSpans() {
			s.spans = append(s.spans, ss.GetSpans()...)
		}
	}
}

// crawl crawls the site with its traces, whole.
func (s *traced) crawl(t *testing.T, change func(*assembly.Config)) {
	t.Helper()
	site, collector := httptest.NewServer(http.HandlerFunc(s.page)), httptest.NewServer(http.HandlerFunc(s.collect))
	defer site.Close()
	defer collector.Close()
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.Strategy, cfg.Sitemaps.Enabled = "off", false
	cfg.Traces.Endpoint = collector.URL
	cfg.Sinks = []record.Sink{&records{}}
	change(&cfg)
	c := newOver(t, cfg, cfg.Dial)
	require.NoError(t, c.Run(t.Context(), site.URL))
}

func TestTracesOfACrawl(t *testing.T) {
	var s traced
	s.crawl(t, func(c *assembly.Config) { c.Traces.Propagate = true })
	named := map[string][]*tracepb.Span{}
	for _, span := range s.spans {
		named[span.GetName()] = append(named[span.GetName()], span)
		require.LessOrEqual(t, span.GetStartTimeUnixNano(), span.GetEndTimeUnixNano(), span.GetName())
	}
	for name, n := range map[string]int{
		"crawl URL": 4,                                                      // one of them was not fetched
		"queue":     4, "write": 4, "process": 3, "robots.txt": 1, "GET": 4, // one of them failed
		"permit": 5, "first byte": 5,
	} {
		require.Len(t, named[name], n, name)
	}
	roots := map[string]*tracepb.Span{}
	for _, root := range named["crawl URL"] {
		roots[string(root.GetTraceId())] = root
	}
	require.Len(t, roots, 4, "a trace for each URL")
	asked := map[string]bool{}
	for _, span := range append(named["GET"], named["robots.txt"]...) {
		root := roots[string(span.GetTraceId())]
		require.NotNil(t, root)
		require.Equal(t, root.GetSpanId(), span.GetParentSpanId())
		require.LessOrEqual(t, root.GetStartTimeUnixNano(), span.GetStartTimeUnixNano())
		require.GreaterOrEqual(t, root.GetEndTimeUnixNano(), span.GetEndTimeUnixNano())
		asked["00-"+hex.EncodeToString(span.GetTraceId())+"-"+hex.EncodeToString(span.GetSpanId())+"-01"] = true
	}
	require.Len(t, s.parents, 5)
	for _, parent := range s.parents {
		require.Contains(t, asked, parent, "what hosts were told")
	}
}

// Hosts hear nothing of traces unless they are to; without a share nobody is told anything.
func TestTracesAreNotForHosts(t *testing.T) {
	var s traced
	s.crawl(t, func(*assembly.Config) {})
	require.NotEmpty(t, s.spans)
	require.Equal(t, make([]string, 5), s.parents)
	var none traced
	none.crawl(t, func(c *assembly.Config) { c.Traces.Sample = 0 })
	require.Empty(t, none.spans)
}
