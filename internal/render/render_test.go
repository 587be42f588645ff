package render

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/realserver"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/rendering"
	"github.com/treadlight/crawl/internal/web/scripts"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// needChromium skips the test where there is none; CI has one.
func needChromium(t testing.TB) {
	t.Helper()
	if _, err := Find(""); err != nil {
		realserver.Need(t, "chromium")
	}
}

// home is the page of a site that most tests render.
const home = "https://site.test/"

// site answers what a page asks for.
type site struct {
	mu    sync.Mutex
	files map[string]string // by URL; missing: 404
	asked []string          // method and URL
	sent  []string          // cookies of each request
	kill  func()            // done when kill.js is asked for
}

func (s *site) ask(_ context.Context, r *rendering.Subrequest) (*fetch.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, strings.TrimSpace(r.Method+" "+r.Request.URL))
	s.sent = append(s.sent, r.Request.Cookie)
	if strings.HasSuffix(r.Request.URL, "/kill.js") {
		s.kill()
	}
	body, ok := s.files[r.Request.URL]
	resp := &fetch.Response{Status: 200, Header: http.Header{}, Body: []byte(body)}
	switch {
	case !ok:
		resp.Status = 404
	case strings.HasSuffix(r.Request.URL, ".js"):
		resp.Header.Set("Content-Type", "text/javascript")
	case strings.HasSuffix(r.Request.URL, ".json"):
		resp.Header.Set("Content-Type", "application/json")
	default:
		resp.Header.Set("Content-Type", "text/html; charset=utf-8")
	}
	return resp, nil
}

// page is a page of the site that is to be rendered.
func (s *site) page(t testing.TB, url string) *rendering.Page {
	t.Helper()
	u := must(canonical.Parse(url))
	return &rendering.Page{URL: u, Why: "test", Ask: s.ask, Resp: &fetch.Response{
		Status: 200, ContentType: "text/html", Header: http.Header{"Content-Type": {"text/html; charset=utf-8"}}, Body: []byte(s.files[url]),
	}}
}

func open(t testing.TB, cfg rendering.Config) *Renderer {
	t.Helper()
	needChromium(t)
	cfg.Timeout, cfg.MaxHTML, cfg.Log = 30*time.Second, 1<<20, slog.New(slog.DiscardHandler)
	r := must(New(cfg))
	t.Cleanup(r.Close)
	return r
}

// rendered renders a page, in which nothing goes wrong.
func rendered(t *testing.T, r *Renderer, page *rendering.Page) *rendering.Result {
	t.Helper()
	got, err := r.Render(t.Context(), page)
	require.NoError(t, err)
	return got
}

