package integration_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
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

func explain(t *testing.T, cfg crawl.ExplainConfig, url string) crawl.Explanation {
	t.Helper()
	all, err := crawl.Explain(t.Context(), cfg, url)
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
			cfg := crawl.ExplainConfig{Config: crawl.DefaultConfig()}
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
	cfg := crawl.ExplainConfig{Config: crawl.DefaultConfig(), Offline: true}
	require.Equal(t, "unknown", explain(t, cfg, url).Robots.Verdict)
	cfg.Offline, cfg.Robots = false, []byte("User-agent: *\nDisallow: /\n")
	require.Equal(t, "refused", explain(t, cfg, url).Robots.Verdict)
	cfg.Robots, cfg.Settings.Robots.Enabled = nil, false
	require.Equal(t, "robots.txt is not asked for, as robots.enabled is false", explain(t, cfg, url).Robots.Reason)
}

// TestExplainScope: a seed is in even where a link would not be.
func TestExplainScope(t *testing.T) {
	cfg := crawl.ExplainConfig{Config: crawl.DefaultConfig(), Offline: true, Seeds: []string{"example.com/a?utm_source=x"}}
	cfg.Depth, cfg.Scope.Include, cfg.Scope.Canonical = 0, []string{"/never/"}, []string{"tracking"}
	require.Equal(t, crawl.ExplainScope{In: true, Reason: "it is a seed"}, explain(t, cfg, "https://example.com/a").Scope)
	require.Equal(t, crawl.ExplainScope{Reason: "depth 1 > 0"}, explain(t, cfg, "https://example.com/b").Scope)
	cfg.Depth = -1
	require.Equal(t, crawl.ExplainScope{Reason: "matches no include pattern"}, explain(t, cfg, "https://example.com/b").Scope)
	cfg.Scope.Exclude = []string{"/a$"}
	require.Equal(t, crawl.ExplainScope{Reason: "excluded by //a$/"}, explain(t, cfg, "https://example.com/a").Scope)
}

func TestExplainMistakes(t *testing.T) {
	cfg := crawl.ExplainConfig{Config: crawl.DefaultConfig(), Offline: true, Seeds: []string{"mailto:a"}}
	_, err := crawl.Explain(t.Context(), cfg, "example.com")
	require.ErrorIs(t, err, crawl.ErrSeed)
	cfg.Seeds, cfg.Concurrency = nil, 0
	_, err = crawl.Explain(t.Context(), cfg, "example.com")
	require.ErrorContains(t, err, "concurrency")

	cfg = crawl.ExplainConfig{Config: crawl.DefaultConfig()}
	ctx, cancel := context.WithCancel(t.Context())
	url := robotsAt(t, func(_ http.ResponseWriter, r *http.Request) { cancel(); <-r.Context().Done() })
	_, err = crawl.Explain(ctx, cfg, url)
	require.ErrorIs(t, err, context.Canceled)
}
