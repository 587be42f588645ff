package integration_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/assembly/watch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/resilience/binder"
)

// moves are the largest values that metrics have had, whatever their labels.
type moves map[string]float64

// look asks for the metrics once.
func (m moves) look(t *testing.T, url string, metrics http.Handler) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, url+"metrics", http.NoBody)
	r.RemoteAddr = fmt.Sprintf("127.0.0.1:%d", 1024+len(m))
	metrics.ServeHTTP(w, r)
	if w.Code == http.StatusTooManyRequests {
		return // the door counts us like any client
	}
	require.Equal(t, http.StatusOK, w.Code)
	for line := range strings.Lines(w.Body.String()) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if strings.HasPrefix(name, "#") {
			continue
		}
		name, _, _ = strings.Cut(name, "{")
		fields := strings.Fields(rest)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		require.NoError(t, err, line)
		m[name] = max(m[name], value)
	}
}

// crawl crawls to the end and looks on. Orders, if there are any, come in its third second.
func (m moves) crawl(t *testing.T, cfg assembly.Config, dial dialer, orders func(*assembly.Crawler), seeds ...string) {
	t.Helper()
	c := newOver(t, cfg, dial)
	if orders != nil {
		timer := time.AfterFunc(3*time.Second, func() { orders(c) })
		defer timer.Stop()
	}
	console, err := watch.Listen(assembly.ListenConfig{Addr: "0"})
	require.NoError(t, err)
	require.NoError(t, console.Close()) // in a bubble its handler is asked without the socket
	metrics, err := console.Handler(c)
	require.NoError(t, err)
	var looking sync.WaitGroup
	over := make(chan struct{})
	looking.Go(func() {
		pause, looks := 500*time.Millisecond, 0
		for {
			select {
			case <-over:
				return
			case <-time.After(pause):
				m.look(t, console.URL(), metrics)
			}
			if looks++; looks > 70 {
				pause = 10 * time.Second // what takes long is the waiting for what is given up
			}
		}
	})
	if err := c.Run(t.Context(), seeds...); err != nil {
		require.True(t, errors.Is(err, crawl.ErrBlocked), err)
	}
	close(over)
	looking.Wait()
	m.look(t, console.URL(), metrics)
}

// eventful is a host at which much happens.
func eventful() http.Handler {
	var mu sync.Mutex
	asked := map[string]int{}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		first := asked[r.URL.Path] == 1
		mu.Unlock() // who waits for it would hold the bubble's time up
		w.Header().Set("Content-Type", "text/html")
		switch path := r.URL.Path; {
		case path == "/robots.txt":
			w.Header().Set("Content-Type", "text/plain")
			fmt.Fprint(w, "User-agent: *\nDisallow: /private\n")
		case path == "/":
			links := []string{"/private", "/noindex", "/same/1", "/same/2", "/flaky", "/login", "/missing", "/broken", "http://elsewhere.test/"}
			for i := range 20 {
				links = append(links, fmt.Sprintf("/page/%d", i), fmt.Sprintf("/budget/%d", i))
			}
			fmt.Fprint(w, anchors(links...))
		case path == "/noindex":
			fmt.Fprint(w, `<meta name=robots content=noindex>`)
		case path == "/login":
			w.WriteHeader(http.StatusTooManyRequests)
		case path == "/flaky" && first:
			w.WriteHeader(http.StatusServiceUnavailable)
		case path == "/broken":
			panic(http.ErrAbortHandler) // the connection ends
		case path == "/missing":
			w.WriteHeader(http.StatusNotFound)
		case strings.HasPrefix(path, "/same/"):
			fmt.Fprint(w, "<title>Same</title>the same")
		default:
			time.Sleep(300 * time.Millisecond)
			fmt.Fprintf(w, "<title>%s</title>%s", path, prose(path, 60))
		}
	})
}

