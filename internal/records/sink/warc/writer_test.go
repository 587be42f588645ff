package warc

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/records/sink"
	"github.com/treadlight/crawl/record"
)

// frozen is a clock at noon.
type frozen struct{ clock.Clock }

func (frozen) Now() time.Time { return noon }

func parseLine(t *testing.T, l string) (e entry) {
	t.Helper()
	parts := strings.SplitN(l, " ", 3)
	require.Len(t, parts, 3, l)
	require.NoError(t, json.Unmarshal([]byte(parts[2]), &e), l)
	return e
}

func TestRecordsOfAnExchange(t *testing.T) {
	rec := answered("https://example.com/page?x=1", "<p>hello</p>")
	all, archive, index := inArchive(t, Config{Host: "crawler_1.example", Info: []Field{{"software", "Treadlight/1"}, {"robots", "obey"}, {"operator", ""}}},
		rec, &record.Record{URL: "https://example.com/none", Kind: "page"}) // no exchange
	name := "treadlight-20261122120000-00001-crawler-1.example.warc.gz"
	require.Equal(t, name, filepath.Base(archive))
	require.Equal(t, []string{strings.TrimSuffix(name, ending) + IndexEnding, name}, names(t, filepath.Dir(archive)))
	require.Equal(t, "iRqm", kinds(all))

	info, response, request, metadata := all[0], all[1], all[2], all[3]
	require.Equal(t, name, info.Get("WARC-Filename"))
	require.Equal(t, "application/warc-fields", info.Get("Content-Type"))
	require.Equal(t, "2026-11-22T12:00:00.005Z", info.Get("WARC-Date"))
	require.Equal(t, "software: Treadlight/1\r\nrobots: obey\r\nformat: WARC File Format 1.1\r\n"+
		"conformsTo: http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/\r\nseries-offset: 0\r\n", info.block)

	require.Equal(t, string(rec.Exchange.Response), response.block)
	require.Equal(t, rec.URL, response.Get("WARC-Target-URI"))
	require.Equal(t, "2026-11-22T12:00:00.005Z", response.Get("WARC-Date"))
	require.Equal(t, "application/http;msgtype=response", response.Get("Content-Type"))
	require.Equal(t, "192.0.2.1", response.Get("WARC-IP-Address"))
	require.Equal(t, "http/1.1", response.Get("WARC-Protocol"))
	// printf '<p>hello</p>' | sha1sum | xxd -r -p | base32
	require.Equal(t, "sha1:EH2SPSI2J7IA53E7X7MLVOIBNGZPXYIP", response.Get("WARC-Payload-Digest"))
	require.Empty(t, response.Get("WARC-Truncated"))

	require.Equal(t, string(rec.Exchange.Request), request.block)
	require.Equal(t, "application/http;msgtype=request", request.Get("Content-Type"))
	require.Equal(t, "via: https://example.com/\r\nhopsFromSeed: LL\r\nfetchTimeMs: 1500\r\n"+
		"outlink: https://example.com/a L\r\noutlink: https://example.com/i.png E\r\n", metadata.block)
	ids := map[string]bool{}
	for _, r := range all {
		require.Regexp(t, `^<urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}>$`, r.Get("WARC-Record-ID"))
		ids[r.Get("WARC-Record-ID")] = true
	}
	require.Len(t, ids, 4)
	for _, r := range all[1:] {
		require.Equal(t, info.Get("WARC-Record-ID"), r.Get("WARC-Warcinfo-ID"))
	}
	for _, r := range all[2:] {
		require.Equal(t, response.Get("WARC-Record-ID"), r.Get("WARC-Concurrent-To"))
		require.Equal(t, rec.URL, r.Get("WARC-Target-URI"))
	}

	require.Equal(t, fmt.Sprintf(`com,example)/page?x=1 20261122120000 {"url":"https://example.com/page?x=1","mime":"text/html",`+
		`"status":"200","digest":"EH2SPSI2J7IA53E7X7MLVOIBNGZPXYIP","length":"%d","offset":"%d","filename":"%s"}`+"\n",
		response.end-response.Offset, response.Offset, name), index)
}

