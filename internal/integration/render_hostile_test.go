package integration_test

import (
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var hostile = flag.Bool("render.hostile", false, "render pages that mean harm, some minutes")

// hostileScripts are pages that would hold a browser, leave it, or use it up.
var hostileScripts = map[string]string{
	"alerts":           `for (;;) alert(1);`,
	"confirms":         `while (!confirm("?")) ;`,
	"prompts":          `for (;;) prompt("?");`,
	"alerts-by-timers": `setInterval(() => alert(1));`,
	"busy":             `for (;;) ;`,
	"busy-after-load":  `onload = () => { for (;;) ; };`,
	"busy-timers":      `const f = () => { for (let i = 0; i < 1e7; i++) ; setTimeout(f); }; f();`,
	"microtasks":       `const f = () => Promise.resolve().then(f); f();`,
	"frames":           `const f = () => requestAnimationFrame(f); f();`,
	"idle":             `const f = () => requestIdleCallback(f); f();`,
	"intervals":        `for (let i = 0; i < 1e4; i++) setInterval(() => document.title += "x", 0);`,
	"reload":           `location.reload();`,
	"reload-late":      `onload = () => setTimeout(() => location.reload());`,
	"replace":          `location.replace("/h/replace?" + Math.random());`,
	"refresh":          `document.write("<meta http-equiv=refresh content=0>");`,
	"submit":           `document.write("<form method=post id=f></form>"); f.submit();`,
	"unload":           `onbeforeunload = e => { e.preventDefault(); e.returnValue = "x"; for (;;) alert(1); }; location = "/elsewhere";`,
	"push-state":       `for (let i = 0; i < 1e5; i++) try { history.pushState({}, "", "/h/" + i); } catch {}`,
	"hashes":           `setInterval(() => { location.hash = Math.random(); });`,
	"windows":          `for (let i = 0; i < 1000; i++) open("/w" + i);`,
	"windows-by-timer": `setInterval(() => { const w = open("about:blank"); if (w) w.opener.document.title = "x"; });`,
	"print":            `for (let i = 0; i < 100; i++) print();`,
	"fullscreen":       `setInterval(() => { document.documentElement.requestFullscreen().catch(() => {}); document.documentElement.requestPointerLock(); });`,
	"downloads":        `for (let i = 0; i < 200; i++) { const a = document.createElement("a"); a.href = URL.createObjectURL(new Blob(["x".repeat(1e6)])); a.download = "x" + i; a.click(); }`,
	"download":         `location = "data:application/octet-stream,x"; open("blob:x");`,
	"fetches":          `for (let i = 0; i < 1e4; i++) fetch("/data/" + i).catch(() => {});`,
	"images":           `for (let i = 0; i < 1e4; i++) new Image().src = "/i/" + i;`,
	"scripts":          `for (let i = 0; i < 1e4; i++) { const s = document.createElement("script"); s.src = "/s/" + i; document.documentElement.append(s); }`,
	"sync-requests":    `for (;;) { const x = new XMLHttpRequest(); x.open("GET", "/data/" + Math.random(), false); try { x.send(); } catch {} }`,
	"beacons":          `for (let i = 0; i < 1e4; i++) navigator.sendBeacon("/b", "x");`,
	"sockets":          `setInterval(() => { try { new WebSocket("ws://127.0.0.1:9"); new EventSource("/e"); } catch {} });`,
	"iframes":          `for (let i = 0; i < 500; i++) { const f = document.createElement("iframe"); f.src = "/h/iframes?" + i; document.documentElement.append(f); }`,
	"iframes-srcdoc":   `const s = "<iframe srcdoc='x'></iframe>".repeat(300); document.write(s);`,
	"workers":          `for (let i = 0; i < 300; i++) new Worker(URL.createObjectURL(new Blob(["for (;;) ;"])));`,
	"service-worker":   `navigator.serviceWorker.register("/sw.js"); new SharedWorker("/sw.js");`,
	"wide":             `document.write("<p>x".repeat(3e5));`,
	"deep":             `document.write("<div>".repeat(5e4));`,
	"long":             `document.write("<pre>" + "x".repeat(5e7));`,
	"grows":            `setInterval(() => { for (let i = 0; i < 1e4; i++) document.documentElement.append(document.createElement("a")); });`,
	"writes":           `for (let i = 0; i < 1e5; i++) document.write("<b>x");`,
	"observer":         `new MutationObserver(() => document.documentElement.append("x")).observe(document, {childList: true, subtree: true}); document.documentElement.append("x");`,
	"element":          `customElements.define("x-x", class extends HTMLElement { connectedCallback() { this.attachShadow({mode: "open"}).append(document.createElement("x-x")); } }); document.write("<x-x>");`,
	"buffers":          `const all = []; setInterval(() => { try { all.push(new Uint8Array(1e8).fill(1)); } catch {} });`,
	"heap":             `const all = []; for (;;) all.push(Array(1e5).fill({}).map(() => ({})));`,
	"strings":          `let s = "x"; for (;;) s += s + [s].join();`,
	"canvas":           `for (let i = 0; i < 50; i++) { const c = document.createElement("canvas"); c.width = c.height = 8000; c.getContext("2d").fillRect(0, 0, 8000, 8000); document.documentElement.append(c); }`,
	"regexp":           `/^(a+)+$/.test("a".repeat(40) + "b");`,
	"recursion":        `const f = () => f(); try { f(); } catch { f(); }`,
	"errors":           `setInterval(() => { throw new Error("x".repeat(1e5)); });`,
	"console":          `for (let i = 0; i < 1e6; i++) console.log("x".repeat(100), document);`,
	"debugger":         `for (;;) debugger;`,
	"storage":          `for (let i = 0; ; i++) { document.cookie = "c" + i + "=" + "x".repeat(4000); try { localStorage[i] = "x".repeat(1e6); } catch { break; } }`,
	"permissions":      `navigator.geolocation.getCurrentPosition(() => {}); navigator.mediaDevices?.getUserMedia({audio: true, video: true}); Notification.requestPermission(); navigator.clipboard?.readText();`,
	"prototypes":       `for (const k of Object.getOwnPropertyNames(Document.prototype)) try { Object.defineProperty(Document.prototype, k, {get() { for (;;) ; }}); } catch {} Array.prototype.map = JSON.stringify = () => { for (;;) ; };`,
	"close":            `close(); stop(); document.open(); document.documentElement?.remove();`,
}

// No page holds a crawl for longer than the documentation says, or ends it: each has a record, and those that mean no harm
// are rendered beside them and after them.
func TestHostilePagesAreRendered(t *testing.T) {
	if !*hostile {
		t.Skip("it takes some minutes: -render.hostile")
	}
	needChromium(t)
	const good = 5
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { http.NotFound(w, r) })
	mux.HandleFunc("/data/{n}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") })
	mux.HandleFunc("/good/{n}", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<p id=t>shell</p><script>t.innerHTML = "<a href=/built>built</a>"</script>`)
	})
	mux.HandleFunc("/h/{name}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "<!doctype html><p>x<script>%s</script>", hostileScripts[r.PathValue("name")])
	})
	_, origin := serve(t, mux)
	cfg := unpaced()
	cfg.Render.Mode, cfg.Depth, cfg.Fetch.Timeout = "always", 0, 5*time.Second
	var seeds []string
	for name := range hostileScripts {
		seeds = append(seeds, origin+"/h/"+name)
	}
	slices.Sort(seeds)
	for i := range good {
		seeds = slices.Insert(seeds, (i+1)*len(seeds)/good, fmt.Sprintf("%s/good/%d", origin, i))
	}
	got, _ := visit(t, cfg, seeds...)
	pages := byURL(t, got)
	for _, u := range seeds {
		r, ok := pages[u]
		require.True(t, ok, "%s has no record", u)
		failed := ""
		if r.Error != nil {
			failed = r.Error.Message
		}
		t.Logf("%-30s %6.1f s  %s", strings.TrimPrefix(u, origin), r.Timings.Render.Seconds(), failed)
		if strings.Contains(u, "/good/") {
			assert.Contains(t, r.Links, origin+"/built", u)
		}
	}
}
