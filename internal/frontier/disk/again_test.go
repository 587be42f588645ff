//go:build unix

package disk

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
)

func at(ms int64) time.Time { return time.UnixMilli(1_700_000_000_000 + ms) }

func digest(b byte) (d [32]byte) {
	for i := range d {
		d[i] = b
	}
	return d
}

func again(t testing.TB, s *Store, a Again) {
	t.Helper()
	require.NoError(t, s.Again(t.Context(), a))
}

func before(items []frontier.Item) map[string]*frontier.Visit {
	m := map[string]*frontier.Visit{}
	for _, it := range items {
		m[it.URL.Path()] = it.Before
	}
	return m
}

func visited(t testing.TB, dir string, cfg Config, visits ...frontier.Visit) *Store {
	t.Helper()
	s := openState(t, dir, cfg)
	putMany(t, s, 1, int64(len(visits)))
	for i, v := range visits {
		done(s, int64(i)+1, v)
	}
	flush(t, s)
	return s
}

// A new round has every URL queued as it was found, with what is known of it.
func TestAgain(t *testing.T) {
	s := openState(t, t.TempDir(), Config{})
	page, list := testItem(t, 1, "http://a.test/1"), testItem(t, 2, "http://b.test/map")
	page.Rank, page.Depth, page.Hops, page.Seed = -3, 4, 2, true
	list.Kind, list.FoundOn = frontier.Sitemap, 1
	put(s, page, false)
	put(s, list, false)
	page.Attempt, page.URLFailures = 3, 1
	spent(s, page)
	known := frontier.Visit{At: at(1), Status: 200, Bytes: 9, ETag: `W/"x,y"`, LastModified: at(-5000), Digest: digest(7)}
	done(s, 1, known)
	done(s, 2, frontier.Visit{At: at(2), Status: 301, Digest: digest(8)})
	s.Commit(nil)
	require.Equal(t, 1, s.Round())
	again(t, s, Again{Meta: map[string]string{"settings": "other"}})

	check := func() {
		t.Helper()
		require.Equal(t, 2, s.Round())
		require.Equal(t, "other", s.Meta("settings"))
		require.Equal(t, frontier.Left{Queued: 2, Known: 2, LastID: 2}, s.Left())
		require.Equal(t, Counts{Queued: 2, Known: 2, Hosts: 2}, s.Counts())
		require.True(t, s.Known(page.URL.Fingerprint(s.Key())))
		s.Activate(9)
		s.Commit(nil)
		require.ElementsMatch(t, []frontier.HostLeft{{Name: "a.test", Queued: 1, Pages: 1}, {Name: "b.test", Queued: 1}}, answer(t, s).Hosts)
		got := loadAll(t, s, "a.test")[0]
		want := *testItem(t, 1, "http://a.test/1")
		want.Rank, want.Depth, want.Hops, want.Seed = -3, 4, 2, true
		want.Before = &known
		require.Equal(t, want, got, "no tries are held against it")
		got = loadAll(t, s, "b.test")[0]
		require.Equal(t, frontier.Sitemap, got.Kind)
		require.Equal(t, "http://a.test/1", got.Referrer)
		require.Equal(t, &frontier.Visit{At: at(2), Status: 301, Digest: digest(8)}, got.Before)
	}
	check()
	s = reopen(t, s)
	check()

	done(s, 1, frontier.Visit{At: at(9), Status: 304, ETag: known.ETag, Digest: known.Digest, Change: frontier.Unchanged})
	flush(t, s)
	require.EqualValues(t, 2, ask(t, s, `SELECT round FROM visits WHERE change = 'unchanged' AND hex(digest) = '`+strings.Repeat("07", 32)+`' AND modified IS NULL`))
	require.EqualValues(t, 3, ask(t, s, `SELECT count(*) FROM visits`))
	require.EqualValues(t, 2, ask(t, s, `SELECT count(*) FROM latest`))
	require.EqualValues(t, 1, ask(t, s, `SELECT count(*) FROM pages WHERE state = 'queued' AND kind = 'sitemap' AND status = 301`))
	require.EqualValues(t, 2, ask(t, s, `SELECT due FROM rounds WHERE round = 2`))
	n, given, err := s.CountVisits()
	require.NoError(t, err)
	require.EqualValues(t, 1, n, "of this round")
	require.EqualValues(t, 1, given, "it is unchanged")
}

// What a later round is told of a URL is the last visit that says something of the page,
// however many have failed since.
func TestAgainKnowsTheLastTellingVisit(t *testing.T) {
	s := visited(t, t.TempDir(), Config{},
		frontier.Visit{Status: 200, ETag: `"1"`, Digest: digest(1)},
		frontier.Visit{Status: 200, ETag: `"2"`, Digest: digest(2)},
		frontier.Visit{Status: 200, ETag: `"3"`, Digest: digest(3)},
		frontier.Visit{Status: 500},
		frontier.Visit{Class: "robots", Refused: true},
		frontier.Visit{Status: 200, Class: "decode"})
	again(t, s, Again{})
	done(s, 1, frontier.Visit{Status: 304, ETag: `"1b"`, Digest: digest(1)})
	done(s, 2, frontier.Visit{Class: "timeout"})
	done(s, 3, frontier.Visit{Status: 410})
	for id := int64(4); id <= 6; id++ {
		done(s, id, frontier.Visit{Status: 403})
	}
	flush(t, s)
	again(t, s, Again{})
	require.Equal(t, 3, s.Round())
	require.Equal(t, map[string]*frontier.Visit{
		"/1": {Status: 304, ETag: `"1b"`, Digest: digest(1)}, "/2": {Status: 200, ETag: `"2"`, Digest: digest(2)},
		"/3": {Status: 410}, "/4": nil, "/5": nil, "/6": nil,
	}, before(loadAll(t, s, "a.test")))
}

