package scope

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/web/canonical"
)

var modeCases = []struct {
	mode  Mode
	seeds []string
	in    []string
	out   map[string]string // by URL: what the reason says that is not the seed's
}{
	{
		Host,
		[]string{"https://docs.example.com/guide/"},
		[]string{"https://docs.example.com/", "http://docs.example.com/other?x"},
		map[string]string{
			"https://example.com/": "example.com", "https://docs.example.com:8443/": "docs.example.com:8443",
			"https://docs.example.com.evil.org/": "docs.example.com.evil.org",
		},
	},
	{
		Host,
		[]string{"http://localhost:8080/", "http://[::1]/"},
		[]string{"http://localhost:8080/a", "http://[::1]/a"},
		map[string]string{"http://localhost/": "localhost", "http://[::2]/": "[::2]"},
	},
	{
		Domain,
		[]string{"https://www.example.co.uk/"},
		[]string{"https://example.co.uk/", "http://a.b.example.co.uk:8080/"},
		map[string]string{
			"https://other.co.uk/": "other.co.uk", "https://www.other.co.uk/": "other.co.uk",
			"https://notexample.co.uk/": "notexample.co.uk", "https://example.co.uk.test/": "uk.test", "https://co.uk/": "co.uk",
		},
	},
	{ // the private section of the list: neighbours on a shared domain are strangers
		Domain,
		[]string{"https://me.github.io/"},
		[]string{"https://me.github.io/x", "https://sub.me.github.io/"},
		map[string]string{"https://you.github.io/": "you.github.io", "https://github.io/": "github.io"},
	},
	{
		Domain,
		[]string{"http://10.0.0.1/", "http://intranet/", "http://[::1]:81/"},
		[]string{"http://10.0.0.1:8080/", "http://intranet:8080/", "http://[::1]/"},
		map[string]string{
			"http://11.0.0.1/": "11.0.0.1", "http://a.intranet/": "a.intranet", "http://extranet/": "extranet",
			"http://[::1:0:0:0:1]/": "::1:0:0:0:1",
		},
	},
	{
		Domain,
		[]string{"http://www.xn--85x722f.xn--55qx5d.cn/"}, // 食狮.公司.cn
		[]string{"http://xn--85x722f.xn--55qx5d.cn/"},
		map[string]string{"http://www.xn--55qx5d.cn/": "www.xn--55qx5d.cn"},
	},
	{
		Prefix,
		[]string{"https://h.example/a/b/index.html?x=/y/z", "https://h.example/docs", "https://g.example/q/", "https://root.example", "https://v.example/1.8"},
		[]string{
			"https://h.example/a/b/", "http://h.example/a/b/c/d", "https://h.example/a/b/other.html", "https://g.example/q/?r",
			"https://h.example/docs", "https://h.example/docs?p=2", "https://h.example/docs/", "https://h.example/docs/a/b", "https://root.example/any/where",
		},
		map[string]string{
			"https://v.example/1.9": "https://v.example/1.9", "https://h.example/docs2": "https://h.example/docs2",
			"https://h.example/docs-old/": "https://h.example/docs-old/", "https://h.example/x": "https://h.example/x",
			"https://h.example/": "https://h.example/", "https://h.example/x?y=/docs": "https://h.example/x?y=/docs",
			"https://g.example/": "https://g.example/", "https://g.example/qq": "https://g.example/qq",
			"https://g.example/?x=/q/": "https://g.example/?x=/q/", "https://g.example:8443/q/": "https://g.example:8443/q/",
			"https://i.example/q/": "https://i.example/q/", "https://g.example.com/q/x/y": "https://g.example.com/q/x/y",
		},
	},
	{Any, nil, []string{"https://anything.example/at/all"}, nil},
}

func TestModes(t *testing.T) {
	reasons := map[Mode]string{Host: "host %s is not a seed host", Domain: "domain %s is not a seed's domain", Prefix: "%s is not below a seed's path"}
	for _, tt := range modeCases {
		t.Run(tt.mode.String(), func(t *testing.T) {
			s := newScope(t, Config{Mode: tt.mode}, tt.seeds...)
			for _, in := range tt.in {
				v := s.Check(parse(t, in), 0, 0, false)
				require.True(t, v.In, "%s: %s", in, v.Reason())
				require.Equal(t, "in scope", v.Reason())
			}
			for out, what := range tt.out {
				v := s.Check(parse(t, out), 0, 0, false)
				require.False(t, v.In, out)
				require.Equal(t, fmt.Sprintf(reasons[tt.mode], what), v.Reason())
				require.Equal(t, "other_"+tt.mode.String(), v.Code.String())
			}
		})
	}
}

