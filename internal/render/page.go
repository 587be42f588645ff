package render

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/css"
	"github.com/chromedp/cdproto/dom"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/record"

	ourfetch "github.com/treadlight/crawl/internal/fetch"
)

const (
	tick = 50 * time.Millisecond
	// guardEvery is how often the memory of the browser is checked.
	guardEvery = 500 * time.Millisecond
	// quiet is how long a page makes no request before it counts as finished; quietPress is the same after a button was
	// pressed.
	quiet, quietPress = 500 * time.Millisecond, 150 * time.Millisecond
	// settled bounds the time that a page takes after it is loaded, not counting its waits for responses.
	settled = 5 * time.Second
	// longest bounds a page with all its steps and all its waits for hosts.
	longest = 10 * time.Minute
	// polls is how many responses with data may take as long as settled before the page is taken to poll for updates.
	polls = 2
	// givenUp is how long a page without open requests may take until it reports that it is loaded.
	givenUp = 4 * time.Second
	// answerTime bounds a call to the browser. One that takes longer means that the page hangs.
	answerTime = 15 * time.Second

	maxLinks   = 1000  // links that the scripts of a page navigate to
	maxPicture = 16384 // height in pixels: what Chromium draws in one piece
)

var (
	errHangs  = errors.New("the page keeps the browser busy and does not come to its end")
	errLong   = fmt.Errorf("the page is not loaded after %v, in which it waits for hosts too: raise their rate or leave it out", longest)
	errMemory = errors.New("the page takes more memory than a browser may have")
)

// view is a page that a browser is rendering.
type view struct {
	b    *browser
	of   *rendering.Page
	ctx  context.Context //nolint:containedctx // ends with the crawl, or when the page is over
	tab  context.Context //nolint:containedctx // chromedp keeps the tab in it
	id   target.ID
	out  *rendering.Result
	gone chan struct{} // closed when the page has failed

	begun   time.Time
	answers sync.WaitGroup // counts the goroutines that answer requests of the page

	pictures map[string][]byte       // image and print of the page, by the extension of their files
	cookies  map[string]*http.Cookie // cookies given to the page, by cookieKey

	mu      sync.Mutex // guards what follows
	given   []string   // NAME=VALUE of each of cookies
	failed  error
	loaded  bool
	press   bool                     // buttons are being pressed: requests that may change something are not sent
	over    bool                     // requests are not answered any more
	pending map[fetch.RequestID]bool // requests in progress; true means that they are for data
	asked   int                      // requests passed to the crawl
	slow    int                      // responses with data that took as long as settled
	total   int                      // all requests of the page
	served  int                      // how often the page itself was served
	active  time.Time
	popups  map[target.ID]bool
	links   map[string]int // each with its place among them
}

// render renders a page. It returns no view if the browser did not get that far.
func (b *browser) render(ctx context.Context, of *rendering.Page) (v *view, err error) {
	b.pages++
	ctx, over := context.WithCancel(ctx)
	defer over()
	v = &view{
		b: b, of: of, ctx: ctx, gone: make(chan struct{}), popups: map[target.ID]bool{}, links: map[string]int{}, pictures: map[string][]byte{},
		out: &rendering.Result{Note: record.Rendered{Why: of.Why}}, begun: now(),
	}
	isolated := func(p *target.CreateBrowserContextParams) {
		if b.hole == nil { // a remote browser has flags of its own; nothing listens at port 9 of its machine
			p.ProxyServer, p.ProxyBypassList = "http://127.0.0.1:9", "<-loopback>"
		}
	}
	v.of = v.timed(of)
	tab, leave := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext(isolated), chromedp.WithListener(v.hear))
	defer func() {
		v.mu.Lock()
		v.over = true
		v.mu.Unlock()
		b.now.Store(nil)
		over()
		if err != nil {
			b.kill()
		}
		v.answers.Wait()                             // they read memory that the crawl takes back
		if err := chromedp.Cancel(tab); err != nil { // returns within five seconds
			b.pages = pagesPerBrowser // another page could get requests that this one still makes
		}
	}()
	defer context.AfterFunc(ctx, leave)()
	v.tab = tab
	if b.proc != nil {
		v.answers.Go(v.guardMemory)
	}
	if err := v.build(); err != nil {
		return v, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.out.Links = make([]string, len(v.links))
	for u, place := range v.links {
		v.out.Links[place] = u
	}
	return v, nil
}

