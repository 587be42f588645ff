package mirror

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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
	text, err := os.ReadFile(journal)
	require.NoError(t, err)
	stale := filepath.Join(dir, "127.0.0.1", "stale.html")
	require.NoError(t, os.MkdirAll(filepath.Dir(stale), 0o755))
	require.NoError(t, os.WriteFile(stale, nil, 0o600))
	before := strings.Replace(string(text), `"seeds"`, `"open":true,"full":true,"stale":["127.0.0.1/stale.html"],"seeds"`, 1)
	require.NoError(t, os.WriteFile(journal, []byte(before+`{"u":"http`), 0o600))
	x, err := openIndex(dir)
	require.NoError(t, err)
	require.NoError(t, x.put(&entry{URL: s.URL + "/gone", Redirect: s.URL + "/d/"}))
	require.NoError(t, x.close())
	clear(s.asked)
	require.True(t, mirror(t, o).Complete)
	assert.Empty(t, s.asked, "everything was fetched")
	assert.Equal(t, want, files(t, dir))
	assert.NoFileExists(t, stale)

	require.NoError(t, os.WriteFile(journal, []byte(strings.Replace(before, "127.0.0.1/stale", "../stale", 1)), 0o600))
	_, err = tryMirror(t.Context(), o)
	require.ErrorContains(t, err, "is not in the copy")
}