// A page that tries every way out reaches nobody, and gets what it may have.
func TestNothingGetsPastUs(t *testing.T) {
	var reached atomic.Int64
	tcp := must(net.Listen("tcp", "127.0.0.1:0"))
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	defer udp.Close()
	go func() {
		for {
			c, err := tcp.Accept()
			if err != nil {
				return
			}
			reached.Add(1)
			_ = c.Close()
		}
	}()
	go func() {
		for b := make([]byte, 64); ; {
			if _, _, err := udp.ReadFrom(b); err != nil {
				return
			}
			reached.Add(1)
		}
	}()
	out := tcp.Addr().String()
	s := &site{files: map[string]string{
		home: fmt.Sprintf(`<head><link rel=preconnect href="http://%[1]s"><link rel=dns-prefetch href="//other.test"><link rel=prefetch href="http://%[1]s/prefetch">
<link rel=preload as=image href="http://%[1]s/preload"><script src=a.js></script></head><body ping=x><p id=t>shell</p><iframe src="http://%[1]s/frame"></iframe>
<img src="http://%[1]s/img"><video src="http://%[1]s/video"></video><a id=a href="/next" ping="http://%[1]s/ping">x</a><script>
const o = "%[1]s", u = "%[2]s", done = [];
const tried = (name, f) => { try { const p = f(); done.push(name); if (p && p.catch) p.catch(() => {}); } catch (e) { done.push(name + " " + e.name); } };
tried("fetch", () => fetch("http://"+o+"/fetch", {mode: "no-cors"}));
tried("websocket", () => new WebSocket("ws://"+o+"/ws"));
tried("secure websocket", () => new WebSocket("wss://"+o+"/ws"));
tried("events", () => new EventSource("http://"+o+"/es"));
tried("beacon", () => navigator.sendBeacon("http://"+o+"/beacon", "x"));
tried("transport", () => new WebTransport("https://"+u+"/wt").ready);
tried("rtc", () => { const p = new RTCPeerConnection({iceServers: [{urls: "stun:"+u}, {urls: "turn:"+u, username: "a", credential: "b"}, {urls: "turn:"+o+"?transport=tcp", username: "a", credential: "b"}]});
  p.createDataChannel("x"); return p.createOffer().then(d => p.setLocalDescription(d)); });
tried("worker", () => new Worker("worker.js"));
tried("shared worker", () => new SharedWorker("worker.js"));
tried("service worker", () => navigator.serviceWorker.register("sw.js"));
tried("popup", () => window.open("http://"+o+"/popup"));
tried("ping", () => document.getElementById("a").click());
tried("rules", () => { const s = document.createElement("script"); s.type = "speculationrules";
  s.textContent = JSON.stringify({prefetch: [{source: "list", urls: ["http://"+o+"/spec"]}], prerender: [{source: "list", urls: ["/pre"]}]}); document.head.append(s); });
document.getElementById("t").textContent = done.join();
</script></body>`, out, udp.LocalAddr()),
		home + "a.js":      `document.documentElement.lang = "from-script"`,
		home + "worker.js": fmt.Sprintf(`fetch("http://%[1]s/w", {mode: "no-cors"}).catch(() => {}); new WebSocket("ws://%[1]s/ww"); self.onconnect = () => {}`, out),
		home + "sw.js":     fmt.Sprintf(`fetch("http://%[1]s/sw", {mode: "no-cors"}).catch(() => {}); new WebSocket("ws://%[1]s/sws")`, out),
	}}
	r := open(t, rendering.Config{Steps: []scripts.Step{{Do: "wait", Time: time.Second}}})
	got := rendered(t, r, s.page(t, home))
	require.Contains(t, string(got.HTML), "fetch,websocket,secure websocket,events,beacon", "the page has tried")
	require.Contains(t, string(got.HTML), "service worker", "and from a secure context")
	require.Contains(t, string(got.HTML), `lang="from-script"`)
	r.Close() // whatever was still to be sent
	require.Zero(t, reached.Load(), "the browser has reached a port by itself")
	require.Contains(t, s.asked, "http://"+out+"/fetch", "what is shown is asked for by us")
	for _, never := range []string{"/ws", "/es", "/beacon", "/prefetch", "/img", "/video", "/popup", "/ping", "/spec", "/preload"} {
		require.False(t, slices.ContainsFunc(s.asked, func(a string) bool { return strings.HasSuffix(a, never) }), never)
	}
	require.Contains(t, got.Links, "https://site.test/next", "a click that leads away is a link")
}