// timed returns a copy of the page whose slow responses are counted. Their times do not include the waits for hosts.
func (v *view) timed(of *rendering.Page) *rendering.Page {
	out := *of
	out.Ask = func(ctx context.Context, s *rendering.Subrequest) (*ourfetch.Response, error) {
		resp, err := of.Ask(ctx, s)
		if resp != nil && !s.Code && resp.Timings.Total >= settled {
			v.mu.Lock()
			defer v.mu.Unlock()
			if v.loaded {
				v.slow++
			}
		}
		return resp, err
	}
	return &out
}

// build renders the page: it loads it, waits, does the steps, reads it and presses its buttons.
func (v *view) build() error {
	if err := v.open(); err != nil {
		return err
	}
	if err := v.settle(v.b.r.cfg.Timeout, quiet); err != nil {
		return err
	}
	for _, s := range v.b.r.cfg.Steps {
		if err := v.step(s); err != nil {
			return fmt.Errorf("step %s: %w", s.Do, err)
		}
	}
	if err := v.read(); err != nil {
		return err
	}
	if v.b.r.cfg.Press {
		return v.pressAll()
	}
	return nil
}

// open creates the tab and makes it load the page.
func (v *view) open() error {
	ctx, cancel := context.WithTimeout(v.tab, startTime)
	defer cancel()
	if err := chromedp.Do(v.tab); err != nil {
		return v.why(err)
	}
	v.mu.Lock()
	v.id = chromedp.FromContext(v.tab).Target.TargetID
	v.mu.Unlock()
	v.b.now.Store(v)
	for _, disable := range []cdp.Command[cdp.Empty, cdp.Empty]{css.Disable, dom.Disable} { // chromedp enables them; too costly for large pages
		if _, err := chromedp.Call(ctx, disable, cdp.Empty{}); err != nil {
			return v.why(err)
		}
	}
	if _, err := chromedp.Call(ctx, network.SetBypassServiceWorker, network.SetBypassServiceWorkerParams{Bypass: true}); err != nil {
		return v.why(err)
	}
	v.giveCookies(ctx)
	v.mu.Lock()
	v.loaded = false // so far the empty tab was loaded
	v.mu.Unlock()
	res, err := chromedp.Call(ctx, page.Navigate, page.NavigateParams{URL: v.of.URL.String()})
	if err == nil && res.ErrorText != "" {
		err = errors.New(res.ErrorText)
	}
	return v.why(err)
}

// why returns the reason of an error: that of the page, if it is known.
func (v *view) why(err error) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err == nil:
		return nil
	case v.failed != nil:
		return v.failed
	case v.ctx.Err() != nil:
		return v.ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return errHangs
	}
	return err
}

// fail ends the page with an error. The first error is kept.
func (v *view) fail(err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failed == nil {
		v.failed = err
		close(v.gone)
	}
}

// hear handles the events of the page. It must not block.
func (v *view) hear(event any) {
	switch e := event.(type) {
	case *page.EventLoadEventFired:
		v.mu.Lock()
		defer v.mu.Unlock()
		v.loaded, v.active = true, now()
	case *page.EventNavigatedWithinDocument:
		v.mu.Lock()
		main := string(e.FrameID) == string(v.id)
		v.mu.Unlock()
		if main {
			v.note(e.URL)
		}
	case *page.EventWindowOpen:
		v.note(e.URL)
	case *page.EventJavascriptDialogOpening:
		go func() { // otherwise the page would wait for a user
			_, _ = chromedp.Call(v.tab, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: e.Type == page.DialogTypeBeforeunload})
		}()
	}
}

// popup closes a window that the page has opened. Its URL becomes a link.
func (v *view) popup(info *target.Info) {
	v.mu.Lock()
	v.popups[info.TargetID] = true
	v.mu.Unlock()
	go func() {
		_, _ = chromedp.CallBrowser(v.b.ctx, target.CloseTarget, target.CloseTargetParams{TargetID: info.TargetID})
	}()
}

// guardMemory ends the browser when it uses too much memory, even while a call to it is in progress.
func (v *view) guardMemory() {
	for clock.Sleep(v.ctx, clock.System(), guardEvery) == nil {
		if memory(v.b.proc.Pid) > maxMemory {
			v.fail(errMemory)
			v.b.kill()
			return
		}
	}
}

// note adds a URL to which the page leads to its links.
func (v *view) note(u string) {
	u, _, _ = strings.Cut(u, "#")
	v.mu.Lock()
	defer v.mu.Unlock()
	_, known := v.links[u]
	if !strings.HasPrefix(u, "http") || len(u) > canonical.MaxLength || u == v.of.URL.String() || known || len(v.links) >= maxLinks {
		return
	}
	v.links[u] = len(v.links)
}

