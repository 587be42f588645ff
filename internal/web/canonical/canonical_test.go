package canonical

import (
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseRefuses(t *testing.T) {
	long := strings.Repeat("a", MaxLength)
	tests := []struct{ name, in, message string }{
		{"empty", "", "empty URL"},
		{"only a fragment", "#a", "empty URL"},
		{"no scheme", "example.com/a", `"example.com/a": no scheme in front: write https:// before it`},
		{"a file", "/etc/hosts", "no scheme in front"},
		{"host and port", "localhost:8080", `is "localhost" a host? write https:// before it`},
		{"no host", "http://", "no host"},
		{"no host before path", "http:///", "no host"},
		{"no host before query", "https://?q", "no host"},
		{"no host before port", "http://:80/", "not a valid host or port"},
		{"name and password", "http://user:secret@example.com/", "remove the part before the @"},
		{"name", "http://user@example.com/", "remove the part before the @"},
		{"nothing before the @", "http://@example.com/", "remove the part before the @"},
		{"port too large", "http://example.com:65536/", "not a valid host or port"},
		{"port no number", "http://example.com:http/", "not a valid host or port"},
		{"space in host", "http://exa mple.com/", "not a valid host or port"},
		{"escape in host", "http://exa%00mple.com/", "not a valid host or port"},
		{"bad IPv4", "http://256.256.256.256/", "not a valid host or port"},
		{"bad IPv6", "http://[::g]/", "not a valid host or port"},
		{"bad punycode", "http://xn--a.example/", "not a valid host or port"},
		{"empty label", "http://a..example/", "host name has an empty label"},
		{"empty label in front", "http://.example/", "host name has an empty label"},
		{"two trailing dots", "http://example.com../", "host name has an empty label"},
		{"only a dot", "http://./", "no host"},
		{"long host", "http://" + strings.Repeat("a.", 126) + "xy/", "longer than 253 bytes"},
		{"absurd host", "http://" + strings.Repeat("ü.", 2000) + "xy/", "longer than 253 bytes"},
		{"long path", "http://example.com/" + long, "longer than 8192 bytes"},
		{"long once escaped", "http://example.com/" + strings.Repeat(" ", MaxLength/2) + "x", "longer than 8192 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			u, err := Parse(tt.in)
			require.ErrorContains(t, err, tt.message)
			require.True(t, u.IsZero())
			require.NotContains(t, err.Error(), "secret")
			require.Less(t, len(err.Error()), 400)
		})
	}
}

func TestLongestURL(t *testing.T) {
	longest := "http://example.com/" + strings.Repeat("a", MaxLength-len("http://example.com/"))
	u, err := Parse(longest)
	require.NoError(t, err)
	require.Equal(t, longest, u.String())
	_, err = Parse(longest + "a")
	require.ErrorIs(t, err, ErrLong)
}

func TestOtherSchemes(t *testing.T) {
	base := mustParse(t, "https://example.com/")
	for _, ref := range []string{
		"mailto:a@example.com", "javascript:void(0)", "JavaScript:alert('http://x/')", "data:text/html,x", "tel:1",
		"ftp://example.com/", "ftp://user:secret@example.com/", "file:///etc/passwd", "ws://example.com/",
		"about:blank", "httpx://example.com/", "htt://example.com/", "java\nscript:x", "x:", "example.com:80",
		"data:" + strings.Repeat("x", 1<<20),
	} {
		_, err := base.Resolve(ref)
		require.ErrorIs(t, err, ErrScheme, "%.40q", ref)
		_, err = base.ResolveBytes([]byte(ref))
		require.ErrorIs(t, err, ErrScheme, "%.40q", ref)
		_, err = Parse(ref)
		require.ErrorIs(t, err, ErrScheme, "%.40q", ref)
		require.NotContains(t, err.Error(), "secret")
	}
	for _, ref := range []string{"1:2", ":", "+a:b", "/a:b", "a/b:c", "?a:b", "%6d:x"} {
		_, err := base.Resolve(ref)
		require.NoError(t, err, "%q is a path", ref)
	}
}

func TestParts(t *testing.T) {
	tests := []struct{ in, scheme, host, hostname, origin, path string }{
		{"http://example.com", "http", "example.com", "example.com", "http://example.com", "/"},
		{"https://example.com:8443/a?b:c", "https", "example.com:8443", "example.com", "https://example.com:8443", "/a?b:c"},
		{"http://[::1]/a:b", "http", "[::1]", "::1", "http://[::1]", "/a:b"},
		{"http://[::1]:8080/", "http", "[::1]:8080", "::1", "http://[::1]:8080", "/"},
		{"http://10.0.0.1:81/x//y", "http", "10.0.0.1:81", "10.0.0.1", "http://10.0.0.1:81", "/x//y"},
	}
	for _, tt := range tests {
		u := mustParse(t, tt.in)
		require.Equal(t, tt.scheme, u.Scheme())
		require.Equal(t, tt.host, u.Host())
		require.Equal(t, tt.hostname, u.Hostname())
		require.Equal(t, tt.origin, u.Origin())
		require.Equal(t, tt.path, u.Path())
		require.Equal(t, u.Host()+u.Path(), u.HostPath())
	}
	var zero URL
	require.True(t, zero.IsZero())
	require.Empty(t, zero.Scheme()+zero.Host()+zero.Hostname()+zero.Origin()+zero.Path()+zero.HostPath()+zero.String())
	_, err := zero.Resolve("a")
	require.ErrorIs(t, err, errRelative)
}

func TestFingerprint(t *testing.T) {
	a, b := mustParse(t, "http://example.com/a"), mustParse(t, "HTTP://example.com/%61#x")
	require.Equal(t, a.Fingerprint(1), b.Fingerprint(1))
	require.NotEqual(t, a.Fingerprint(1), a.Fingerprint(2), "the key matters")
	require.NotEqual(t, a.Fingerprint(1), mustParse(t, "http://example.com/b").Fingerprint(1))
	require.Zero(t, testing.AllocsPerRun(100, func() { a.Fingerprint(3) }))
}

// TestAllocations pins what the crawler's speed rests on: one string per new link, and none where there already is
// one.
func TestAllocations(t *testing.T) {
	base := mustParse(t, "https://docs.example.com:8443/3/library/os.html?v=1")
	tests := []struct {
		ref  string
		want float64
	}{
		{"#os.walk", 0},
		{"", 0},
		{"mailto:a@example.com", 0},
		{"javascript:void(0)", 0},
		{"https://docs.example.com:8443/3/", 0},
		{"https://other.example.com/a?b=c", 0},
		{"path.html", 1},
		{"../reference/index.html#top", 1},
		{"/3/größe?x=%7e", 1},
		{"//cdn.example.net/x.js", 1},
		{"HTTPS://Other.Example.com/", 1},
	}
	for _, tt := range tests {
		got := testing.AllocsPerRun(100, func() { _, _ = base.Resolve(tt.ref) })
		require.Equal(t, tt.want, got, "Resolve(%q)", tt.ref)
	}
	ref := []byte("../reference/index.html#top")
	require.Equal(t, 1.0, testing.AllocsPerRun(100, func() { _, _ = base.ResolveBytes(ref) }))
}

func mustParse(tb testing.TB, s string) URL {
	tb.Helper()
	u, err := Parse(s)
	if err != nil {
		tb.Fatalf("Parse(%q): %v", s, err)
	}
	return u
}

func TestErrorsAreComparable(t *testing.T) {
	_, err := Parse("mailto:x")
	require.True(t, errors.Is(err, ErrScheme))
	_, err = Parse("x")
	require.False(t, errors.Is(err, ErrScheme))
}
