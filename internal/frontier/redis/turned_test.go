package redis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
)

// Pages of a host count for its bound, whatever else of it is known; one that is refused makes
// room for another, also for one that was found when there was none.
func TestBoundCountsPages(t *testing.T) {
	r := newRig(t)
	a := r.open(func(c *Config) { c.MaxPagesPerHost = 2 })
	for _, url := range []string{"http://a.test/map1", "http://a.test/map2", "http://a.test/map3"} {
		it := item(t, url)
		it.Kind = frontier.Sitemap
		a.Put("a.test", it, it.URL.Fingerprint(a.Key()), true)
	}
	put(t, a, "http://a.test/1", "http://a.test/2", "http://a.test/3")
	flush(t, a)
	require.EqualValues(t, 1, a.counts.refused.Load())
	third := item(t, "http://a.test/3").URL.Fingerprint(a.Key())
	require.Equal(t, 5, rouse(t, a, 1).Hosts[0].Pages, "all that is known")
	urls, got := load(t, a, "a.test", 9)
	require.Len(t, urls, 5)
	done := func(i int, refused bool) {
		a.Done(got.Items[i].URL.Host(), &got.Items[i], frontier.Visit{Refused: refused})
		flush(t, a)
	}
	done(0, true) // a sitemap
	done(3, false)
	put(t, a, "http://a.test/3", "http://a.test/4")
	flush(t, a)
	require.EqualValues(t, 3, a.counts.refused.Load())
	require.False(t, a.Known(third), "there may be room for it later")
	done(4, true)
	put(t, a, "http://a.test/3", "http://a.test/5")
	flush(t, a)
	urls, _ = load(t, a, "a.test", 9)
	require.Equal(t, []string{"http://a.test/3"}, urls)
	require.EqualValues(t, 4, a.counts.refused.Load())
}