func TestLimitsAndPatterns(t *testing.T) {
	cfg := Config{
		MaxDepth: 5, MaxRedirects: 2,
		Include: []string{`/docs/`, `/blog/`}, Exclude: []string{`\?print`, `\.pdf$`},
	}
	tests := []struct {
		url              string
		depth, redirects int
		resource         bool
		code             Code
		reason           string
	}{
		{"http://h/docs/", 5, 2, false, In, "in scope"},
		{"http://h/", 0, 0, false, In, "in scope"},
		{"http://h/", 1, 0, false, NotIncluded, "matches no include pattern"},
		{"http://h/docs/", 6, 0, false, TooDeep, "depth 6 > 5"},
		{"http://h/docs/", 5, 3, false, TooManyRedirects, "redirect 3 > 2"},
		{"http://h/docs/a.pdf", 1, 0, false, Excluded, `excluded by /\.pdf$/`},
		{"http://h/a.pdf", 0, 0, false, Excluded, `excluded by /\.pdf$/`},
		{"http://h/blog/?print=1", 1, 0, false, Excluded, `excluded by /\?print/`},
		{"http://i/docs/", 6, 0, false, TooDeep, "depth 6 > 5"},
		{"http://i/docs/", 1, 0, false, OtherHost, "host i is not a seed host"},
		{"http://h/docs/x.png", 1, 0, true, NoResources, "resources are not asked for"},
	}
	s := newScope(t, cfg, "http://h/")
	for _, tt := range tests {
		v := s.Check(parse(t, tt.url), tt.depth, tt.redirects, tt.resource)
		require.Equal(t, tt.code, v.Code, "%s at %d", tt.url, tt.depth)
		require.Equal(t, tt.reason, v.Reason())
		require.Equal(t, tt.code == In, v.In)
	}
}

func TestZeroConfigTakesSeedsAlone(t *testing.T) {
	s := newScope(t, Config{}, "http://h/")
	require.True(t, s.Check(parse(t, "http://h/a"), 0, 0, false).In)
	require.Equal(t, "depth 1 > 0", s.Check(parse(t, "http://h/a"), 1, 0, false).Reason())
	require.Equal(t, "redirect 1 > 0", s.Check(parse(t, "http://h/a"), 0, 1, false).Reason())
}

func TestUnlimitedDepthAndResources(t *testing.T) {
	s := newScope(t, Config{MaxDepth: Unlimited, Resources: true}, "http://h/")
	require.True(t, s.Check(parse(t, "http://h/a.png"), 1<<30, 0, true).In)
	require.Equal(t, OtherHost, s.Check(parse(t, "http://cdn/a.png"), 1, 0, true).Code)
}

func TestSeedsComeLater(t *testing.T) {
	s := newScope(t, Config{MaxDepth: Unlimited}, "http://example.com/")
	u := parse(t, "https://www.example.com/")
	require.False(t, s.Check(u, 0, 0, false).In)
	s.AddSeed(u)
	require.True(t, s.Check(u, 0, 0, false).In)
}

func TestSeedsAreBounded(t *testing.T) {
	full := map[string]struct{}{"a.example": {}}
	for i := range maxSeeds - 1 {
		full[strconv.Itoa(i)] = struct{}{}
	}
	for _, mode := range []Mode{Host, Domain, Prefix} {
		s := newScope(t, Config{Mode: mode})
		s.areas = full
		s.AddSeed(parse(t, "http://c.test/"))
		require.False(t, s.Check(parse(t, "http://c.test/"), 0, 0, false).In)
		require.Len(t, full, maxSeeds)
	}
}

func TestKnownHostsAreBounded(t *testing.T) {
	s := newScope(t, Config{Mode: Domain}, "http://example.com/")
	for i := range maxKnown + 10 {
		require.True(t, s.Check(parse(t, fmt.Sprintf("http://h%d.example.com/", i)), 0, 0, false).In)
	}
	require.Len(t, s.known, maxKnown)
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		cfg     Config
		message string
	}{
		{Config{Include: []string{"a", "*.pdf"}}, `Include[1] "*.pdf" is no regular expression`},
		{Config{Exclude: []string{"("}}, `Exclude[0] "(" is no regular expression`},
		{Config{Exclude: []string{""}}, "Exclude[0] is empty, which matches everything: remove it"},
	}
	for _, tt := range tests {
		_, err := New(tt.cfg)
		require.ErrorContains(t, err, tt.message)
	}
}

func TestNames(t *testing.T) {
	for m := range numModes {
		text, err := m.MarshalText()
		require.NoError(t, err)
		var back Mode
		require.NoError(t, back.UnmarshalText(text))
		require.Equal(t, m, back)
	}
	var m Mode
	require.EqualError(t, m.UnmarshalText([]byte("site")), `scope "site": use one of host, domain, prefix, any`)

	seen := make(map[string]bool)
	for c := range NumCodes {
		require.NotEmpty(t, c.String())
		require.False(t, seen[c.String()], "%s twice", c)
		seen[c.String()] = true
		require.NotEmpty(t, Decision{Code: c, scope: newScope(t, Config{Exclude: []string{"x"}})}.Reason())
	}
}

func TestInScopeDoesNotAllocate(t *testing.T) {
	for mode := range numModes {
		// No patterns: regexp keeps its machines in a pool that the race detector empties.
		s := newScope(t, Config{Mode: mode, MaxDepth: 3}, "https://www.example.co.uk/a/")
		for _, in := range []string{"https://www.example.co.uk/a/b?c", "https://www.example.co.uk/a/"} {
			u := parse(t, in)
			require.Zero(t, testing.AllocsPerRun(100, func() {
				if !s.Check(u, 1, 0, false).In {
					t.Fatal(in)
				}
			}), "%v %s", mode, in)
		}
	}
}

