package render

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch/cookies"
	"github.com/treadlight/crawl/internal/pipeline"
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
	r := open(t, pipeline.RenderConfig{Cookies: jar})
	for _, want := range []string{`[gone=4; seen="1"; wide=3]`, `[made=6; seen="1"; wide=7]`} {
		got, err := r.Render(t.Context(), s.page(t, home))
		require.NoError(t, err)
		require.Contains(t, string(got.HTML), want)
	}
	require.Equal(t, `seen="1"; secret=2; wide=7; made=6`, jar.Header(at))
}
