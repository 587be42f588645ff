package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/observe/console/dashboard"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

const isFormType = "Content-Type: application/x-www-form-urlencoded"

// enterWith sends the form of the login, as the page of this address does.
func (g *rig) enterWith(token string, headers ...string) (status int, cookie *http.Cookie) {
	w := g.ask("POST", "/login", "token="+url.QueryEscape(token), append([]string{isFormType, "Sec-Fetch-Site: same-origin"}, headers...)...)
	for _, c := range w.Result().Cookies() {
		cookie = c
	}
	return w.Code, cookie
}

func TestPages(t *testing.T) {
	g := newRig(t, "8080", "", func(_ *Config, c *Crawl) {
		c.Recent = func() pipeline.Recent {
			return pipeline.Recent{Errors: []pipeline.Seen{{URL: "http://A.test:80/x<b>", Class: "network", Error: "<script>"}}}
		}
		c.EachHost = func(see func(frontier.HostState, ratelimit.Brief)) {
			for i := range 120 {
				see(frontier.HostState{Host: fmt.Sprintf("h%03d.test", i), Queued: i, Reason: "crawl_delay"}, ratelimit.Brief{FillRate: 2})
			}
		}
	})
	w := g.ask("GET", "/", "")
	require.Equal(t, 200, w.Code)
	require.Equal(t, dashboard.Policy, w.Header().Get("Content-Security-Policy"))
	require.Equal(t, "no-store", w.Header().Get("Cache-Control"))
	require.Equal(t, "nosniff", w.Header().Get("X-Content-Type-Options"))
	page := w.Body.String()
	require.Contains(t, page, "1 to 20 of 120 hosts")
	require.Contains(t, page, `href="/hosts/h119.test"`)
	require.NotContains(t, page, "h001.test")
	require.Contains(t, page, "Crawl-delay in robots.txt")
	require.Contains(t, page, "x&lt;b&gt;")
	require.Contains(t, page, `href="/hosts/a.test"`, "an error leads to its host")
	require.NotContains(t, page, "<script>", "of which only src is ours")
	require.NotContains(t, page, "Log out")
	for _, words := range []string{"Stop refreshing", "Hosts not asked for now", "noted from the first look at this page on"} {
		require.Contains(t, page, words)
	}
	require.Contains(t, g.ask("GET", "/api", "").Body.String(), "/api/hosts/HOST/block")

	require.Contains(t, page, `<a id="in-active" href="?dir=desc&amp;sort=queued&amp;span=recent&amp;state=active#hosts">active <b>119</b></a>`)
	require.Contains(t, g.ask("GET", "/?q=nowhere", "").Body.String(), `No host matches. <a href="/#hosts">Show all</a>`)
	require.Contains(t, g.ask("GET", "/?q=H11&sort=host&page=77", "").Body.String(), "1 to 10 of 10 that match, of 120")
	w = g.ask("GET", "/hosts/a.test", "")
	require.Equal(t, 200, w.Code)
	require.Contains(t, w.Body.String(), "<h1>a.test</h1>")
	w = g.ask("GET", "/hosts/%3Cscript%3E%2F..", "")
	require.Equal(t, 404, w.Code)
	require.Contains(t, w.Body.String(), "Nothing is known of this host yet")
	require.NotContains(t, w.Body.String(), "<script>/")
	require.Equal(t, 303, g.ask("GET", "/login", "").Code, "there is no token to ask for")
	require.Equal(t, 200, g.ask("GET", "/assets/live.js", "").Code)
	require.Equal(t, 404, g.ask("GET", "/assets/doc.go", "").Code)
	require.Equal(t, 404, g.ask("GET", "/assets/..%2Fdoc.go", "").Code)
}

// What was changed by hand is shown, and the patterns of the scope stand in the form.
func TestPageOfChanges(t *testing.T) {
	changes := Controls{Blocked: []string{"b.test:8080"}, Ceilings: map[string]float64{"a.test": 2.5}, Include: []string{"/a", "<b>"}}
	g := newRig(t, "8080", "", func(_ *Config, c *Crawl) { c.Controls = func() Controls { return changes } })
	page := g.ask("GET", "/", "").Body.String()
	for _, part := range []string{
		`<a id="blocked-0" href="/hosts/b.test:8080">b.test:8080</a>`, `<a id="ceiling-0" href="/hosts/a.test">a.test</a> 2.5/s`,
		"only URLs that match <code>/a</code> or <code>&lt;b&gt;</code>.", "data-lines>/a\n&lt;b&gt;</textarea>", "data-lines></textarea>",
	} {
		require.Contains(t, page, part)
	}
	require.Contains(t, g.ask("GET", "/hosts/a.test", "").Body.String(), "now 2.5/s, set here; robots.txt allows 2/s; 0 is what the settings say")
	changes = Controls{Exclude: []string{"/x"}}
	for i := range 1000 {
		changes.Blocked = append(changes.Blocked, fmt.Sprintf("h%03d.test", i))
	}
	page = g.ask("GET", "/", "").Body.String()
	require.Contains(t, page, "every URL of its kind, but none that matches <code>/x</code>.")
	require.Contains(t, page, "950 more are not listed.")
	require.NotContains(t, page, "h050.test")
}

