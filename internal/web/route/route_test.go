package route_test

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/route"
)

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"https://books.example/a": "leave the scheme out",
		"books.example":           "it has no path",
		"/a#b":                    "a fragment is not sent",
		"books.example:8080/":     "leave the port out",
		"*/a":                     "a host is a whole name",
		"{shop}.example/":         "a host is a whole name",
		"*./a":                    "*. needs the name of a host",
		"/{a}{b}":                 "text between two wildcards",
		"/{a}/{a}":                "{a} is there twice",
		"/{a-b}":                  "the name of a wildcard",
		"/{}":                     "the name of a wildcard",
		"/{a":                     "{ without }",
		"/a}":                     "} without {",
		"/{a...}/b":               "must be at the end",
		"/x{a...}":                "the name of a wildcard",
		"/%zz":                    "invalid URL escape",
		"/%ff":                    "is not UTF-8",
		"/a?{k}=1":                "NAME={wildcard}",
		"/a?k=x{v}":               "the value of a parameter",
		"/a?k=1&k=2":              `parameter "k" is there twice`,
		"/{k}?k={k}":              "{k} is there twice",
	} {
		_, err := route.Parse(text)
		require.ErrorContains(t, err, want, text)
		require.ErrorContains(t, err, fmt.Sprintf("pattern %q: ", text))
	}
}

// Each URL goes to the most specific of all patterns, in whatever order they were added.
func TestFind(t *testing.T) {
	patterns := []string{
		"/", "/{path...}", "/catalogue/page-{n}", "/catalogue/{name}", "/catalogue/{name}/index.html", "/catalogue/page-1",
		"/docs/{path...}", "/docs/{version}/api", "/search?q={words}", "/search?q={words}&lang=de", "/search",
		"shop.example/{item}.html", "*.example/{item}.html", "*.shop.example/{path...}", "/{year}-{month}-{day}", "/a%2Fb", "/ä",
	}
	for _, tc := range []struct{ url, pattern, values string }{
		{"https://books.test/", "/", "[]"},
		{"https://books.test", "/", "[]"},
		{"https://books.test/x", "/{path...}", "[x]"},
		{"https://books.test/x//y/", "/{path...}", "[x//y/]"},
		{"https://books.test/catalogue/page-2", "/catalogue/page-{n}", "[2]"},
		{"https://books.test:8080/catalogue/page-2?sort=up#top", "/catalogue/page-{n}", "[2]"},
		{"https://books.test/catalogue/page-1", "/catalogue/page-1", "[]"},
		{"https://books.test/catalogue/page-", "/catalogue/{name}", "[page-]"},
		{"https://books.test/catalogue/", "/{path...}", "[catalogue/]"},
		{"https://books.test/catalogue/a%20b/index.html", "/catalogue/{name}/index.html", "[a b]"},
		{"https://books.test/docs/", "/docs/{path...}", "[]"},
		{"https://books.test/docs", "/{path...}", "[docs]"},
		{"https://books.test/docs/v2/api", "/docs/{version}/api", "[v2]"},
		{"https://books.test/search?q=a+b&x=1", "/search?q={words}", "[a b]"},
		{"https://books.test/search?lang=de&q=a", "/search?q={words}&lang=de", "[a]"},
		{"https://books.test/search?lang=de", "/search", "[]"},
		{"https://shop.example/cup.html", "shop.example/{item}.html", "[cup]"},
		{"https://SHOP.example/cup", "/{path...}", "[cup]"},
		{"https://x.example/cup.html", "*.example/{item}.html", "[cup]"},
		{"https://a.shop.example/cup.html", "*.shop.example/{path...}", "[cup.html]"},
		{"https://example/cup.html", "/{path...}", "[cup.html]"},
		{"https://books.test/2026-11-26", "/{year}-{month}-{day}", "[2026 11 26]"},
		{"https://books.test/a-b-c-d", "/{year}-{month}-{day}", "[a b c-d]"},
		{"https://books.test/a%2fb", "/a%2Fb", "[]"},
		{"https://books.test/a/b", "/{path...}", "[a/b]"},
		{"https://books.test/%C3%A4", "/ä", "[]"},
		{"https://books.test/%ff%00", "/{path...}", "[\xff\x01]"},
	} {
		u := at(t, tc.url)
		for turn := range patterns {
			var table route.Table[string]
			for i := range patterns {
				text := patterns[(i*7+turn)%len(patterns)]
				add(t, &table, parse(t, text), text)
			}
			p, to := table.Find(u)
			require.NotNil(t, p, tc.url)
			require.Equal(t, tc.pattern, to, tc.url)
			var values []string
			for _, name := range names.FindAllStringSubmatch(to, -1) {
				values = append(values, p.Value(u, name[1]))
			}
			require.Equal(t, tc.values, fmt.Sprint(values), tc.url)
			require.Empty(t, p.Value(u, "other"))
		}
	}
	var table route.Table[string]
	add(t, &table, parse(t, "a.test/x"), "")
	p, _ := table.Find(at(t, "http://b.test/x"))
	require.Nil(t, p)
}

var names = regexp.MustCompile(`{(\w+)(?:\.\.\.)?}`)

func at(t require.TestingT, text string) canonical.URL {
	u, err := canonical.Parse(text)
	require.NoError(t, err)
	return u
}

