package console

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/docpage"
	"github.com/treadlight/crawl/internal/observe/telemetry"
	"github.com/treadlight/crawl/internal/observe/traces"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// full is a console of a crawl in which everything happens of which there is a metric.
func full(t *testing.T) *rig {
	meter := telemetry.New()
	meter.Start()
	meter.Request(outcome.OK, time.Second, time.Second, 1)
	tracer, err := traces.New(traces.Config{Endpoint: "http://localhost:4318", Sample: 1})
	require.NoError(t, err)
	g := newRig(t, "8080", "", func(_ *Config, c *Crawl) {
		c.Kept = func() Kept { return Kept{Pending: 1, Limit: 2, Failed: true} }
		c.Fleet = func() Fleet {
			return Fleet{Job: "news", Worker: "w1", State: "cut_off", Hosts: 3, SilentSeconds: 12, LeaseSeconds: 15, Full: true, Dropped: 7, Queued: 40, Processes: 2}
		}
		c.Collectors = append(meter.Collectors(), tracer.Collectors()...)
	})
	one := map[string]int64{"x": 1}
	g.shown = pipeline.Snapshot{
		ElapsedSeconds: 1, Outcomes: one, OutOfScope: one, Dropped: one, Suspected: one, Changes: one,
		Duplicates: &neardup.Totals{Exact: 1, Near: 1},
		Limiter:    ratelimit.LimiterSnapshot{Caps: []ratelimit.CapSnapshot{{Limit: ratelimit.LimitGlobalBytes, Left: -5}}},
	}
	return g
}

var labelName = regexp.MustCompile(`[{,](\w+)="`)

// family is a metric as a scrape shows it.
type family struct{ name, kind, labels, help string }

// families are those of ours in a scrape, in order.
func families(t *testing.T, text string) (list []family) {
	t.Helper()
	help := map[string]string{}
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSpace(line), " ", 4)
		switch {
		case strings.HasPrefix(line, "# HELP treadlight_"):
			help[fields[2]] = fields[3]
		case strings.HasPrefix(line, "# TYPE treadlight_"):
			list = append(list, family{name: fields[2], kind: fields[3], help: help[fields[2]]})
		case strings.HasPrefix(line, "treadlight_"):
			f := &list[len(list)-1]
			require.True(t, strings.HasPrefix(line, f.name))
			var names []string
			for _, match := range labelName.FindAllStringSubmatch(line, -1) {
				if match[1] != "le" {
					names = append(names, match[1])
				}
			}
			f.labels = strings.Join(names, ", ")
		}
	}
	require.Greater(t, len(list), 60)
	return list
}

// unit is what a metric is counted in, by its name.
func unit(f family) string {
	for _, u := range []string{"seconds", "bytes"} {
		if strings.HasSuffix(strings.TrimSuffix(f.name, "_total"), "_"+u) {
			return u
		}
	}
	return ""
}

// docs/reference/metrics.md has every metric there is, with its unit and its meaning, and no other; the
// linter of Prometheus has no complaint about any of them.
func TestDocsHaveEveryMetric(t *testing.T) {
	text := full(t).ask("GET", "/metrics", "").Body.String()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	require.NoError(t, err)
	require.Empty(t, problems)
	var table strings.Builder
	table.WriteString("| metric | type | unit | label | meaning |\n|---|---|---|---|---|\n")
	for _, f := range families(t, text) {
		require.True(t, strings.HasSuffix(f.help, "."), "%s: %q is no sentence", f.name, f.help)
		fmt.Fprintf(&table, "| `%s` | %s | %s | %s | %s |\n", f.name, f.kind, unit(f), f.labels, f.help)
	}
	docpage.Check(t, "docs/reference/metrics.md", "metrics", table.String())
}

// Of a crawl of several processes it can be seen how this one and the whole stand.
func TestMetricsOfAFleet(t *testing.T) {
	g := full(t)
	for name, want := range map[string]string{
		`treadlight_fleet_info{fleet="news",worker="w1"}`: "1", `treadlight_fleet_state{state="cut_off"}`: "1", `treadlight_fleet_state{state="running"}`: "0",
		"treadlight_fleet_owned_hosts": "3", "treadlight_fleet_silence_seconds": "12", "treadlight_fleet_redis_full": "1",
		`treadlight_limiter_cap_left{cap="global_bytes"}`: "-5", "treadlight_state_failed": "1", `treadlight_fetch_duration_seconds_bucket{outcome="ok",le="1"}`: "1",
		"treadlight_fleet_refused_urls_total": "7", "treadlight_fleet_queued_urls": "40", "treadlight_fleet_processes": "2",
	} {
		require.Equal(t, want, g.value(t, name), name)
	}
	require.Contains(t, g.ask("GET", "/api/snapshot", "").Body.String(), `"fleet":{"job":"news","worker":"w1","state":"cut_off"`)
	page := g.ask("GET", "/", "").Body.String()
	require.Contains(t, page, "w1 in news is cut off and has 3 hosts. All 2 processes together: 40 URLs queued")
	require.Contains(t, page, "Redis was last heard 12 s ago. Redis has no memory left: 7 URLs were dropped.")
	alone := newRig(t, "8080", "", nil)
	require.NotContains(t, alone.ask("GET", "/metrics", "").Body.String(), "treadlight_fleet_")
	require.NotContains(t, alone.ask("GET", "/api/snapshot", "").Body.String(), `"fleet"`)
}