// What was answered lately need not be asked again; what was refused, or gave no answer, is.
func TestAgainWithMaxAge(t *testing.T) {
	s := visited(t, t.TempDir(), Config{},
		frontier.Visit{At: at(1000), Status: 200}, frontier.Visit{At: at(999), Status: 200}, frontier.Visit{At: at(5000), Status: 404},
		frontier.Visit{At: at(5000), Class: "timeout"}, frontier.Visit{At: at(5000), Class: "robots", Refused: true})
	require.EqualValues(t, 1, ask(t, s, `SELECT refused FROM hosts`))
	again(t, s, Again{Since: at(1000)})
	require.Equal(t, []string{"2 http://a.test/2", "4 http://a.test/4", "5 http://a.test/5"}, urls(loadAll(t, s, "a.test")))
	require.EqualValues(t, 0, ask(t, s, `SELECT refused FROM hosts`))
	require.Equal(t, Counts{Queued: 3, Done: 2, Known: 5, Hosts: 1}, s.Counts())
	done(s, 5, frontier.Visit{At: at(7000), Class: "robots", Refused: true})
	flush(t, s)
	again(t, s, Again{Since: at(6000)}) // with some of the round before still queued
	require.Equal(t, []string{"1 http://a.test/1", "2 http://a.test/2", "3 http://a.test/3", "4 http://a.test/4", "5 http://a.test/5"}, urls(loadAll(t, s, "a.test")))
}

// A round is begun whole or not at all, and what was told before is of the round before.
func TestAgainIsAtomic(t *testing.T) {
	dir := t.TempDir()
	s := visited(t, dir, Config{linger: time.Hour}, frontier.Visit{Status: 200})
	put(s, testItem(t, 2, "http://a.test/2"), false)
	done(s, 2, frontier.Visit{Status: 200})
	s.Commit([]frontier.Position{{Path: "out", Bytes: 1}})
	again(t, s, Again{})
	require.EqualValues(t, 2, ask(t, s, `SELECT count(*) FROM visits WHERE round = 1`))
	require.EqualValues(t, 2, ask(t, s, `SELECT count(*) FROM queue`))
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Again(t.Context(), Again{}), ErrClosed)

	edit(t, s.path, `CREATE TRIGGER full BEFORE INSERT ON rounds BEGIN SELECT raise(ABORT, 'the disk is full'); END; DELETE FROM places`)
	s = openState(t, dir, Config{})
	require.ErrorContains(t, s.Again(t.Context(), Again{Meta: map[string]string{"settings": "other"}}), "begin a round: ")
	require.ErrorContains(t, s.Err(), "the disk is full")
	require.Error(t, s.Close())
	edit(t, s.path, `DROP TRIGGER full`)
	s = openState(t, dir, Config{})
	require.Empty(t, s.Meta("settings"))
	require.Equal(t, 2, s.Round())
	require.Zero(t, s.Left().Queued)
}

// A row that somebody has changed is taken for what it says, as far as that can be.
func TestAgainWithOddRows(t *testing.T) {
	s := visited(t, t.TempDir(), Config{}, frontier.Visit{Status: 200, Digest: digest(1)}, frontier.Visit{Status: 200})
	again(t, s, Again{})
	require.NoError(t, s.Close())
	edit(t, s.path, `UPDATE visits SET digest = x'0102' WHERE url = 1; UPDATE places SET visit = 99 WHERE url = 2`)
	s = openState(t, filepath.Dir(s.path), Config{})
	require.Equal(t, map[string]*frontier.Visit{"/1": {Status: 200}, "/2": {}}, before(loadAll(t, s, "a.test")))
}

// A sitemap and a page at the place where sitemaps usually are have fingerprints of their own, also when the index is
// made anew from the rows.
func TestSitemapIsNoPage(t *testing.T) {
	for name, lost := range map[string]bool{"with the index": false, "without the index": true} {
		t.Run(name, func(t *testing.T) {
			s := openState(t, t.TempDir(), Config{})
			list, page := testItem(t, 1, "http://a.test/sitemap.xml"), testItem(t, 2, "http://b.test/sitemap.xml")
			list.Kind = frontier.Sitemap
			s.Put("a.test", list, list.Fingerprint(s.Key()), false)
			s.Put("b.test", page, page.Fingerprint(s.Key()), false)
			flush(t, s)
			require.NoError(t, s.Close())
			if lost {
				require.NoError(t, os.RemoveAll(filepath.Join(filepath.Dir(s.path), seenName)))
			}
			s = openState(t, filepath.Dir(s.path), Config{})
			for _, it := range []*frontier.Item{list, page} {
				require.True(t, s.Known(it.Fingerprint(s.Key())), it.URL)
				it.Kind = frontier.Sitemap - it.Kind
				require.False(t, s.Known(it.Fingerprint(s.Key())), it.URL)
			}
		})
	}
}