// A regular expression in place of each pattern finds the same.
func TestWildcardsAreShort(t *testing.T) {
	parts := []string{"a", "b", "-", "ab", "%2F", "%20", "/"}
	rapid.Check(t, func(t *rapid.T) {
		var pattern, expression strings.Builder
		for i, s := range rapid.SliceOfN(rapid.SampledFrom(append(parts, "*", "*")), 1, 8).Draw(t, "pattern") {
			if s != "*" {
				pattern.WriteString(s)
				expression.WriteString(regexp.QuoteMeta(s))
			} else if !strings.HasSuffix(pattern.String(), "}") {
				fmt.Fprintf(&pattern, "{w%d}", i)
				fmt.Fprintf(&expression, "(?P<w%d>[^/]+?)", i)
			}
		}
		p, re := parse(t, "/"+pattern.String()), regexp.MustCompile("^"+expression.String()+"$")
		var table route.Table[int]
		add(t, &table, p, 0)
		for range 20 {
			path := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 10).Draw(t, "path"), "")
			u := at(t, "http://x/"+path)
			by, _ := table.Find(u)
			want := re.FindStringSubmatch(path)
			require.Equal(t, want != nil, by != nil, "%s and %s", p, u)
			for i, name := range re.SubexpNames() {
				if want != nil && name != "" {
					plain, err := url.PathUnescape(want[i])
					require.NoError(t, err)
					require.Equal(t, plain, p.Value(u, name), "%s and %s", p, u)
				}
			}
		}
	})
}

func TestConflicts(t *testing.T) {
	for _, tc := range []struct{ old, new, want string }{
		{"/posts/{id}", "/{resource}/latest", "both match /posts/latest, but /x/latest matches only the first and /posts/x only the second"},
		{"/a", "/a", "they match the same URLs"},
		{"/{a}", "/{b}", "they match the same URLs"},
		{"/a-{x}", "/{x}-b", "both match /a-b, but /x-b matches only the first and /a-x only the second"},
		{"/a", "/{x}?q=1", "both match /a?q=1, but /x?q=1 matches only the first and /a only the second"},
		{"/a?p=1", "/a?q={v}", "both match /a?q=x&p=1, but /a?q=x matches only the first and /a?p=1 only the second"},
		{"*.example/{a}x", "*.example/x{a}", "neither is more specific"},
		// None of these is one.
		{"shop.example/{a}/latest", "/posts/{id}", ""},
		{"*.example/{a}/latest", "shop.example/posts/{id}", ""},
		{"/a?q=1", "/a?q=2", ""},
		{"/a/{x}", "/a/{x...}", ""},
		{"/{a}-{b}", "/{a}", ""},
		{"/a{x}", "/b{x}", ""},
	} {
		var table route.Table[int]
		add(t, &table, parse(t, tc.old), 1)
		old, err := table.Add(parse(t, tc.new), 2)
		if tc.want == "" {
			require.NoError(t, err, "%s and %s", tc.old, tc.new)
			continue
		}
		require.ErrorContains(t, err, tc.want)
		require.Equal(t, 1, old)
		var conflict *route.Conflict
		require.ErrorAs(t, err, &conflict)
		require.Equal(t, tc.old+tc.new, conflict.Old.String()+conflict.New.String())
	}
}

func add[T any](t require.TestingT, table *route.Table[T], p *route.Pattern, to T) {
	_, err := table.Add(p, to)
	require.NoError(t, err)
}

func parse(t require.TestingT, text string) *route.Pattern {
	p, err := route.Parse(text)
	require.NoError(t, err)
	return p
}

// One of two patterns goes before the other one only if it matches nothing that the other does not.
func TestMostSpecificWins(t *testing.T) {
	path := func(t *rapid.T, name string, of []string) string {
		text := ""
		for i, s := range rapid.SliceOfN(rapid.SampledFrom(of), 1, 4).Draw(t, name) {
			text += "/" + strings.ReplaceAll(s, "N", strconv.Itoa(i))
		}
		return text
	}
	rapid.Check(t, func(t *rapid.T) {
		of := []string{"a", "b", "{wN}", "a{wN}", "{wN}b", "a{wN}-{xN}b"}
		p, q := parse(t, path(t, "p", of)), parse(t, path(t, "q", of))
		var table route.Table[*route.Pattern]
		add(t, &table, p, p)
		_, err := table.Add(q, q)
		for range 20 {
			u := at(t, "http://x"+path(t, "url", []string{"a", "b", "ab", "aab", "a-b", "aa--bb", "c"}))
			inP, inQ := matches(p, u), matches(q, u)
			if err != nil || !inP || !inQ {
				continue
			}
			first, _ := table.Find(u)
			second := p
			if first == p {
				second = q
			}
			for range 5 {
				v := at(t, "http://x"+path(t, "other", []string{"a", "b", "ab", "a-b", "c"}))
				if matches(first, v) {
					require.True(t, matches(second, v), "%s goes before %s, which does not match %s", first, second, v)
				}
			}
		}
	})
}

func matches(p *route.Pattern, u canonical.URL) bool {
	var table route.Table[int]
	if _, err := table.Add(p, 0); err != nil {
		return false
	}
	by, _ := table.Find(u)
	return by != nil
}

// Whatever is a pattern matches what it says it does, and is in conflict with itself.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"/", "/a/{b}-{c}?d={e}&f=g", "*.example/{x...}", "/%2F", "/{a", "://"} {
		f.Add(seed, "https://example.test/a/b-c?d=e")
	}
	f.Fuzz(func(t *testing.T, text, raw string) {
		p, err := route.Parse(text)
		u, bad := canonical.Parse(raw)
		if err != nil || bad != nil {
			return
		}
		require.Equal(t, text, p.String())
		var table route.Table[int]
		add(t, &table, p, 0)
		if by, _ := table.Find(u); by != nil {
			require.Same(t, p, by)
			for _, name := range names.FindAllStringSubmatch(text, -1) {
				p.Value(u, name[1])
			}
		}
		_, err = table.Add(p, 1)
		require.Error(t, err)
	})
}
