package scope_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/scope"
)

func TestCheckSitemap(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg              scope.Config
		url              string
		depth, redirects int
		want             scope.Code
	}{
		"outside of the area":    {scope.Config{Mode: scope.Prefix, MaxDepth: scope.Unlimited}, "http://other.test/sitemap.xml", 1, 0, scope.In},
		"not included":           {scope.Config{Include: []string{"/docs/"}, MaxDepth: 1}, "http://a.test/sitemap.xml", 1, 0, scope.In},
		"excluded":               {scope.Config{Exclude: []string{"/ads", "sitemap"}, MaxDepth: 1}, "http://a.test/sitemap.xml", 1, 0, scope.Excluded},
		"seeds only":             {scope.Config{}, "http://a.test/sitemap.xml", 1, 0, scope.TooDeep},
		"pages too deep":         {scope.Config{MaxDepth: 3}, "http://a.test/sitemap.xml", 4, 0, scope.TooDeep},
		"one redirect too many":  {scope.Config{MaxDepth: 3, MaxRedirects: 2}, "http://a.test/sitemap.xml", 1, 3, scope.TooManyRedirects},
		"as many as are allowed": {scope.Config{MaxDepth: 3, MaxRedirects: 2}, "http://a.test/sitemap.xml", 3, 2, scope.In},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := scope.New(tc.cfg)
			require.NoError(t, err)
			seed, err := canonical.Parse("http://a.test/dir/")
			require.NoError(t, err)
			s.AddSeed(seed)
			u, err := canonical.Parse(tc.url)
			require.NoError(t, err)
			v := s.CheckSitemap(u, tc.depth, tc.redirects)
			require.Equal(t, tc.want, v.Code, v.Reason())
			require.Equal(t, tc.want == scope.In, v.In)
			require.NotEmpty(t, v.Reason())
		})
	}
}

func TestReaches(t *testing.T) {
	for mode, want := range map[scope.Mode][3]bool{
		scope.Host:   {true, false, false},
		scope.Domain: {true, true, false},
		scope.Prefix: {true, false, false},
		scope.Any:    {true, true, true},
	} {
		t.Run(mode.String(), func(t *testing.T) {
			s, err := scope.New(scope.Config{Mode: mode})
			require.NoError(t, err)
			seed, err := canonical.Parse("http://www.a.example.com/dir/page")
			require.NoError(t, err)
			s.AddSeed(seed)
			for i, raw := range []string{"https://www.a.example.com/sitemap.xml", "http://b.example.com/", "http://other.org/"} {
				u, err := canonical.Parse(raw)
				require.NoError(t, err)
				require.Equal(t, want[i], s.Reaches(u), raw)
			}
		})
	}
}