// Each metric shows the figure that it is named for, and not one of its neighbours.
func TestEveryMetricShowsItsFigure(t *testing.T) {
	g := newRig(t, "8080", "", func(_ *Config, c *Crawl) {
		c.Kept = func() Kept { return Kept{Pending: 61, Limit: 62, Queued: 63, Done: 64, IndexMemory: 65, IndexDisk: 66} }
	})
	g.shown = pipeline.Snapshot{
		ElapsedSeconds: 1, Records: 2, Pages: 3, Errors: 4, Answered: 5, Retries: 6, OfURL: 7, Returned: 8, Refused: 9, Unruled: 10,
		Bytes: 11, WireBytes: 12, Trapped: 13, Unindexed: 14, Round: 15,
		Outcomes: map[string]int64{"ok": 16}, OutOfScope: map[string]int64{"depth": 17}, Dropped: map[string]int64{"full": 18},
		Suspected: map[string]int64{"calendar": 19}, Changes: map[string]int64{"gone": 20}, Duplicates: &neardup.Totals{Exact: 21, Near: 22},
		Workers:  pipeline.Workers{Count: 23, BusySeconds: 24, WaitSeconds: 25},
		Frontier: frontier.Counts{Queued: 26, Leased: 27, Known: 28, Hosts: 29},
		Limiter: ratelimit.LimiterSnapshot{
			Requests: 31, Throttled: 32, Denied: 33, Retries: 34, OverReleased: 35, Evicted: 36, OverCap: 37,
			Domains: 38, Tombstones: 39, Open: 40, HalfOpen: 41, InFlight: 42, Waiting: 43, Groups: 44, Merged: 45,
			Caps: []ratelimit.CapSnapshot{{Limit: ratelimit.LimitGlobalConcurrency, Left: 46}},
		},
	}
	want := map[string]float64{
		"crawl_running": 1, "crawl_paused": 0, "crawl_elapsed_seconds": 1, "records_total": 2, "pages_total": 3, "record_errors_total": 4, "answers_total": 5,
		"retries_total": 6, "refused_single_urls_total": 7, "returned_leases_total": 8, "robots_refused_urls_total": 9, "robots_unknown_urls_total": 10,
		"body_bytes_total": 11, "received_bytes_total": 12, "trapped_urls_total": 13, "noindex_records_total": 14, "crawl_round": 15,
		`requests_total{outcome="ok"}`: 16, `out_of_scope_links_total{reason="depth"}`: 17, `dropped_links_total{reason="full"}`: 18,
		`suspected_links_total{reason="calendar"}`: 19, `compared_records_total{change="gone"}`: 20,
		`repeated_pages_total{kind="exact"}`: 21, `repeated_pages_total{kind="near"}`: 22,
		"workers": 23, "worker_busy_seconds_total": 24, "worker_wait_seconds_total": 25,
		"frontier_queued_urls": 26, "frontier_leased_urls": 27, "frontier_known_urls_total": 28, "frontier_hosts": 29,
		"limiter_permits_total": 31, "limiter_throttled_permits_total": 32, "limiter_denied_permits_total": 33, "limiter_retries_total": 34,
		"limiter_over_released_permits_total": 35, "limiter_evicted_hosts_total": 36, "limiter_surplus_hosts_total": 37,
		"limiter_hosts": 38, "limiter_put_away_hosts": 39, "limiter_open_circuits": 40, "limiter_half_open_circuits": 41,
		"limiter_requests_in_flight": 42, "limiter_waiting_requests": 43, "limiter_groups": 44, "limiter_merged_groups": 45,
		`limiter_cap_left{cap="global_concurrency"}`: 46,
		"operator_blocked_hosts":                     1, "operator_ceilings": 1,
		"state_pending_operations": 61, "state_pending_operations_limit": 62, "state_queued_urls": 63, "state_visited_urls_total": 64,
		"state_index_memory_bytes": 65, "state_index_disk_bytes": 66, "state_failed": 0,
	}
	text := g.ask("GET", "/metrics", "").Body.String()
	seen := 0
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, ours := strings.CutPrefix(name, "treadlight_")
		if !ours || strings.HasPrefix(name, "console_") || strings.HasPrefix(name, "build_") {
			continue
		}
		seen++
		require.Contains(t, want, name, "a metric that is not in the table")
		require.Equal(t, fmt.Sprint(want[name]), value, name)
	}
	require.Len(t, want, seen)
}