func TestLogin(t *testing.T) {
	g := newRig(t, "0.0.0.0:8080", token, nil)
	for _, path := range []string{"/", "/hosts/a.test"} {
		w := g.ask("GET", path, "")
		require.Equal(t, 303, w.Code, path)
		require.Equal(t, "/login", w.Header().Get("Location"))
		require.NotContains(t, w.Body.String(), "a.test")
	}
	require.Equal(t, 401, g.ask("GET", "/", "", "Authorization: Bearer wrong").Code)
	require.Equal(t, 200, g.ask("GET", "/login", "").Code)
	require.Equal(t, 200, g.ask("GET", "/assets/style.css", "").Code)

	status, cookie := g.enterWith(token)
	require.Equal(t, 303, status)
	require.True(t, cookie.HttpOnly)
	require.False(t, cookie.Secure)
	require.Equal(t, http.SameSiteStrictMode, cookie.SameSite)
	require.Equal(t, "treadlight_8080", cookie.Name)
	require.NotContains(t, cookie.Value, token, "the browser shows it to every port of this address")
	require.Contains(t, g.log(), "somebody logged in")

	with := "Cookie: " + cookie.Name + "=" + cookie.Value
	require.Contains(t, g.ask("GET", "/", "", with).Body.String(), "Log out")
	require.Equal(t, 200, g.ask("GET", "/api/snapshot", "", with).Code)
	require.Equal(t, 303, g.ask("GET", "/login", "", with).Code)
	require.Equal(t, 303, g.ask("GET", "/", "", with+"x").Code)
	g.clk.Advance(time.Minute)
	require.Equal(t, 401, g.ask("GET", "/api/snapshot", "", with+"x").Code)

	g.clk.Advance(sessionTime)
	require.Equal(t, 303, g.ask("GET", "/", "", with).Code, "it holds for a day")

	g.clk.Advance(time.Minute)
	_, cookie = g.enterWith(token, "Origin: https://localhost:8080")
	require.True(t, cookie.Secure, "the browser speaks TLS")
	with = "Cookie: " + cookie.Name + "=" + cookie.Value
	w := g.ask("POST", "/logout", "", isFormType, with, "Sec-Fetch-Site: same-origin")
	require.Equal(t, 303, w.Code)
	require.Equal(t, 303, g.ask("GET", "/", "", with).Code, "it is over here, too, and not in the browser alone")
}

// TestCookieGivesNoOrders has other pages use the cookie, which a browser may send along.
func TestCookieGivesNoOrders(t *testing.T) {
	for _, c := range []struct {
		headers []string
		status  int
	}{
		{[]string{isOrder, "Sec-Fetch-Site: same-origin"}, 200},
		{[]string{isOrder, "Origin: http://localhost:8080"}, 200},
		{[]string{isOrder}, 401},
		{[]string{isOrder, "Sec-Fetch-Site: none"}, 401},
		{[]string{isOrder, "Sec-Fetch-Site: same-site"}, 403},
		{[]string{isOrder, "Sec-Fetch-Site: cross-site"}, 403},
		{[]string{isOrder, "Origin: http://localhost:3000"}, 403},
		{[]string{isFormType, "Sec-Fetch-Site: same-origin"}, 415},
	} {
		g := newRig(t, "8080", token, nil)
		_, cookie := g.enterWith(token)
		require.NotNil(t, cookie)
		w := g.ask("POST", "/api/pause", "{}", append(c.headers, "Cookie: "+cookie.Name+"="+cookie.Value)...)
		require.Equal(t, c.status, w.Code, c.headers)
		require.Equal(t, c.status == 200, len(g.did) == 1, c.headers)
	}
}

// TestLoginIsNoWayToGuess counts the tries that a neighbour has before he is told to wait.
func TestLoginIsNoWayToGuess(t *testing.T) {
	g := newRig(t, "0.0.0.0:8080", token, nil)
	var got []int
	for range 4 {
		status, cookie := g.enterWith("a guess of sixteen bytes")
		require.Nil(t, cookie)
		got = append(got, status)
	}
	require.Equal(t, []int{401, 401, 429, 429}, got)
	require.Contains(t, g.ask("POST", "/login", "token=x", isFormType, "Sec-Fetch-Site: same-origin").Body.String(), `role="alert">These were too many tries.`)
	require.Equal(t, "2", g.value(t, `treadlight_console_refused_requests_total{reason="token"}`))
	require.Equal(t, 2, strings.Count(g.log(), "reason=token"))
	require.Equal(t, 200, g.ask("POST", "/api/pause", "{}", isOrder, bearer).Code, "the owner has his own account")
	status, _ := g.enterWith(token, "Sec-Fetch-Site: cross-site", "From-Address: 192.0.2.8:1")
	require.Equal(t, 403, status)
	require.Equal(t, 415, g.ask("POST", "/login", `{"token":"x"}`, "Content-Type: text/plain", "From-Address: 192.0.2.9:1").Code)
}

