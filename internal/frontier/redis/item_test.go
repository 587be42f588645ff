//go:build unix

package redis

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// What is stored comes back.
func TestItem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host := rapid.SampledFrom([]string{"a.test", "a.test:8080", "[::1]:80"}).Draw(t, "host")
		u, err := canonical.Parse(rapid.SampledFrom([]string{"http://", "https://"}).Draw(t, "scheme") + host + "/" + rapid.StringMatching(`[a-z/?=&]{0,20}`).Draw(t, "path"))
		require.NoError(t, err)
		it := frontier.Item{
			URL: u, Queued: time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "queued")),
			Found: frontier.Found{
				Referrer: rapid.SampledFrom([]string{"", u.String(), "http://a.test/x", "https://b.test/"}).Draw(t, "referrer"),
				Depth:    rapid.Int32Min(0).Draw(t, "depth"), Hops: rapid.Uint8().Draw(t, "hops"),
				Seed: rapid.Bool().Draw(t, "seed"), FoundOn: rapid.Int64().Draw(t, "found on"),
			},
			Tries: attribution.Tries{
				Attempt: rapid.Uint8().Draw(t, "attempt"), Returns: rapid.Uint16().Draw(t, "returns"),
				URLFailures: rapid.Uint8().Draw(t, "failures of the URL"),
			},
			Kind:    rapid.SampledFrom([]frontier.Kind{frontier.Page, frontier.Sitemap}).Draw(t, "kind"),
			Request: rapid.SampledFrom([]string{"", "POST\n{}", "\n" + strings.Repeat("x", 1<<16)}).Draw(t, "request"),
		}
		text := encode(host, &it)
		got, err := decode(host, text)
		require.NoError(t, err)
		require.Equal(t, it, got)
		require.LessOrEqual(t, len(text), len(u.String())+len(it.Referrer)+len(it.Request)+48)
	})
}

// Whatever a server returns is no item, or one that is stored as it was read.
func FuzzDecode(f *testing.F) {
	u, err := canonical.Parse("http://a.test/b?c")
	require.NoError(f, err)
	f.Add("a.test", encode("a.test", &frontier.Item{URL: u, Found: frontier.Found{Referrer: "http://a.test/", Depth: 3}, Queued: noon}))
	f.Add("b.test", encode("b.test", &frontier.Item{URL: u, Queued: noon, Found: frontier.Found{Seed: true}}))
	f.Add("a.test", "\x01\x1f")
	f.Fuzz(func(t *testing.T, host, text string) {
		it, err := decode(host, text)
		if err != nil {
			return
		}
		again, err := decode(host, encode(host, &it))
		require.NoError(t, err)
		require.Equal(t, it, again)
	})
}
