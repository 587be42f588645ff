package integration_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/record"
)

// evil is a page that is well transported and made to hurt whoever reads it.
type evil struct {
	coding string
	body   func() []byte
	class  string // of the error in its record
	links  int    // in its record; -1 is any number up to those in the page
}

const evilSize = 1 << 20

func repeated(text string, size int) func() []byte {
	return func() []byte { return []byte(strings.Repeat(text, size/len(text))) }
}

func crushed(coding string, size int) func() []byte {
	return func() []byte {
		var out bytes.Buffer
		var w io.WriteCloser = gzip.NewWriter(&out)
		switch coding {
		case "br":
			w = brotli.NewWriterLevel(&out, 1)
		case "zstd":
			if z, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1)); err == nil {
				w = z
			}
		}
		zeros := make([]byte, 64<<10)
		for range size / len(zeros) {
			_, _ = w.Write(zeros) // into memory
		}
		_ = w.Close() // into memory
		return out.Bytes()
	}
}

// manyLinks are a hundred thousand different ones, of which the first ten thousand count.
func manyLinks() []byte {
	var b bytes.Buffer
	for i := range 100_000 {
		fmt.Fprintf(&b, "<a href=/many/%d>", i)
	}
	return b.Bytes()
}

// manyAttributes are as many in one tag, one of which is a link.
func manyAttributes() []byte {
	var b bytes.Buffer
	b.WriteString("<a ")
	for i := range 200_000 {
		fmt.Fprintf(&b, "a%d=b ", i)
	}
	b.WriteString("href=/linked>x</a>")
	return b.Bytes()
}

// manyRoots are as many html and body tags, each with a new attribute.
func manyRoots() []byte {
	var b bytes.Buffer
	for i := range 30_000 {
		fmt.Fprintf(&b, "<html a%d=x><body b%d=x>", i, i)
	}
	return b.Bytes()
}

var evils = map[string]evil{
	"/many-links":      {body: manyLinks, links: 10_000},
	"/same-link":       {body: repeated("<a href=/linked>x</a>", evilSize), links: 1},
	"/long-links":      {body: func() []byte { return []byte(strings.Repeat("<a href=/"+strings.Repeat("x", 1<<20)+">y</a>", 4)) }, links: 0},
	"/many-attributes": {body: manyAttributes, links: -1},
	"/deep":            {body: repeated("<div>", evilSize), links: 0},
	"/deep-formatting": {body: repeated("<b><i><a href=/linked>", evilSize), links: 1},
	"/deep-tables":     {body: repeated("<table><tr><td>", evilSize), links: 0},
	"/deep-svg":        {body: repeated("<svg><math>", evilSize), links: 0},
	"/closing":         {body: repeated("</p></a></table>", evilSize), links: 0},
	"/nuls":            {body: repeated("\x00", evilSize), links: 0},
	"/nuls-in-tags":    {body: repeated("<a\x00 href\x00=\x00/\x00>", evilSize), links: -1},
	"/no-utf8":         {body: repeated("\xc3\x28\xff\xfe\xf0\x9f", evilSize), links: 0},
	"/open-comment":    {body: repeated("<!-- <a href=/hidden> ", evilSize), links: 0},
	"/open-script":     {body: repeated("<script>'</scr", evilSize), links: 0},
	"/open-tag":        {body: repeated("<a href='/x", evilSize), links: -1},
	"/open-quotes":     {body: repeated(`<a href="`, evilSize), links: -1},
	"/lone-brackets":   {body: repeated("<", evilSize), links: 0},
	"/lone-ampersands": {body: repeated("&", evilSize), links: 0},
	"/entities":        {body: repeated("&CounterClockwiseContourIntegral;", evilSize), links: 0},
	"/long-entity":     {body: repeated("&#x00000000000000000000000", evilSize), links: 0},
	"/long-title":      {body: repeated("<title>x", evilSize), links: 0},
	"/many-bases":      {body: repeated("<base href=/x/><base href=//y/>", evilSize), links: 0},
	"/roots":           {body: manyRoots, links: 0},
	"/reopened": {body: func() []byte {
		return []byte("<p>" + strings.Repeat("<b><i class=x><u>", 60) + string(repeated("<p>x", evilSize)()))
	}, links: 0},
	"/siblings":    {body: repeated("<p>x", evilSize), links: 0},
	"/deep-json":   {body: repeated("<script type=application/ld+json>"+strings.Repeat("[", 9999)+strings.Repeat("]", 9999)+"</script>", evilSize/4), links: 0},
	"/gzip-bomb":   {coding: "gzip", body: crushed("gzip", 8<<20), class: "bomb"},
	"/brotli-bomb": {coding: "br", body: crushed("br", 8<<20), class: "bomb"},
	"/zstd-bomb":   {coding: "zstd", body: crushed("zstd", 8<<20), class: "bomb"},
	"/endless":     {body: repeated("<p>and so on", 12<<20), class: "too_large"},
}

