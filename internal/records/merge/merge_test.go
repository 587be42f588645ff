package merge_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/records/merge"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

func put(t testing.TB, dir string, texts ...string) []string {
	t.Helper()
	paths := make([]string, len(texts))
	for i, text := range texts {
		paths[i] = filepath.Join(dir, fmt.Sprintf("%d.jsonl", i))
		require.NoError(t, os.WriteFile(paths[i], []byte(text), 0o600))
	}
	return paths
}

func merged(cfg merge.Config, paths ...string) (string, merge.Report, error) {
	m, err := merge.Prepare(context.Background(), paths, cfg)
	if err != nil {
		return "", merge.Report{}, err
	}
	var b bytes.Buffer
	err = m.Write(context.Background(), &b)
	return b.String(), m.Report(), err
}

func line(url string, status int, at string, more string) string {
	s := ""
	if status > 0 {
		s = fmt.Sprintf(`,"status":%d`, status)
	}
	return fmt.Sprintf(`{"url":%q,"kind":"page"%s,"depth":0,"fetched_at":"2026-11-22T%sZ","attempt":1,"bytes":0%s}`+"\n", url, s, at, more)
}

func TestWhichRecordCounts(t *testing.T) {
	const u = "http://a.test/"
	failed := `,"error":{"class":"timeout","message":"m"}`
	good, newer := line(u, 200, "10:00:00", ""), line(u, 200, "10:00:01", "")
	for name, c := range map[string]struct {
		a, b, want string
		newest     bool
	}{
		"newest of two":                        {good, newer, newer, false},
		"success before a newer failure":       {good, line(u, 0, "11:00:00", failed), good, false},
		"success before a newer 404":           {good, line(u, 404, "11:00:00", ""), good, false},
		"unless the newest is wanted":          {good, line(u, 404, "11:00:00", ""), line(u, 404, "11:00:00", ""), true},
		"404 before a newer 503":               {line(u, 404, "10:00:00", ""), line(u, 503, "11:00:00", ""), line(u, 404, "10:00:00", ""), false},
		"404 before a newer 429":               {line(u, 404, "10:00:00", ""), line(u, 429, "11:00:00", ""), line(u, 404, "10:00:00", ""), false},
		"503 before no answer":                 {line(u, 503, "10:00:00", ""), line(u, 0, "11:00:00", failed), line(u, 503, "10:00:00", ""), false},
		"whole before half":                    {line(u, 404, "10:00:00", ""), line(u, 200, "11:00:00", failed), line(u, 404, "10:00:00", ""), false},
		"a redirect is a success":              {line(u, 301, "10:00:00", ""), line(u, 404, "11:00:00", ""), line(u, 301, "10:00:00", ""), false},
		"asked before refused by robots.txt":   {line(u, 0, "10:00:00", failed), strings.Replace(line(u, 0, "11:00:00", failed), `"attempt":1`, `"attempt":0`, 1), line(u, 0, "10:00:00", failed), false},
		"more tries at one time":               {good, strings.Replace(good, `"attempt":1`, `"attempt":2`, 1), strings.Replace(good, `"attempt":1`, `"attempt":2`, 1), false},
		"an error that is null is none":        {line(u, 200, "12:00:00", `,"error":null`), newer, line(u, 200, "12:00:00", `,"error":null`), false},
		"other URLs are others, whatever else": {line("http://a.test/1", 404, "10:00:00", ""), good, line("http://a.test/1", 404, "10:00:00", "") + good, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			paths := put(t, dir, c.a, c.b)
			got, report, err := merged(merge.Config{Newest: c.newest}, paths...)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
			require.EqualValues(t, 2, report.Read)
			got, _, err = merged(merge.Config{Newest: c.newest}, paths[1], paths[0])
			require.NoError(t, err)
			require.ElementsMatch(t, strings.SplitAfter(c.want, "\n"), strings.SplitAfter(got, "\n"))
		})
	}
}