// What people see is read: what scripts put there, also in shadow roots, behind steps, and where buttons lead.
func TestRenderedPages(t *testing.T) {
	s := &site{files: map[string]string{
		home: `<div id=root></div><x-box></x-box><script src=app.js></script>`,
		home + "app.js": `
fetch("data.json").then(r => r.json()).then(l => { root.innerHTML = l.map(n => "<a href=/p/"+n+">"+n+"</a>").join(""); });
customElements.define("x-box", class extends HTMLElement { connectedCallback() { this.attachShadow({mode: "open"}).innerHTML = "<a href=/shadow>in the shadow</a>"; } });
let n = 0;
const more = document.createElement("button"); more.id = "more"; more.textContent = "more";
more.onclick = () => { n++; const a = document.createElement("a"); a.href = "/more/"+n; a.textContent = n; document.body.append(a); if (n === 3) more.remove(); };
document.body.append(more);
const go = document.createElement("div"); go.textContent = "go";
go.addEventListener("click", () => { history.pushState({}, "", "/pushed"); fetch("/secret", {method: "DELETE"}).catch(() => {}); location.href = "/left"; });
document.body.append(go);
alert("wait for me");
document.cookie = "a=b";`,
		home + "data.json":          `[1,2]`,
		"https://site.test/hangs":   `<div id=root></div><script>for (;;);</script>`,
		"https://site.test/crashes": `<div id=root></div><script src=kill.js></script>`,
	}}
	pictures := t.TempDir()
	r := open(t, rendering.Config{Press: true, Screenshots: pictures, Steps: []scripts.Step{{Do: "more", Selector: "#more"}, {Do: "scroll"}, {Do: "pdf"}}})
	got := rendered(t, r, s.page(t, home))
	for _, part := range []string{`href="/p/1"`, `href="/p/2"`, `href="/shadow"`, `href="/more/1"`, `href="/more/3"`} {
		require.Contains(t, string(got.HTML), part)
	}
	require.ElementsMatch(t, []string{home + "pushed", home + "secret", home + "left"}, got.Links)
	require.NotContains(t, s.asked, "DELETE "+home+"secret", "it may change something")
	for path, magic := range map[string]string{got.Note.Screenshot: "\x89PNG", got.Note.PDF: "%PDF"} {
		data := must(os.ReadFile(path))
		require.True(t, strings.HasPrefix(string(data), magic))
		require.Equal(t, pictures, filepath.Dir(path))
	}

	r.cfg.Timeout, r.cfg.Press, r.cfg.Steps = 2*time.Second, false, nil
	got, err := r.Render(t.Context(), s.page(t, home+"hangs"))
	require.ErrorIs(t, err, errHangs)
	require.Equal(t, "test", got.Note.Why)
	require.Empty(t, got.HTML)
	r.cfg.Timeout = 30 * time.Second
	_, err = r.Render(t.Context(), s.page(t, home))
	require.NoError(t, err, "the next page has another browser")

	b := <-r.pool
	r.pool <- b
	s.kill = b.kill
	got, err = r.Render(t.Context(), s.page(t, "https://site.test/crashes"))
	require.Error(t, err)
	require.Empty(t, got.HTML)
	_, err = r.Render(t.Context(), s.page(t, home))
	require.NoError(t, err)
}

// What is missing is said with what to do.
func TestFind(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	was := places
	places = nil
	t.Cleanup(func() { places = was })
	_, err := New(rendering.Config{})
	require.ErrorContains(t, err, "there is no Chromium to render pages with: install it: ")
	_, err = New(rendering.Config{Browser: "/nowhere/chromium"})
	require.ErrorContains(t, err, "render.browser: ")
	r := must(New(rendering.Config{Browser: "ws://user:secret@127.0.0.1:1/?token=secret"}))
	t.Cleanup(r.Close)
	err = r.Start(t.Context())
	require.ErrorContains(t, err, "render: the browser of --browser cannot be used: ")
	require.NotContains(t, err.Error(), "secret")
}

// However a crawl ends, no browser is left.
func TestNoBrowserIsLeft(t *testing.T) {
	r := open(t, rendering.Config{})
	require.NoError(t, r.Start(t.Context()))
	b := <-r.pool
	pid, dir := b.proc.Pid, b.dir
	r.pool <- b
	if os.Getuid() == 0 {
		status := must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))
		require.NotContains(t, string(status), "Uid:\t0\t", "not as root")
		cmdline := must(os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)))
		require.NotContains(t, string(cmdline), "no-sandbox")
	}
	r.Close()
	require.NoDirExists(t, dir)
	out, _ := exec.Command("pgrep", "-f", dir).Output()
	require.Empty(t, out)
	_, err := r.Render(t.Context(), (&site{}).page(t, "https://site.test/"))
	require.True(t, errors.Is(err, errClosed) || errors.Is(err, context.Canceled), err)
}

// must returns v, and panics for an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
