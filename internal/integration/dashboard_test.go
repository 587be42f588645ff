package integration_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/realserver"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/web/request"
)

// patience bounds what a browser may take on a machine that has much else to do.
const patience = 2 * time.Minute

// browser is a Chromium that looks at a console.
type browser struct {
	ctx  context.Context
	home string

	mu       sync.Mutex // guards what follows
	foreign  []string   // requests to anywhere else
	problems []string   // of the console that developers see
	requests int
}

// openBrowser starts Chromium, or skips the test where there is none; CI has one.
func openBrowser(t *testing.T, home string) *browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		realserver.Need(t, "chromium")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1")) // what Chromium itself would ask for
	ctx, free := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(free)
	ctx, leave := chromedp.NewContext(ctx)
	t.Cleanup(leave)
	b := &browser{ctx: ctx, home: home}
	require.NoError(t, chromedp.Do(ctx))
	require.NoError(t, chromedp.Listen(ctx, b.hear))
	call(t, b, network.Enable, network.EnableParams{})
	call(t, b, log.Enable, cdp.Empty{})
	t.Cleanup(func() { require.NoError(t, chromedp.Cancel(ctx)) })
	return b
}

func call[P, R any](t *testing.T, b *browser, c cdp.Command[P, R], params P) {
	t.Helper()
	_, err := chromedp.Call(b.ctx, c, params)
	require.NoError(t, err)
}

// hear keeps what must not happen.
func (b *browser) hear(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		b.requests++
		if !strings.HasPrefix(e.Request.URL, b.home) {
			b.foreign = append(b.foreign, e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		b.problems = append(b.problems, e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		b.problems = append(b.problems, fmt.Sprintf("console.%s", e.Type))
	case *log.EventEntryAdded:
		b.problems = append(b.problems, e.Entry.Text+" "+e.Entry.URL)
	}
}

func (b *browser) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx, steps...))
}

// value is that of an expression in the page.
func value[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	require.NoError(t, err, expression)
	return v
}

// text is what an element shows.
func (b *browser) text(t *testing.T, selector string) string {
	t.Helper()
	return value[string](t, b, fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector))
}

// until waits for an element to show something.
func (b *browser) until(t *testing.T, selector, part string) {
	t.Helper()
	require.Eventually(t, func() bool { return strings.Contains(b.text(t, selector), part) }, patience, 50*time.Millisecond, "%s never shows %q", selector, part)
}

// picture writes a screenshot into the directory that DASHBOARD_PICTURES names, if it does.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("DASHBOARD_PICTURES")
	if dir == "" {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644))
}

func (b *browser) size(t *testing.T, width, height int64, scheme string) {
	t.Helper()
	call(t, b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600})
	call(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
}

// shops are hosts with limits that the controller has to find, and one that has none.
func shops(t *testing.T) *testsite.Site {
	return serveSite(t, testsite.Config{Base: "127.0.2.1", Hosts: []testsite.Host{
		{
			Name: "shop", Pages: 100_000, Limit: testsite.Limit{Rate: 12, Burst: 3}, Missing: 200,
			Latency: testsite.Latency{Typical: 30 * time.Millisecond},
			Refusal: testsite.Refusal{RetryAfter: "seconds", Wait: time.Second},
		},
		{Name: "wiki", Pages: 100_000},
		{Name: "down", Pages: 1000, Outages: []testsite.Outage{{Mode: "reset", For: time.Hour}}},
		{Name: "small", Count: 60, Pages: 5},
	}})
}

// still waits until a host is asked for nothing during half a second, and returns how long that took to begin.
func still(t *testing.T, site *testsite.Site, host int) time.Duration {
	t.Helper()
	asked := func() int64 { return site.Report().Hosts[host].Requests }
	begun := time.Now()
	last, since := asked(), begun
	require.Eventually(t, func() bool {
		if n := asked(); n != last {
			last, since = n, time.Now()
		}
		return time.Since(since) > 500*time.Millisecond
	}, patience, 10*time.Millisecond, "it is asked on and on")
	return since.Sub(begun)
}