func TestDamage(t *testing.T) {
	a, b := line("http://a.test/", 200, "10:00:00", ""), line("http://b.test/", 200, "10:00:00", "")
	dir := t.TempDir()

	paths := put(t, dir, a+b[:len(b)-9], b)
	got, report, err := merged(merge.Config{}, paths...)
	require.NoError(t, err, "half a line at the end is what a kill leaves")
	require.Equal(t, a+b, got)
	require.Equal(t, paths[:1], report.Cut)
	require.EqualValues(t, 2, report.Read)

	paths = put(t, dir, a+strings.TrimSuffix(b, "\n"))
	got, report, err = merged(merge.Config{}, paths...)
	require.NoError(t, err, "a whole record without its line feed is one")
	require.Equal(t, a+b, got)
	require.Empty(t, report.Cut)

	for text, want := range map[string]string{
		"{\"url\":\n":        "line 2: it is no record: unexpected end of JSON input",
		"{\"status\":200}\n": "line 2: it is no record: it has no url",
		"\x00\x00\x00\x00\n": "line 2: it is no record: invalid character",
		"{\"url\":\"http://c.test/\",\"fetched_at\":\"yesterday\"}\n": "line 2: it is no record: ",
	} {
		paths = put(t, dir, a+text+b)
		_, _, err = merged(merge.Config{}, paths...)
		require.ErrorContains(t, err, want)
		var damage *merge.DamageError
		require.ErrorAs(t, err, &damage)
		got, report, err = merged(merge.Config{SkipDamaged: true}, paths...)
		require.NoError(t, err)
		require.Equal(t, a+b, got)
		require.EqualValues(t, 1, report.Damaged)
	}

	paths = put(t, dir, a+line("http://long.test/", 200, "10:00:00", `,"text":"`+strings.Repeat("x", 4096)+`"`)+b)
	_, _, err = merged(merge.Config{MaxLine: 1024}, paths...)
	require.ErrorContains(t, err, "line 2: it is no record: it is too long")

	for text, want := range map[string]string{
		"":               "there are no records",
		"hello world\n":  "has no records of a crawl",
		"WARC/1.1\r\n\n": "is an archive",
	} {
		_, _, err = merged(merge.Config{}, put(t, dir, text)...)
		require.ErrorContains(t, err, want)
	}
	_, _, err = merged(merge.Config{}, put(t, dir, a, "http://a.test/\n")...)
	require.ErrorContains(t, err, "merge files of one format")
	_, _, err = merged(merge.Config{}, filepath.Join(dir, "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
	_, _, err = merged(merge.Config{}, os.DevNull)
	require.ErrorContains(t, err, "is a pipe or a device")
}

func TestCompressed(t *testing.T) {
	a, b, c := line("http://a.test/", 200, "10:00:00", ""), line("http://b.test/", 200, "10:00:00", ""), line("http://c.test/", 200, "10:00:00", "")
	dir := t.TempDir()
	var gz, zs bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, _ = w.Write([]byte(a + b))
	require.NoError(t, w.Close())
	z, err := zstd.NewWriter(&zs)
	require.NoError(t, err)
	_, _ = z.Write([]byte(b + c))
	require.NoError(t, z.Close())
	paths := put(t, dir, gz.String(), zs.String())
	got, _, err := merged(merge.Config{}, paths...)
	require.NoError(t, err)
	require.Equal(t, a+b+c, got)

	for i, whole := range []string{gz.String(), zs.String()} {
		paths = put(t, dir, whole[:len(whole)-6], a)
		_, report, err := merged(merge.Config{}, paths...)
		require.NoError(t, err, i)
		require.Equal(t, paths[:1], report.Cut, i)
	}
}

const csvHeader = "url,kind,status,fetched_at,attempt,title,error_class\n"

func TestCSV(t *testing.T) {
	a := "http://a.test/,page,200,2026-11-22T10:00:00Z,1,\"x, \"\"y\"\"\",\n"
	old := "http://b.test/,page,,2026-11-22T09:00:00Z,1,,timeout\n"
	b := "http://b.test/,page,200,2026-11-22T08:00:00Z,1,,\n"
	dir := t.TempDir()
	paths := put(t, dir, csvHeader+a+old, "\xef\xbb\xbf"+strings.ReplaceAll(csvHeader+b, "\n", "\r\n"))
	got, report, err := merged(merge.Config{}, paths...)
	require.NoError(t, err)
	require.Equal(t, csvHeader+a+b, got)
	require.EqualValues(t, 3, report.Read)

	_, report, err = merged(merge.Config{}, put(t, dir, csvHeader+a+b[:len(b)-1])...)
	require.NoError(t, err)
	require.Len(t, report.Cut, 1, "half a line of CSV may look like a whole one")
	_, _, err = merged(merge.Config{}, put(t, dir, csvHeader+"http://a.test/,page\n"+a)...)
	require.ErrorContains(t, err, "line 2: it is no record: it has not the columns")
	_, _, err = merged(merge.Config{}, put(t, dir, csvHeader+a, "url,kind,status,fetched_at,attempt,error_class\n")...)
	require.ErrorContains(t, err, "have other columns")
	_, _, err = merged(merge.Config{}, put(t, dir, "url,kind,status,attempt\n")...)
	require.ErrorContains(t, err, "no column fetched_at, error_class")
	_, _, err = merged(merge.Config{}, put(t, dir, csvHeader)...)
	require.ErrorIs(t, err, merge.ErrNothing)
}

// What a sink writes can be merged, in every format that has lines.
func TestEveryFormat(t *testing.T) {
	for _, spec := range sink.Formats() {
		if !spec.Lines() {
			continue
		}
		dir := t.TempDir()
		var text []byte
		for _, name := range []string{"a", "b"} {
			path := filepath.Join(dir, name+spec.Ending())
			w, err := sink.Open(path, sink.Config{Format: spec.Format, Fields: []string{"x"}})
			require.NoError(t, err)
			for _, url := range []string{"http://a.test/", "http://b.test/"} {
				require.NoError(t, w.Write(&record.Record{URL: url, Kind: "page", Status: 200, Attempt: 1}))
			}
			require.NoError(t, w.Close())
			text, err = os.ReadFile(path)
			require.NoError(t, err)
		}
		files, err := merge.Files([]string{dir})
		require.NoError(t, err)
		got, report, err := merged(merge.Config{}, files...)
		require.NoError(t, err, spec.Format)
		require.Equal(t, string(text), got)
		require.Equal(t, merge.Report{Format: spec.Format, Files: 2, Read: 4, Written: 2}, report)
	}
}

func TestListsAndIndexes(t *testing.T) {
	dir := t.TempDir()
	got, _, err := merged(merge.Config{}, put(t, dir, "http://a.test/\nhttp://b.test/\n", "http://b.test/\nhttp://c.te")...)
	require.NoError(t, err)
	require.Equal(t, "http://a.test/\nhttp://b.test/\n", got)

	x, y, z := `com,a)/ 20261122113812 {"filename":"1"}`+"\n", `com,a)/ 20261122113813 {"filename":"2"}`+"\n", `com,b)/ 20261122113812 {"filename":"1"}`+"\n"
	got, report, err := merged(merge.Config{}, put(t, dir, x+z, x+y, "")...)
	require.NoError(t, err)
	require.Equal(t, x+y+z, got, "a second capture stays, a line that is there twice does not")
	require.EqualValues(t, 4, report.Read)
	require.EqualValues(t, 3, report.Written)
	_, _, err = merged(merge.Config{}, put(t, dir, z+x)...)
	require.ErrorContains(t, err, "line 2: it is no record: it belongs above")
	_, report, err = merged(merge.Config{}, put(t, dir, x+z[:20])...)
	require.NoError(t, err)
	require.Len(t, report.Cut, 1)
	_, _, err = merged(merge.Config{}, put(t, dir, x+"?\n"+z)...)
	require.ErrorContains(t, err, "it is no line of an index")
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.jsonl", "a.jsonl.gz", "c.csv.zst", "x.cdxj", "state.db", "notes.md", "d.txt"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	got, err := merge.Files([]string{dir, filepath.Join(dir, "b.jsonl")})
	require.NoError(t, err)
	require.Equal(t, []string{"a.jsonl.gz", "b.jsonl", "c.csv.zst", "d.txt"}, bases(got))

	sub := filepath.Join(dir, "sub")
	require.NoError(t, os.MkdirAll(filepath.Join(sub, "w1"), 0o700))
	_, err = merge.Files([]string{sub})
	require.ErrorContains(t, err, "give these: "+sub+"/*")
	_, err = merge.Files([]string{filepath.Join(sub, "w1")})
	require.ErrorContains(t, err, "has no files of records")
	require.NoError(t, os.WriteFile(filepath.Join(sub, "x.cdxj"), nil, 0o600))
	got, err = merge.Files([]string{sub})
	require.NoError(t, err)
	require.Equal(t, []string{"x.cdxj"}, bases(got))
}

func bases(paths []string) []string {
	all := make([]string, len(paths))
	for i, p := range paths {
		all[i] = filepath.Base(p)
	}
	return all
}

// TestFileThatShrinks is one that somebody cuts between the two readings.
func TestFileThatShrinks(t *testing.T) {
	paths := put(t, t.TempDir(), line("http://a.test/", 200, "10:00:00", "")+line("http://b.test/", 200, "10:00:00", ""))
	m, err := merge.Prepare(t.Context(), paths, merge.Config{})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(paths[0], []byte(line("http://a.test/", 200, "10:00:00", "")), 0o600))
	require.ErrorContains(t, m.Write(t.Context(), &bytes.Buffer{}), "was changed while it was read")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = merge.Prepare(ctx, put(t, t.TempDir(), strings.Repeat(line("http://a.test/", 200, "10:00:00", ""), 2000)), merge.Config{})
	require.ErrorIs(t, err, context.Canceled)
}

// texts draws files of records with few URLs, times and states, so that all ties occur.
func texts(rt *rapid.T) []string {
	one := rapid.Custom(func(rt *rapid.T) string {
		status := rapid.SampledFrom([]int{0, 200, 301, 404, 429, 500}).Draw(rt, "status")
		more := rapid.SampledFrom([]string{"", `,"title":"a"`, `,"title":"b"`, `,"error":{"class":"x","message":""}`}).Draw(rt, "more")
		return line(fmt.Sprintf("http://h.test/%d", rapid.IntRange(0, 90).Draw(rt, "url")), status, fmt.Sprintf("10:00:0%d", rapid.IntRange(0, 3).Draw(rt, "at")), more)
	})
	return rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) string {
		return strings.Join(rapid.SliceOfN(one, 1, 80).Draw(rt, "lines"), "")
	}), 3, 3).Draw(rt, "files")
}

