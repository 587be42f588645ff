package warc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/lab/conformance"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var noon = time.Date(2026, 11, 22, 12, 0, 0, 5e6, time.UTC)

func answered(url, body string) *record.Record {
	return exchanged(url, 200, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n", len(body)), body, body)
}

// exchanged is the record of an exchange: an answer with that header, its body as it was framed, and without framing.
func exchanged(url string, status int, head, framed, payload string) *record.Record {
	_, path, _ := strings.Cut(url, "://")
	host, path, _ := strings.Cut(path, "/")
	return &record.Record{
		URL: url, Kind: "page", Status: status, FetchedAt: noon, Proto: "HTTP/1.1", RemoteAddr: "[::ffff:192.0.2.1]:443",
		Depth: 2, Referrer: "https://example.com/", Timings: record.Timings{Total: 1500 * time.Millisecond},
		Links: []string{"https://example.com/a"}, Resources: []string{"https://example.com/i.png"},
		Exchange: &record.Exchange{
			Request:  []byte("GET /" + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n"),
			Response: []byte(head + framed), Payload: []byte(payload),
		},
	}
}

// readRecord is a record with its block.
type readRecord struct {
	*Record
	block string
	end   int64
}

func requireRecords(t *testing.T, path string) (all []readRecord) {
	t.Helper()
	f := must(os.Open(path))
	defer func() { require.NoError(t, f.Close()) }()
	return recordsIn(t, f, path)
}

func recordsIn(t *testing.T, archive io.Reader, name string) (all []readRecord) {
	t.Helper()
	r := NewReader(archive)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err, name)
		block := must(io.ReadAll(rec.Block))
		require.NoError(t, r.Finish(), name)
		all = append(all, readRecord{rec, string(block), r.Offset()})
	}
}

func open(t *testing.T, dir string, cfg Config) *Writer {
	t.Helper()
	if cfg.Clock == nil {
		cfg.Clock = frozen{}
	}
	w := must(Open(dir, cfg))
	t.Cleanup(func() { _ = w.Close() })
	return w
}

func writeAll(t *testing.T, w *Writer, records ...*record.Record) {
	t.Helper()
	for _, r := range records {
		require.NoError(t, w.Write(r))
	}
}

