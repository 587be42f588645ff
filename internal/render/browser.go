package render

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	cdpbrowser "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
	remotedp "github.com/chromedp/chromedp/remote"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// pagesPerBrowser bounds memory leaks, and what one page may leave behind for others.
	pagesPerBrowser = 100
	// startTime bounds the start of a browser.
	startTime = 30 * time.Second
	// slowStart is the time of a start after which a person is told of it.
	slowStart = 2 * time.Second
	// maxMemory bounds the memory of all processes of a browser together, in bytes, on systems where it can be read.
	maxMemory = 1536 << 20
	// maxHeap bounds the heap of the scripts of a page, in megabytes.
	maxHeap = 512
)

// programs lists the names of usable browsers, the preferred first.
var programs = []string{"chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome", "headless-shell", "chrome-headless-shell", "msedge"}

// places lists where browsers are installed outside of PATH.
var places = map[string][]string{
	"darwin":  {"/Applications/Chromium.app/Contents/MacOS/Chromium", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"},
	"windows": {`C:\Program Files\Google\Chrome\Application\chrome.exe`, `C:\Program Files (x86)\Google\Chrome\Application\chrome.exe`, `C:\Program Files (x86)\Microsoft\Edge\Application\msedge.exe`},
	"freebsd": {"/usr/local/bin/chrome"},
}

// installs has the commands that install Chromium, by system.
var installs = map[string]string{
	"linux":  "apt install chromium (Debian), dnf install chromium (Fedora), apk add chromium (Alpine)",
	"darwin": "brew install --cask chromium", "windows": "winget install Google.Chrome", "freebsd": "pkg install chromium",
}

// Install returns the command that installs Chromium on this system; empty if none is known.
func Install() string { return installs[runtime.GOOS] }

// Find returns the path of the browser: given, which is the name or path of a program, or, if it is empty, the first that
// is where browsers usually are. The error says how to get one.
func Find(given string) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err != nil {
			return "", fmt.Errorf("render.browser: %w: give the path of Chromium, or the URL of one that runs, as ws://127.0.0.1:9222", err)
		}
		return filepath.Abs(path)
	}
	for _, name := range append(programs, places[runtime.GOOS]...) {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("render.mode: there is no Chromium to render pages with: install it: %s; or name another one by --browser PATH, or one that runs by --browser ws://HOST:PORT", Install())
}

// browser is a Chromium that renders one page at a time. A nil browser is not running.
type browser struct {
	r    *Renderer
	hole *hole
	dir  string      // its profile; empty for a remote browser
	proc *os.Process // nil for a remote browser

	ctx  context.Context //nolint:containedctx // chromedp keeps the browser in it
	stop []func()        // ends it; called from the last to the first
	dead sync.Once

	now   atomic.Pointer[view] // the page that it renders; nil between pages
	pages int
}

// flags returns the flags of every browser. None of them is needed for safety: requests are answered by us or go to the
// hole. These avoid useless attempts.
func flags(r *Renderer, h *hole, dir string) []chromedp.ExecAllocatorOption {
	off := []string{
		"Translate", "OptimizationHints", "OptimizationGuideModelDownloading", "MediaRouter", "DialMediaRouteProvider", "AutofillServerCommunication",
		"CertificateTransparencyComponentUpdater", "NetworkTimeServiceQuerying", "InterestFeedContentSuggestions", "Prerender2", "BackForwardCache",
		"DnsOverHttps", "AsyncDns", "WebTransport", "LensOverlay", "HttpsUpgrades",
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(r.program), chromedp.UserDataDir(dir), chromedp.DisableGPU, chromedp.NoInheritEnv,
		chromedp.Flag("no-sandbox", false), // chromedp sets it for root
		chromedp.Flag("proxy-server", h.url()), chromedp.Flag("proxy-bypass-list", "<-loopback>"),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"),
		chromedp.Flag("force-webrtc-ip-handling-policy", "disable_non_proxied_udp"), chromedp.Flag("webrtc-ip-handling-policy", "disable_non_proxied_udp"),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-domain-reliability", true),
		chromedp.Flag("disable-background-mode", true), chromedp.Flag("no-pings", true), chromedp.Flag("disable-notifications", true),
		chromedp.Flag("disable-features", strings.Join(off, ",")), chromedp.Flag("disable-blink-features", "WebTransport"),
		chromedp.Flag("js-flags", fmt.Sprintf("--max-old-space-size=%d", maxHeap)), chromedp.Flag("disable-popup-blocking", false),
		chromedp.Flag("deny-permission-prompts", true), chromedp.Flag("window-size", "1280,1024"),
		chromedp.ModifyCmdFunc(func(cmd *exec.Cmd) { confine(cmd, dir) }),
	)
	if r.cfg.Agent != "" { // for scripts; requests carry the crawl's own User-Agent
		opts = append(opts, chromedp.UserAgent("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; "+r.cfg.Agent+") Chrome Safari/537.36"))
	}
	return opts
}

