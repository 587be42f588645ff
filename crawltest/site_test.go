package crawltest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/crawltest"
)

func TestFakeClock(t *testing.T) {
	begin := time.Now()
	crawltest.FakeClock(t, func(t *testing.T) {
		site := crawltest.Numbered(50)
		c, err := crawl.New(crawl.Options{Fetcher: site, Politeness: crawl.PolitenessOptions{Strategy: "fixed", InitialRPS: 1, MaxRPS: 1}})
		require.NoError(t, err)
		begin := time.Now()
		titles := map[string]bool{}
		for page, err := range c.Crawl(t.Context(), "http://shop.example/") {
			require.NoError(t, err)
			titles[page.Title()] = true
		}
		require.Len(t, titles, 50)
		require.InDelta(t, 50, time.Since(begin).Seconds(), 3, "robots.txt and fifty pages")
		last := time.Time{}
		for _, r := range site.Requests() {
			require.GreaterOrEqual(t, r.Time.Sub(last), 900*time.Millisecond, r.URL)
			last = r.Time
		}
		require.Equal(t, []int{1, 1, 0}, []int{site.Count("/robots.txt"), site.Count("http://shop.example/7"), site.Count("/51")})
	})
	t.Logf("took %v", time.Since(begin))
}
