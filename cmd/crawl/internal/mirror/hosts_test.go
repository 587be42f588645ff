package mirror

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/store/filename"
)

// hosts answers by URL in place of a network. An answer with status -1 never comes.
type hosts map[string]answer

func (h hosts) RoundTrip(r *http.Request) (*http.Response, error) {
	a, ok := h[r.URL.String()]
	switch {
	case !ok:
		a.status = http.StatusNotFound
	case a.status < 0:
		return nil, os.ErrDeadlineExceeded
	}
	header := http.Header{"Content-Type": {a.mediaType}}
	if a.location != "" {
		header.Set("Location", a.location)
	}
	return &http.Response{
		StatusCode: max(a.status, 200), Header: header, Request: r, Body: io.NopCloser(bytes.NewReader([]byte(a.body))), ContentLength: int64(len(a.body)),
	}, nil
}

// linked returns the file to which a reference in another file leads.
func linked(t *testing.T, dir, from, ref string) string {
	t.Helper()
	ref, _, _ = strings.Cut(ref, "#")
	text, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(path.Join(path.Dir(from), filename.Unescape(ref)))))
	require.NoError(t, err, ref)
	return string(text)
}

// between returns the text after one text, up to another.
func between(t *testing.T, s, before, after string) string {
	t.Helper()
	_, s, ok := strings.Cut(s, before)
	require.True(t, ok, before)
	s, _, _ = strings.Cut(s, after)
	return s
}

// checkFolded checks a copy as on a file system that ignores case and forms of accents.
func checkFolded(t *testing.T, dir string) {
	t.Helper()
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			assert.False(t, names[filename.Fold(p)], p)
			names[filename.Fold(p)] = true
		}
		return err
	}))
}

// Hosts, ports and schemes with the same paths, names that differ in their case or in the form of an accent, redirects
// between hosts, and scripts that load scripts; and the copy works in another directory.
func TestHosts(t *testing.T) {
	png := func(s string) answer { return answer{mediaType: "image/png", body: pixel + s} }
	js := func(s string) answer { return answer{mediaType: "text/javascript", body: s} }
	to := func(url string) answer { return answer{status: 302, location: url} }
	same := map[string]string{ // by URL: what differs
		"http://b.example/p.png": "b", "http://b.example:81/p.png": "b81", "https://b.example/p.png": "tls", "http://xn--bcher-kva.example/p.png": "idn", "http://a.example/p.png": "a",
		"http://a.example/P.png": "upper", "http://a.example/p.png?Q": "Q", "http://a.example/p.png?q": "q", "http://a.example/%C3%A9.png": "nfc", "http://a.example/e%CC%81.png": "nfd",
		"http://a.example/D/p.png": "D", "http://a.example/d/p.png": "d",
	}
	h := hosts{
		"http://a.example/favicon.ico": {mediaType: "image/x-icon", body: "icon"}, "http://c.example/x": page("x"), "http://c.example/": page("c"), "http://b.example/other": page("out"), "https://a.example/d/tls": page("tls"),
		"http://a.example/d/out": to("http://b.example/other"), "http://a.example/d/in": to("http://c.example/x#a b"), "http://a.example/d/tls": to("https://a.example/d/tls"),
		"http://a.example/d/dir": to("dir/"), "http://a.example/d/dir/": page("dir"), "http://a.example/d/index.html": to("./"), "http://a.example/d/late": {status: -1},
		"http://a.example/d/refused": {status: 403, mediaType: "text/html", body: "oops"},
		"http://a.example/js/app.js": js(`import "./lib/u.js?v=1"; new Worker(new URL("w.js", import.meta.url))`), "http://a.example/js/lib/u.js?v=1": js("1"),
		"http://a.example/js/old.js": js("i.src = `${root}shown.svg`; j.src = root + 'none.png'"), "http://a.example/js/shown.svg": {mediaType: "image/svg+xml", body: "<svg/>"},
		"http://a.example/js/w.js": js(`importScripts("dep.js"); self.x = "dep.js"`), "http://a.example/js/dep.js": js("2\n//# sourceMappingURL=dep.js.map"),
	}
	body := `<script src="/js/old.js"></script><script type=importmap>{"imports":{"u":"/js/lib/u.js?v=1"}}</script><script type=module src="/js/app.js"></script><a id=user href="http://u:secret@b.example/p.png">`
	for url, s := range same {
		h[url] = png(s)
		body += `<img alt="` + s + `" src="` + strings.Replace(url, "xn--bcher-kva", "bücher", 1) + `">`
	}
	for _, name := range []string{"out", "in#own", "in", "tls", "dir", "index.html", "late", "refused"} {
		body += `<a class="` + name + `" href="` + name + `">`
	}
	h["http://a.example/d/"] = page(body)
	dir := filepath.Join(t.TempDir(), "copy")
	o := Options{Dir: dir, Seeds: []string{"http://a.example/d/", "http://c.example/"}, Crawl: crawl.Options{Transport: h, Scope: crawl.ScopeOptions{Mode: "prefix"}}}
	report := mirror(t, o)
	const start = "a.example/d/index.html"
	check := func(dir string) string {
		text := linked(t, dir, "index.html", start)
		for url, s := range same {
			assert.Equal(t, pixel+s, linked(t, dir, start, between(t, text, `alt="`+s+`" src="`, `"`)), url)
		}
		for name, want := range map[string]string{"in#own": "x", "in": "x", "dir": "dir", "index.html": text} {
			assert.Equal(t, want, linked(t, dir, start, between(t, text, `class="`+name+`" href="`, `"`)), name)
		}
		app := linked(t, dir, start, between(t, text, `type=module src="`, `"`))
		worker := linked(t, dir, "a.example/js/app.js", between(t, app, `new URL("`, `"`))
		assert.Equal(t, "1", linked(t, dir, "a.example/js/app.js", between(t, app, `import "`, `"`)))
		assert.Equal(t, h["http://a.example/js/dep.js"].body, linked(t, dir, "a.example/js/w.js", between(t, worker, `importScripts("`, `"`)), "a source map is nobody's part")
		assert.Contains(t, worker, `self.x = "dep.js"`)
		return text
	}
	text := check(dir)
	assert.Contains(t, text, `class="in" href="../../c.example/x.html#a%20b"`)
	assert.Contains(t, text, `class="in#own" href="../../c.example/x.html#own"`)
	assert.Contains(t, text, `href="http://u:secret@b.example/p.png"`)
	for _, name := range []string{"out", "late", "refused"} {
		assert.Contains(t, text, `class="`+name+`" href="http://a.example/d/`+name+`"`)
	}
	assert.Equal(t, "<svg/>", linked(t, dir, "index.html", "a.example/js/shown.svg"), "what a script shows is beside it")
	assert.Equal(t, "icon", linked(t, dir, "index.html", "a.example/favicon.ico"), "by custom")
	failed := map[string]string{}
	for _, f := range report.Failures {
		failed[strings.TrimPrefix(f.URL, "http://a.example/d/")] = f.Err
	}
	assert.Contains(t, failed, "refused")
	assert.NotEmpty(t, failed["late"])
	checkFolded(t, dir)
	o.Dir += "2"
	require.NoError(t, os.Rename(dir, o.Dir))
	check(o.Dir)
	again := mirror(t, o)
	assert.Zero(t, again.New+again.Changed+again.Gone+again.Unlinked, "%+v", again)
	assert.Equal(t, text, check(o.Dir))
}
