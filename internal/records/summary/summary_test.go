package summary

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

// written puts records into a file as a crawl does.
func written(t *testing.T, format sink.Format, records ...record.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "records."+string(format))
	s, err := sink.Open(path, sink.Config{Format: format})
	require.NoError(t, err)
	for i := range records {
		require.NoError(t, s.Write(&records[i]))
	}
	require.NoError(t, s.Close())
	return path
}

// reportable are the formats of which there are reports.
func reportable() (formats []sink.Format) {
	for _, spec := range sink.Formats() {
		if spec.Reportable() {
			formats = append(formats, spec.Format)
		}
	}
	return formats
}

// page is a record of a page that was answered.
func page(url string, status int) record.Record {
	return record.Record{
		URL: url, Kind: "page", Status: status, Attempt: 1, ContentType: "text/html", Title: "t", Bytes: 1000, WireBytes: 500,
		FetchedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Timings: record.Timings{FirstByte: 80 * time.Millisecond, Total: 100 * time.Millisecond},
	}
}

// failed is one that was not.
func failed(url, class string) record.Record {
	r := page(url, 0)
	r.Error = &record.Error{Class: class, Message: "in words"}
	r.Bytes, r.ContentType = 0, ""
	return r
}

// site is a crawl in which there is something of everything.
func site() []record.Record {
	home := page("http://a.test/", 200)
	home.Links = []string{"http://a.test/gone", "http://a.test/old", "http://b.test/down", "http://a.test/gone"}
	home.NofollowLinks = []string{"http://a.test/gone"}
	second := page("http://a.test/second", 200)
	second.Links = []string{"http://a.test/gone"}
	second.Resources = []string{"http://a.test/gone", "http://a.test/logo.png"}
	second.Directives = []string{"noindex", "nofollow"}
	second.Title = ""
	untitled := page("http://a.test/untitled", 200)
	untitled.Title, untitled.Bytes, untitled.Truncated = " ", 5<<20, true
	logo := page("http://a.test/logo.png", 404)
	old := page("http://a.test/old", 301)
	old.RedirectTo = "http://a.test/older"
	older := page("http://a.test/older", 302)
	older.RedirectTo = "http://a.test/gone"
	round := page("http://a.test/round", 302)
	round.RedirectTo = "http://a.test/back"
	back := page("http://a.test/back", 308)
	back.RedirectTo = "http://a.test/round"
	down := failed("http://b.test/down", "timeout")
	down.Timings.Total = 30 * time.Second
	copied := page("http://a.test/copy", 200)
	copied.Duplicate, copied.DuplicateOf = "exact", "http://a.test/"
	near := page("http://a.test/near", 200)
	near.Duplicate, near.DuplicateOf, near.Change = "near", "http://a.test/", "changed"
	gone := page("http://a.test/gone", 410)
	gone.Change = "gone"
	private := failed("http://a.test/private", "robots")
	private.Attempt, private.Timings = 0, record.Timings{}
	film := failed("http://a.test/film", "filtered")
	film.Status = 200
	robots := page("http://a.test/robots.txt", 200)
	robots.Kind = "robots"
	listed := page("http://a.test/sitemap.xml", 200)
	listed.Kind, listed.Sitemap = "sitemap", &record.Sitemap{Format: "urlset", URLs: 7, Problems: 2, Problem: "line 3: no loc"}
	return []record.Record{robots, listed, home, second, untitled, logo, old, older, round, back, down, copied, near, gone, private, film}
}

func read(t *testing.T, path string, cfg Config) *Summary {
	t.Helper()
	s, err := Read(t.Context(), path, cfg)
	require.NoError(t, err)
	return s
}

