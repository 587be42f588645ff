package admission

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadings(t *testing.T) {
	for _, tc := range []struct{ raw, want string }{
		{"/", "/"},
		{"/api/login", "/api/login"},
		{"/api/login/", "/api/login"},
		{"/api/%6Cogin", "/api/login /api/%6Cogin"},
		{"/a%21b", "/a!b"},
		{"/J%C3%BCrgen", "/Jürgen"}, // an encoding that has to be
		{"/...", "/..."},
		{"/.well-known/x", "/.well-known/x"},
		{"//api//login", "/api/login //api//login"},
		{"/api/./login", "/api/login /api/./login"},
		{"/static/../api/login", "/api/login /static/../api/login"},
		{"/api/login/..", "/api /api/login/.."},
		{"/api%2Flogin", "/api/login /api%2Flogin"},
		{"/api/%2e%2e/login", "/login /api/../login /api/%2e%2e/login"},
		{"/a%2F..%2Flogin", "/login /a/../login /a%2F..%2Flogin"},
		{"/..", "/ /.."},
		{"/login;v=1", "/login;v=1 /login"},
		{"/api;a=b/x;/y", "/api;a=b/x;/y /api/x/y"},
		{"/api/..;/login", "/api/..;/login /login"},
		{"/log%2569n", "/log%69n /login"},
		{"/%252e%252e/x", "/%2e%2e/x /x /../x"},
		{"/log%25252569n", "/log%252569n /log%2569n /log%69n /login"},
		{"/api%5Clogin", `/api\login /api/login`},
		{"/100%25", "/100%"},
	} {
		u := must(url.ParseRequestURI(tc.raw))
		first, more := readings(u)
		require.Equal(t, strings.Fields(tc.want), append([]string{first}, more...), tc.raw)
	}
	for _, u := range []*url.URL{{}, {Path: "*"}, {Path: "a/b"}} {
		first, more := readings(u)
		require.Empty(t, more)
		require.Equal(t, path.Clean("/"+u.Path), first)
	}
}

var onePlanOf = []Plan{{Name: "p", Capacity: 1, TokensPerSecond: 1}}

func onePlanRule(name, path string) Rule { return Rule{Name: name, Path: path, Plans: []string{"p"}} }

// TestRuleInEverySpelling: whatever a path may be taken for, the strict rule counts it, and
// what is excluded is excluded in one spelling only.
func TestRuleInEverySpelling(t *testing.T) {
	s := must(NewRuleSet(RuleSetConfig{}, onePlanOf, []Rule{
		onePlanRule("public", "/Public/**"), onePlanRule("login", "/api/login"), onePlanRule("upper", "/API/Keys"), onePlanRule("lower", "/api/keys"), onePlanRule("api", "/api/**"),
	}, []string{"/health"}))
	for raw, want := range map[string]string{
		"/api/login": "login", "/api/login/": "login", "/API/LOGIN": "login", "/api/Login": "api login",
		"/api/lo\u017f":  "api", // the long s is an s in capitals, but this is another word
		"/api/login;v=1": "api login", "/api;v=1/login": "login", "/api/login;": "api login", "/api/x/..;/login": "api login",
		"/api/log%69n": "login api", "/api/log%2569n": "api login", "/api/log%252569n": "api login",
		"/api/log%25252525252569n": "api login", "//api//login": "login", "/api/./login": "login api",
		"/api%2Flogin": "login", "/api%252Flogin": "login", "/api%5Clogin": "login", "/api%255Clogin": "login",
		"/%41PI/login": "login", "/public/x": "public", "/PUBLIC": "public",
		"/API/Keys": "upper", "/api/keys": "lower upper", "/api/KEYS": "api upper",
		"/health": "", "/Health": "", "/health;x": "", "/other": "", "/api": "api",
	} {
		u, err := url.ParseRequestURI(raw)
		require.NoError(t, err, raw)
		var got []string
		for _, rule := range s.table.Load().match(nil, &http.Request{Method: http.MethodGet, URL: u}) {
			got = append(got, rule.Name)
		}
		require.ElementsMatch(t, strings.Fields(want), got, raw)
	}
}

// TestRouteHasOneSpelling: no spelling of a path has an account of its own.
func TestRouteHasOneSpelling(t *testing.T) {
	for _, raw := range []string{"/api/login", "/API/Login/", "/api//login", "/api/log%69n", "/api/log%2569n", "/api;v=1/login;w", "/api%5Clogin", "/x/../api/login"} {
		u := must(url.ParseRequestURI(raw))
		require.Equal(t, "route:GET /api/login", must(Route()(&http.Request{Method: http.MethodGet, URL: u})), raw)
	}
}

