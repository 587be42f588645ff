package console

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Who may come in by which headers, in the order in which they are judged.
const loopback, public, one = "8080", "0.0.0.0:8080", "192.0.2.7:8080"

var doors = []struct {
	at, method string
	headers    []string
	status     int
}{
	{loopback, "GET", nil, 200},
	{loopback, "GET", []string{"Host: 127.0.0.1:8080"}, 200},
	{loopback, "GET", []string{"Host: [::1]:8080"}, 200},
	{loopback, "GET", []string{"Host: LOCALHOST"}, 200},
	{loopback, "GET", []string{"Host: localhost:9000"}, 200}, // a tunnel's port
	{loopback, "GET", []string{"Host: evil.example"}, 421},
	{loopback, "GET", []string{"Host: localhost.evil.example:8080"}, 421},
	{loopback, "GET", []string{"Host: 192.0.2.7:8080"}, 421},
	{loopback, "GET", []string{"Host: "}, 421},
	{one, "GET", []string{"Host: 192.0.2.7:8080", bearer}, 200},
	{one, "GET", []string{"Host: 192.0.2.8:8080", bearer}, 421},
	{public, "GET", []string{"Host: 192.0.2.8:8080", bearer}, 200},
	{public, "GET", []string{"Host: evil.example", bearer}, 421},

	{loopback, "GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"}, 403},
	{loopback, "GET", []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, 200}, // a link
	{loopback, "GET", []string{"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors"}, 200},
	{loopback, "POST", []string{isOrder, "Sec-Fetch-Site: same-origin"}, 200},
	{loopback, "POST", []string{isOrder, "Sec-Fetch-Site: same-site"}, 403},
	{loopback, "POST", []string{isOrder, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"}, 403},
	{loopback, "POST", []string{isOrder, "Origin: http://localhost:8080"}, 200},
	{loopback, "POST", []string{isOrder, "Origin: http://localhost:3000"}, 403},
	{loopback, "POST", []string{isOrder, "Origin: null"}, 403},
	{loopback, "POST", []string{isOrder, "Origin: https://evil.example"}, 403},

	{public, "GET", nil, 401},
	{public, "POST", []string{isOrder}, 401},
	{public, "POST", []string{isOrder, bearer}, 200},
	{public, "POST", []string{isOrder, "Authorization: bearer " + token}, 200},
	{public, "POST", []string{isOrder, "Authorization: Basic " + token}, 401},
	{public, "POST", []string{isOrder, bearer + "x"}, 401},
	{public, "POST", []string{isOrder, "Authorization: Bearer "}, 401},
	{public, "POST", []string{isOrder, "Authorization: " + token}, 401},
	{public, "POST", []string{isOrder, bearer, "Origin: https://evil.example"}, 403},
	{public, "POST", []string{isOrder, bearer, "Sec-Fetch-Site: cross-site"}, 403},
	{public, "POST", []string{isOrder, bearer, "Host: evil.example"}, 421},

	{loopback, "POST", nil, 415},
	{loopback, "POST", []string{"Content-Type: text/plain"}, 415},
	{loopback, "POST", []string{"Content-Type: application/x-www-form-urlencoded"}, 415},
	{loopback, "POST", []string{"Content-Type: application/json; charset=utf-8"}, 200},
	{loopback, "POST", []string{"Content-Type: application/jsonp"}, 415},
	{public, "POST", []string{bearer}, 415},
	{public, "POST", []string{bearer, "Content-Type: text/plain"}, 415},
	{public, "POST", []string{bearer, "Content-Type: application/x-www-form-urlencoded"}, 415},
}

// bodies are the orders, by their paths, with what each needs to be carried out.
var bodies = map[string]string{
	"/api/pause": "", "/api/resume": "", "/api/stop": "", "/api/checkpoint": "",
	"/api/seeds": `{"url":"a.test"}`, "/api/scope": `{"include":[],"exclude":["/x"]}`,
	"/api/hosts/a.test/block": "", "/api/hosts/a.test/unblock": "", "/api/hosts/a.test/ceiling": `{"max_rps":5}`,
}

// kept lets a crawl have checkpoints.
func kept(_ *Config, c *Crawl) { c.Checkpoint = func(context.Context) error { return nil } }

// No order is carried out without the token, for another site's page, under another name or in another form; each
// refusal is logged with who asked for what, and counted.
func TestDoor(t *testing.T) {
	require.Len(t, bodies, len(allOrders), "an order is missing here")
	for _, c := range doors {
		paths := bodies
		if c.method == "GET" {
			paths = map[string]string{"/api/snapshot": ""}
		}
		for path, body := range paths {
			t.Run(fmt.Sprintf("%s %s %s %v", c.at, c.method, path, c.headers), func(t *testing.T) {
				key := ""
				if c.at != loopback {
					key = token
				}
				g := newRig(t, c.at, key, kept)
				w := g.ask(c.method, path, body, c.headers...)
				require.Equal(t, c.status, w.Code, w.Body)
				require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
				if c.status == 200 {
					return
				}
				require.NotEmpty(t, detail(t, w))
				require.Empty(t, g.did)
				reason := map[int]reason{421: reasonHost, 403: reasonOrigin, 401: reasonToken, 415: reasonType}[c.status]
				require.Contains(t, g.log(), fmt.Sprintf(`level=WARN msg="a request to the console was refused" reason=%s status=%d who=127.0.0.1:1234 method=%s path=%s`, reason, c.status, c.method, path))
				require.NotContains(t, g.log(), token)
				if c.status == 401 {
					require.Contains(t, w.Header().Get("WWW-Authenticate"), "Bearer")
				}
				require.Equal(t, "1", g.value(t, fmt.Sprintf("treadlight_console_refused_requests_total{reason=%q}", reason)))
			})
		}
	}
}

// statuses is what n requests in a row are answered.
func statuses(g *rig, n int, method, path string, headers ...string) map[int]int {
	all := map[int]int{}
	for range n {
		all[g.ask(method, path, "", headers...).Code]++
	}
	return all
}

// Ten orders and fifty reads at once, then one and twenty in a second; each client for itself.
func TestTooOften(t *testing.T) {
	g := newRig(t, "0.0.0.0:8080", token, nil)
	require.Equal(t, map[int]int{200: 10, 429: 2}, statuses(g, 12, "POST", "/api/pause", isOrder, bearer))
	require.Equal(t, map[int]int{200: 50, 429: 5}, statuses(g, 55, "GET", "/api/snapshot", bearer))
	require.Equal(t, map[int]int{200: 10}, statuses(g, 10, "POST", "/api/pause", isOrder, bearer, "From-Address: 203.0.113.9:5"))
	g.clk.Advance(time.Second)
	require.Equal(t, map[int]int{200: 1, 429: 1}, statuses(g, 2, "POST", "/api/pause", isOrder, bearer))
	w := g.ask("POST", "/api/pause", "", isOrder, bearer)
	require.Equal(t, "1", w.Header().Get("Retry-After"))
	require.Equal(t, "come again when Retry-After says", detail(t, w))
	require.Equal(t, "9", g.value(t, `treadlight_console_refused_requests_total{reason="rate"}`))
	require.Contains(t, g.log(), "reason=rate status=429 who=127.0.0.1:1234 method=POST path=/api/pause")
}

// A wrong token costs five times an order, and who guesses at the owner's own address, or a
// page in his browser, leaves him what he has.
func TestWrongTokensCostMore(t *testing.T) {
	g := newRig(t, "0.0.0.0:8080", token, nil)
	wrong := "Authorization: Bearer guessed"
	require.Equal(t, map[int]int{401: 2, 429: 8}, statuses(g, 10, "POST", "/api/stop", isOrder, wrong))
	require.Equal(t, map[int]int{401: 2, 429: 8}, statuses(g, 10, "GET", "/api/snapshot", wrong))
	g.clk.Advance(5 * time.Second)
	require.Equal(t, map[int]int{401: 1, 429: 1}, statuses(g, 2, "POST", "/api/stop", isOrder, wrong))
	require.Equal(t, map[int]int{403: 10, 429: 5}, statuses(g, 15, "POST", "/api/stop", isOrder, bearer, "Origin: https://evil.example", "From-Address: 203.0.113.9:5"))
	require.Equal(t, map[int]int{200: 10}, statuses(g, 10, "POST", "/api/pause", isOrder, bearer))
	require.NotContains(t, g.did, "stop")
}

// Of a flood the log has a part, and the number of what it has not.
func TestFloodOfRefusals(t *testing.T) {
	g := newRig(t, "8080", "", nil)
	long := "/" + strings.Repeat("x", 1000)
	for range 100 {
		g.ask(http.MethodPost, long, "", "Host: evil.example")
	}
	require.Equal(t, 20, strings.Count(g.log(), "was refused"))
	g.clk.Advance(time.Second)
	g.ask(http.MethodPost, long, "", "Host: evil.example")
	require.Contains(t, g.log(), "left_out=80")
	require.Less(t, len(g.log()), 21*400)
	require.Equal(t, "90", g.value(t, `treadlight_console_refused_requests_total{reason="rate"}`))
}

// No order is carried out too often; what is too often is logged and counted.
func TestEveryOrderIsRateLimited(t *testing.T) {
	for path, body := range bodies {
		g := newRig(t, public, token, kept)
		for range 10 {
			w := g.ask("POST", path, body, isOrder, bearer)
			require.Equal(t, 200, w.Code, "%s: %s", path, w.Body)
		}
		done := len(g.did)
		require.Equal(t, map[int]int{429: 5}, statuses(g, 5, "POST", path, isOrder, bearer))
		require.Len(t, g.did, done)
		require.Contains(t, g.log(), "reason=rate status=429 who=127.0.0.1:1234 method=POST path="+path)
		name := path[strings.LastIndexByte(path, '/')+1:]
		require.Equal(t, "10", g.value(t, fmt.Sprintf(`treadlight_console_orders_total{order=%q,result="done"}`, name)))
		require.Equal(t, 405, g.ask("GET", path, "", bearer).Code, "a link orders nothing")
	}
}
