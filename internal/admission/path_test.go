package admission

import (
	"net/http"
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
		u, err := url.ParseRequestURI(tc.raw)
		require.NoError(t, err)
		first, more := readings(u)
		require.Equal(t, strings.Fields(tc.want), append([]string{first}, more...), tc.raw)
	}
	for _, u := range []*url.URL{{}, {Path: "*"}, {Path: "a/b"}} {
		first, more := readings(u)
		require.Empty(t, more)
		require.Equal(t, path.Clean("/"+u.Path), first)
	}
}

// TestRuleInEverySpelling: whatever a path may be taken for, the strict rule counts it, and
// what is excluded is excluded in one spelling only.
func TestRuleInEverySpelling(t *testing.T) {
	plan, err := Plan{Name: "p", Capacity: 1, TokensPerSecond: 1}.Settle()
	require.NoError(t, err)
	reg, err := NewRegistry(plan)
	require.NoError(t, err)
	rule := func(name, path string) Rule { return Rule{Name: name, Path: path, Plans: []string{"p"}} }
	s, err := NewRuleSet(RuleSetConfig{Registry: reg}, []Rule{
		rule("public", "/Public/**"), rule("login", "/api/login"), rule("upper", "/API/Keys"), rule("lower", "/api/keys"), rule("api", "/api/**"),
	}, []string{"/health"})
	require.NoError(t, err)
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
		m := s.table.Load().match(&http.Request{Method: http.MethodGet, URL: u})
		var got []string
		if m.first != nil {
			got = append(got, m.first.Name)
		}
		for _, rule := range m.more {
			got = append(got, rule.Name)
		}
		require.ElementsMatch(t, strings.Fields(want), got, raw)
	}
}

// TestRouteHasOneSpelling: no spelling of a path has an account of its own.
func TestRouteHasOneSpelling(t *testing.T) {
	for _, raw := range []string{"/api/login", "/API/Login/", "/api//login", "/api/log%69n", "/api/log%2569n", "/api;v=1/login;w", "/api%5Clogin", "/x/../api/login"} {
		u, err := url.ParseRequestURI(raw)
		require.NoError(t, err)
		key, err := Route()(&http.Request{Method: http.MethodGet, URL: u})
		require.NoError(t, err)
		require.Equal(t, "route:GET /api/login", key, raw)
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
		if isClean(u.Path) != (path.Clean(u.Path) == u.Path && strings.HasPrefix(u.Path, "/")) {
			t.Errorf("isClean(%q) = %v", u.Path, isClean(u.Path))
		}
		for _, r := range more {
			if !strings.HasPrefix(r, "/") {
				t.Errorf("reading %q of %q does not begin with a slash", r, raw)
			}
		}
	})
}