// TestManyDecodingsAreLinear: what is encoded very often is decoded in one go.
func TestManyDecodingsAreLinear(t *testing.T) {
	require.Equal(t, "/a", decodeFully("/%"+strings.Repeat("25", 1<<19)+"61"))
	require.Equal(t, "Q", decodeFully("%%35%31"))
	require.Equal(t, "%zz%", decodeFully("%25zz%25"))
}

func FuzzReadings(f *testing.F) {
	for _, seed := range []string{"/", "/a/b", "//", "/a%2Fb", "/%2e%2e/", "/a/./b/..", "/%", "*"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			return
		}
		first, more := readings(u)
		if want := path.Clean("/" + u.Path); first != want {
			t.Errorf("readings of %q begin with %q, want %q", raw, first, want)
		}
		for _, r := range more {
			if !strings.HasPrefix(r, "/") {
				t.Errorf("reading %q of %q does not begin with a slash", r, raw)
			}
		}
	})
}

// routers are the ways in which services find the route of a request: by http.ServeMux, by the decoded path as it
// came, by the same cleaned, and by the path as it was sent if that is another. Each is empty if it serves nothing
// there, as where the mux redirects.
func routers() map[string]func(*http.Request) string {
	mux := http.NewServeMux()
	for pattern, name := range map[string]string{
		"/api/login": "login", "/api/login/{$}": "login", "/api/health": "health", "/api/health/{$}": "health",
		"/api/": "api", "/static/": "static",
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Route", name) })
	}
	byPath := func(p string) string {
		switch p = trimSlash(p); {
		case p == "/api/login":
			return "login"
		case p == "/api/health":
			return "health"
		case strings.HasPrefix(p, "/api/"):
			return "api"
		case strings.HasPrefix(p, "/static/"):
			return "static"
		}
		return ""
	}
	return map[string]func(*http.Request) string{
		"mux": func(r *http.Request) string {
			w := httptest.NewRecorder()
			mux.ServeHTTP(w, r)
			return w.Header().Get("Route")
		},
		"path":        func(r *http.Request) string { return byPath(r.URL.Path) },
		"cleaned":     func(r *http.Request) string { return byPath(path.Clean(r.URL.Path)) },
		"in any case": func(r *http.Request) string { return byPath(strings.ToLower(r.URL.Path)) },
		"servlets": func(r *http.Request) string {
			segments := strings.Split(r.URL.Path, "/")
			for i, s := range segments {
				segments[i], _, _ = strings.Cut(s, ";")
			}
			return byPath(path.Clean(strings.Join(segments, "/")))
		},
		"behind a proxy that decodes": func(r *http.Request) string {
			if twice, err := url.PathUnescape(r.URL.Path); err == nil {
				return byPath(path.Clean("/" + twice))
			}
			return ""
		},
		"as sent": func(r *http.Request) string {
			if r.URL.RawPath != "" {
				return byPath(r.URL.RawPath)
			}
			return byPath(r.URL.Path)
		},
	}
}

// FuzzNoWayAround has the law for which paths are read in several ways: whatever route a service finds for a request,
// the rule of that route is among those that count it, and what is excluded is nothing else to any of them.
func FuzzNoWayAround(f *testing.F) {
	for _, seed := range []string{
		"/API/login", "/api/login;v=1", "/api;x/login", "/api/log%2569n", "/api/log%252569n", `/api\login`, "/api/x/..;/login",
		"/api/login", "/api/login/", "//api/login", "/api//login", "/api/./login", "/api/x/../login",
		"/api%2Flogin", "/api/%6Cogin", "/api/x%2F..%2Flogin", "/api/%2e%2e/static/x", "/static/..%2Fapi/login",
		"/api/x%2F..%2F..%2Fstatic%2Fy", "/api/x/../../static/y", "/api/login%2F..%2Fhealth", "/api/health/..", "/api/health%2F",
	} {
		f.Add(seed)
	}
	all := routers()
	s := must(NewRuleSet(RuleSetConfig{}, onePlanOf, []Rule{
		onePlanRule("login", "/api/login"), onePlanRule("static", "/static/**"), onePlanRule("health", "/api/health"), onePlanRule("api", "/api/**"),
	}, nil))
	excluding := must(NewRuleSet(RuleSetConfig{}, onePlanOf, nil, []string{"/api/health"}))

	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil || !strings.HasPrefix(raw, "/") {
			return
		}
		r := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}
		rules := s.table.Load().match(nil, r)
		excluded := len(excluding.table.Load().match(nil, r)) == 0 && excluding.table.Load().excludes(r.Method, trimSlash(u.Path))
		for name, route := range all {
			got := route(r)
			if got == "" {
				continue
			}
			counted := false
			for _, rule := range rules {
				counted = counted || rule.Name == got
			}
			if !counted {
				t.Errorf("%q is %s for %s, and not counted by that rule", raw, got, name)
			}
			if _, more := readings(u); excluded && len(more) == 0 && got != "health" {
				t.Errorf("%q is excluded and %s for %s", raw, got, name)
			}
		}
	})
}