// goesOn waits until a host is asked again.
func goesOn(t *testing.T, site *testsite.Site, host int) {
	t.Helper()
	before := site.Report().Hosts[host].Requests
	require.Eventually(t, func() bool { return site.Report().Hosts[host].Requests > before }, patience, 10*time.Millisecond, "nothing is asked")
}

// hostOf is the name of a host of a site.
func hostOf(site *testsite.Site, i int) string {
	return strings.Trim(strings.TrimPrefix(site.URL(i), "http://"), "/")
}

// look begins a crawl of the shops with a browser that looks at it.
func look(t *testing.T, lc assembly.ListenConfig) (*steered, *testsite.Site, *browser) {
	t.Helper()
	s := steer(t, lc, func(c *assembly.Config) {
		c.RateLimit.Strategy, c.RateLimit.InitialRPS, c.RateLimit.MaxRPS = "steer", 2, 40
	})
	b := openBrowser(t, s.console.URL())
	site := shops(t)
	s.run(t)
	for i := range len(site.Report().Hosts) {
		require.NoError(t, s.crawler.AddSeed(site.URL(i), request.Request{}))
	}
	return s, site, b
}

// requireClean fails if the pages asked for anything elsewhere, or had errors.
func (b *browser) requireClean(t *testing.T) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	require.Empty(t, b.foreign, "requests to anywhere else")
	require.Empty(t, b.problems, "errors of the pages")
	require.Positive(t, b.requests)
}

// A person logs in, looks at a crawl and steers it, and the hosts notice.
func TestDashboardInABrowser(t *testing.T) {
	t.Parallel() // it mostly waits
	s, site, b := look(t, assembly.ListenConfig{Addr: "127.0.0.1:0", Token: secret})
	const shop, wiki = 0, 1
	b.size(t, 1280, 900, "light")
	b.do(t, chromedp.Navigate(b.home), chromedp.WaitVisible(chromedp.CSS("#token")))
	b.picture(t, "login")
	b.do(t, chromedp.SendKeys(chromedp.CSS("#token"), secret+"\n"), chromedp.WaitVisible(chromedp.CSS("#totals")))
	require.Empty(t, value[string](t, b, "document.cookie"), "no script sees it")

	before := b.text(t, "#totals")
	require.Eventually(t, func() bool { return b.text(t, "#totals") != before }, patience, 100*time.Millisecond, "the numbers stand still")
	b.do(t, chromedp.KeyEvent("\t"))
	require.Equal(t, "Skip to the content", value[string](t, b, "document.activeElement.innerText"))

	b.do(t, chromedp.Navigate(b.home+"hosts/"+hostOf(site, wiki)), chromedp.WaitVisible(chromedp.CSS("#max")))
	b.steer(t, site, wiki)

	b.do(t, chromedp.Navigate(b.home), chromedp.Click(chromedp.CSS("summary")), chromedp.WaitVisible(chromedp.CSS("#exclude")))
	require.Eventually(t, func() bool {
		return value[bool](t, b, "document.querySelector('#exclude').focus(), document.activeElement.id == 'exclude'")
	}, patience, 100*time.Millisecond, "it takes the focus once it is laid out")
	b.do(t, chromedp.SendKeys(chromedp.CSS("#exclude"), "/private/\n[0-9]{9}"), chromedp.Click(chromedp.CSS("#rescope")))
	b.until(t, "#changed", "none that matches /private/ or [0-9]{9}")
	require.Equal(t, "/private/\n[0-9]{9}", value[string](t, b, "document.querySelector('#exclude').value"), "it is there to be changed again")
	b.picture(t, "changed")

	b.do(t, chromedp.Click(chromedp.CSS("#pause")))
	b.until(t, "#state", "paused")
	t.Logf("paused: the last request came %v after the page said so", still(t, site, shop))
	b.picture(t, "paused")
	b.do(t, chromedp.Click(chromedp.CSS("#resume")))
	goesOn(t, site, shop)
	b.until(t, "#state", "running")

	b.do(t, chromedp.Click(chromedp.CSS("#stop")), chromedp.WaitVisible(chromedp.CSS("#ask")))
	b.do(t, chromedp.KeyEvent("\n")) // the focus is on No
	b.do(t, chromedp.Click(chromedp.CSS("#stop")), chromedp.Click(chromedp.CSS("#ask [value=yes]")))
	b.until(t, "#state", "interrupted")
	b.requireClean(t)
	require.Contains(t, s.log.String(), "order=stop")
	require.Contains(t, s.log.String(), "order=scope")
}

