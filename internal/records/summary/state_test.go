package summary

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/frontier/disk"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/internal/store/sqlitedb"
	_ "github.com/treadlight/crawl/internal/store/sqlitedb/engine"
	"github.com/treadlight/crawl/record"
)

// kept makes the state of a crawl in two rounds, whose rows are written by hand.
func kept(t *testing.T, sinks string) string {
	t.Helper()
	dir := t.TempDir()
	s, err := disk.Open(dir, disk.Config{})
	require.NoError(t, err)
	require.NoError(t, s.Close())
	db, err := sqlitedb.Open(filepath.Join(dir, "state.db"), sqlitedb.Config{})
	require.NoError(t, err)
	require.NoError(t, db.Exec(`
		INSERT OR REPLACE INTO rounds VALUES (1, 1000, 0), (2, 2000, 3);
		INSERT INTO hosts (id, name, known) VALUES (1, 'a.test', 3);
		INSERT INTO urls (id, host, rank, depth, hops, seed, referrer, queued_at, url) VALUES
			(1, 1, 1, 0, 0, 1, 0, 5, 'http://a.test/'), (2, 1, 2, 1, 0, 0, 1, 5, 'http://a.test/b'), (3, 1, 3, 1, 0, 0, 1, 5, 'http://a.test/c');
		INSERT INTO places (host, rank, url, attempts, returns, strikes) VALUES (1, 3, 3, 0, 0, 0);
		INSERT INTO visits (url, at, status, class, bytes, retries, round, change, digest) VALUES
			(1, 10, 200, NULL, 5, 0, 1, NULL, x'01'), (2, 20, 200, NULL, 5, 0, 1, NULL, x'02'),
			(1, 2030, 200, NULL, 6, 0, 2, 'changed', x'03'), (2, 2040, 404, NULL, 7, 1, 2, 'gone', NULL), (3, 2050, 0, 'robots', 0, 0, 2, NULL, NULL);
		INSERT INTO rates VALUES ('a.test', 5, 2.5, 3000000000, NULL, NULL), ('b.test', 5, 0.5, 0, NULL, NULL), ('c.test', 5, 0, 0, NULL, NULL);
		`+sinks))
	require.NoError(t, db.Close())
	return dir
}

// What a state without records can tell is told, of each round apart.
func TestStateAlone(t *testing.T) {
	for _, sinks := range []string{
		"", "INSERT INTO sinks VALUES ('archive', 'warc', 1, 1);", "INSERT INTO sinks VALUES ('records.jsonl', 'jsonl', 1, 1);",
	} {
		dir := kept(t, sinks)
		s := read(t, dir, Config{})
		require.Equal(t, Source{Path: filepath.Join(dir, "state.db"), Format: "state"}, s.Source)
		require.Equal(t, 2, s.Crawl.Round)
		require.EqualValues(t, 1, s.Crawl.Queued)
		require.EqualValues(t, 3, s.Crawl.Known)
		require.EqualValues(t, 2000, s.Crawl.Began.UnixMilli())
		require.Equal(t, []Rate{{Host: "b.test", PerSecond: 0.5}, {Host: "a.test", PerSecond: 2.5, Pause: 3}}, s.Crawl.Rates)
		require.Equal(t, []Count{{"200", 1}, {"404", 1}, {"none", 1}}, s.Statuses)
		require.Equal(t, []BrokenLink{{URL: "http://a.test/b", Status: 404, Pages: 1, Referrers: []string{"http://a.test/"}}}, s.Broken.Listed)
		require.EqualValues(t, 1, s.Refused.Total)
		require.EqualValues(t, 1, s.Changes.Changed.Total)
		require.Empty(t, s.Types, "nothing is known of types")
		require.Zero(t, s.Untitled.Total, "nor of titles")
		require.EqualValues(t, 2030, s.From.UnixMilli())

		s = read(t, dir, Config{Round: 1})
		require.Equal(t, 1, s.Crawl.Round)
		require.EqualValues(t, 2, s.Pages)
		require.Zero(t, s.Broken.Total)
		_, err := Read(t.Context(), dir, Config{Round: 3})
		require.ErrorContains(t, err, "there is no round 3: the latest is 2")
	}
}

