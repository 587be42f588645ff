package admission

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
		g, err := parseGlob(tc.pattern)
		require.NoError(t, err)
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

// TestGlobIsNotExponential has a path with which a matcher that tries everything would
// never end.
func TestGlobIsNotExponential(t *testing.T) {
	g, err := parseGlob("/" + strings.Repeat("**/a*a*a*a*b/", 40) + "c")
	require.NoError(t, err)
	require.False(t, g.match(strings.Repeat("/"+strings.Repeat("a", 100), 200)))
}

// slowMatch is what a glob means, as plainly as it can be said.
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
		if got := g.match(path); got != want {
			t.Errorf("%q matches %q: %v, want %v", pattern, path, got, want)
		}
	})
}