func TestPayloadsAreStoredOnce(t *testing.T) {
	first, again, other := answered("http://a.test/1", "same"), answered("http://b.test/2", "same"), answered("http://a.test/3", "other")
	again.FetchedAt = noon.Add(time.Hour)
	// The same payload in chunks: their framing is none of it.
	chunked := exchanged("http://a.test/4", 200, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nsame\r\n0\r\n\r\n", "same")
	cut := answered("http://a.test/5", "same")
	cut.Exchange.Truncated = "disconnect"
	empty := [2]*record.Record{answered("http://a.test/6", ""), answered("http://a.test/7", "")}
	notChanged := exchanged("http://a.test/8", 304, "HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n", "", "")
	all, _, index := inArchive(t, Config{}, first, again, other, chunked, cut, empty[0], empty[1], notChanged)
	require.Equal(t, "i"+"Rqm"+"Vqm"+"Rqm"+"Vqm"+"Rqm"+"Rqm"+"Rqm"+"Vqm", kinds(all))
	response, revisit, framed, broken, unchanged := all[1], all[4], all[10], all[13], all[22]

	require.Equal(t, "http://netpreserve.org/warc/1.1/revisit/identical-payload-digest", revisit.Get("WARC-Profile"))
	require.Equal(t, "http://a.test/1", revisit.Get("WARC-Refers-To-Target-URI"))
	require.Equal(t, response.Get("WARC-Date"), revisit.Get("WARC-Refers-To-Date"))
	require.Equal(t, response.Get("WARC-Record-ID"), revisit.Get("WARC-Refers-To"))
	require.Equal(t, response.Get("WARC-Payload-Digest"), revisit.Get("WARC-Payload-Digest"))
	require.Equal(t, "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: 4\r\n\r\n", revisit.block)
	require.Equal(t, "http://a.test/1", framed.Get("WARC-Refers-To-Target-URI"))
	require.Equal(t, "disconnect", broken.Get("WARC-Truncated"), "of half an answer nobody knows the whole")
	require.Equal(t, string(cut.Exchange.Response), broken.block)

	require.Equal(t, "http://netpreserve.org/warc/1.1/revisit/server-not-modified", unchanged.Get("WARC-Profile"))
	require.Equal(t, "http://a.test/8", unchanged.Get("WARC-Refers-To-Target-URI"))
	require.Empty(t, unchanged.Get("WARC-Payload-Digest"), "it has no payload")
	require.Equal(t, string(notChanged.Exchange.Response), unchanged.block)
	require.Contains(t, index, `{"url":"http://b.test/2","mime":"warc/revisit","status":"200"`)
	require.Contains(t, index, `{"url":"http://a.test/8","mime":"warc/revisit","status":"304","length"`)
}

// What is beyond the bound of the memory is stored again, and nothing is lost.
func TestMemoryIsBounded(t *testing.T) {
	for remember, want := range map[int]string{2: "RRRRV", 3: "RRRVV", -1: "RRRRR"} {
		var records []*record.Record
		for _, body := range []string{"a", "b", "c", "a", "c"} {
			records = append(records, answered("http://a.test/"+body, body))
		}
		all, _, _ := inArchive(t, Config{Remember: remember}, records...)
		got := strings.NewReplacer("i", "", "q", "", "m", "").Replace(kinds(all))
		require.Equal(t, want, got, "%d are remembered", remember)
	}
}

func TestOtherRecords(t *testing.T) {
	robots := answered("http://a.test/robots.txt", "User-agent: *")
	robots.Kind, robots.Depth, robots.Referrer, robots.Proto, robots.RemoteAddr = "robots", 0, "", "HTTP/2.0", "[fe80::1%eth0]:443"
	robots.Links, robots.Resources, robots.Exchange.Request = nil, nil, nil
	forged := answered("http://a.test/\r\nWARC-Type: forged", "x")
	forged.FetchedAt = time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC)
	forged.Depth, forged.RemoteAddr, forged.Referrer = 1<<30, "nowhere", "http://a.test/\r\n\r\noutlink: x"
	none := answered("http://a.test/none", "")
	none.Exchange.Response = nil // an answer of which nothing is there
	all, _, _ := inArchive(t, Config{}, robots, forged, none)
	require.Equal(t, "iRmRqm", kinds(all))
	require.Equal(t, "h2", all[1].Get("WARC-Protocol"))
	require.Equal(t, "fe80::1", all[1].Get("WARC-IP-Address"))
	require.Equal(t, "hopsFromSeed: P\r\nfetchTimeMs: 1500\r\n", all[2].block)
	require.Equal(t, "http://a.test/  WARC-Type: forged", all[3].Get("WARC-Target-URI"))
	require.Equal(t, "0001-01-01T00:00:00.000Z", all[3].Get("WARC-Date"))
	require.Empty(t, all[3].Get("WARC-IP-Address"))
	fields := must(FieldsOf(strings.NewReader(all[5].block)))
	require.Equal(t, Field{"via", "http://a.test/    outlink: x"}, fields[0])
	require.Equal(t, Field{"hopsFromSeed", strings.Repeat("L", 1000)}, fields[1])
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, Config{MaxSize: 3000, Prefix: "my.site_1", Host: "-h-"})
	for i := range 10 {
		require.NoError(t, w.Write(answered(fmt.Sprintf("http://a.test/%d", i), fmt.Sprint("page ", i))))
	}
	require.NoError(t, w.Flush())
	last := w.Mark()
	require.Equal(t, record.Position{Path: dir, Format: string(sink.WARC), Bytes: last.Bytes, Records: 10}, last)
	require.NotEmpty(t, w.now.name)
	require.Contains(t, names(t, dir), w.now.name+".open")
	require.NoError(t, w.Close())
	require.Equal(t, last.Bytes, w.start, "what was written is what is there")

	files := must(list(dir, "my.site_1"))
	require.Greater(t, len(files), 2)
	var total int64
	seen := 0
	for i, f := range files {
		require.Equal(t, fmt.Sprintf("my.site_1-20261122120000-%05d-h.warc.gz", i+1), f.name)
		require.False(t, f.open)
		all := requireRecords(t, f.path(dir))
		fields := must(FieldsOf(strings.NewReader(all[0].block)))
		require.Equal(t, Field{"series-offset", fmt.Sprint(total)}, fields[len(fields)-1])
		seen += strings.Count(kinds(all), "R")
		info := must(os.Stat(f.path(dir)))
		total += info.Size()
		exchange := all[len(all)-1].end - all[len(all)-3].Offset
		require.Less(t, info.Size(), 3000+exchange, "the last exchange is what exceeds the bound")
		require.Len(t, offsetsIn(t, f.index(dir)), 2*strings.Count(kinds(all), "R"))
	}
	require.Equal(t, 10, seen)
	require.Equal(t, total, last.Bytes)
}

