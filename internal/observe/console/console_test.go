package console

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

func TestNewNeedsAnAddress(t *testing.T) {
	_, err := New(Config{}, Crawl{})
	require.ErrorContains(t, err, "address to listen at is missing")
}

func TestReads(t *testing.T) {
	g := newRig(t, "8080", "", nil)
	g.shown = pipeline.Snapshot{Records: 12, Pages: 9, ElapsedSeconds: 4}
	w := g.ask("GET", "/api/snapshot", "")
	require.Equal(t, 200, w.Code)
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	require.Contains(t, w.Body.String(), `"records":12,"pages":9`)
	require.Contains(t, w.Body.String(), `"paused":false`)
	for header, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer",
	} {
		require.Equal(t, want, w.Header().Get(header))
	}
	require.Contains(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'")

	w = g.ask("GET", "/api/hosts/a.test", "")
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), `"queued":7`)
	require.Contains(t, w.Body.String(), `"fill_rate":2`)
	require.Contains(t, detail(t, g.ask("GET", "/api/hosts/b.test", "")), "nothing is known of that host")

	require.Equal(t, 200, g.ask("GET", "/healthz", "").Code)
	require.Equal(t, 200, g.ask("HEAD", "/healthz", "").Code)
	require.Equal(t, 200, g.ask("HEAD", "/api/events", "").Code)
	require.Equal(t, 404, g.ask("GET", "/nothing", "").Code)
	require.Equal(t, 200, g.ask("GET", "/", "").Code)
	require.Equal(t, 404, g.ask("POST", "/api/nothing", "{}", isOrder).Code)
	require.Equal(t, 404, g.ask("POST", "/api/seeds/more", "{}", isOrder).Code)
	for _, path := range []string{"/api/nothing", "/api/hosts/a.test/nothing", "/nothing"} {
		w = g.ask("GET", path, "")
		require.Equal(t, 404, w.Code, path)
		require.Contains(t, detail(t, w), "see /api/snapshot, ")
	}
	w = g.ask("GET", "/api/pause", "")
	require.Equal(t, 405, w.Code)
	require.Contains(t, w.Header().Get("Allow"), "POST")
	require.Equal(t, "use POST", detail(t, w))
	w = g.ask("DELETE", "/api/snapshot", "", isOrder)
	require.Equal(t, 405, w.Code)
}

func TestReady(t *testing.T) {
	g := newRig(t, "0.0.0.0:8080", token, nil)
	require.Equal(t, 200, g.ask("GET", "/readyz", "").Code, "without a token")
	g.notReady = errors.New("the disk is full")
	w := g.ask("GET", "/readyz", "")
	require.Equal(t, 503, w.Code)
	require.Equal(t, "the disk is full", detail(t, w))
	g.notReady = nil
	g.clk.Advance(time.Second)
	g.shown.Limiter = ratelimit.LimiterSnapshot{Domains: 3, Open: 2}
	require.Equal(t, 200, g.ask("GET", "/readyz", "").Code)
	g.clk.Advance(time.Second)
	g.shown.Limiter.Open = 3
	require.Contains(t, detail(t, g.ask("GET", "/readyz", "")), "every host is open")
	g.clk.Advance(time.Second)
	g.shown.Limiter.Open, g.shown.Reason = 0, "the proxy fails: connection refused"
	w = g.ask("GET", "/readyz", "")
	require.Equal(t, 503, w.Code)
	require.Equal(t, g.shown.Reason, detail(t, w))
	require.Equal(t, 200, g.ask("GET", "/healthz", "").Code)
}

// Whoever looks within a tenth of a second sees what the first one saw, but not after an order.
func TestSnapshotsAreShared(t *testing.T) {
	g := newRig(t, "8080", "", nil)
	for range 5 {
		g.ask("GET", "/api/snapshot", "")
		g.clk.Advance(sharedFor / 5)
	}
	require.Equal(t, 1, g.snapshots)
	g.ask("GET", "/metrics", "")
	require.Equal(t, 2, g.snapshots)
	g.ask("POST", "/api/pause", "", isOrder)
	g.ask("GET", "/api/snapshot", "")
	require.Equal(t, 3, g.snapshots)
}

