package render

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/web/rendering"
)

// A page that never stops asking comes to its end: requests that are refused are not waited for, and not data that is a
// wait for news. Nothing of the page is used once it was handed back.
func TestPagesThatNeverRest(t *testing.T) {
	s := &site{files: map[string]string{
		home: `<p id=t>shell</p><script>t.textContent = "built";
const loop = () => fetch("/x", {method: "DELETE"}).catch(() => {}).then(loop);
for (let i = 0; i < 100; i++) loop();</script>`,
		home + "news": `<p id=t>shell</p><script>
const poll = () => fetch("/poll").then(r => r.text()).then(n => { t.textContent = "news " + n; poll(); });
onload = () => setTimeout(poll);</script>`,
	}}
	r := open(t, rendering.Config{})
	got := rendered(t, r, s.page(t, home))
	require.Contains(t, string(got.HTML), "built")

	page := s.page(t, home+"news")
	var polled, late atomic.Int64
	returned := make(chan struct{})
	page.Ask = func(ctx context.Context, _ *rendering.Subrequest) (*fetch.Response, error) {
		n := polled.Add(1)
		if n > polls {
			<-ctx.Done() // there are no more news
			select {
			case <-returned:
				late.Add(1)
			case <-time.After(200 * time.Millisecond):
			}
			return nil, ctx.Err()
		}
		return &fetch.Response{Status: 200, Header: http.Header{}, Body: fmt.Append(nil, n), Timings: fetch.Timings{Total: 25 * time.Second}}, nil
	}
	got, err := r.Render(t.Context(), page)
	close(returned)
	require.NoError(t, err)
	require.Contains(t, string(got.HTML), fmt.Sprintf("news %d", polls))
	r.Close()
	require.Zero(t, late.Load(), "a request goes on when the page was handed back")
}

// What is left out does not use up what a page may ask for.
func TestLeftOutRequestsAreNotCounted(t *testing.T) {
	pictures := new(strings.Builder)
	for i := range maxRequests + 10 {
		fmt.Fprintf(pictures, "<img src=/%d.png>", i)
	}
	s := &site{files: map[string]string{
		home:               `<p id=t>shell</p>` + pictures.String() + `<script>onload = () => fetch("/data.json").then(r => r.json()).then(n => t.textContent = "data " + n)</script>`,
		home + "data.json": "7",
	}}
	got := rendered(t, open(t, rendering.Config{}), s.page(t, home))
	require.Contains(t, string(got.HTML), "data 7")
	require.Equal(t, []string{home + "data.json"}, s.asked)
	require.GreaterOrEqual(t, got.Note.Refused, maxRequests)
}

// Links are read as people follow them, also when scripts have moved the page; a page that is too large is cut, and says so.
func TestMovedAndLargePages(t *testing.T) {
	s := &site{files: map[string]string{
		home:           `<head></head><script>history.replaceState({}, "", "/deep/dir/"); document.body.innerHTML = "<a href=x>x</a>"</script>`,
		home + "same":  `<head></head><script>location.hash = "part"; document.body.innerHTML = "<a href=x>x</a>"</script>`,
		home + "large": `<p id=t></p><script>t.textContent = "ü".repeat(1000)</script>`,
	}}
	r := open(t, rendering.Config{})
	got := rendered(t, r, s.page(t, home))
	require.Contains(t, string(got.HTML), `<head><base href="https://site.test/deep/dir/">`)
	require.False(t, got.Truncated)
	got = rendered(t, r, s.page(t, home+"same"))
	require.NotContains(t, string(got.HTML), "<base")

	r.cfg.MaxHTML = 1000
	got = rendered(t, r, s.page(t, home+"large"))
	require.True(t, got.Truncated)
	require.LessOrEqual(t, len(got.HTML), 1000)
	require.True(t, utf8.Valid(got.HTML))
}

// A browser that runs is taken before another one is started.
func TestIdleBrowsersAreTakenFirst(t *testing.T) {
	r := open(t, rendering.Config{Browsers: 2})
	require.NoError(t, r.Start(t.Context()))
	require.NoError(t, r.Start(t.Context()))
	running := 0
	for range cap(r.pool) {
		b := <-r.pool
		if b != nil {
			running++
		}
		r.pool <- b
	}
	require.Equal(t, 1, running)
}

// The end of a crawl does not wait for a browser that does not start.
func TestStartEnds(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the program is a shell script")
	}
	dir := must(os.MkdirTemp("", "hangs-*"))
	defer os.RemoveAll(dir)
	require.NoError(t, os.Chmod(dir, 0o755)) // for whom the browsers of root run as
	program := filepath.Join(dir, "chromium")
	require.NoError(t, os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 600\n"), 0o755))
	require.NoError(t, os.Chmod(program, 0o755))
	r := open(t, rendering.Config{Browser: program})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, r.Start(ctx), context.DeadlineExceeded)
}

// Scripts see the crawl's cookies but those that are HttpOnly, and the crawl gets those that they set.
func TestCookiesAreShared(t *testing.T) {
	const home = "https://site.test/shop/"
	jar := must(cookies.New(cookies.Config{}))
	at := cookies.Origin{TLS: true, Host: "site.test", Path: "/shop/"}
	jar.Set(at, []string{`seen="1"; Path=/; Secure`, "secret=2; Path=/; HttpOnly", "wide=3; Domain=site.test; Path=/", "gone=4; Path=/shop/", "other=5; Path=/other"})
	s := &site{files: map[string]string{home: `<div id=root></div><script>root.textContent = "[" + document.cookie.split("; ").sort().join("; ") + "]";
document.cookie = "made=6; path=/"; document.cookie = "wide=7; domain=site.test; path=/"; document.cookie = "secret=8; path=/"; document.cookie = "gone=; path=/shop/; max-age=0"</script>`}}
	r := open(t, rendering.Config{Cookies: jar})
	for _, want := range []string{`[gone=4; seen="1"; wide=3]`, `[made=6; seen="1"; wide=7]`} {
		got := rendered(t, r, s.page(t, home))
		require.Contains(t, string(got.HTML), want)
	}
	require.Equal(t, `seen="1"; secret=2; wide=7; made=6`, jar.Header(at))
}

// A response to a request of the page renews cookies that the page was given: the page's next request has what the jar
// has now, and the cookie keeps its end.
func TestRenewedCookies(t *testing.T) {
	jar := must(cookies.New(cookies.Config{}))
	at := cookies.Origin{TLS: true, Host: "site.test", Path: "/"}
	jar.Set(at, []string{"sid=1; Path=/; HttpOnly", "csrf=1; Path=/"})
	s := &site{files: map[string]string{"https://site.test/kill.js": "", "https://site.test/a.json": "{}", home: `<div id=root></div><script>
fetch("/kill.js").then(() => { document.cookie = "csrf=2; path=/"; return fetch("/a.json") }).then(() => root.textContent = "done")</script>`}}
	s.kill = func() { jar.Set(at, []string{"sid=2; Path=/; HttpOnly", "csrf=2; Path=/; Max-Age=3600"}) }
	got := rendered(t, open(t, rendering.Config{Cookies: jar}), s.page(t, home))
	require.Contains(t, string(got.HTML), "done")
	require.Equal(t, "csrf=2", s.sent[slices.Index(s.asked, "https://site.test/a.json")])
	require.Equal(t, "sid=2; csrf=2", jar.Header(at))
	require.NotContains(t, string(jar.Export("site.test")), "\t0\tcsrf\t2")
}
