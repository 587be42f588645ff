package mirror

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/store/filename"
	"github.com/treadlight/crawl/internal/web/canonical"
)

func TestNameOf(t *testing.T) {
	for _, c := range []struct{ url, mediaType, name string }{
		{"http://h/", "text/html", "h/index.html"},
		{"http://h/?", "text/html", "h/index@.html"},
		{"http://h/?a=1&b=2", "text/html", "h/index@a=1&b=2.html"},
		{"http://h/?b=2&a=1", "text/html", "h/index@b=2&a=1.html"},
		{"http://h/a", "text/html", "h/a.html"},
		{"http://h/a/", "text/html", "h/a/index.html"},
		{"http://h/a/b", "text/html", "h/a/b.html"},
		{"http://h/a/index.htm", "text/html", "h/a/index.htm"},
		{"http://h/a.php?x", "text/html", "h/a.php@x.html"},
		{"http://h/a.html", "image/png", "h/a.html.png"},
		{"http://h/s.css?v=1.2", "text/css", "h/s@v=1.2.css"},
		{"http://h/x", "application/x-unheard-of", "h/x.bin"},
		{"http://h/x.deb", "application/x-unheard-of", "h/x.deb"},
		{"http://h/README", "text/plain", "h/README.txt"},
		{"http://h/x.c", "text/plain", "h/x.c"},
		{"http://h/x.html", "text/plain", "h/x.html.txt"},
		{"http://h:81/x.js", "application/javascript", "h+81/x.js"},
		{"http://[::1]:81/x.js", "text/javascript", "%3A%3A1+81/x.js"},
		{"http://bücher.example/x.js", "text/javascript", "xn--bcher-kva.example/x.js"},
		{"http://h/CON", "text/html", "h/_CON.html"},
		{"http://h/aux.html", "text/html", "h/_aux.html"},
		{"http://h/com1.tar.gz", "application/gzip", "h/_com1.tar.gz"},
		{"http://h/lpt%C2%B9/x.css", "text/css", "h/_lpt¹/x.css"},
		{"http://h/console.css", "text/css", "h/console.css"},
		{"http://h/name./name%20/.x/x.css", "text/css", "h/name%2E/name%20/%2Ex/x.css"},
		{"http://h/a:b*c%7Cd%3Ce%3E%22%5C%3F", "text/html", "h/a%3Ab%2Ac%7Cd%3Ce%3E%22%5C%3F.html"},
		{"http://h/a%2Fb", "text/html", "h/a%2Fb.html"},
		{"http://h/100%25/50%.css", "text/css", "h/100%25/50%25.css"},
		{"http://h//x.css", "text/css", "h/%/x.css"},
		{"http://h/%E2%80%AEx.css", "text/css", "h/%E2%80%AEx.css"},
		{"http://h/%FF.css", "text/css", "h/%FF.css"},
		{"http://h/e%CC%81.css", "text/css", "h/é.css"},
		{"http://h/~x/x.css", "text/css", "h/%7Ex/x.css"},
	} {
		u := must(canonical.Parse(c.url))
		assert.Equal(t, c.name, nameOf(u, c.mediaType), c.url)
	}
}

var windows = regexp.MustCompile(`(?i)^(con|prn|aux|nul|com[0-9]|lpt[0-9])(\.|$)|[<>:"\\|?*\x00-\x1f]|[. ]$`)

// checkName fails the test if a name is not valid everywhere.
func checkName(t *testing.T, name string) {
	t.Helper()
	assert.LessOrEqual(t, len(name), maxPath+maxComponent, name)
	assert.True(t, filepath.IsLocal(name), name)
	assert.True(t, utf8.ValidString(name), "%q", name)
	for part := range strings.SplitSeq(name, "/") {
		assert.NotEmpty(t, part, name)
		assert.LessOrEqual(t, len(part), maxComponent+1, part)
		assert.NotRegexp(t, windows, part)
		assert.NotEqual(t, stateDir, part)
	}
}

