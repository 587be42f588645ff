package docs_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/axe"
	"github.com/treadlight/crawl/internal/lab/realserver"
)

var shownAt = regexp.MustCompile(`http://127\.0\.0\.1:\d+/`)

// serveDocs runs `crawl docs` and returns its address.
func serveDocs(t *testing.T, bin string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "crawl"), "docs")
	said, err := cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		require.NoError(t, cmd.Wait())
	})
	line, err := bufio.NewReader(said).ReadString('\n')
	require.NoError(t, err)
	require.Regexp(t, shownAt, line)
	return shownAt.FindString(line)
}

// Our own audit finds no error in the site, and each page.
func TestAuditOfTheSite(t *testing.T) {
	c := newTerminal(t)
	out := c.run("crawl audit -o audit --strategy off --contact a@b.example --fail-on error,broken-fragment,orphan " + serveDocs(t, c.bin))
	pages := 0
	require.NoError(t, filepath.WalkDir(".", func(name string, _ os.DirEntry, err error) error {
		if filepath.Ext(name) == ".md" {
			pages++
		}
		return err
	}))
	var audit struct{ Totals struct{ Pages int } }
	require.NoError(t, json.Unmarshal([]byte(c.file("audit/audit.json")), &audit))
	require.GreaterOrEqual(t, audit.Totals.Pages, pages, "%s", out)
}

// reader is a Chromium that reads the site.
type reader struct {
	ctx      context.Context
	mu       sync.Mutex
	problems []string // what the pages log, and what they ask for elsewhere
}

// fine fails the test for what the pages have logged until now.
func (r *reader) fine(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	require.Empty(t, r.problems)
}

func openReader(t *testing.T) *reader {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		realserver.Need(t, "chromium")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
	t.Cleanup(cancel)
	ctx, free := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(patience),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"))...)
	t.Cleanup(free)
	ctx, leave := chromedp.NewContext(ctx)
	t.Cleanup(leave)
	r := &reader{ctx: ctx}
	require.NoError(t, chromedp.Do(ctx))
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			r.problems = append(r.problems, e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			r.problems = append(r.problems, e.Entry.Text+" "+e.Entry.URL)
		case *network.EventRequestWillBeSent:
			if u := e.Request.URL; !strings.HasPrefix(u, "http://127.0.0.1:") && !strings.HasPrefix(u, "file:") {
				r.problems = append(r.problems, "asks for "+u)
			}
		}
	}))
	_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	require.NoError(t, err)
	_, err = chromedp.Call(ctx, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	return r
}

// open opens a page in a window of that width.
func (r *reader) open(t *testing.T, address, scheme string, width int64) {
	t.Helper()
	_, err := chromedp.Call(r.ctx, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 900, DeviceScaleFactor: 1, Mobile: width < 600})
	require.NoError(t, err)
	_, err = chromedp.Call(r.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	require.NoError(t, err)
	require.NoError(t, chromedp.Do(r.ctx, chromedp.Navigate(address)))
}

func (r *reader) press(t *testing.T, keys string) {
	t.Helper()
	require.NoError(t, chromedp.Do(r.ctx, chromedp.KeyEvent(keys)))
}

func evaluate[T any](t *testing.T, r *reader, expression string) T {
	t.Helper()
	v, err := chromedp.Run(r.ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	require.NoError(t, err, expression)
	return v
}

// picture writes what the window shows into the directory that DASHBOARD_PICTURES names, if it does.
func (r *reader) picture(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("DASHBOARD_PICTURES")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(r.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "docs-"+name+".png"), png, 0o644))
}

// A person searches by the keyboard, in the site that the program serves and in the files.
func TestSearchOfTheSite(t *testing.T) {
	c := newTerminal(t)
	r := openReader(t)
	c.run("crawl docs -o manual")
	shown := func(query string, any bool) { // keys and the index come one after the other
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.Equal(c, query, evaluate[string](t, r, "document.querySelector('#query').value"))
			assert.Equal(c, any, evaluate[bool](t, r, "document.querySelector('#results a') !== null"))
			assert.Equal(c, !any, strings.Contains(evaluate[string](t, r, "document.querySelector('#count').textContent"), "Nothing"))
		}, patience, 20*time.Millisecond)
	}
	for name, home := range map[string]string{"files": (&url.URL{Scheme: "file", Path: filepath.Join(c.dir, "manual") + "/"}).String(), "served": serveDocs(t, c.bin)} {
		for query, want := range map[string]string{
			"max_retry_after":       "explanation/politeness.html#what-is-obeyed",
			"exit codes":            "reference/exit-codes.html",
			"glossary":              "reference/glossary.html",
			"resume kill":           "how-to/resume-and-recrawl.html",
			"two fiercely obscured": "",
		} {
			r.open(t, home+"how-to/install.html", "light", 1280)
			evaluate[bool](t, r, "document.querySelector('#query').focus(), true")
			r.press(t, query)
			shown(query, want != "")
			links := evaluate[[]string](t, r, "[...document.querySelectorAll('#results a')].map(a => a.getAttribute('href'))")
			if want == "" {
				require.Empty(t, links)
				continue
			}
			at := slices.IndexFunc(links, func(link string) bool { return strings.HasPrefix(link, "../"+want) })
			require.GreaterOrEqual(t, at, 0, "%s: %q is not found in %v", name, query, links)
			require.Less(t, at, 5, "%s: %q is found late in %v", name, query, links)
		}
		r.open(t, home+"index.html", "light", 1280)
		evaluate[bool](t, r, "document.dispatchEvent(new KeyboardEvent('keydown', {key: '/'}))") // the driver's own would also type it
		r.press(t, "retry-after")
		shown("retry-after", true)
		r.picture(t, "search-"+name)
		require.Equal(t, "retry-after", strings.ToLower(evaluate[string](t, r, "document.querySelector('#results mark').textContent")))
		target := evaluate[string](t, r, "document.querySelectorAll('#results a')[1].href")
		r.press(t, kb.ArrowDown+kb.ArrowDown)
		require.Equal(t, target, evaluate[string](t, r, "document.activeElement.href"))
		r.press(t, kb.Enter)
		require.Eventually(t, func() bool { return evaluate[string](t, r, "location.href") == target }, patience, 20*time.Millisecond)
	}
	r.fine(t)
}

// Nothing of a page is out of reach of people who use a keyboard, a screen reader, a phone or another scheme of colours.
func TestSiteIsAccessible(t *testing.T) {
	c := newTerminal(t)
	script, r := axe.Script(t), openReader(t)
	home := serveDocs(t, c.bin)
	for _, page := range []string{"index", "tutorial/first-crawl", "how-to/index", "reference/commands", "explanation/politeness"} {
		for _, v := range []struct {
			name, scheme string
			width        int64
		}{{"light", "light", 1280}, {"dark", "dark", 1280}, {"phone", "light", 390}} {
			r.open(t, home+page+".html", v.scheme, v.width)
			r.picture(t, strings.ReplaceAll(page, "/", "-")+"-"+v.name)
			require.LessOrEqual(t, evaluate[int64](t, r, "document.documentElement.scrollWidth"), v.width, "%s at %s scrolls sideways", page, v.name)
			require.NoError(t, chromedp.Do(r.ctx, chromedp.KeyEvent("\t")))
			require.Equal(t, "Skip to the content", evaluate[string](t, r, "document.activeElement.innerText"))
			evaluate[bool](t, r, script+"; true")
			require.Empty(t, evaluate[[]string](t, r, axe.Violations), "%s, %s", page, v.name)
		}
	}
	r.fine(t)
}
