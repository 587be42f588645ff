package mirror

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// With --delete, a page stays if one of its two URLs is gone, and so does what a failed redirect led to.
func TestDeleteKeepsWhatOthersNeed(t *testing.T) {
	const twice = `<a href="/d/index.html">twice</a>`
	for _, tc := range []struct {
		name  string
		links string
		set   map[string]answer
		stays bool
	}{
		{"nothing links to the first URL", `<a href="/d/index.html">i</a>`, nil, true},
		{"the first URL is gone", `<a href="/d/">d</a><a href="/d/index.html">i</a>`, map[string]answer{"/d/": {}}, true},
		{"the other one fails", `<a href="/d/index.html">i</a>`, map[string]answer{"/d/index.html": {status: 400}}, true},
		{"both are gone", `<a href="/d/index.html">i</a>`, map[string]answer{"/d/index.html": {}, "/d/": {}}, false},
		{"nothing links to either", "", nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSite(t, map[string]answer{"/": page(`<a href="/d/">d</a><a href="/go">g</a>`), "/d/": page(twice), "/d/index.html": page(twice), "/go": {status: 302, location: "/to"}, "/to": page("to")})
			dir := t.TempDir()
			o := Options{Dir: dir, Seeds: []string{s.URL + "/"}}
			mirror(t, o)
			s.set("/", page(tc.links+`<a href="/go">g</a>`))
			s.set("/go", answer{status: 400})
			for path, a := range tc.set {
				s.set(path, a)
			}
			o.Delete = true
			for range 2 {
				require.True(t, mirror(t, o).Complete)
				got := files(t, dir)
				assert.Contains(t, got["index.html"], `<a href="to.html">g</a>`)
				assert.Equal(t, "to", got["to.html"])
				if tc.stays {
					assert.Contains(t, got["index.html"], `<a href="d/index.html">i</a>`)
				}
				_, there := got["d/index.html"]
				assert.Equal(t, tc.stays, there)
			}
		})
	}
}

// A round that was left open is finished: a last line that a kill has cut off is removed, and so are files that no link
// leads to.
func TestJournalLeftOpen(t *testing.T) {
	s := newSite(t, map[string]answer{"/": page(`<a href="/d/">d</a>`), "/d/": page("d")})
	dir := t.TempDir()
	o := Options{Dir: dir, Seeds: []string{s.URL + "/"}}
	mirror(t, o)
	want := files(t, dir)
	journal := filepath.Join(dir, stateDir, journalFile)
	text := must(os.ReadFile(journal))
	stale := filepath.Join(dir, "127.0.0.1", "stale.html")
	require.NoError(t, os.MkdirAll(filepath.Dir(stale), 0o755))
	require.NoError(t, os.WriteFile(stale, nil, 0o600))
	before := strings.Replace(string(text), `"seeds"`, `"open":true,"full":true,"stale":["127.0.0.1/stale.html"],"seeds"`, 1)
	require.NoError(t, os.WriteFile(journal, []byte(before+`{"u":"http`), 0o600))
	x := must(openIndex(dir))
	require.NoError(t, x.put(&entry{URL: s.URL + "/gone", Redirect: s.URL + "/d/"}))
	require.NoError(t, x.close())
	clear(s.asked)
	require.True(t, mirror(t, o).Complete)
	assert.Empty(t, s.asked, "everything was fetched")
	assert.Equal(t, want, files(t, dir))
	assert.NoFileExists(t, stale)

	require.NoError(t, os.WriteFile(journal, []byte(strings.Replace(before, "127.0.0.1/stale", "../stale", 1)), 0o600))
	_, err := tryMirror(t.Context(), o)
	require.ErrorContains(t, err, "is not in the copy")
}

// Files of a host that failed for one reason are one line, and those with a status are a line each.
func TestReportOfFailures(t *testing.T) {
	r := &Report{Complete: true, Dir: "copy", Failures: []Failure{{URL: "http://a.test/x", Status: 404}, {URL: "http://a.test/y", Status: 404}}}
	var out strings.Builder
	r.Write(&out)
	require.Contains(t, out.String(), "done: ")
	require.Equal(t, 2, strings.Count(out.String(), "not had: http://a.test/"))
	for _, file := range []string{"1", "2", "3"} {
		r.Failures = append(r.Failures, Failure{URL: "http://127.0.0.1:81/" + file, Err: "address_denied: robots.txt cannot be had: of " + file})
	}
	out.Reset()
	r.Write(&out)
	require.Contains(t, out.String(), "done, but not all files could be had: ")
	require.Contains(t, out.String(), "\n  not had: 3 files of 127.0.0.1:81: it has a private address; to have it asked, give --allow-private; --json lists them\n")
	require.Equal(t, 3, strings.Count(out.String(), "not had: "))
}

// names returns the names of the files of a copy without their directories.
func names(t *testing.T, dir string) (all []string) {
	for _, file := range slices.Sorted(maps.Keys(files(t, dir))) {
		all = append(all, file[strings.LastIndexByte(file, '/')+1:])
	}
	slices.Sort(all)
	return all
}