func TestGlob(t *testing.T) {
	for _, tc := range []struct {
		pattern string
		yes, no string // paths, separated by spaces
	}{
		{"/", "/", "/a"},
		{"/api/auth/login", "/api/auth/login", "/api/auth /api/auth/login/x /api/auth/Login /x/api/auth/login"},
		{"/api/blog/*", "/api/blog/1 /api/blog/*", "/api/blog /api/blog/1/2 /api/blogs/1"},
		{"/*/login", "/a/login", "/login /a/b/login"},
		{"/api/**", "/api /api/a /api/a/b/c", "/apis /a/api /"},
		{"/**", "/ /a /a/b", ""},
		{"/**/login", "/login /a/login /a/b/login /login/login", "/login/a /alogin"},
		{"/a/**/b/**/c", "/a/b/c /a/x/b/y/z/c /a/b/b/c/c /a/b/x/c/y/c", "/a/c /a/b /a/b/c/d"},
		{"/**/*", "/a /a/b", "/"},
		{"/static/*.js", "/static/a.js /static/.js /static/a.b.js", "/static/a.jsx /static/a/b.js"},
		{"/v*/u*r", "/v1/user /v/ur", "/1/user /v1/use"},
		{"/a/", "/a", "/a/b"},
		{"/a?c", "/a?c", "/abc"},
	} {
		g := must(parseGlob(tc.pattern))
		for path := range strings.FieldsSeq(tc.yes) {
			require.True(t, g.match(path), "%s of %s", tc.pattern, path)
		}
		for path := range strings.FieldsSeq(tc.no) {
			require.False(t, g.match(path), "%s of %s", tc.pattern, path)
		}
	}
}

func TestGlobErrors(t *testing.T) {
	for pattern, want := range map[string]string{
		"":                              `begin it with "/"`,
		"api":                           `begin it with "/"`,
		"/a//b":                         `leave out the segment ""`,
		"/a/../b":                       `leave out the segment ".."`,
		"/./a":                          `leave out the segment "."`,
		"/a**":                          `let "**" be a segment of its own`,
		"/***":                          `let "**" be a segment of its own`,
		"/" + strings.Repeat("a", 1024): "use no more than 1024 bytes",
	} {
		_, err := parseGlob(pattern)
		require.ErrorContains(t, err, want)
	}
}

// TestGlobIsNotExponential has a path with which a matcher that tries everything would never end.
func TestGlobIsNotExponential(t *testing.T) {
	g := must(parseGlob("/" + strings.Repeat("**/a*a*a*a*b/", 40) + "c"))
	require.False(t, g.match(strings.Repeat("/"+strings.Repeat("a", 100), 200)))
}

func slowMatch(pattern, path []string) bool {
	switch {
	case len(pattern) == 0:
		return len(path) == 0
	case pattern[0] == "**":
		return slowMatch(pattern[1:], path) || len(path) > 0 && slowMatch(pattern, path[1:])
	}
	return len(path) > 0 && slowSegment(pattern[0], path[0]) && slowMatch(pattern[1:], path[1:])
}

func slowSegment(pattern, s string) bool {
	switch {
	case pattern == "":
		return s == ""
	case pattern[0] == '*':
		return slowSegment(pattern[1:], s) || s != "" && slowSegment(pattern, s[1:])
	}
	return s != "" && s[0] == pattern[0] && slowSegment(pattern[1:], s[1:])
}

func segmentsOf(path string) []string {
	if path == "/" {
		return nil
	}
	return strings.Split(path[1:], "/")
}

func FuzzGlob(f *testing.F) {
	for _, seed := range [][2]string{
		{"/api/**", "/api/a"},
		{"/**/a/**/b", "/a/x/a/b/b"},
		{"/a*b*/c", "/axbx/c"},
		{"/", "/"},
		{"/**/**", "/"},
		{"/*", "//"},
	} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, path string) {
		g, err := parseGlob(pattern)
		path = trimSlash(path)
		if err != nil || !strings.HasPrefix(path, "/") || len(pattern) > 14 || len(path) > 14 {
			return // the model needs too long for more
		}
		want := slowMatch(segmentsOf(trimSlash(pattern)), segmentsOf(path))
		require.EqualValues(t, want, g.match(path))
	})
}
