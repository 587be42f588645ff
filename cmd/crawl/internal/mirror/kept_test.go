package mirror

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

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
