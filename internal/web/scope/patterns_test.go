package scope

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// New patterns hold at once, for links, sitemaps and what was let in before; what is wrong
// changes nothing.
func TestSetPatterns(t *testing.T) {
	s, err := New(Config{MaxDepth: Unlimited, MaxRedirects: 1, Exclude: []string{"/old/"}})
	require.NoError(t, err)
	parse := func(text string) canonical.URL {
		u, err := canonical.Parse(text)
		require.NoError(t, err)
		return u
	}
	seed, blog, old, shop := parse("http://a.test/"), parse("http://a.test/blog/1"), parse("http://a.test/old/1"), parse("http://a.test/shop/1")
	s.AddSeed(seed)
	require.True(t, s.Check(blog, 1, 0, false).In)
	require.False(t, s.Check(old, 1, 0, false).In)
	require.Equal(t, Excluded, s.Recheck(old, false).Code)
	require.Equal(t, Excluded, s.Recheck(old, true).Code, "a seed, which nothing has judged before")
	require.True(t, s.Recheck(shop, true).In)

	before := s.Check(old, 1, 0, false)
	require.NoError(t, s.SetPatterns([]string{"/blog/", "/old/"}, []string{`\?print=`}))
	require.Equal(t, "excluded by //old//", before.Reason(), "a decision keeps its reason")
	for _, c := range []struct {
		url    canonical.URL
		exempt bool
		want   Code
	}{
		{blog, false, In},
		{old, false, In},
		{shop, false, NotIncluded},
		{shop, true, In},
		{seed, true, In},
		{parse("http://a.test/blog/1?print=1"), false, Excluded},
		{parse("http://a.test/?print=1"), true, Excluded},
	} {
		v := s.Recheck(c.url, c.exempt)
		require.Equal(t, c.want, v.Code, c.url)
		require.Equal(t, c.want == In, v.In)
		depth := 1
		if c.exempt {
			depth = 0
		}
		require.Equal(t, c.want, s.Check(c.url, depth, 0, false).Code)
	}
	require.Equal(t, `excluded by /\?print=/`, s.Recheck(parse("http://a.test/?print=1"), true).Reason())
	require.Equal(t, Excluded, s.CheckSitemap(parse("http://a.test/s.xml?print=1"), 1, 0).Code)
	require.True(t, s.CheckSitemap(parse("http://a.test/s.xml"), 1, 0).In)

	require.ErrorContains(t, s.SetPatterns([]string{"a", "("}, nil), `Include[1] "("`)
	require.ErrorContains(t, s.SetPatterns(nil, []string{""}), "Exclude[0] is empty")
	include, exclude := s.Patterns()
	require.Equal(t, []string{"/blog/", "/old/"}, include)
	require.Equal(t, []string{`\?print=`}, exclude)

	require.NoError(t, s.SetPatterns(nil, nil))
	require.True(t, s.Recheck(shop, false).In)
}

// They may be replaced while others judge, who see the old or the new ones whole.
func TestSetPatternsUnderConcurrency(t *testing.T) {
	s, err := New(Config{Mode: Any, MaxDepth: Unlimited})
	require.NoError(t, err)
	u, err := canonical.Parse("http://a.test/x")
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 2000 {
				if v := s.Check(u, 1, 0, false); !v.In && v.Reason() != "excluded by /x/" {
					t.Errorf("reason %q", v.Reason())
				}
			}
		})
	}
	for i := range 500 {
		if i%2 == 0 {
			err = s.SetPatterns([]string{"x"}, []string{"nothing", "x"}[i/2%2:])
		} else {
			err = s.SetPatterns(nil, nil)
		}
		if err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}