func TestSummaryOfASite(t *testing.T) {
	s := read(t, written(t, sink.JSONL, site()...), Config{})
	require.Equal(t, Source{Path: s.Source.Path, Format: "jsonl", Links: true}, s.Source)
	require.EqualValues(t, 16, s.Records)
	require.EqualValues(t, 14, s.URLs)
	require.EqualValues(t, 5, s.Pages, "those with a 2xx status")
	require.EqualValues(t, 3, s.Failed, "404, 410 and a timeout")
	require.EqualValues(t, 1, s.Robots)
	require.Equal(t, []Count{{"200", 6}, {"302", 2}, {"none", 2}, {"301", 1}, {"308", 1}, {"404", 1}, {"410", 1}}, s.Statuses)
	require.Equal(t, []Count{{"filtered", 1}, {"robots", 1}, {"timeout", 1}}, s.Errors)
	require.Equal(t, []Count{{"0", 14}}, s.Depths)
	require.Equal(t, 2, s.Hosts.Total)
	require.Equal(t, "b.test", s.Hosts.Listed[0].Host, "the slowest comes first")
	require.EqualValues(t, 1, s.Hosts.Listed[0].Failed)
	require.EqualValues(t, 12, s.Hosts.Listed[1].URLs, "what robots.txt refuses was not asked for")
	require.InEpsilon(t, 30_000, s.Latency.Max, 1e-9)
	require.InEpsilon(t, 100, s.Latency.P50, 0.05)
	require.Equal(t, "http://a.test/untitled", s.Largest[0].URL)
	require.Equal(t, "http://b.test/down", s.Slowest[0].URL)
	require.Equal(t, Maps{Total: 1, URLs: 7, Problems: 2, Listed: []Map{
		{URL: "http://a.test/sitemap.xml", Status: 200, Format: "urlset", URLs: 7, Problems: 2, Problem: "line 3: no loc"},
	}}, s.Maps)
	for name, l := range map[string]List{
		"second": s.NoIndex, "second ": s.NoFollow, "untitled": s.Untitled, "untitled ": s.Truncated,
		"private": s.Refused, "film": s.Filtered, "near": s.Changes.Changed, "gone": s.Changes.Gone,
	} {
		require.Equal(t, List{Total: 1, URLs: []string{"http://a.test/" + strings.TrimSpace(name)}}, l, name)
	}
	require.EqualValues(t, 1, s.NoFollowLinks)
	require.Equal(t, Duplicates{Exact: 1, Near: 1, Groups: []Group{
		{Of: "http://a.test/", Total: 2, URLs: []string{"http://a.test/copy", "http://a.test/near"}},
	}}, s.Duplicates)
	require.Empty(t, s.Left)
}

// Every page that links to a broken one is named once, however often and however it links; what is not the server's
// word is not broken.
func TestReferrersOfBrokenPages(t *testing.T) {
	s := read(t, written(t, sink.JSONL, site()...), Config{})
	require.EqualValues(t, 3, s.Broken.Total)
	require.Equal(t, []BrokenLink{
		{URL: "http://a.test/gone", Status: 410, Pages: 3, Referrers: []string{"http://a.test/", "http://a.test/second", "http://a.test/older"}},
		{URL: "http://a.test/logo.png", Status: 404, Pages: 1, Referrers: []string{"http://a.test/second"}},
		{URL: "http://b.test/down", Class: "timeout", Pages: 1, Referrers: []string{"http://a.test/"}},
	}, s.Broken.Listed)
}

func TestReferrersAreBounded(t *testing.T) {
	records := []record.Record{page("http://a.test/gone", 404), page("http://a.test/gone2", 404)}
	for i := range 30 {
		p := page(fmt.Sprintf("http://a.test/%02d", i), 200)
		p.Links = []string{"http://a.test/gone", "http://a.test/gone2"}
		records = append(records, p)
	}
	s := read(t, written(t, sink.JSONL, records...), Config{Referrers: 3, MaxBroken: 1})
	require.EqualValues(t, 2, s.Broken.Total)
	require.Len(t, s.Broken.Listed, 1)
	require.EqualValues(t, 30, s.Broken.Listed[0].Pages)
	require.Len(t, s.Broken.Listed[0].Referrers, 3)
	require.Equal(t, []string{"of broken pages beyond the first 1 it is not told who links to them: they are 1"}, s.Left)
}