func inArchive(t *testing.T, cfg Config, records ...*record.Record) (all []readRecord, archive, index string) {
	t.Helper()
	dir := t.TempDir()
	w := open(t, dir, cfg)
	writeAll(t, w, records...)
	require.NoError(t, w.Close())
	found := names(t, dir)
	require.Len(t, found, 2)
	archive = filepath.Join(dir, found[1])
	text := must(os.ReadFile(filepath.Join(dir, found[0])))
	return requireRecords(t, archive), archive, string(text)
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries := must(os.ReadDir(dir))
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// kinds is the types of records, by their first letters, with those of the answers large.
func kinds(all []readRecord) string {
	short := map[string]string{"warcinfo": "i", "response": "R", "revisit": "V", "request": "q", "metadata": "m"}
	var b strings.Builder
	for _, r := range all {
		b.WriteString(short[r.Get("WARC-Type")])
	}
	return b.String()
}

// answersIn is the URLs of the answers in all files of a directory, in the order in which they were written, and
// checks that every complete file is what its index says.
func answersIn(t *testing.T, dir string) (urls []string) {
	t.Helper()
	files := must(list(dir, DefaultPrefix))
	for _, f := range files {
		var lines bytes.Buffer
		for _, r := range requireRecords(t, f.path(dir)) {
			if kind := r.Get("WARC-Type"); kind == typeResponse || kind == typeRevisit {
				urls = append(urls, r.Get("WARC-Target-URI"))
				fmt.Fprintf(&lines, "%d %d\n", r.Offset, r.end-r.Offset)
			}
		}
		if !f.open {
			require.ElementsMatch(t, strings.Fields(lines.String()), offsetsIn(t, f.index(dir)), f.name)
		}
	}
	return urls
}

// offsetsIn is the offset and length of each line of an index, which must be sorted.
func offsetsIn(t *testing.T, path string) (all []string) {
	t.Helper()
	text := must(os.ReadFile(path))
	before := ""
	for l := range strings.Lines(string(text)) {
		require.LessOrEqual(t, before, l, "not sorted")
		before = l
		e := parseLine(t, l)
		require.Equal(t, strings.TrimSuffix(filepath.Base(path), IndexEnding)+ending, e.Filename)
		all = append(all, e.Offset, e.Length)
	}
	return all
}

// A process is killed in the middle of its last file, and comes back without knowing how far it was: what was whole
// stays, what was not is gone, and what it writes then is there.
func TestGoOnBehindWhatIsCut(t *testing.T) {
	whole := t.TempDir()
	w := open(t, whole, Config{MaxSize: 2500})
	for i := range 4 {
		require.NoError(t, w.Write(numbered(i)))
	}
	require.NoError(t, w.Flush())
	last := filepath.Base(w.now.path(w.dir))
	require.NoError(t, w.abandon())
	text := must(os.ReadFile(filepath.Join(whole, last)))
	kept := answersIn(t, whole)
	require.Len(t, kept, 4)
	var ends []int64 // of exchanges in the last file
	for _, rec := range requireRecords(t, filepath.Join(whole, last)) {
		if rec.Get("WARC-Type") == typeMetadata {
			ends = append(ends, rec.end)
		}
	}
	require.NotEmpty(t, ends)
	before := len(kept) - len(ends)
	require.Positive(t, before, "there is a file before it")

	dir := filepath.Join(t.TempDir(), "w1")
	cuts := []int{0, 1, len(text)} // each costs some writes to a disk
	for _, end := range ends {
		cuts = append(cuts, int(end)-1, min(int(end)+1, len(text)))
	}
	for cut := 100; cut < len(text); cut += 1 + len(text)/8 {
		cuts = append(cuts, cut)
	}
	for _, cut := range cuts {
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.CopyFS(dir, os.DirFS(whole)))
		require.NoError(t, os.Truncate(filepath.Join(dir, last), int64(cut)))
		want := before
		var end int64
		for _, at := range ends {
			if at <= int64(cut) {
				want, end = want+1, at
			}
		}
		w := open(t, dir, Config{MaxSize: 2500, Existing: sink.Append})
		if want > before {
			require.Equal(t, int64(cut)-end, w.Cut(), cut)
		}
		require.NoError(t, w.Write(numbered(9)))
		require.NoError(t, w.Close())
		require.Equal(t, append(append([]string{}, kept[:want]...), numbered(9).URL), answersIn(t, dir), cut)
		for _, name := range names(t, dir) {
			require.NotContains(t, name, openEnding)
		}
	}
}

// What is complete is gone on behind in a file of its own, and so is nothing.
func TestGoOnBehindWhatIsComplete(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "w1")
	for i := range 3 {
		w := open(t, dir, Config{Existing: sink.Append})
		require.Zero(t, w.Cut())
		require.NoError(t, w.Write(numbered(i)))
		require.NoError(t, w.Close())
		require.Equal(t, numberedURLs(i+1), answersIn(t, dir))
		require.Len(t, names(t, dir), 2*(i+1), "archives and their indexes")
	}
	foreign := filepath.Join(dir, "treadlight-20990101000000-00009.warc.gz")
	require.NoError(t, os.WriteFile(foreign, []byte("dear diary"), 0o600))
	_, err := Open(dir, Config{Existing: sink.Append})
	require.ErrorContains(t, err, "cannot be gone on behind")
	require.FileExists(t, foreign)
}