// The records of a round have its number in their name, and are beside the state unless that says where.
func TestRecordsOfAState(t *testing.T) {
	first, second := written(t, sink.JSONL, site()...), written(t, sink.JSONL, page("http://a.test/", 200))
	dir := kept(t, "INSERT INTO sinks VALUES ('pages.jsonl', 'jsonl', 1, 1), ('pages-2.jsonl', 'jsonl', 1, 1);")
	require.NoError(t, os.Rename(first, filepath.Join(dir, "pages.jsonl")))
	require.NoError(t, os.Rename(second, filepath.Join(dir, "pages-2.jsonl")))
	s := read(t, dir, Config{})
	require.EqualValues(t, 1, s.Pages)
	require.EqualValues(t, 1, s.Crawl.Queued)
	s = read(t, dir, Config{Round: 1})
	require.EqualValues(t, 14, s.URLs)

	elsewhere := written(t, sink.CSV, site()...)
	s = read(t, kept(t, "DELETE FROM rounds WHERE round = 2; INSERT INTO sinks VALUES ('"+elsewhere+"', 'csv', 1, 1);"), Config{})
	require.Equal(t, "csv", s.Source.Format)
	require.EqualValues(t, 14, s.URLs)
}

func TestDirectoriesWithoutState(t *testing.T) {
	dir := t.TempDir()
	_, err := Read(t.Context(), dir, Config{})
	require.ErrorContains(t, err, "neither state.db nor records.jsonl is there")
	require.NoError(t, os.Rename(written(t, sink.JSONL, site()...), filepath.Join(dir, "records.jsonl")))
	require.EqualValues(t, 14, read(t, dir, Config{}).URLs)
	_, err = Read(t.Context(), dir, Config{Round: 2})
	require.Error(t, err)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "state.db"), []byte("this is no database at all, but a text of some length"), 0o600))
	_, err = Read(t.Context(), dir, Config{})
	require.ErrorContains(t, err, "state.db")
}

// What is no state of this program, or one of another version, says what to do.
func TestForeignStates(t *testing.T) {
	for want, path := range map[string]string{
		"state.db: it is no state of a crawl: name another directory":    kept(t, "PRAGMA user_version = 0;"),
		"use the program that wrote it, or name the file of the records": kept(t, "PRAGMA user_version = 7;"),
	} {
		_, err := Read(t.Context(), path, Config{})
		require.ErrorContains(t, err, want)
	}
}

// hostile is what strangers may write wherever they have a hand in it.
const hostile = "javascript:alert(1)//\"'><script>alert(2)</script><img src=x onerror=alert(3)>\u202e\x1b[31m</style>"

// Whatever a record holds is text in the page: no element and no attribute comes of it, no link leads anywhere but to
// HTTP, and nothing is loaded.
func TestHTMLIsHarmless(t *testing.T) {
	var records []record.Record
	for _, u := range []string{hostile, "http://" + hostile, "http://a.test/" + hostile} {
		for _, r := range site() {
			r.URL, r.Title, r.ContentType, r.Change = u+r.URL, hostile, hostile, hostile
			r.Links, r.Referrer, r.Kind = []string{hostile, u}, hostile, strings.Replace(r.Kind, "robots", hostile, 1)
			if r.RedirectTo != "" {
				r.RedirectTo = u
			}
			if r.Error != nil {
				r.Error = &record.Error{Class: hostile}
			}
			if r.Sitemap != nil {
				r.Sitemap = &record.Sitemap{Format: hostile, Problem: hostile, Problems: 1}
			}
			r.DuplicateOf = hostile
			records = append(records, r)
		}
	}
	s := read(t, written(t, sink.JSONL, records...), Config{})
	s.Hosts.Listed[0].Host, s.Hosts.Listed[0].Reason = hostile, hostile
	s.Crawl = &Crawl{Round: 2, Rates: []Rate{{Host: hostile, PerSecond: 1}}}
	s.Left = []string{hostile}
	var b strings.Builder
	require.NoError(t, s.WriteHTML(&b))
	require.NotContains(t, b.String(), "\x1b")
	require.NotContains(t, b.String(), "\u202e")
	checkHarmless(t, b.String())
}