func TestSessionsAreBounded(t *testing.T) {
	g := newRig(t, "8080", token, nil)
	s := g.guard.sessions
	first := s.open()
	for range maxSessions {
		g.clk.Advance(time.Second)
		s.open()
	}
	require.Equal(t, maxSessions, s.ends.Len())
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", http.NoBody)
	require.NoError(t, err)
	r.AddCookie(s.cookie(r, first))
	require.False(t, s.knows(r), "the oldest went")
}

func TestStateOf(t *testing.T) {
	for _, c := range []struct {
		h    frontier.HostState
		s    breaker.State
		want dashboard.State
	}{
		{frontier.HostState{}, breaker.Closed, dashboard.Idle},
		{frontier.HostState{Queued: 1}, breaker.Closed, dashboard.Active},
		{frontier.HostState{InFlight: 1}, breaker.Closed, dashboard.Active},
		{frontier.HostState{Queued: 1, Reason: "rule"}, breaker.Closed, dashboard.Active},
		{frontier.HostState{Queued: 1, InFlight: 1, Reason: "per_host_max"}, breaker.Closed, dashboard.Active},
		{frontier.HostState{Queued: 1, Reason: pipeline.CrawlPaused}, breaker.Closed, dashboard.Paused},
		{frontier.HostState{Queued: 1, Reason: pipeline.ProxyFails + ": refused"}, breaker.Closed, dashboard.Paused},
		{frontier.HostState{Queued: 1, Blocked: true, Reason: "retry_after"}, breaker.Closed, dashboard.Refusing},
		{frontier.HostState{Queued: 1, Blocked: true}, breaker.Open, dashboard.Failing},
		{frontier.HostState{Queued: 1, Excluded: true}, breaker.Open, dashboard.Blocked},
	} {
		require.Equal(t, c.want, StateOf(&c.h, c.s), "%+v", c.h)
	}
}

// TestListIsShared counts the walks for many who look at a slow crawl, and the hosts of one that has too many.
func TestListIsShared(t *testing.T) {
	walks := 0
	g := newRig(t, "8080", "", nil)
	g.Console.crawl.EachHost = func(see func(frontier.HostState, ratelimit.Brief)) {
		walks++
		for range maxListed + 3 {
			see(frontier.HostState{Host: "h.test"}, ratelimit.Brief{})
		}
		g.clk.Advance(time.Second)
	}
	for range 10 {
		l := g.list()
		require.Len(t, l.rows, maxListed)
		require.Equal(t, 3, l.left)
	}
	require.Equal(t, 1, walks)
	g.clk.Advance(sharedTimes*time.Second - 1)
	g.list()
	require.Equal(t, 1, walks, "a tenth of the time goes into it at most")
	g.clk.Advance(1)
	g.list()
	require.Equal(t, 2, walks)
	g.Console.forget()
	g.list()
	require.Equal(t, 3, walks, "an order is seen at once")
	g.clk.Advance(2 * listTime)
	g.sample()
	require.Nil(t, g.listing.value.rows, "nobody looks")
}

// A page is no larger with ten thousand hosts than with a hundred, whatever is shown of them.
func TestPageOfManyHosts(t *testing.T) {
	hosts := 100
	g := newRig(t, "8080", "", func(_ *Config, c *Crawl) {
		c.EachHost = func(see func(frontier.HostState, ratelimit.Brief)) {
			for i := range hosts {
				see(frontier.HostState{Host: fmt.Sprintf("h%05d.test", i), Queued: 10_000 + i, Reason: "learned"}, ratelimit.Brief{FillRate: 2, AvgLatencyMS: 5})
			}
		}
	})
	few := len(g.ask("GET", "/?page=2", "").Body.String())
	hosts = 10_000
	g.clk.Advance(2 * listedFor)
	for _, query := range []string{"?page=2", "?state=active&sort=host", "?q=h0&page=300"} {
		page := g.ask("GET", "/"+query, "").Body.String()
		require.Contains(t, page, "10\u202f000")
		require.Less(t, len(page), few+2000, query)
		g.clk.Advance(time.Second)
	}
}

func TestMetersAreOfTheLargest(t *testing.T) {
	list := ranked([]dashboard.Count{{Name: "a", N: 496}, {Name: "b", N: 1000}})
	require.Equal(t, []dashboard.Count{{Name: "b", N: 1000, Percent: 100}, {Name: "a", N: 496, Percent: 50}}, list)
}