// steer blocks a host and gives it a ceiling by the page that is open.
func (b *browser) steer(t *testing.T, site *testsite.Site, host int) {
	t.Helper()
	goesOn(t, site, host)
	b.do(t, chromedp.Click(chromedp.CSS("#block")))
	b.until(t, "#about", "blocked")
	t.Logf("blocked: the last request came %v after the page said so", still(t, site, host))
	b.do(t, chromedp.Click(chromedp.CSS("#block")))
	goesOn(t, site, host)

	b.do(t, chromedp.SendKeys(chromedp.CSS("#max"), "2\n"))
	b.until(t, "#max-now", "now 2")
	require.Eventually(t, func() bool {
		from, begun := site.Report().Hosts[host].Requests, time.Now()
		time.Sleep(1500 * time.Millisecond)
		made := float64(site.Report().Hosts[host].Requests - from)
		return made <= 1+2*time.Since(begun).Seconds() // 2 a second, and one at an end
	}, patience, time.Millisecond, "the ceiling is not kept")
}

// TestDashboardPictures looks at the pages as a person would, while the controller finds a
// host's limit, in the colours and widths that there are.
func TestDashboardPictures(t *testing.T) {
	t.Parallel() // it mostly waits
	_, site, b := look(t, assembly.ListenConfig{Addr: "127.0.0.1:0"})
	shop := b.home + "hosts/" + hostOf(site, 0)
	b.size(t, 1280, 900, "light")
	b.do(t, chromedp.Navigate(shop))
	for _, part := range []string{"#chart-rate .mark-cut", "#chart-rate .mark-rise", "#chart-rate .band-open"} {
		require.Eventually(t, func() bool {
			return value[int](t, b, fmt.Sprintf("document.querySelectorAll(%q).length", part)) > 0
		}, patience, 100*time.Millisecond, "%s is not drawn", part)
	}
	require.Eventually(t, func() bool {
		return value[int](t, b, "document.querySelector('#chart-rate path.line-a').getAttribute('d').length") > 50
	}, patience, 100*time.Millisecond, "the rate is not drawn")
	time.Sleep(3 * time.Second) // some of the cruise, for the pictures
	for _, v := range []struct {
		name, scheme string
		width        int64
	}{{"light", "light", 1280}, {"dark", "dark", 1280}, {"phone", "light", 360}, {"phone-dark", "dark", 360}} {
		b.size(t, v.width, 900, v.scheme)
		for _, page := range []struct{ name, url string }{{"overview", b.home}, {"host", shop}} {
			b.do(t, chromedp.Navigate(page.url), chromedp.WaitVisible(chromedp.CSS(".chart svg")))
			if page.name == "overview" {
				require.True(t, value[bool](t, b, "document.querySelector('#hosts tbody .spark path').getBoundingClientRect().top < innerHeight"), "the first host's rate is not on the first screen")
			}
			b.picture(t, page.name+"-"+v.name)
			require.LessOrEqual(t, value[int64](t, b, "document.documentElement.scrollWidth"), v.width, "%s at %s scrolls sideways", page.name, v.name)
		}
	}
	b.do(t, chromedp.Navigate(b.home+"?state=failing&sort=host"))
	b.until(t, "#hosts", hostOf(site, 2)) // its circuit opens after some tries
	b.do(t, chromedp.SendKeys(chromedp.CSS("#url"), site.URL(0)+"\n"))
	b.until(t, "#said", "seeds")
	b.requireClean(t)
}