// checkHarmless reads the page as a browser does.
func checkHarmless(t *testing.T, page string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(page))
	require.NoError(t, err)
	styles := 0
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		require.NotContains(t, []string{"script", "img", "iframe", "object", "embed", "link", "form", "base", "svg"}, n.Data)
		if n.Data == "style" {
			styles++
		}
		for _, a := range n.Attr {
			require.NotRegexp(t, `^on`, a.Key)
			switch a.Key {
			case "href":
				require.Regexp(t, `^https?://`, a.Val)
			case "src":
				t.Errorf("%s has a src: %s", n.Data, a.Val)
			case "style":
				require.Regexp(t, `^width:\d+(\.\d+)?%$`, a.Val)
			}
		}
	}
	require.Equal(t, 1, styles)
	require.Contains(t, page, `default-src 'none'`)
}

// Everything that there is has a place in the page.
func TestHTMLTellsAll(t *testing.T) {
	s := read(t, written(t, sink.JSONL, site()...), Config{})
	s.Source.Cut, s.Source.Damaged, s.Source.FirstDamaged = true, 1234, 7
	s.Crawl = &Crawl{Round: 3, Queued: 4321, Rates: []Rate{{Host: "a.test", PerSecond: 0.25, Pause: 9}}}
	s.Hosts.Listed[0].Reason = "asks for patience"
	var b strings.Builder
	require.NoError(t, s.WriteHTML(&b))
	for _, want := range []string{
		"round 3", "is cut off", "1,234 damaged lines", "4,321", "0.25", "asks for patience", "not found", "timeout", "on 3 pages",
		"http://a.test/logo.png", "loop: ", "1 exact, 1 near", "line 3: no loc", "Kept back by robots.txt: 1", "HTML without a title: 1",
		"Gone: 1", "Ask not to be indexed: 1", "5.0 MiB", "30,000",
	} {
		require.Contains(t, b.String(), want)
	}
	checkHarmless(t, b.String())
	b.Reset()
	require.NoError(t, (&Summary{}).WriteHTML(&b), "of nothing there is a page too")
	require.NotContains(t, b.String(), "NaN")
}

// JSON is read back as it was: programs miss nothing.
func TestJSON(t *testing.T) {
	s := read(t, written(t, sink.JSONL, site()...), Config{})
	data, err := json.Marshal(s)
	require.NoError(t, err)
	back := new(Summary)
	require.NoError(t, json.Unmarshal(data, back))
	require.Equal(t, s, back)
}

func TestSpread(t *testing.T) {
	require.Equal(t, Spread{}, (&histogram{}).spread(1))
	rnd := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []float64
	for range 10_000 {
		v := math.Exp(rnd.NormFloat64()*2 + 8)
		h.add(v)
		all = append(all, v)
	}
	slices.Sort(all)
	s := h.spread(10)
	for q, got := range map[float64]float64{0.5: s.P50, 0.95: s.P95, 0.99: s.P99} {
		require.InEpsilon(t, all[int(q*float64(len(all)))-1]/10, got, 0.05)
	}
	require.InDelta(t, all[len(all)-1]/10, s.Max, 1e-9)
	for _, strange := range []float64{0, -1, math.NaN(), math.Inf(1), 1e300} {
		h.add(strange)
	}
	require.LessOrEqual(t, len(h.steps), 64*perOctave+1)
}

// Whatever stands in a file, a summary of it can be told in every form.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"url":"http://a.test/","kind":"page","status":301,"redirect_to":"http://a.test/","links":["http://a.test/"],"timings_ms":{"total":1e308}}` + "\n"))
	f.Add([]byte(`{"url":"\u0000","kind":"sitemap","bytes":-1,"sitemap":{"problems":-3,"problem":"x"},"error":{"class":""}}` + "\n{"))
	f.Add([]byte("url,kind,status,total_ms,bytes,fetched_at\nhttp://a.test/,page,404,NaN,Inf,2026-01-02T03:04:05Z\n\"a"))
	f.Add([]byte{0x1f, 0x8b, 8})
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Read(t.Context(), path, Config{List: 3, MaxHosts: 2, MaxBroken: 2, MaxRedirects: 2, MaxDigests: 2})
		if err != nil {
			return
		}
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
		var b strings.Builder
		if err := s.WriteHTML(&b); err != nil {
			t.Error(err)
		}
	})
}
