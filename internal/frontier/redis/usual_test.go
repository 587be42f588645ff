package redis

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
)

// What is no sitemap at the usual place, and is linked to, is a page once, whichever process has
// looked there, and whether the link is found before that or after.
func TestLinkToWhereNoSitemapIs(t *testing.T) {
	const at = "http://a.test/sitemap.xml"
	link := func(s *Store) {
		t.Helper()
		put(t, s, at)
		flush(t, s)
	}
	look := func(s *Store) {
		t.Helper()
		it := item(t, at)
		it.Kind = frontier.Sitemap
		s.Put("a.test", it, it.URL.Fingerprint(s.Key()), true)
		flush(t, s)
	}
	done := func(absent bool) func(*Store) {
		return func(s *Store) {
			t.Helper()
			_, got := load(t, s, "a.test", 9)
			for i := range got.Items {
				it := &got.Items[i]
				s.Done(it.URL.Host(), it, frontier.Visit{Absent: absent && it.Kind == frontier.Sitemap})
			}
			flush(t, s)
		}
	}
	none, there := done(true), done(false)
	type step struct {
		who int
		do  func(*Store)
	}
	for name, c := range map[string]struct {
		steps []step // of two processes, the first of which has the host
		pages int    // to be visited after them
	}{
		"found after it":          {[]step{{0, look}, {0, none}, {1, link}}, 1},
		"found by who looked":     {[]step{{0, look}, {0, none}, {0, link}}, 1},
		"found before":            {[]step{{0, look}, {1, link}, {0, none}}, 1},
		"found twice":             {[]step{{0, look}, {1, link}, {0, link}, {0, none}, {1, link}}, 1},
		"looked for by the other": {[]step{{0, look}, {1, look}, {0, none}, {1, link}}, 1},
		"nobody links to it":      {[]step{{0, look}, {0, none}}, 0},
		"it is a sitemap":         {[]step{{0, look}, {1, link}, {0, there}, {1, link}}, 0},
		"nobody has looked":       {[]step{{1, link}, {0, look}}, 1},
		"it was a page before":    {[]step{{1, link}, {0, there}, {0, look}, {0, link}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			both := []*Store{r.open(), r.open()}
			put(t, both[0], "http://a.test/")
			rouse(t, both[0], 1)
			there(both[0])
			for _, s := range c.steps {
				s.do(both[s.who])
			}
			urls, got := load(t, both[0], "a.test", 9)
			require.Len(t, urls, c.pages)
			for i := range got.Items {
				require.Equal(t, at, urls[i])
				require.Equal(t, frontier.Page, got.Items[i].Kind)
				visit(both[0], &got.Items[i])
			}
			link(both[1])
			urls, _ = load(t, both[0], "a.test", 9)
			if c.pages > 0 {
				require.Empty(t, urls, "it was visited")
			}
		})
	}
}