func TestChainsOfRedirects(t *testing.T) {
	s := read(t, written(t, sink.JSONL, site()...), Config{})
	require.Equal(t, Redirects{Total: 4, Permanent: 2, Chains: 1, Loops: 1, Listed: []Chain{
		{URLs: []string{"http://a.test/back", "http://a.test/round", "http://a.test/back"}, Loop: true},
		{URLs: []string{"http://a.test/old", "http://a.test/older", "http://a.test/gone"}, Status: 410},
	}}, s.Redirects)

	itself := page("http://a.test/me", 302)
	itself.RedirectTo = itself.URL
	into := page("http://a.test/into", 302)
	into.RedirectTo = itself.URL
	simple := page("http://a.test/simple", 302)
	simple.RedirectTo = "http://a.test/fine"
	s = read(t, written(t, sink.JSONL, itself, into, simple), Config{})
	require.Equal(t, []Chain{{URLs: []string{"http://a.test/into", "http://a.test/me", "http://a.test/me"}, Loop: true}}, s.Redirects.Listed)

	var long []record.Record
	for i := range 200 {
		p := page(fmt.Sprintf("http://a.test/%03d", i), 302)
		p.RedirectTo = fmt.Sprintf("http://a.test/%03d", i+1)
		long = append(long, p)
	}
	s = read(t, written(t, sink.JSONL, long...), Config{MaxRedirects: 120})
	require.Len(t, s.Redirects.Listed[0].URLs, longestChain+1)
	require.EqualValues(t, 200, s.Redirects.Total)
	require.Contains(t, s.Left[0], "there are 80 more")
}

// What the crawl has not marked is found by its digest, as in CSV, which has no marks.
func TestRepetitionsByDigest(t *testing.T) {
	var records []record.Record
	for i := range 6 {
		p := page(fmt.Sprintf("http://a.test/%d", i), 200)
		p.Digest = fmt.Sprintf("sha256:%d", i%2)
		records = append(records, p)
	}
	records = append(records, records[0]) // twice after a crash: no repetition of itself
	for _, format := range reportable() {
		s := read(t, written(t, format, records...), Config{})
		require.EqualValues(t, 4, s.Duplicates.Exact)
		require.Equal(t, Group{Of: "http://a.test/0", Total: 2, URLs: []string{"http://a.test/2", "http://a.test/4"}}, s.Duplicates.Groups[0])
	}
	s := read(t, written(t, sink.JSONL, records...), Config{MaxDigests: 1})
	require.EqualValues(t, 2, s.Duplicates.Exact)
	require.Len(t, s.Left, 1)
}

func TestTables(t *testing.T) {
	records := site()
	for i := range records {
		if records[i].URL == "http://a.test/logo.png" {
			records[i].Referrer = "http://a.test/second"
			records[i].Title = "=1+1, \"two\"\nlines"
		}
	}
	whole := read(t, written(t, sink.JSONL, records...), Config{})
	for _, format := range reportable() {
		if spec := format.Spec(); spec.Separator == 0 {
			continue
		}
		s := read(t, written(t, format, records...), Config{})
		require.Equal(t, string(format), s.Source.Format)
		require.False(t, s.Source.Links)
		require.Equal(t, whole.Statuses, s.Statuses)
		require.Equal(t, whole.Errors, s.Errors)
		require.Equal(t, whole.Types, s.Types)
		require.Equal(t, whole.Sizes, s.Sizes)
		require.Equal(t, whole.Latency, s.Latency)
		require.Equal(t, whole.Redirects, s.Redirects)
		require.Equal(t, whole.NoIndex, s.NoIndex)
		require.Equal(t, whole.Untitled, s.Untitled)
		require.Equal(t, whole.From, s.From)
		require.EqualValues(t, 3, s.Broken.Total)
		require.Equal(t, BrokenLink{URL: "http://a.test/logo.png", Status: 404, Pages: 1, Referrers: []string{"http://a.test/second"}}, s.Broken.Listed[0])
	}
}