// What a page of 8 KB costs the one goroutine that writes.
func BenchmarkWrite(b *testing.B) {
	w, err := Open(b.TempDir(), Config{})
	if err != nil {
		b.Fatal(err)
	}
	words := strings.Fields("jacket forest letter above paper kettle bread empty house journey pencil copper garden iron lamp water table island quiet apple")
	var body strings.Builder
	for i := 0; body.Len() < 8<<10; i++ {
		body.WriteString(words[i*i%len(words)] + " " + fmt.Sprint(i%13) + " ")
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := w.Write(answered("http://a.test/page", fmt.Sprint(body.String(), i))); err != nil {
			b.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}

func TestVeil(t *testing.T) {
	own := redact.New("X-Own")
	for request, want := range map[string]string{
		"": "", "\r\n": "\r\n", "no header": "no header",
		"GET /?token=1:2 HTTP/1.1\r\nHost: a.test\r\n\r\n": "GET /?token=1:2 HTTP/1.1\r\nHost: a.test\r\n\r\n",
		"GET / HTTP/1.1\r\nAuthorization: Basic YTpi\r\nHost: a.test\r\nCookie: a=b; c=d\r\n\r\n": "GET / HTTP/1.1\r\n" +
			"Authorization: xxx\r\nHost: a.test\r\nCookie: xxx\r\n\r\n",
		"GET / HTTP/1.1\r\nproxy-authorization:x\r\nx-own: 1\r\nX-Api-Key:   k  \r\n\r\n": "GET / HTTP/1.1\r\n" +
			"proxy-authorization: xxx\r\nx-own: xxx\r\nX-Api-Key: xxx\r\n\r\n",
		"GET / HTTP/1.1\nCookie: a=b\nX: y\n\n":                "GET / HTTP/1.1\nCookie: xxx\nX: y\n\n",
		"POST / HTTP/1.1\r\nX: y\r\n\r\nCookie: a body\r\n":    "POST / HTTP/1.1\r\nX: y\r\n\r\nCookie: a body\r\n",
		"GET / HTTP/1.1\r\nCookie: cut off before its end":     "GET / HTTP/1.1\r\nCookie: cut off before its end",
		"GET / HTTP/1.1\r\nCookie: \r\nAuthorization: a:b\r\n": "GET / HTTP/1.1\r\nCookie: xxx\r\nAuthorization: xxx\r\n",
	} {
		before := strings.Clone(request)
		require.Equal(t, want, string(maskFields([]byte(request), own.SecretHeader)), "%q", request)
		require.Equal(t, before, request, "the record is not the archive's to change")
	}
}

// What is handed on to others opens nothing, and is whole: digest and length are of what is written. Who wants it all
// gets it, in files for the owner alone.
func TestCredentialsStayHere(t *testing.T) {
	page := answered("https://example.com/", "page")
	page.Exchange.Request = []byte("GET / HTTP/1.1\r\nHost: example.com\r\nAuthorization: Basic c2VjcmV0\r\nCookie: sid=secret\r\n\r\n")
	for _, keep := range []bool{false, true} {
		all, archive, _ := inArchive(t, Config{Credentials: keep}, page)
		request := all[2]
		require.Equal(t, "request", request.Get("WARC-Type"))
		require.Equal(t, digestText(sum([]byte(request.block))), request.Get("WARC-Block-Digest"))
		info := must(os.Stat(archive))
		if keep {
			require.Equal(t, string(page.Exchange.Request), request.block)
			require.Zero(t, info.Mode().Perm()&0o077, "for nobody else")
			continue
		}
		require.Equal(t, "GET / HTTP/1.1\r\nHost: example.com\r\nAuthorization: xxx\r\nCookie: xxx\r\n\r\n", request.block)
	}
	require.Contains(t, string(page.Exchange.Request), "c2VjcmV0")
}

// FuzzVeil: whatever a request is, no value of a secret field survives in its header, and nothing else is touched.
func FuzzVeil(f *testing.F) {
	f.Add("Cookie", "a=b", "X: y\r\n")
	f.Add("X", "Cookie: z", "\r\nCookie: in the body\r\n")
	f.Fuzz(func(t *testing.T, name, value, rest string) {
		if strings.ContainsAny(name+value, "\r\n:") || name == "" {
			t.Skip("no field")
		}
		first, secret := "GET / HTTP/1.1\r\n", (*redact.Redactor)(nil).SecretHeader(name)
		got := string(maskFields([]byte(first+name+": "+value+"\r\n"+rest), (*redact.Redactor)(nil).SecretHeader))
		want := first + name + ": " + value + "\r\n"
		if secret {
			want = first + name + ": xxx\r\n"
		}
		require.True(t, strings.HasPrefix(got, want), "%q", got)
		require.Equal(t, strings.Count(first+rest, "\n")+1, strings.Count(got, "\n"))
	})
}

// A page that wants no copy to be shown is archived with that, or a note stands in its place.
func TestNoArchive(t *testing.T) {
	for _, obey := range []bool{false, true} {
		page := answered("https://example.com/private", "page")
		page.Directives = []string{"noindex", "noarchive"}
		all, archive, _ := inArchive(t, Config{ObeyNoArchive: obey}, answered("https://example.com/", "home"), page, answered("https://example.com/next", "page"))
		require.Len(t, page.Links, 1, "the record is not the archive's to change")
		note := "via: https://example.com/\r\nhopsFromSeed: LL\r\nfetchTimeMs: 1500\r\nrobots-directives: noindex, noarchive\r\n"
		if !obey {
			require.Equal(t, "iRqmRqmVqm", kinds(all))
			require.True(t, strings.HasPrefix(all[6].block, note), all[6].block)
			continue
		}
		require.Equal(t, "iRqmmRqm", kinds(all), "what others refer to is not what was left out")
		require.Equal(t, note, all[4].block)
		require.Equal(t, page.URL, all[4].Get("WARC-Target-URI"))
		require.Empty(t, all[4].Get("WARC-Concurrent-To"))
		require.Equal(t, []string{"https://example.com/", "https://example.com/next"}, answersIn(t, filepath.Dir(archive)))
	}
}

// The cases are in testdata/conformance/surt.
func TestSurt(t *testing.T) {
	text := must(os.ReadFile("../../../../testdata/conformance/surt/cases.txt"))
	passed, all := 0, 0
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		if line == "" || line[0] == '#' {
			continue
		}
		uri, want, ok := strings.Cut(line, "\t")
		require.True(t, ok, line)
		if all++; surt(uri) == want {
			passed++
		} else {
			t.Errorf("surt(%q) = %q, want %q", uri, surt(uri), want)
		}
	}
	if !t.Failed() {
		conformance.Report(t, "surt", conformance.Result{Cases: all, Passed: passed})
	}
}

// URLs that are not of the web are their own keys, and a key is one word.
func TestSurtOfOthers(t *testing.T) {
	for in, want := range map[string]string{
		"dns:example.com": "dns:example.com", "": "", "urn:x y": "urn:x%20y", "http://a.test/\xff ü": "test,a)/%ff%20%c3%bc",
	} {
		require.Equal(t, want, surt(in))
	}
}

func TestStatusAndMime(t *testing.T) {
	for _, tc := range []struct{ head, status, mime string }{
		{"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n\r\n", "200", "text/html"},
		{"HTTP/1.0 404\ncontent-type:text/plain\n\n", "404", "text/plain"},
		{"HTTP/1.1 204 No Content\r\n\r\n", "204", ""},
		{"HTTP/1.1 2000 x\r\nContent-Type\r\n\r\n", "", ""},
		{"garbage", "", ""},
		{"", "", ""},
	} {
		status, mime := statusAndMime([]byte(tc.head))
		require.Equal(t, tc.status, status, tc.head)
		require.Equal(t, tc.mime, mime, tc.head)
	}
}

func TestHeadOf(t *testing.T) {
	for head, body := range map[string]string{
		"HTTP/1.1 200 OK\r\nA: b\r\n\r\n": "\r\n\r\nbody",
		"HTTP/1.1 200 OK\nA: b\n\n":       "\n\n",
		"HTTP/1.1 200 OK\r\n\r\n":         "",
		"HTTP/1.1 200 OK\r\nA: b":         "",
		"":                                "",
	} {
		require.Equal(t, len(head), headerLength([]byte(head+body)), "%q", head)
		require.Equal(t, head, string(readHead(strings.NewReader(head+body))), "%q", head)
	}
}

// What a stranger calls a media type stays one text of a line.
func TestLineIsOne(t *testing.T) {
	l := line(typeResponse, "http://a.test/\"\\", "2026-11-22T12:00:00Z", "", []byte("HTTP/1.1 200 OK\r\nContent-Type: \"\xff\u2028\r x\r\n\r\n"), 1, 2, "f")
	require.Equal(t, 1, strings.Count(l, "\n"))
	require.Equal(t, "http://a.test/\"\\", parseLine(t, l).URL)
	require.True(t, strings.HasPrefix(l, `test,a)/"\ 20261122120000 {"url":`), l)
}

func TestNames(t *testing.T) {
	require.Equal(t, "p-20261122120000-00007.warc.gz", nameOf("p", "", 7, noon))
	require.Equal(t, "p-20261122120000-123456-b-cher.warc.gz", nameOf("p", "bücher", 123456, noon))
	require.Equal(t, "p-20261122120000-00001.warc.gz", nameOf("p", "../-", 1, noon))
	require.Equal(t, "p-20261122120000-00001-"+strings.Repeat("x", 64)+".warc.gz", nameOf("p", strings.Repeat("x", 300), 1, noon))
}

// must returns v, and panics for an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