// unmoved are the metrics that stay at zero in these crawls, with the tests that move them, or why they do.
var unmoved = map[string]string{
	"treadlight_console_event_streams":               "console: TestTooManyStreams",
	"treadlight_console_lost_events_total":           "console: TestSlowReader",
	"treadlight_console_orders_total":                "console: TestOrders",
	"treadlight_console_refused_requests_total":      "console: TestDoor",
	"treadlight_limiter_denied_permits_total":        "ratelimit: its tests of circuits; a crawl asks nothing of a host whose circuit is open",
	"treadlight_limiter_merged_groups":               "ratelimit: TestCommonLimitIsFoundAndPacedAsOne",
	"treadlight_limiter_over_released_permits_total": "ratelimit: its tests; a mistake that a program must make",
	"treadlight_limiter_surplus_hosts_total":         "ratelimit: TestCapSparesTheActive",
	"treadlight_limiter_throttled_permits_total":     "ratelimit: its tests of waiting; in a crawl hosts wait, and not requests",
	"treadlight_limiter_waiting_requests":            "the same",
	"treadlight_returned_leases_total":               "pipeline: TestLeasesThatAreGivenBack",
	"treadlight_state_failed":                        "console: TestMetricsOfAState",
	"treadlight_state_index_disk_bytes":              "seen: TestBytesAreThoseOfThePackageComment; that of a small crawl is in memory",
	"treadlight_trace_dropped_spans_total":           "traces: its tests",
	"treadlight_trace_exported_spans_total":          "the same",
}

var metricRow = regexp.MustCompile("(?m)^\\| `(treadlight_[a-z_]+)` \\| (\\w+) \\|")

// What the manual says that /metrics has does tell of what happens: each metric moves in one of
// a few crawls of hosts at which much goes wrong.
func TestMetricsMove(t *testing.T) {
	m := moves{}
	synctest.Test(t, func(t *testing.T) {
		unruled := status(http.StatusServiceUnavailable)
		down := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/robots.txt":
				w.WriteHeader(http.StatusNotFound)
			case "/":
				w.Header().Set("Content-Type", "text/html")
				for i := range 15 {
					fmt.Fprint(w, anchors(fmt.Sprintf("/page/%d", i)))
				}
			default:
				time.Sleep(300 * time.Millisecond)
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		net := fetchtest.Serve(t, map[string]http.Handler{
			"a.test": eventful(), "unruled.test": unruled, "down.test": down, "trap.test": trapZoo[1].site, "shop.test": trapZoo[0].site,
		})
		dir := filepath.Join(t.TempDir(), "state")
		cfg := assembly.DefaultConfig()
		cfg.State.Dir, cfg.Duplicates.Find, cfg.Output.SkipNoindex, cfg.Traps.After = dir, "exact", true, 0
		cfg.Scope.Budgets = []string{"5 /budget/"}
		cfg.RateLimit.Strategy, cfg.RateLimit.GlobalConcurrency, cfg.RateLimit.SiteRPS = "aimd", 4, 100

		orders := func(c *assembly.Crawler) {
			c.Pause()
			time.Sleep(time.Second)
			c.Resume()
			assert.NoError(t, c.SetCeiling("a.test", 5))
			assert.NoError(t, c.Block("blocked.test"))
		}
		m.crawl(t, cfg, net.DialContext, orders, "http://a.test/", "http://trap.test/")

		again := openAgain(t, dir, assembly.Again{Unfinished: true})
		second := again.Config()
		second.MaxPages = 3
		m.crawl(t, second, net.DialContext, nil)

		reported := assembly.DefaultConfig()
		reported.Traps.Report, reported.Traps.After, reported.MaxPages = true, 0, 100
		m.crawl(t, reported, net.DialContext, nil, "http://trap.test/")

		// Permits are taken behind the queue of a bulkhead, in which the situation changes.
		queued := assembly.DefaultConfig()
		queued.RateLimit.Strategy, queued.RateLimit.InitialRPS, queued.RateLimit.MaxRPS = "aimd", 20, 20
		queued.RateLimit.DomainStateTTL, queued.MaxBlocked, queued.Traps.After = 30*time.Second, time.Minute, 0
		var err error
		queued.Resilience, err = binder.Load([]byte(`{"Bulkhead": {"MaxConcurrency": 1, "MaxQueueDepth": 100}}`))
		require.NoError(t, err)
		m.crawl(t, queued, net.DialContext, nil, "http://down.test/", "http://unruled.test/", "http://shop.test/")
	})
	manual, err := os.ReadFile("../../docs/reference/metrics.md")
	require.NoError(t, err)
	var still []string
	for _, row := range metricRow.FindAllStringSubmatch(string(manual), -1) {
		name := row[1]
		if row[2] == "histogram" {
			name += "_count"
		}
		if m[name] == 0 && unmoved[row[1]] == "" && !strings.HasPrefix(name, "treadlight_fleet_") {
			still = append(still, row[1])
		}
	}
	require.Empty(t, still, "provoke them here, or name what does among the unmoved")
}