func TestCompressed(t *testing.T) {
	plain, err := os.ReadFile(written(t, sink.JSONL, site()...))
	require.NoError(t, err)
	var b bytes.Buffer
	gz := gzip.NewWriter(&b)
	_, err = gz.Write(plain)
	require.NoError(t, err)
	require.NoError(t, gz.Close())
	path := filepath.Join(t.TempDir(), "r.jsonl.gz")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o600))
	s := read(t, path, Config{})
	require.EqualValues(t, 16, s.Records)
	require.EqualValues(t, 3, s.Broken.Listed[0].Pages)
	require.False(t, s.Source.Cut)

	require.NoError(t, os.WriteFile(path, b.Bytes()[:b.Len()-40], 0o600))
	s = read(t, path, Config{})
	require.True(t, s.Source.Cut)
	require.Positive(t, s.Records)
}

// A file to which a crawl adds, or that a crash has cut off, ends anywhere.
func TestEveryCut(t *testing.T) {
	for _, format := range reportable() {
		path := written(t, format, site()[2:5]...)
		all, err := os.ReadFile(path)
		require.NoError(t, err)
		first := bytes.IndexByte(all, '\n') + 1
		first += bytes.IndexByte(all[first:], '\n') + 1
		for n := len(all) - 1; n >= first; n -= 3 {
			require.NoError(t, os.WriteFile(path, all[:n], 0o600))
			s := read(t, path, Config{})
			require.Zero(t, s.Source.Damaged, "%s cut at %d", format, n)
			lines := bytes.Count(all[:n], []byte("\n"))
			if spec := format.Spec(); spec.Separator != 0 {
				lines--
			}
			require.GreaterOrEqual(t, s.Records, int64(lines), "%s cut at %d", format, n)
			if !s.Source.Cut {
				require.LessOrEqual(t, s.Records, int64(lines+1))
			}
		}
	}
}

func TestDamage(t *testing.T) {
	good := `{"url":"http://a.test/","kind":"page","status":200}` + "\n"
	long := `{"url":"http://a.test/b","links":["` + strings.Repeat("x", 5000) + "\"]}\n"
	for text, want := range map[string]Source{
		good + "nonsense\n" + good + "\n\n[1]\n": {Damaged: 2, FirstDamaged: 2},
		good + `{"url":7}` + "\n":                {Damaged: 1, FirstDamaged: 2},
		good + `{"status":200}` + "\n" + good:    {Damaged: 1, FirstDamaged: 2},
		good + long:                              {Damaged: 1, FirstDamaged: 2},
		good + good + `{"url":"ht`:               {Cut: true},
		good + "\r\n" + good:                     {},
	} {
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		s := read(t, path, Config{MaxLine: 4096})
		want.Path, want.Format = path, "jsonl"
		require.Equal(t, want, s.Source, "%.60q", text)
	}
}

func TestNoRecords(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "f is empty: nothing was crawled",
		"\n\n":                            "f is empty: nothing was crawled",
		"hello\n":                         "f has no records of a crawl: ",
		`{"a":1}` + "\n":                  "f has no records of a crawl: it has no url",
		`{"url":"http://a.te`:             "f has no records of a crawl: ",
		"url,kind,status,\n":              "f is empty: nothing was crawled",
		"url,kind,status,\nhttp://a.test": "f has no records of a crawl: ",
	} {
		path := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := Read(t.Context(), path, Config{})
		require.ErrorContains(t, err, want, "%q", text)
		var none *NoRecordsError
		require.ErrorAs(t, err, &none)
	}
	_, err := Read(t.Context(), filepath.Join(t.TempDir(), "none"), Config{})
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestCanceled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat(`{"url":"http://a.test/"}`+"\n", 3000)), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Read(ctx, path, Config{})
	require.ErrorIs(t, err, context.Canceled)
}