func TestLongNames(t *testing.T) {
	for _, path := range []string{
		"/" + strings.Repeat("a", 300), "/" + strings.Repeat("%F0%9F%A6%8A", 90), "/" + strings.Repeat("abcdefghi/", 150), "/x?" + strings.Repeat("a=b&", 200),
		"/" + strings.Repeat("é", 49) + ".x", "/a." + strings.Repeat("b", 200),
	} {
		u := must(canonical.Parse("http://h" + path))
		name := nameOf(u, "text/html")
		checkName(t, name)
		other := must(canonical.Parse("http://h" + strings.Replace(path, "a", "b", 1)))
		if other != u {
			assert.NotEqual(t, name, nameOf(other, "text/html"), "what is cut is told apart")
		}
	}
}

func TestAssign(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(root, stateDir), 0o700))
	x := must(openIndex(root))
	seen := map[string]string{}
	for i, url := range []string{
		"http://h/a", "http://h/a/", "http://h/a/b", "http://h/a/index.html", "http://h/a/index.htm", "http://h/A", "http://h/A/b", "https://h/a",
		"http://h/a.html/x", "http://h/a.html", "http://h/x@y", "http://h/x?y", "http://h/%C3%A9", "http://h/e%CC%81", "http://h/k", "http://h/%E2%84%AA",
	} {
		u := must(canonical.Parse(url))
		e := &entry{URL: url, Type: "text/html", Sum: uint64(i), Size: 1, u: u}
		file, same := x.assign(e)
		assert.Empty(t, same)
		checkName(t, file)
		if was, taken := seen[filename.Fold(file)]; taken {
			assert.Failf(t, "clash", "%s and %s are both %s", was, url, file)
		}
		for other := range seen {
			assert.False(t, strings.HasPrefix(other, filename.Fold(file)+"/") || strings.HasPrefix(filename.Fold(file), other+"/"), "%s is a file and a directory: %s", file, other)
		}
		seen[filename.Fold(file)] = url
		e.File = file
		x.set(e)
		again, _ := x.assign(&entry{URL: url, Type: "text/html", Sum: 99, Size: 9, u: u})
		assert.Equal(t, file, again, "it keeps its name")
	}
	u := must(canonical.Parse("http://h/b/index.html"))
	dir := must(canonical.Parse("http://h/b/"))
	owner := &entry{URL: dir.String(), Type: "text/html", Sum: 7, Size: 7, u: dir}
	owner.File, _ = x.assign(owner)
	x.set(owner)
	file, same := x.assign(&entry{URL: u.String(), Type: "text/html", Sum: 7, Size: 7, u: u})
	assert.Empty(t, file)
	assert.Equal(t, owner.URL, same, "the same bytes in the same directory are one file")
}

func TestRelative(t *testing.T) {
	for _, c := range []struct{ from, to, ref string }{
		{"h/a.html", "h/b.html", "b.html"},
		{"h/a.html", "h/a.html", "a.html"},
		{"h/a/b.html", "h/c/d e#f?g%.html", "../c/d%20e%23f%3Fg%25.html"},
		{"h/a/b.html", "i/x.css", "../../i/x.css"},
		{"index.html", "h/ü(1),2.html", "h/%C3%BC%281%29%2C2.html"},
		{"h/a.html", "h/a.html.d/x", "a.html.d/x"},
	} {
		assert.Equal(t, c.ref, relative(c.from, c.to))
	}
}

// FuzzNameOf: every URL gets a name that every file system accepts, and that is within the copy.
func FuzzNameOf(f *testing.F) {
	f.Add("http://h/a%2e%2e/..%5c..%2f?x#y", "text/html")
	f.Add("http://[::1]:8/con.%00/", "")
	f.Fuzz(func(t *testing.T, url, mediaType string) {
		u, err := canonical.Parse(url)
		if err != nil {
			return
		}
		checkName(t, nameOf(u, mediaType))
	})
}