func TestOpen(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "dir")
	w := open(t, dir, Config{})
	require.NoError(t, w.Close())
	require.Empty(t, names(t, dir), "nothing was archived")
	require.NoError(t, w.Close(), "again")
	require.ErrorIs(t, w.Write(answered("http://a.test/", "x")), errClosed)
	require.ErrorIs(t, w.Flush(), errClosed)

	w = open(t, dir, Config{})
	require.NoError(t, w.Write(answered("http://a.test/", "x")))
	require.NoError(t, w.Close())
	_, err := Open(dir, Config{})
	require.EqualError(t, err, dir+" holds archives, treadlight-20261122120000-00001.warc.gz first: add --overwrite to replace them, or choose another directory")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "treadlight.txt"), nil, 0o600))
	other := open(t, dir, Config{Prefix: "treadlight-2"})
	require.NoError(t, other.Write(answered("http://a.test/", "x")), "another prefix is another series")
	require.NoError(t, other.Close())

	w = open(t, dir, Config{Existing: sink.Overwrite})
	require.Equal(t, []string{
		"treadlight-2-20261122120000-00001.cdxj", "treadlight-2-20261122120000-00001.warc.gz", "treadlight.txt",
	}, names(t, dir), "only what is in the way is gone")
	require.NoError(t, w.Close())

	for _, tc := range []struct {
		cfg  Config
		want string
	}{
		{Config{Prefix: "../x"}, `warc: Prefix: "../x" cannot begin the name of a file; give up to 64 letters, digits and . _ -, a letter or digit first`},
		{Config{Prefix: ".x"}, `warc: Prefix: ".x" cannot begin`},
		{Config{Prefix: strings.Repeat("x", 65)}, `cannot begin the name of a file`},
		{Config{MaxSize: -1}, "warc: MaxSize is -1: give it a number of bytes"},
	} {
		_, err := Open(dir, tc.cfg)
		require.ErrorContains(t, err, tc.want)
	}
	_, err = Open(filepath.Join(dir, "treadlight.txt"), Config{})
	require.Error(t, err)
}