// With --keep, only files of those types are in the copy, in each round. A URL that cannot have such a type is not
// requested.
func TestKeep(t *testing.T) {
	s := newSite(t, map[string]answer{
		"/": page(`<a href="/one.pdf">1</a><a href="/two">2</a><a href="/next">n</a><a href="/old">o</a><img src="/a.png"><img src="/b">
			<link rel=stylesheet href="/s.css"><iframe src="/framed.pdf"></iframe>`),
		"/next":       page(`<a href="/three.pdf">3</a><a href="/big.zip">z</a>`),
		"/one.pdf":    {mediaType: "application/pdf", body: "%PDF one"},
		"/two":        {body: "%PDF-1.7 two"}, // its content decides
		"/three.pdf":  {mediaType: "application/pdf", body: "%PDF three" + strings.Repeat(" ", 2*inMemory)},
		"/framed.pdf": {mediaType: "application/pdf", body: "%PDF framed"},
		"/old":        {status: 301, location: "/moved.pdf"},
		"/moved.pdf":  {mediaType: "application/pdf", body: "%PDF moved"},
		"/a.png":      {mediaType: "image/png", body: "png"},
		"/b":          {mediaType: "image/png", body: "another"},
		"/s.css":      {mediaType: "text/css", body: "a{}"},
		"/big.zip":    {mediaType: "application/zip", body: strings.Repeat("z", 3*inMemory)},
	})
	dir := t.TempDir()
	o := Options{Dir: dir, Seeds: []string{s.URL + "/"}, Keep: []string{"application/pdf"}}
	want := []string{"framed.pdf", "moved.pdf", "one.pdf", "three.pdf", "two.pdf"}
	for range 2 {
		r := mirror(t, o)
		require.True(t, r.Complete)
		require.Equal(t, 0, r.Pages)
		require.Equal(t, 5, r.Files)
		require.Empty(t, r.Entry)
		require.Equal(t, want, names(t, dir))
	}
	require.Zero(t, s.asked["/a.png"]+s.asked["/s.css"])

	// Pages in the copy link to the network for what is not in it.
	o.Dir, o.Keep = t.TempDir(), []string{"text/*"}
	mirror(t, o)
	for name, text := range files(t, o.Dir) {
		require.NotContains(t, name, ".pdf")
		if strings.HasSuffix(name, "/index.html") {
			require.Contains(t, text, `href="`+s.URL+`/one.pdf"`)
			require.Contains(t, text, `href="s.css"`)
		}
	}

	for _, bad := range []string{"pdf", "", "a/b/c", "/x", "image/", "image/[", "*"} {
		_, err := Open(Options{Dir: t.TempDir(), Seeds: o.Seeds, Keep: []string{bad}})
		require.Equal(t, cli.CodeUsage, cli.CodeOf(err), bad)
	}
}

// Files to keep are also found behind style sheets and behind pages whose names look like pictures. What cannot lead to
// such a file is not requested.
func TestKeepAsksForWhatLeadsThere(t *testing.T) {
	s := newSite(t, map[string]answer{
		"/":                   page(`<a href="/wiki/File:Plan.png">p</a><img src="/a.PNG"><script src="/s.js"></script><link rel=stylesheet href="/s.css">`),
		"/wiki/File:Plan.png": page(`<a href="/one.pdf">1</a>`),
		"/one.pdf":            {mediaType: "application/pdf", body: "%PDF one"},
		"/s.css":              {mediaType: "text/css", body: "@font-face{src:url(/f.woff2)}a{background:url(/a.png)}b{background:url(/b.bmp)}"},
		"/a.png":              {mediaType: "image/png", body: "png"},
		"/b.bmp":              {mediaType: "image/bmp", body: "BM"},
		"/f.woff2":            {mediaType: "font/woff2", body: "wOF2"},
		"/s.js":               {mediaType: "application/javascript", body: "1"},
	})
	for _, tc := range []struct {
		keep  string
		want  []string
		spare []string
	}{
		{"application/pdf", []string{"one.pdf"}, []string{"/s.css", "/s.js", "/a.PNG", "/a.png", "/f.woff2"}},
		{"image/png", []string{"a.png"}, []string{"/s.js", "/f.woff2"}},
		{"image/bmp", []string{"b.bmp"}, []string{"/s.js", "/a.PNG", "/a.png", "/f.woff2"}},
		{"font/*", []string{"f.woff2"}, []string{"/s.js", "/a.PNG", "/a.png"}},
		{"application/javascript", []string{"s.js"}, []string{"/s.css", "/a.PNG", "/a.png", "/f.woff2"}},
	} {
		clear(s.asked)
		dir := t.TempDir()
		mirror(t, Options{Dir: dir, Seeds: []string{s.URL + "/"}, Keep: []string{tc.keep}})
		require.Equal(t, tc.want, names(t, dir), tc.keep)
		for _, path := range tc.spare {
			require.Zero(t, s.asked[path], "%s: %s", tc.keep, path)
		}
	}
}
