package mirror

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/cmd/crawl/internal/cli"
)

// Only files of the types that are kept are there, in each round; what cannot be one is not asked for.
func TestKeep(t *testing.T) {
	s := newSite(t, map[string]answer{
		"/": page(`<a href="/one.pdf">1</a><a href="/two">2</a><a href="/next">n</a><a href="/old">o</a><img src="/a.png"><img src="/b">
			<link rel=stylesheet href="/s.css"><iframe src="/framed.pdf"></iframe>`),
		"/next":       page(`<a href="/three.pdf">3</a><a href="/big.zip">z</a>`),
		"/one.pdf":    {mediaType: "application/pdf", body: "%PDF one"},
		"/two":        {body: "%PDF-1.7 two"}, // by its content
		"/three.pdf":  {mediaType: "application/pdf", body: "%PDF three" + strings.Repeat(" ", 2*inMemory)},
		"/framed.pdf": {mediaType: "application/pdf", body: "%PDF framed"},
		"/old":        {status: 301, location: "/moved.pdf"},
		"/moved.pdf":  {mediaType: "application/pdf", body: "%PDF moved"},
		"/a.png":      {mediaType: "image/png", body: "png"},
		"/b":          {mediaType: "image/png", body: "another"},
		"/s.css":      {mediaType: "text/css", body: "a{}"},
		"/big.zip":    {mediaType: "application/zip", body: strings.Repeat("z", 3*inMemory)},
	})
	names := func(dir string) (all []string) {
		for _, file := range slices.Sorted(maps.Keys(files(t, dir))) {
			all = append(all, file[strings.LastIndexByte(file, '/')+1:])
		}
		slices.Sort(all)
		return all
	}
	dir := t.TempDir()
	o := Options{Dir: dir, Seeds: []string{s.URL + "/"}, Keep: []string{"application/pdf"}}
	want := []string{"framed.pdf", "moved.pdf", "one.pdf", "three.pdf", "two.pdf"}
	for range 2 {
		r := mirror(t, o)
		require.True(t, r.Complete)
		require.Equal(t, 0, r.Pages)
		require.Equal(t, 5, r.Files)
		require.Empty(t, r.Entry)
		require.Equal(t, want, names(dir))
	}
	require.Zero(t, s.asked["/a.png"]+s.asked["/s.css"])

	// Pages that are kept lead to the network for what is not.
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
