package canonical

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRFC3986 is RFC 3986 §5.4 with its base moved to http and fragments dropped.
// Where the WHATWG standard differs from the RFC the note says so.
func TestRFC3986(t *testing.T) {
	base := mustParse(t, "http://a/b/c/d;p?q")
	tests := []struct{ ref, want string }{
		// §5.4.1, normal examples
		{"g:h", ""},
		{"g", "http://a/b/c/g"},
		{"./g", "http://a/b/c/g"},
		{"g/", "http://a/b/c/g/"},
		{"/g", "http://a/g"},
		{"//g", "http://g/"}, // an empty path is "/"
		{"?y", "http://a/b/c/d;p?y"},
		{"g?y", "http://a/b/c/g?y"},
		{"#s", "http://a/b/c/d;p?q"},
		{"g#s", "http://a/b/c/g"},
		{"g?y#s", "http://a/b/c/g?y"},
		{";x", "http://a/b/c/;x"},
		{"g;x", "http://a/b/c/g;x"},
		{"g;x?y#s", "http://a/b/c/g;x?y"},
		{"", "http://a/b/c/d;p?q"},
		{".", "http://a/b/c/"},
		{"./", "http://a/b/c/"},
		{"..", "http://a/b/"},
		{"../", "http://a/b/"},
		{"../g", "http://a/b/g"},
		{"../..", "http://a/"},
		{"../../", "http://a/"},
		{"../../g", "http://a/g"},
		// §5.4.2, abnormal examples
		{"../../../g", "http://a/g"},
		{"../../../../g", "http://a/g"},
		{"/./g", "http://a/g"},
		{"/../g", "http://a/g"},
		{"g.", "http://a/b/c/g."},
		{".g", "http://a/b/c/.g"},
		{"g..", "http://a/b/c/g.."},
		{"..g", "http://a/b/c/..g"},
		{"./../g", "http://a/b/g"},
		{"./g/.", "http://a/b/c/g/"},
		{"g/./h", "http://a/b/c/g/h"},
		{"g/../h", "http://a/b/c/h"},
		{"g;x=1/./y", "http://a/b/c/g;x=1/y"},
		{"g;x=1/../y", "http://a/b/c/y"},
		{"g?y/./x", "http://a/b/c/g?y/./x"},
		{"g?y/../x", "http://a/b/c/g?y/../x"},
		{"g#s/./x", "http://a/b/c/g"},
		{"g#s/../x", "http://a/b/c/g"},
		{"http:g", "http://a/b/c/g"}, // the RFC's lenient reading is the standard's only one
	}
	for _, tt := range tests {
		u, err := base.Resolve(tt.ref)
		if tt.want == "" {
			require.ErrorIs(t, err, ErrScheme, tt.ref)
			continue
		}
		require.NoError(t, err, tt.ref)
		require.Equal(t, tt.want, u.String(), "Resolve(%q)", tt.ref)
		b, err := base.ResolveBytes([]byte(tt.ref))
		require.NoError(t, err, tt.ref)
		require.Equal(t, u, b, "ResolveBytes(%q)", tt.ref)
	}
}

func TestResolve(t *testing.T) {
	tests := []struct{ base, ref, want string }{
		{"https://h/a", "//other/x", "https://other/x"},
		{"https://h/a", `\\host\x`, "https://host/x"},
		{"https://h/a", "///other/x", "https://other/x"},
		{"https://h/a", `/\host/x`, "https://host/x"},
		{"https://h/a/b", `\x`, "https://h/x"},
		{"https://h/a/b", "https:x", "https://h/a/x"},
		{"https://h/a/b", "https:/x", "https://h/x"},
		{"https://h/a/b", "https:", "https://h/a/b"},
		{"https://h/a/b?c", "HTTPS:?d", "https://h/a/b?d"},
		{"https://h/a/b", "http:x", "http://x/"},
		{"https://h/a/b", "http:/x/y", "http://x/y"},
		{"https://h:8443/a", "//h:8443/b", "https://h:8443/b"},
		{"https://h:8443/a", "http://h:8443/b", "http://h:8443/b"},
		{"http://h:443/a", "https://h:443/b", "https://h/b"},
		{"http://h//a//b", "../c", "http://h//a/c"},
		{"http://h//", "..", "http://h/"},
		{"http://h/a/b?c/d", "e", "http://h/a/e"},
		{"http://h/a?", "", "http://h/a?"},
		{"http://h/a?x", "?", "http://h/a?"},
		{"http://h/a/b", "%2e%2e/c", "http://h/c"},
		{"http://h/a/b", "./c:d", "http://h/a/c:d"},
		{"http://h/a/b", "a b", "http://h/a/a%20b"},
		{"http://h/a/b", " ../c ", "http://h/c"},
		{"http://h/a/b", "..\n/c", "http://h/c"},
		{"http://h/a/b", "\t#x", "http://h/a/b"},
		{"http://h/a/b", "\n", "http://h/a/b"},
		{"http://bücher.example/a", "//bücher.example/b", "http://xn--bcher-kva.example/b"},
		{"http://10.0.0.1/a", "http://10.0.0.1/b", "http://10.0.0.1/b"},
	}
	for _, tt := range tests {
		u, err := mustParse(t, tt.base).Resolve(tt.ref)
		require.NoError(t, err, "%s + %q", tt.base, tt.ref)
		require.Equal(t, tt.want, u.String(), "%s + %q", tt.base, tt.ref)
	}
}

func TestDir(t *testing.T) {
	require.Empty(t, URL{}.Dir())
	for s, want := range map[string]string{
		"http://h/": "http://h/", "http://h/a": "http://h/", "http://h/a/": "http://h/a/", "https://h:1/a/b?c/d": "https://h:1/a/", "http://h/?a/b": "http://h/",
	} {
		require.Equal(t, want, mustParse(t, s).Dir(), s)
	}
}

func TestPortable(t *testing.T) {
	for _, ref := range []string{"a", "../a?b", "/", "//h", "/?", "a#b", "http://h", " a", "a?b=c", "http:///h"} {
		require.True(t, Portable([]byte(ref)), ref)
	}
	for _, ref := range []string{"", " ", "?", "?a", "\t?a", "#a", "http:", "http:?a", "ht\ntp:?a", "mailto:a", "http:?a=http://h"} {
		require.False(t, Portable([]byte(ref)), ref)
	}
}