// wait lets time pass. It returns an error if the page or the crawl ends meanwhile.
func (v *view) wait(d time.Duration) error {
	timer := clock.System().NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-v.gone:
	case <-v.tab.Done():
	case <-v.ctx.Done():
	}
	if err := v.why(context.Canceled); !errors.Is(err, context.Canceled) || v.ctx.Err() != nil {
		return err
	}
	return errors.New("the browser has ended")
}

// late reports whether the time for the whole page is over.
func (v *view) late() bool { return now().Sub(v.begun) >= longest }

// awaited returns how many responses the page waits for. The caller holds the lock.
func (v *view) awaited() (n int) {
	for _, data := range v.pending {
		if !data || !v.loaded || v.slow < polls {
			n++
		}
	}
	return n
}

// settle waits until the page has made no request for a while and its scripts are idle. Waits for responses, and so for
// the rate of hosts, do not count for most, but for longest.
func (v *view) settle(most, still time.Duration) error {
	for own := time.Duration(0); ; {
		if err := v.wait(tick); err != nil {
			return err
		}
		v.mu.Lock()
		pending, total, loaded, rested := v.awaited(), v.total, v.loaded, now().Sub(v.active)
		v.mu.Unlock()
		if pending == 0 {
			own += tick
		}
		// A page that navigates away while it loads, to where we do not follow, never reports its end.
		if pending == 0 && rested >= still && (loaded || own >= givenUp) {
			if err := v.call("idle()", nil); err != nil {
				return err
			}
			v.mu.Lock()
			same := v.total == total
			v.mu.Unlock()
			if same {
				return nil
			}
		}
		switch {
		case own >= most && !loaded:
			return errHangs
		case own >= most, loaded && (own >= max(settled, still) || v.late()):
			return nil
		case v.late():
			return errLong
		}
	}
}

//go:embed page.js
var pageScript string

// call calls a function of page.js in an isolated world, and decodes its result into to.
func (v *view) call(expression string, to any) error {
	ctx, cancel := context.WithTimeout(v.tab, answerTime)
	defer cancel()
	world, err := chromedp.Call(ctx, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{FrameID: cdp.FrameID(v.id), WorldName: "treadlight"})
	if err != nil {
		return v.why(err)
	}
	return v.evaluate(ctx, world.ExecutionContextID, expression, to)
}

// evaluate calls a function of page.js in a world; zero is the world of the page itself.
func (v *view) evaluate(ctx context.Context, world runtime.ExecutionContextID, expression string, to any) error {
	yes := true
	res, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: "globalThis.treadlight ??= " + strings.TrimSpace(pageScript) + "; treadlight." + expression,
		ContextID:  world, ReturnByValue: &yes, AwaitPromise: &yes, IncludeCommandLineAPI: &yes, UserGesture: &yes,
	})
	if err != nil {
		return v.why(err)
	}
	if e := res.ExceptionDetails; e != nil {
		return fmt.Errorf("the page cannot be read: %s", e.Text)
	}
	if to == nil {
		return nil
	}
	return json.Unmarshal(res.Result.Value, to)
}

func quote(s string) string {
	text, _ := json.Marshal(s) // cannot fail for a string
	return string(text)
}

// read reads from the page what is wanted: its HTML, a screenshot, its cookies.
func (v *view) read() error {
	cfg := &v.b.r.cfg
	var html string
	if err := v.call(fmt.Sprintf("html(%d, %s)", cfg.MaxHTML, quote(v.of.URL.String())), &html); err != nil {
		return err
	}
	v.out.HTML = []byte("<!DOCTYPE html>" + html)
	if int64(len(v.out.HTML)) > cfg.MaxHTML {
		v.out.HTML, v.out.Truncated = bytes.ToValidUTF8(v.out.HTML[:cfg.MaxHTML], nil), true
	}
	ctx, cancel := context.WithTimeout(v.tab, 2*answerTime)
	defer cancel()
	if cfg.Screenshots != "" {
		size, err := chromedp.Call(ctx, page.GetLayoutMetrics, cdp.Empty{})
		if err != nil {
			return v.why(err)
		}
		yes := true
		clip := &page.Viewport{Width: min(size.CSSContentSize.Width, maxPicture), Height: min(size.CSSContentSize.Height, maxPicture), Scale: 1}
		shot, err := chromedp.Call(ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{Clip: clip, CaptureBeyondViewport: &yes})
		if err != nil {
			return v.why(err)
		}
		v.pictures[".png"] = shot.Data
	}
	v.keepCookies(ctx)
	return nil
}

func now() time.Time { return clock.System().Now() }
