package render

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/web/rendering"
)

// Scripts see the crawl's cookies but those that are HttpOnly, and the crawl gets those that they set.
func TestCookiesAreShared(t *testing.T) {
	const home = "https://site.test/shop/"
	jar, err := cookies.New(cookies.Config{})
	require.NoError(t, err)
	at := cookies.Origin{TLS: true, Host: "site.test", Path: "/shop/"}
	jar.Set(at, []string{`seen="1"; Path=/; Secure`, "secret=2; Path=/; HttpOnly", "wide=3; Domain=site.test; Path=/", "gone=4; Path=/shop/", "other=5; Path=/other"})
	s := &site{files: map[string]string{home: `<div id=root></div><script>root.textContent = "[" + document.cookie.split("; ").sort().join("; ") + "]";
document.cookie = "made=6; path=/"; document.cookie = "wide=7; domain=site.test; path=/"; document.cookie = "secret=8; path=/"; document.cookie = "gone=; path=/shop/; max-age=0"</script>`}}
	r := open(t, rendering.Config{Cookies: jar})
	for _, want := range []string{`[gone=4; seen="1"; wide=3]`, `[made=6; seen="1"; wide=7]`} {
		got, err := r.Render(t.Context(), s.page(t, home))
		require.NoError(t, err)
		require.Contains(t, string(got.HTML), want)
	}
	require.Equal(t, `seen="1"; secret=2; wide=7; made=6`, jar.Header(at))
}

// A response to a request of the page renews cookies that the page was given: the page's next request has what the jar
// has now, and the cookie keeps its end.
func TestRenewedCookies(t *testing.T) {
	const home = "https://site.test/"
	jar, err := cookies.New(cookies.Config{})
	require.NoError(t, err)
	at := cookies.Origin{TLS: true, Host: "site.test", Path: "/"}
	jar.Set(at, []string{"sid=1; Path=/; HttpOnly", "csrf=1; Path=/"})
	s := &site{files: map[string]string{"https://site.test/kill.js": "", "https://site.test/a.json": "{}", home: `<div id=root></div><script>
fetch("/kill.js").then(() => { document.cookie = "csrf=2; path=/"; return fetch("/a.json") }).then(() => root.textContent = "done")</script>`}}
	s.kill = func() { jar.Set(at, []string{"sid=2; Path=/; HttpOnly", "csrf=2; Path=/; Max-Age=3600"}) }
	got, err := open(t, rendering.Config{Cookies: jar}).Render(t.Context(), s.page(t, home))
	require.NoError(t, err)
	require.Contains(t, string(got.HTML), "done")
	require.Equal(t, "csrf=2", s.sent[slices.Index(s.asked, "https://site.test/a.json")])
	require.Equal(t, "sid=2; csrf=2", jar.Header(at))
	require.NotContains(t, string(jar.Export("site.test")), "\t0\tcsrf\t2")
}
