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

// routers are the ways in which services find the route of a request: by http.ServeMux,
// by the decoded path as it came, by the same cleaned, and by the path as it was sent if
// that is another.
// Each is empty if it serves nothing there, as where the mux redirects.
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

// FuzzNoWayAround has the law for which paths are read in several ways: whatever route a
// service finds for a request, the rule of that route is among those that count it, and
// what is excluded is nothing else to any of them.
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
	plan, err := Plan{Name: "p", Capacity: 1, TokensPerSecond: 1}.Settle()
	require.NoError(f, err)
	reg, err := NewRegistry(plan)
	require.NoError(f, err)
	rule := func(name, path string) Rule { return Rule{Name: name, Path: path, Plans: []string{"p"}} }
	s, err := NewRuleSet(RuleSetConfig{Registry: reg}, []Rule{
		rule("login", "/api/login"), rule("static", "/static/**"), rule("health", "/api/health"), rule("api", "/api/**"),
	}, nil)
	require.NoError(f, err)
	excluding, err := NewRuleSet(RuleSetConfig{Registry: reg}, nil, []string{"/api/health"})
	require.NoError(f, err)

	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil || !strings.HasPrefix(raw, "/") {
			return
		}
		r := &http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}}
		m := s.table.Load().match(r)
		excluded := excluding.table.Load().match(r).first == nil && excluding.table.Load().excludes(r.Method, trimSlash(u.Path))
		for name, route := range all {
			got := route(r)
			if got == "" {
				continue
			}
			counted := false
			for _, rule := range append(m.more, m.first) {
				counted = counted || rule != nil && rule.Name == got
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
