package sitemap_test

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/sitemap"
)

// FuzzRead holds the laws of any document: the entries are within the bounds and as many as the summary says,
// resolved URLs stay what they are, a part of the document has the first of its entries, and it makes no difference
// whether it comes as a whole or zipped.
func FuzzRead(f *testing.F) {
	archive, err := txtar.ParseFile("../../../testdata/conformance/sitemap/cases.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for i := 0; i < len(archive.Files); i += 2 {
		f.Add(archive.Files[i].Data, uint16(60), true)
	}
	for _, feed := range []string{
		"<rss><channel><item><link>http://a.test/</link><enclosure url='/b'/></item></channel></rss>", "<rss><![CDATA[<item>]]><!-- --><item><link>&amp;&#x", "<feed><feed><feed>",
		"<feed xmlns='http://www.w3.org/2005/Atom' xml:base='/x/'><entry xml:base='y/'><link href='z'/><updated>2020-01-01</updated></entry></feed>", "<rdf:RDF xmlns:rdf='x'><item rdf:about='/a'><link>/a</link></item></rdf:RDF>",
	} {
		f.Add(bytes.Repeat([]byte(feed), 50), uint16(99), false)
	}
	f.Add([]byte("<?xml encoding='shift_jis'?><urlset><url><loc>http://a.test/</loc>"), uint16(9), false)
	f.Add([]byte("\xff\xfe<\x00r\x00s\x00s\x00>\x00"), uint16(5), false)
	f.Fuzz(func(t *testing.T, body []byte, at uint16, isList bool) {
		doc := sitemap.Document{Body: bytes.Clone(body), Base: parseURL(t, "http://a.test/dir/doc"), List: isList}
		all, sum := list(t, doc)
		if !bytes.Equal(doc.Body, body) {
			t.Fatal("the body was changed")
		}
		if n := sum.URLs + sum.Sitemaps + sum.Alternates + sum.Resources; n != len(all) {
			t.Fatalf("%d entries, and the summary has %d", len(all), n)
		}
		// No URL is made of nothing, and each takes up something of the document.
		if len(all) > len(body) {
			t.Fatalf("%d entries in %d bytes", len(all), len(body))
		}
		checkCost(t, doc)
		if (sum.Problems > 0) != (sum.Problem != "") || sum.Format == sitemap.None && len(all) > 0 {
			t.Fatalf("summary %+v", sum)
		}
		for _, e := range all {
			_, u, _ := strings.Cut(e, " ")
			if got := parseURL(t, u).String(); got != u {
				t.Fatalf("%s is %s when read again", u, got)
			}
		}
		zippedDoc := doc
		zippedDoc.Body = zipped(t, body)
		if !bytes.HasPrefix(body, []byte("\x1f\x8b")) {
			if got, zsum := list(t, zippedDoc); !slices.Equal(got, all) || zsum != sum {
				t.Fatalf("zipped: %q %+v\nplain:  %q %+v", got, zsum, all, sum)
			}
		}
		part := doc
		part.Body, part.Truncated = body[:min(int(at), len(body))], true
		if got, _ := list(t, part); len(got) > len(all) || !slices.Equal(got, all[:len(got)]) {
			t.Fatalf("the first %d bytes: %q\nthe whole: %q", len(part.Body), got, all)
		}
		sitemap.Detect("", body)
	})
}

// checkCost holds that what a document costs is in proportion to its size. One that is packed may be larger than
// that.
func checkCost(t *testing.T, doc sitemap.Document) {
	t.Helper()
	if bytes.HasPrefix(doc.Body, []byte("\x1f\x8b")) {
		return
	}
	doc.Budget = effort.New(context.Background(), math.MaxInt64, nil, time.Time{})
	list(t, doc)
	if used := doc.Budget.Used(); used > int64(1000+4*len(doc.Body)) {
		t.Fatalf("%d steps for %d bytes", used, len(doc.Body))
	}
}

// A budget that is spent ends the reading, a packed document's too, and the entries before are there.
func TestTheBudgetEndsTheDocument(t *testing.T) {
	for _, body := range [][]byte{urlset(5000), zipped(t, urlset(5000))} {
		all, sum := list(t, sitemap.Document{Body: body, Budget: effort.New(t.Context(), 2000, nil, time.Time{})})
		if !strings.Contains(sum.Bound, "extract.max_time") || len(all) < 10 || len(all) > 2000 {
			t.Fatalf("%d entries, %+v", len(all), sum)
		}
	}
}

// FuzzParseTime: what is a date is one still when written out.
func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2004-12-23T18:00:15+00:00", "2004", "Tue, 03 Jun 2003 09:39:21 GMT", "2004-12-23 18:00:15,5 -0130"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, s []byte) {
		at, ok := sitemap.ParseTime(s)
		if !ok || at.Year() < 0 || at.Year() > 9999 {
			return
		}
		again, ok := sitemap.ParseTime([]byte(at.UTC().Format("2006-01-02T15:04:05.999999999Z07:00")))
		if !ok || !again.Equal(at) {
			t.Fatalf("%q is %v and then %v %v", s, at, again, ok)
		}
	})
}