// evilSite serves each of them, built when it is first asked for.
func evilSite() http.Handler {
	made := make(map[string]func() []byte)
	for path, e := range evils {
		made[path] = sync.OnceValue(e.body)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e, ok := evils[r.URL.Path]
		if !ok {
			page(anchors(slices.Sorted(maps.Keys(evils))...))(w, r)
			return
		}
		body := made[r.URL.Path]()
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		if e.coding != "" {
			w.Header().Set("Content-Encoding", e.coding)
		}
		_, _ = w.Write(body) // some of it nobody wants
	})
}

// evilCrawl is one that reads all that there is to be read in a page.
func evilCrawl() assembly.Config {
	cfg := assembly.DefaultConfig()
	cfg.Scope.Mode, cfg.Depth, cfg.Output.Record = "any", 2, []string{"text"}
	cfg.Robots.Enabled, cfg.Sitemaps.Enabled = false, false // pages alone
	cfg.Scope.Exclude = []string{"/many/"}                  // links are what is wanted, not their pages
	cfg.Extract.MaxTime = time.Hour                         // steps are the bound here, whatever else this machine does
	return cfg
}

// Pages that are made to hurt cost what pages of their size cost: each has its record, and the memory stays within a
// bound. With all that can be read by way of their trees, and rules that compare many elements with many others, none
// costs more than a page may, and those that are not read to the end say so.
func TestEvilPages(t *testing.T) {
	for _, trees := range []bool{false, true} {
		if trees && racetest.Sample(t) {
			break
		}
		t.Run(fmt.Sprintf("trees %v", trees), func(t *testing.T) {
			server := httptest.NewServer(evilSite())
			defer server.Close()
			origin := server.URL
			cfg, out := evilCrawl(), &slim{}
			cfg.RateLimit.Strategy, cfg.Concurrency, cfg.PerHostMax, cfg.Sinks = "off", 8, 8, []record.Sink{out}
			if trees {
				cfg.Output.Record = append(cfg.Output.Record, "metadata", "main-text")
				cfg.Extract.Fields = []string{"a:all=css:i ~ p ~ p ~ p", "b:all=css:*:nth-last-of-type(2n):not(:has(p ~ p))", "c=xpath:count(//*//*//*//*)"}
			}
			c := newOver(t, cfg, cfg.Dial)
			stop := heapPeak()
			require.NoError(t, c.Run(t.Context(), origin+"/"))
			peak, got, snap := stop(), byURL(t, out.list), c.Snapshot()
			t.Logf("peak heap %.1f MiB above the start; %.1f s; outcomes %v", float64(peak)/(1<<20), snap.ElapsedSeconds, snap.Outcomes)
			requireEvil(t, got, origin, trees)
			// Sixteen bodies of up to 10 MiB and their texts may be under way, and the server's own pages are 40 MiB.
			most := int64(256 << 20)
			if trees {
				most = 512 << 20
				for _, path := range []string{"/roots", "/reopened", "/siblings", "/deep", "/many-attributes"} {
					require.True(t, got[origin+path].Truncated, path)
				}
				require.Empty(t, got[origin+"/deep-json"].JSONLD)
			}
			require.Less(t, peak, most)
		})
	}
}

func requireEvil(t *testing.T, got map[string]record.Record, origin string, trees bool) {
	t.Helper()
	for path, e := range evils {
		rec, ok := got[origin+path]
		require.True(t, ok, "%s has no record", path)
		require.Equal(t, e.class, class(rec), "%s: %+v", path, rec.Error)
		require.Equal(t, 200, rec.Status, path)
		part := strings.Contains(rec.FieldsError, "only a part of the page was looked at")
		require.Equal(t, part || e.class != "", rec.Truncated, "%s: %s", path, rec.FieldsError)
		require.LessOrEqual(t, rec.Bytes, int64(10<<20), path)
		if e.class == "bomb" {
			require.Less(t, rec.Bytes, int64(8<<20), path)
		}
		if !trees && e.class == "" && e.links >= 0 {
			require.Equal(t, e.links, len(rec.Links), path) // which are too many to be shown
		}
		require.LessOrEqual(t, len(rec.Title), 1<<10, path)
	}
}

// slim keeps records without their texts, which would be counted as what the crawl needs.
type slim struct{ records }

func (s *slim) Write(r *record.Record) error {
	r.Text = ""
	return s.records.Write(r)
}