// A file that takes no more ends the writing: what was flushed stays, and is all there is.
func TestWriteError(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, Config{})
	require.NoError(t, w.Write(answered("http://a.test/1", "one")))
	require.NoError(t, w.Flush())
	mark := w.Mark()
	require.NoError(t, w.Write(answered("http://a.test/2", "two")))
	require.NoError(t, w.file.Close()) // the disk is gone
	err := w.Flush()
	var failed *sink.WriteError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, filepath.Join(dir, "treadlight-20261122120000-00001.warc.gz.open"), failed.Path)
	require.EqualValues(t, 1, failed.Records)
	require.Equal(t, mark.Bytes, failed.Bytes)
	require.ErrorIs(t, w.Write(answered("http://a.test/3", "three")), err)
	require.ErrorIs(t, w.Flush(), err)
	require.Equal(t, mark, w.Mark())
	require.ErrorIs(t, w.Close(), err)
	require.Equal(t, []string{"treadlight-20261122120000-00001.warc.gz.open"}, names(t, dir))
	require.Equal(t, []string{"http://a.test/1"}, answersIn(t, dir))
}

// Where no file can be made, nothing is taken for written.
func TestNoRoomForAFile(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, Config{})
	require.NoError(t, os.Remove(dir))
	err := w.Write(answered("http://a.test/1", "one"))
	require.ErrorIs(t, err, syscall.ENOENT)
	require.ErrorContains(t, err, dir)
	require.Zero(t, w.Mark().Bytes)
	require.ErrorIs(t, w.Close(), err)
}

// Sync comes from another goroutine, at any time and also as a file makes way for the next.
func TestSyncBeside(t *testing.T) {
	w := open(t, t.TempDir(), Config{MaxSize: 2000})
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := w.Sync(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 30 {
		require.NoError(t, w.Write(answered(fmt.Sprintf("http://a.test/%d", i), fmt.Sprint(i))))
		require.NoError(t, w.Flush())
	}
	cancel()
	wg.Wait()
	require.NoError(t, w.Close())
	require.NoError(t, w.Sync(), "nothing is open")
	require.EqualValues(t, 30, w.Mark().Records)
}

// A large answer does not stay in memory once it is written.
func TestBufferIsGivenBack(t *testing.T) {
	w := open(t, t.TempDir(), Config{})
	body := make([]byte, 2<<20)
	for i := range body {
		body[i] = byte(i * i >> 7 * 2654435761 >> 3)
	}
	require.NoError(t, w.Write(answered("http://a.test/large", string(body))))
	require.LessOrEqual(t, w.buf.Cap(), maxKept)
	require.Zero(t, w.buf.Len(), "it was flushed")
}