// orders are what operators say, and what they are answered.
var orders = []struct {
	path, body string
	status     int
	says       string
}{
	{"pause", "", 200, `"order":"pause"`},
	{"resume", "{}", 200, `"order":"resume"`},
	{"seeds", `{"url":"a.test"}`, 200, `"url":"https://a.test/"`},
	{"seeds", `{"url":"a b"}`, 422, "there is a space in it"},
	{"seeds", `{}`, 422, "the URL is missing"},
	{"seeds", `{"uri":"a.test"}`, 400, "unknown field"},
	{"seeds", `{"url":"a.test"} {}`, 400, "something behind"},
	{"seeds", `[`, 400, "write a JSON object"},
	{"seeds", `{"url":"` + strings.Repeat("x", maxBody) + `"}`, 413, "16384 bytes at most"},
	{"checkpoint", "", 200, `"order":"checkpoint"`},
	{"checkpoint", "", 500, "the disk is full"},
	{"stop", "", 200, `"order":"stop"`},
	{"hosts/a.test/block", "", 200, `"order":"block","host":"a.test"}`},
	{"hosts/a.test:8080/unblock", "{}", 200, `"host":"a.test:8080","note":"the host was not blocked"}`},
	{"hosts/B.test/unblock", "{}", 200, `"host":"B.test"}`},
	{"hosts/%5B::1%5D:8080/block", "", 200, `"host":"[::1]:8080","note":"nothing of this host is in memory now: this holds for when it comes.`},
	{"hosts/a%20b/block", "", 422, "there is a space in it"},
	{"hosts/a.test/ceiling", `{"max_rps":2.5}`, 200, `"order":"ceiling","host":"a.test"}`},
	{"hosts/a.test/ceiling", `{"max_rps":0}`, 200, `"order":"ceiling"`},
	{"hosts/c.test/ceiling", `{"max_rps":2}`, 200, `"note":"nothing of this host is in memory now`},
	{"hosts/a.test/ceiling", "", 422, "the rate is missing"},
	{"hosts/a.test/ceiling", `{"max_rps":"5"}`, 400, "write a JSON object"},
	{"hosts/a.test/ceiling", `{"rps":5}`, 400, "unknown field"},
	{"scope", `{"include":["/blog/"],"exclude":[]}`, 200, `"order":"scope"`},
	{"scope", `{"include":["/blog/"]}`, 422, "both lists are replaced"},
	{"scope", `{"include":null,"exclude":[]}`, 422, "both lists are replaced"},
	{"scope", `{"include":"x","exclude":[]}`, 400, "write a JSON object"},
	{"scope", `{"include":[],"exclude":["` + strings.Repeat("x", maxBody) + `"]}`, 413, "bytes at most"},
	{"hosts/a.test/pause", "", 404, "block, unblock and ceiling"},
	{"block", "", 404, "POST the orders /api/pause"},
}

// Orders do what they say; what is missing or wrong is named, changes nothing, and is logged and counted too.
func TestOrders(t *testing.T) {
	flushed := 0
	g := newRig(t, "8080", "", func(_ *Config, c *Crawl) {
		c.Checkpoint = func(context.Context) error {
			if flushed++; flushed == 2 {
				return errors.New("the disk is full")
			}
			return nil
		}
	})
	for _, c := range orders {
		w := g.ask("POST", "/api/"+c.path, c.body, isOrder)
		require.Equal(t, c.status, w.Code, "%s %s: %s", c.path, c.body, w.Body)
		require.Contains(t, w.Body.String(), c.says)
		g.clk.Advance(time.Minute)
	}
	require.Equal(t, []string{
		"pause", "resume", "seed a.test", "stop",
		"block a.test", "unblock a.test:8080", "unblock B.test", "block [::1]:8080", "ceiling a.test 2.5", "ceiling a.test 0", "ceiling c.test 2", "scope [/blog/] []",
	}, g.did)
	for _, line := range []string{
		`msg="an order was carried out" order=seeds who=127.0.0.1:1234 url=a.test`,
		`msg="an order could not be carried out" order=checkpoint who=127.0.0.1:1234 error="the disk is full"`,
		`msg="an order was carried out" order=block who=127.0.0.1:1234 host=a.test`,
		`msg="an order was carried out" order=ceiling who=127.0.0.1:1234 host=a.test max_rps=2.5`,
		`msg="an order was carried out" order=scope who=127.0.0.1:1234 include=/blog/ exclude=""`,
		`msg="an order could not be carried out" order=block who=127.0.0.1:1234 host="a b" error="there is a space in it"`,
	} {
		require.Contains(t, g.log(), line)
	}
	for of, want := range map[string]string{
		`order="seeds",result="failed"`: "6", `order="seeds",result="done"`: "1", `order="ceiling",result="failed"`: "3", `order="block",result="done"`: "2",
	} {
		require.Equal(t, want, g.value(t, "treadlight_console_orders_total{"+of+"}"))
	}

	g.over = true
	for _, path := range []string{"pause", "resume", "seeds", "hosts/a.test/block", "hosts/a.test/unblock", "hosts/a.test/ceiling", "scope"} {
		w := g.ask("POST", "/api/"+path, `{"url":"a.test","max_rps":1,"include":[],"exclude":[]}`, isOrder)
		require.Equal(t, 409, w.Code, path)
		require.Equal(t, ErrGone.Error(), detail(t, w))
	}
	none := newRig(t, "8080", "", nil)
	w := none.ask("POST", "/api/checkpoint", "", isOrder)
	require.Equal(t, 409, w.Code)
	require.Contains(t, detail(t, w), "--state")
}

// All labels come from closed lists, and two consoles in one process do not meet.
func TestMetrics(t *testing.T) {
	newRig(t, "8080", "", nil)
	g := newRig(t, "8080", "", nil)
	g.shown = pipeline.Snapshot{
		Hosts: []frontier.HostState{{Host: "a.test"}}, Limiter: ratelimit.LimiterSnapshot{Top: []ratelimit.DomainSnapshot{{Domain: "a.test"}}},
	}
	text := g.ask("GET", "/metrics", "").Body.String()
	require.NotContains(t, text, "a.test", "a label for a host")
	require.NotContains(t, text, "treadlight_state_", "it has none")
	for _, part := range []string{`treadlight_build_info{version="1.2.3"} 1`, `treadlight_console_refused_requests_total{reason="rate"} 0`, "go_goroutines "} {
		require.Contains(t, text, "\n"+part)
	}
}

var _ http.Handler = (*Console)(nil)

// What is in force can be read, to be changed.
func TestControls(t *testing.T) {
	g := newRig(t, "8080", "", nil)
	w := g.ask("GET", "/api/controls", "")
	require.Equal(t, 200, w.Code)
	require.JSONEq(t, `{"blocked":["b.test"],"ceilings":{"a.test":5},"include":[],"exclude":["/x"]}`, w.Body.String())
}
