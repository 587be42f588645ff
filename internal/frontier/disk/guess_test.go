package disk

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// What is known of the places of sitemaps is there when a state is opened again, as of the last
// batch that has ended; what a person has made of a row is taken as far as it can be.
func TestGuesses(t *testing.T) {
	at := func(url string) canonical.URL { return testItem(t, 1, url).URL }
	s := openState(t, t.TempDir(), Config{})
	put(s, testItem(t, 1, "http://a.test/"), false)
	a := frontier.Guess{URL: at("http://a.test/sitemap.xml"), Absent: true}
	b := frontier.Guess{URL: at("https://b.test/sitemap.xml"), Link: &frontier.Item{URL: at("https://b.test/sitemap.xml"), Found: frontier.Found{Depth: 2, Hops: 1, FoundOn: 1}}}
	seed := frontier.Guess{URL: at("http://c.test/sitemap.xml"), Absent: true, Link: &frontier.Item{URL: at("http://c.test/sitemap.xml"), Found: frontier.Found{Seed: true}}}
	for _, g := range []frontier.Guess{a, b, seed} {
		s.Guess(g)
	}
	require.Empty(t, s.TakeGuesses(), "of when it was opened")
	s.Commit(nil)
	a.Link = &frontier.Item{URL: a.URL, Found: frontier.Found{Depth: 1, FoundOn: 1}}
	s.Guess(a) // of a batch that does not end
	a.Link = nil

	s = reopen(t, s)
	b.Link.Referrer = "http://a.test/"
	require.ElementsMatch(t, []frontier.Guess{a, b, seed}, s.TakeGuesses())
	require.Empty(t, s.TakeGuesses(), "they were let go of")
	again(t, s, Again{})
	require.Len(t, s.TakeGuesses(), 3)
	b.Absent = true
	s.Guess(b)
	flush(t, s)
	require.NoError(t, s.Close())
	edit(t, s.path, `INSERT INTO guesses VALUES ('nothing', 1, NULL, NULL, NULL), ('http://d.test/page', 1, NULL, NULL, NULL);
		UPDATE guesses SET depth = -1, hops = 1000 WHERE url LIKE '%b.test%'`)
	s = openState(t, filepath.Dir(s.path), Config{})
	b.Link.Depth, b.Link.Hops = 0, 255
	require.ElementsMatch(t, []frontier.Guess{a, b, seed}, s.TakeGuesses())
	require.NoError(t, s.Close())
	db, err := sqlitedb.Open(s.path, sqlitedb.Config{ReadOnly: true})
	require.NoError(t, err)
	some, err := readGuesses(db, 2)
	require.NoError(t, errors.Join(err, db.Close()))
	require.Len(t, some, 2)
}

// A page where a sitemap was looked for has a fingerprint of its own, also when the index is made
// anew from the rows, all of them or the last.
func TestFingerprintOfAPageAtThePlaceOfASitemap(t *testing.T) {
	for name, tc := range map[string]struct{ sitemap, lost bool }{
		"after the sitemap": {sitemap: true}, "after the sitemap, without the index": {sitemap: true, lost: true},
		"alone": {}, "alone, without the index": {lost: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := openState(t, t.TempDir(), Config{})
			it := testItem(t, 1, "http://a.test/sitemap.xml")
			fp := it.URL.Fingerprint(s.Key())
			if tc.sitemap {
				it.Kind = frontier.Sitemap
				s.Put("a.test", it, fp, false)
				page := testItem(t, 2, "http://a.test/sitemap.xml")
				s.Put("a.test", page, frontier.AsPage(fp), false)
			} else {
				s.Put("a.test", it, fp, false)
			}
			flush(t, s)
			require.NoError(t, s.Close())
			if tc.lost {
				require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(s.path), seenName)))
			}
			s = openState(t, filepath.Dir(s.path), Config{})
			require.True(t, s.Known(fp))
			require.Equal(t, tc.sitemap, s.Known(frontier.AsPage(fp)))
			require.NoError(t, s.rebuild())
			require.True(t, s.Known(fp))
			require.Equal(t, tc.sitemap, s.Known(frontier.AsPage(fp)))
		})
	}
}