// TestLaws holds the merge to the laws of the package comment, in memory and with runs on disk.
func TestLaws(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		cfg := merge.Config{Memory: rapid.SampledFrom([]int64{0, 1}).Draw(rt, "memory"), TempDir: dir, Newest: rapid.Bool().Draw(rt, "newest")}
		files := texts(rt)
		of := func(texts ...string) string {
			got, report, err := merged(cfg, put(t, dir, texts...)...)
			require.NoError(rt, err)
			require.EqualValues(rt, strings.Count(got, "\n"), report.Written)
			return got
		}
		a, b, c := files[0], files[1], files[2]
		ab := of(a, b)
		cfg.Memory = 1 - cfg.Memory
		require.Equal(rt, ab, of(a, b), "what is sorted in runs on disk is what is sorted in memory")
		switch rapid.IntRange(0, 3).Draw(rt, "law") {
		case 0:
			require.Equal(rt, lines(ab), lines(of(b, a)), "it commutes")
		case 1:
			require.Equal(rt, lines(of(ab, c)), lines(of(a, of(b, c))), "it associates")
		case 2:
			require.Equal(rt, ab, of(ab, ab), "it is idempotent")
		case 3:
			require.Equal(rt, ab, of(ab), "what is merged stays as it is")
		}
		urls := make(map[string]bool)
		for l := range strings.Lines(a + b) {
			urls[l[:strings.Index(l, ",")]] = true
		}
		require.EqualValues(rt, len(urls), strings.Count(ab, "\n"), "every URL is there once")
	})
	left, err := filepath.Glob(filepath.Join(dir, "*.tmp"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func lines(text string) []string { return slices.Sorted(maps.Keys(lineSet(text))) }

func lineSet(text string) map[string]bool {
	set := make(map[string]bool)
	for l := range strings.Lines(text) {
		set[l] = true
	}
	return set
}

// FuzzMerge has files be whatever they are: nothing panics, and what comes out merges again to itself, in either
// order.
func FuzzMerge(f *testing.F) {
	f.Add([]byte(line("http://a.test/", 200, "10:00:00", "")+line("http://a.test/", 404, "10:00:00", "")), []byte(line("http://a.test/", 0, "10:00:00", "")))
	f.Add([]byte(csvHeader+"http://a.test/,page,200,2026-11-22T10:00:00Z,1,\"x, \"\"y\"\"\",\n"), []byte(csvHeader))
	f.Add([]byte("http://a.test/\nhttp://a.test/\n\n"), []byte("http://b.test/"))
	f.Add([]byte("com,a)/ 20261122113812 {}\n"), []byte("com,a)/ 20261122113812 {}\nx"))
	f.Add([]byte("\x82000000 00000000000000 {"), []byte("")) // nothing is left of it
	f.Add([]byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff, 0}, []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0})
	f.Fuzz(func(t *testing.T, a, b []byte) {
		dir := t.TempDir()
		cfg := merge.Config{SkipDamaged: true, TempDir: dir, MaxLine: 1 << 20}
		paths := put(t, dir, string(a), string(b))
		ab, _, err := merged(cfg, paths...)
		if err != nil {
			return
		}
		ba, _, err := merged(cfg, paths[1], paths[0])
		if err != nil {
			t.Fatalf("merge(a, b) is there and merge(b, a) is not: %v", err)
		}
		if !maps.Equal(lineSet(ab), lineSet(ba)) {
			t.Fatalf("merge(a, b) = %q, merge(b, a) = %q", ab, ba)
		}
		if ab == "" {
			return // a file without a record says of no format that it is in it
		}
		if again, _, err := merged(cfg, put(t, dir, ab)...); err != nil || again != ab {
			t.Fatalf("merged again: %q, %v; want %q", again, err, ab)
		}
	})
}
