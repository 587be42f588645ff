package chunk

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestName(t *testing.T) {
	for at, want := range map[string]string{
		"https://a.test/":            "a.test/index.md",
		"https://a.test/docs/x.html": "a.test/docs/x.html.md",
		"http://127.0.0.1:80/docs/":  "127.0.0.1_80/docs/index.md",
		"https://a.test/docs":        "a.test/docs.md",
		"https://a.test:8443/docs":   "a.test_8443_https/docs.md",
	} {
		require.Equal(t, want, Name(at))
	}
}

// Other URLs have other files, on any file system; none leaves its directory.
func TestNamesDiffer(t *testing.T) {
	long := strings.Repeat("long/", 100)
	seen := make(map[string]string)
	for _, at := range []string{
		"https://a.test/", "http://a.test/", "https://a.test/index", "https://a.test/?", "https://a.test/?a=1", "https://a.test/?a=2",
		"https://a.test/Index", "https://a.test/a", "https://a.test/A", "https://a.test/a/", "https://a.test/a.md/x", "https://a.test/a.md",
		"https://a.test/%61", "https://a.test/a//b", "https://a.test/a/b", "https://a.test/con", "https://a.test/aux.html", "https://a.test/.",
		"https://a.test/..%2f..%2fx", "https://a.test/%2e%2e/x", "https://a.test/a.", "https://a.test/a%20", "https://a.test/a:b", "https://a.test/日本",
		"https://a.test/" + long, "https://a.test/" + long + "x", "https://a.test/" + strings.Repeat("y", 3000), "https://[::1]/", "https://[::1]:8/", "::", "",
		"http://a:8080/x", "https://a:8080/x", "https://a_8080/x", "http://a_8080/x", "https://a_8080_https/x", "http://a_8080:80/x", "https://a:8080/X",
	} {
		name := Name(at)
		require.True(t, filepath.IsLocal(name), name)
		require.LessOrEqual(t, len(name), maxName+maxSegment)
		require.Regexp(t, regexp.MustCompile(`^[a-z0-9._/-]+\.md$`), name)
		require.Empty(t, seen[name], "%s and %s are both %s", at, seen[name], name)
		seen[name] = at + " "
	}
}
