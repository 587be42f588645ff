package admission

import (
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
	} {
		u, err := url.ParseRequestURI(tc.raw)
		require.NoError(t, err)
		p := readings(u)
		require.Equal(t, strings.Fields(tc.want), p.list[:p.n], tc.raw)
	}
	for _, u := range []*url.URL{{}, {Path: "*"}, {Path: "a/b"}} {
		p := readings(u)
		require.Equal(t, 1, p.n)
		require.Equal(t, path.Clean("/"+u.Path), p.list[0])
	}
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
		p := readings(u)
		if want := path.Clean("/" + u.Path); p.list[0] != want {
			t.Errorf("readings of %q begin with %q, want %q", raw, p.list[0], want)
		}
		if isClean(u.Path) != (path.Clean(u.Path) == u.Path && strings.HasPrefix(u.Path, "/")) {
			t.Errorf("isClean(%q) = %v", u.Path, isClean(u.Path))
		}
		for _, r := range p.list[:p.n] {
			if !strings.HasPrefix(r, "/") {
				t.Errorf("reading %q of %q does not begin with a slash", r, raw)
			}
		}
	})
}