// start starts a browser, or connects to a remote one. The end of the context wanted ends the start, but not a started
// browser.
func start(wanted context.Context, r *Renderer) (b *browser, err error) {
	b = &browser{r: r}
	defer func() {
		if err != nil {
			b.end()
			err = explain(r, err)
		}
	}()
	ctx := context.Background()
	if r.program == "" {
		var free context.CancelFunc
		ctx, free = remotedp.NewAllocator(ctx, r.cfg.Browser)
		b.stop = append(b.stop, free)
	} else {
		if b.hole, err = newHole(r.cfg.Log); err != nil {
			return b, err
		}
		if b.dir, err = profile(); err != nil {
			return b, err
		}
		var free context.CancelFunc
		ctx, free = chromedp.NewExecAllocator(ctx, flags(r, b.hole, b.dir)...)
		b.stop = append(b.stop, free)
	}
	quiet := func(string, ...any) {}
	var leave context.CancelFunc
	b.ctx, leave = chromedp.NewContext(ctx, chromedp.WithBrowserOption(chromedp.WithBrowserErrorf(quiet), chromedp.WithBrowserLogf(quiet)))
	b.stop = append(b.stop, leave)
	late := time.AfterFunc(startTime, leave) //nolint:forbidigo // a watchdog for a browser that hangs
	defer late.Stop()
	defer context.AfterFunc(wanted, leave)()
	if err := chromedp.ListenBrowser(b.ctx, b.hear); err != nil {
		return b, err
	}
	if r.program != "" {
		b.proc = chromedp.FromContext(b.ctx).Browser.Process()
	}
	if _, err := chromedp.CallBrowser(b.ctx, fetch.Enable, fetch.EnableParams{}); err != nil {
		return b, err
	}
	if _, err := chromedp.CallBrowser(b.ctx, target.SetDiscoverTargets, target.SetDiscoverTargetsParams{Discover: true}); err != nil {
		return b, err
	}
	_, err = chromedp.CallBrowser(b.ctx, cdpbrowser.SetDownloadBehavior, cdpbrowser.SetDownloadBehaviorParams{Behavior: cdpbrowser.SetDownloadBehaviorBehaviorDeny})
	return b, err
}

// explain adds to the error of a browser that does not start what the user can do.
func explain(r *Renderer, err error) error {
	text := err.Error()
	switch {
	case r.program == "": // errors contain its URL, which may have a secret
		if u, err := url.Parse(r.cfg.Browser); err == nil {
			for _, secret := range []string{u.RawQuery, u.User.String()} {
				if secret != "" {
					text = strings.ReplaceAll(text, secret, "...")
				}
			}
		}
		return errors.New("render: the browser of --browser cannot be used: " + text)
	case strings.Contains(text, "sandbox") || strings.Contains(text, "namespace"):
		return fmt.Errorf("render: Chromium has no sandbox here, and is not run without one: allow user namespaces (in a container: a seccomp profile that does, "+
			"and --user), or give one that runs elsewhere by --browser ws://HOST:PORT: %w", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("render: Chromium cannot be started as another user than root: run the crawl as one, or give --browser ws://HOST:PORT: %w", err)
	}
	return fmt.Errorf("render: Chromium does not start: %w", err)
}

// profile creates a directory for the profile of a browser.
func profile() (string, error) {
	parent := os.TempDir()
	if _, err := os.Stat("/tmp"); err == nil && len(parent) > 40 {
		parent = "/tmp" // Chromium makes a socket there, and the system bounds the length of its name
	}
	dir, err := os.MkdirTemp(parent, "treadlight-browser-*")
	if err != nil {
		return "", err
	}
	return dir, giveAway(dir)
}

// hear handles the events of the browser's session. It must not block.
func (b *browser) hear(event any) {
	v := b.now.Load()
	switch e := event.(type) {
	case *fetch.EventRequestPaused:
		if v != nil && (local(e.Request.URL) || !v.begin()) {
			v = nil
		}
		go b.answer(v, e)
	case *target.EventTargetCreated:
		if v != nil && e.TargetInfo.OpenerID != "" {
			v.popup(e.TargetInfo)
		}
	case *target.EventTargetCrashed:
		if v != nil && e.TargetID == v.id {
			v.fail(errors.New("the page crashed the browser"))
		}
	}
}

// kill ends the processes of a browser, so that nothing waits for them.
func (b *browser) kill() {
	if b.proc != nil {
		killAll(b.proc)
	}
}

func (b *browser) alive() bool { return b.ctx.Err() == nil }

// end ends the browser with all its processes. A page that it renders is lost.
func (b *browser) end() {
	if b == nil {
		return
	}
	b.dead.Do(func() {
		b.kill() // at once: there is nothing to save
		for _, stop := range slices.Backward(b.stop) {
			stop()
		}
		if b.hole != nil {
			b.hole.close()
		}
		for range 20 { // processes that are being killed may still write
			if b.dir == "" || os.RemoveAll(b.dir) == nil {
				return
			}
			_ = clock.Sleep(context.Background(), clock.System(), 20*time.Millisecond)
		}
	})
}
