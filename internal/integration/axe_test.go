package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/axe"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/web/request"
)

// requireAccessible fails if the page that is open breaks a rule of accessibility, has another wordmark than the others,
// or scrolls sideways, in dark on a wide screen and in light on a phone.
func (b *browser) requireAccessible(t *testing.T, rules, name string) {
	t.Helper()
	value[bool](t, b, "document.querySelector('#freeze')?.click(), true") // a page that is renewed cannot be looked at
	value[bool](t, b, rules+"; true")
	for scheme, width := range map[string]int64{"light": 390, "dark": 1100} { // the colours are the same in each width
		b.size(t, width, 900, scheme)
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		got, err := chromedp.Run(ctx, chromedp.Evaluate[[]string](axe.Violations, chromedp.EvalAwaitPromise))
		cancel()
		require.NoError(t, err)
		b.picture(t, fmt.Sprintf("%s-%d-%s", name, width, scheme))
		assert.Empty(t, got, "%s, %d wide, %s", name, width, scheme)
		assert.LessOrEqual(t, value[int64](t, b, "document.documentElement.scrollWidth"), width, "%s scrolls sideways", name)
	}
	require.Equal(t, "Treadlight, bold", value[string](t, b,
		`(() => { const w = document.querySelector(".wordmark"); return w.innerText + (getComputedStyle(w).fontWeight === "700" ? ", bold" : ""); })()`), name)
}

// requireKeyboard goes through the page that is open with the key Tab, and fails if what can be operated is not reached
// or does not show the focus.
func (b *browser) requireKeyboard(t *testing.T, name string) {
	t.Helper()
	const operable = `[...document.querySelectorAll("a[href], button:not([disabled]), input:not([type=hidden]), summary, textarea, [tabindex='0']")]
		.filter((e) => e.checkVisibility())`
	value[bool](t, b, `document.activeElement.blur(), window.reached = new Set(), true`)
	n := value[int](t, b, operable+".length")
	require.Greater(t, n, 10, name)
	for range n {
		b.do(t, chromedp.KeyEvent("\t"))
		require.True(t, value[bool](t, b, `(() => { const e = document.activeElement; reached.add(e); return getComputedStyle(e).outlineStyle !== "none"; })()`),
			"%s: the focus does not show on %s", name, value[string](t, b, "document.activeElement.outerHTML"))
	}
	require.Empty(t, value[[]string](t, b, operable+".filter((e) => !reached.has(e)).map((e) => e.outerHTML)"), "%s: out of reach", name)
}

// The dashboard is accessible, and says what there is to say, in every state of a crawl.
func TestDashboardIsAccessible(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("it looks at a dozen pages")
	}
	rules := axe.Script(t)
	s := steer(t, assembly.ListenConfig{Addr: "127.0.0.1:0", Token: secret}, func(c *assembly.Config) {
		c.RateLimit.Strategy, c.RateLimit.InitialRPS, c.RateLimit.MaxRPS = "steer", 2, 40
	})
	b := openBrowser(t, s.console.URL())
	b.do(t, chromedp.Navigate(b.home), chromedp.WaitVisible(chromedp.CSS("#token")))
	b.requireAccessible(t, rules, "login")
	b.do(t, chromedp.SendKeys(chromedp.CSS("#token"), "not the token of it\n"))
	b.until(t, ".problem", "That is not the token")
	b.requireAccessible(t, rules, "login-wrong")
	b.do(t, chromedp.SendKeys(chromedp.CSS("#token"), secret+"\n"), chromedp.WaitVisible(chromedp.CSS("#totals")))
	b.until(t, "#hosts", "No host yet")
	b.requireAccessible(t, rules, "empty")

	site := shops(t)
	s.run(t)
	for i := range len(site.Report().Hosts) {
		require.NoError(t, s.crawler.AddSeed(site.URL(i), request.Request{}))
	}
	b.do(t, chromedp.Navigate(b.home))
	b.until(t, "#states", "failing")
	b.until(t, "#errors", hostOf(site, 0))
	b.size(t, 1100, 900, "light")
	b.do(t, chromedp.Navigate(b.home))
	for _, part := range []string{
		"#state .badge", "#pause", "#stop", "#totals dl div:nth-child(1)", "#totals dl div:nth-child(2)", "#totals dl div:nth-child(4)",
		"#totals dl div:nth-child(5)", "#totals > p", "#in-failing", "#hosts tbody .spark svg", "#hosts tbody small",
	} {
		require.True(t, value[bool](t, b, fmt.Sprintf("(document.querySelector(%q)?.getBoundingClientRect().bottom ?? 1e9) < 900", part)), "%s is not on the first screen", part)
	}
	b.requireAccessible(t, rules, "crawling")
	b.requireKeyboard(t, "crawling")
	b.do(t, chromedp.Navigate(b.home+"hosts/"+hostOf(site, 0)))
	b.until(t, "#events", "→")
	b.requireAccessible(t, rules, "host")
	b.requireKeyboard(t, "host")
	b.do(t, chromedp.Navigate(b.home+"hosts/unknown.test"))
	b.until(t, "#about", "Nothing is known")
	b.requireAccessible(t, rules, "unknown")

	s.order(t, "pause", "")
	b.do(t, chromedp.Navigate(b.home))
	b.until(t, "#state", "paused")
	b.until(t, "#totals", "the end of the pause")
	b.requireAccessible(t, rules, "paused")
	s.order(t, "stop", "")
	s.end(t)
	b.do(t, chromedp.Navigate(b.home))
	b.until(t, "#state", "interrupted")
	b.requireAccessible(t, rules, "finished")
	b.do(t, chromedp.Navigate(b.home))
	s.leave()
	b.until(t, "#state", "no connection")
	b.until(t, "#said", "Nobody answers")
	b.requireAccessible(t, rules, "lost")
}

// The reports of a crawl and of an audit are accessible.
func TestReportsAreAccessible(t *testing.T) {
	t.Parallel() // it mostly waits
	if testing.Short() {
		t.Skip("it builds the program")
	}
	rules := axe.Script(t)
	needChromium(t)
	dir := t.TempDir()
	run := func(name string, args ...string) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s %q: %s", name, args, out)
	}
	program := filepath.Join(dir, "crawl")
	run("go", "build", "-buildvcs=false", "-o", program, "../../cmd/crawl")
	site := serveSite(t, testsite.Config{Base: "127.0.2.1", Hosts: []testsite.Host{{Name: "shop", Pages: 60, Missing: 5}}})
	kept, audit := filepath.Join(dir, "kept"), filepath.Join(dir, "audit")
	run(program, "-q", "--strategy", "off", "-o", kept+"/", site.URL(0))
	run(program, "report", kept, "--html", filepath.Join(dir, "report.html"))
	run(program, "audit", "-q", "--strategy", "off", "--fail-on", "none", "-o", audit, site.URL(0))
	_, home := serve(t, http.FileServer(http.Dir(dir)))
	b := openBrowser(t, home)
	for name, path := range map[string]string{"report": "/report.html", "audit": "/audit/report.html"} {
		b.do(t, chromedp.Navigate(home+path), chromedp.WaitVisible(chromedp.CSS("h1")))
		value[bool](t, b, "document.querySelectorAll('details').forEach((d) => { d.open = true; }), true")
		b.requireAccessible(t, rules, name)
	}
}