// TestConcurrentSeeds is for the race detector, and checks that nothing is lost.
func TestConcurrentSeeds(t *testing.T) {
	const workers, each = 4, 100
	s := newScope(t, Config{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				u := parse(t, fmt.Sprintf("http://h%d-%d.example/", w, i))
				s.Check(u, 0, 0, false)
				s.AddSeed(u)
				if !s.Check(u, 0, 0, false).In {
					t.Errorf("%s is a seed and out", u)
				}
			}
		})
	}
	wg.Wait()
	require.Len(t, s.areas, workers*each)
}

func newScope(tb testing.TB, cfg Config, seeds ...string) *Scope {
	tb.Helper()
	s, err := New(cfg)
	require.NoError(tb, err)
	for _, seed := range seeds {
		s.AddSeed(parse(tb, seed))
	}
	return s
}

func parse(tb testing.TB, s string) canonical.URL {
	tb.Helper()
	u, err := canonical.Parse(s)
	if err != nil {
		tb.Fatalf("%q: %v", s, err)
	}
	return u
}

// New patterns hold at once, for links, sitemaps and what was let in before; what is wrong changes nothing.
func TestSetPatterns(t *testing.T) {
	parse := func(text string) canonical.URL { return parse(t, text) }
	seed, blog, old, shop := parse("http://a.test/"), parse("http://a.test/blog/1"), parse("http://a.test/old/1"), parse("http://a.test/shop/1")
	s := newScope(t, Config{MaxDepth: Unlimited, MaxRedirects: 1, Exclude: []string{"/old/"}}, seed.String())
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
	s, u := newScope(t, Config{Mode: Any, MaxDepth: Unlimited}), parse(t, "http://a.test/x")
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
			require.NoError(t, s.SetPatterns([]string{"x"}, []string{"nothing", "x"}[i/2%2:]))
		} else {
			require.NoError(t, s.SetPatterns(nil, nil))
		}
	}
	wg.Wait()
}

// TestPublicSuffixes runs the cases under testdata, on names as links have them.
func TestPublicSuffixes(t *testing.T) {
	data, err := os.ReadFile("../../../testdata/conformance/publicsuffix.txt")
	require.NoError(t, err)
	passed, cases := 0, 0
	for line := range strings.Lines(string(data)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		require.Len(t, fields, 2, line)
		cases++
		u, err := canonical.Parse("https://" + fields[0] + "/")
		require.NoError(t, err, fields[0])
		want := fields[1]
		if want == "-" {
			want = u.Hostname()
		}
		if got := domainOf(u.Hostname()); got == want {
			passed++
		} else {
			t.Errorf("%s belongs to %s, want %s", fields[0], got, want)
		}
	}
	if !t.Failed() {
		conformance.Report(t, "publicsuffix", conformance.Result{Cases: cases, Passed: passed})
	}
}

func TestCheckSitemap(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg              Config
		url              string
		depth, redirects int
		want             Code
	}{
		"outside of the area":    {Config{Mode: Prefix, MaxDepth: Unlimited}, "http://other.test/sitemap.xml", 1, 0, In},
		"not included":           {Config{Include: []string{"/docs/"}, MaxDepth: 1}, "http://a.test/sitemap.xml", 1, 0, In},
		"excluded":               {Config{Exclude: []string{"/ads", "sitemap"}, MaxDepth: 1}, "http://a.test/sitemap.xml", 1, 0, Excluded},
		"seeds only":             {Config{}, "http://a.test/sitemap.xml", 1, 0, TooDeep},
		"pages too deep":         {Config{MaxDepth: 3}, "http://a.test/sitemap.xml", 4, 0, TooDeep},
		"one redirect too many":  {Config{MaxDepth: 3, MaxRedirects: 2}, "http://a.test/sitemap.xml", 1, 3, TooManyRedirects},
		"as many as are allowed": {Config{MaxDepth: 3, MaxRedirects: 2}, "http://a.test/sitemap.xml", 3, 2, In},
	} {
		t.Run(name, func(t *testing.T) {
			v := newScope(t, tc.cfg, "http://a.test/dir/").CheckSitemap(parse(t, tc.url), tc.depth, tc.redirects)
			require.Equal(t, tc.want, v.Code, v.Reason())
			require.Equal(t, tc.want == In, v.In)
			require.NotEmpty(t, v.Reason())
		})
	}
}

func TestReaches(t *testing.T) {
	for mode, want := range map[Mode][3]bool{
		Host:   {true, false, false},
		Domain: {true, true, false},
		Prefix: {true, false, false},
		Any:    {true, true, true},
	} {
		t.Run(mode.String(), func(t *testing.T) {
			s := newScope(t, Config{Mode: mode}, "http://www.a.example.com/dir/page")
			for i, raw := range []string{"https://www.a.example.com/sitemap.xml", "http://b.example.com/", "http://other.org/"} {
				require.Equal(t, want[i], s.Reaches(parse(t, raw)), raw)
			}
		})
	}
}
