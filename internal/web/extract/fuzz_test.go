package extract

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/effort"
)

// FuzzPage holds what is true of every result, and that nothing of one page reaches the next.
func FuzzPage(f *testing.F) {
	for _, page := range []string{
		`<html lang=de><title>T</title><base href="/b/"><a href=x rel=nofollow>t</a><img srcset="a 1x,b"><link rel=canonical href=c>`,
		`<svg><title/><script/><a xlink:href=x></svg><template><a href=y></template><noscript><a href=z></noscript>`,
		`<meta charset=shift_jis><a href="?q=` + "\x93\xfa" + `"><meta http-equiv=refresh content="0;url=x">`,
		`<!--<a href=x>--><script><!--<script></script><a href=y>`, "\xff\xfe<\x00a\x00 \x00h\x00r\x00e\x00f\x00=\x00x\x00>\x00",
		`<style>@import "a";b{c:url(d)}</style><p style="e:url(f)" data-href="g/h"><form><input name=i><select name=j><option>k</form><iframe srcdoc="<a href=l>">`,
		`<svg xmlns:xlink="x"><use xlink:href="m"/><link rel=alternate hreflang=n href=o></svg>`, `{"start_url":"p"}`,
		`<a href="` + "\t" + `javascript:x"><a href="mailto:x"><a href="http://[">`, `<table><td>a<td>b<textarea><a href=x>`,
		`<meta http-equiv=Content-Security-Policy content="report-uri . ? .. /csp"><script>fetch("/api/x")</script>`,
	} {
		f.Add([]byte(page), "text/html", "", "", uint8(3))
		f.Add([]byte(page), "application/xhtml+xml", "latin1", "<x>; rel=next, noindex", uint8(255))
	}
	for _, s := range costly {
		f.Add([]byte(strings.Repeat(s, 20)), "text/html", "", "", uint8(255))
	}
	base := mustParse(f, docURL)
	var used Extractor
	f.Fuzz(func(t *testing.T, body []byte, mediaType, declared, header string, flags uint8) {
		opts := Options{
			Text: flags&1 != 0, Resources: flags&2 != 0, Forms: flags&4 != 0, Feeds: flags&8 != 0, Named: flags&16 != 0, Agent: "treadlight",
		}
		h := []string{header}
		d := &Document{
			URL: base, MediaType: mediaType, Charset: declared, Body: body,
			Header: http.Header{"Link": h, "X-Robots-Tag": h, "Refresh": h, "Content-Language": h, "Content-Security-Policy": h},
		}
		var fresh Extractor
		var r, again Result
		if fresh.Document(d, opts, &r) != nil || used.Document(d, opts, &again) != nil {
			t.Fatal("a page is never an error")
		}
		if !reflect.DeepEqual(r, again) {
			t.Fatalf("the same page twice:\n%+v\n%+v", r, again)
		}
		checkResult(t, &r, opts, len(body))
		checkCost(t, d, opts)
		checkSays(t, &r)
	})
}

// costly are pages of things that could be gone over again and again.
var costly = map[string]string{
	"links": "<a href=x#1>", "new links": "<a href=#>y", "srcset": `<img srcset="a 1x, b(, c 2x">`, "styles": `<p style="x:url(a\),b) url('c">`,
	"applets": "<applet codebase=/a archive=b,c,d code=e>", "forms": "<form action=/a><input name=b value=c></form>",
	"selects": "<form><select><option>a<option>b", "frames": `<iframe srcdoc="<a href=x><style>a{b:url(c)}">`, "comments": "<!-- <!--> --!>",
	"scripts": "<script><!--<script></script>", "titles": "<svg><title><title/>", "bases": "<base href=/x/>", "slashes": "<a/b/c=/>", "quotes": `<a b="`,
	"metas": "<meta name=robots content='noindex, x'><meta http-equiv=refresh content='0;url=/y'>", "entities": "&CounterClockwiseContourIntegral;&#x0", "brackets": "<",
	"alternates": "<link rel='alternate canonical next prev' hreflang=x href=y>", "params": "<param name=src value=a.b>", "data": "<p data-src=/a.b data-srcset='/c.d 1x' data-url=/e>",
}

// checkCost holds that what a page costs is in proportion to its size.
func checkCost(t *testing.T, d *Document, opts Options) {
	t.Helper()
	var e Extractor
	var r Result
	opts.Budget = effort.New(context.Background(), math.MaxInt64, nil, time.Time{})
	if err := e.Document(d, opts, &r); err != nil {
		t.Fatal(err)
	}
	if used := opts.Budget.Used(); used > int64(2000+4*len(d.Body)) {
		t.Fatalf("%d steps for %d bytes", used, len(d.Body))
	}
}

func TestPagesCostInProportionToTheirSize(t *testing.T) {
	base := mustParse(t, docURL)
	for name, s := range costly {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1000, 50_000} {
				d := &Document{URL: base, MediaType: "text/html", Body: []byte(strings.Repeat(s, size/len(s)))}
				checkCost(t, d, Options{Text: true, Resources: true, Forms: true, Feeds: true, Named: true})
			}
		})
	}
}

// What is read is charged: bytes of markup, each reference of a list, and a long base at each of them. Without a
// budget left a list ends.
func TestWhatIsReadIsCharged(t *testing.T) {
	const n = 2000
	image := func(i int) string { return fmt.Sprintf("/%d, ", i) }
	rule := func(i int) string { return fmt.Sprintf("url(/%d) ", i) }
	list := func(one func(int) string) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(one(i))
		}
		return b.String()
	}
	for name, tc := range map[string]struct {
		page  string
		least int64
	}{
		"markup":     {strings.Repeat("<br>", n), n * 4 / effort.Bytes},
		"srcset":     {`<img srcset="` + list(image) + `">`, 3 * n},
		"css":        {"<style>" + list(rule) + "</style>", 3 * n},
		"empty css":  {"<style>" + strings.Repeat("url(#)", n) + "</style>", n},
		"no images":  {`<img srcset="` + strings.Repeat(", ", n) + `">`, 1},
		"long base":  {"<base href=/" + strings.Repeat("x", 1900) + "/>" + list(func(i int) string { return fmt.Sprintf("<a href=%d>", i) }), n * 1900 / effort.Bytes},
		"long links": {list(func(i int) string { return fmt.Sprintf("<a href=/%s%d>", strings.Repeat("x", 900), i) }), 2 * n * 900 / effort.Bytes},
	} {
		opts := Options{Resources: true, Budget: effort.New(t.Context(), math.MaxInt64, nil, time.Time{})}
		read(t, tc.page, opts)
		if used := opts.Budget.Used(); used < tc.least {
			t.Errorf("%s: %d steps, want at least %d", name, used, tc.least)
		}
		opts.Budget = effort.New(t.Context(), 100, nil, time.Time{})
		if r := read(t, tc.page, opts); len(r.Links) > 120 {
			t.Errorf("%s: %d links of 100 steps", name, len(r.Links))
		}
	}
}

// A budget that is spent ends the reading, and the links that were found are there.
func TestTheBudgetEndsThePage(t *testing.T) {
	var page strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&page, "<a href=/%d>x</a>", i)
	}
	opts := Options{Budget: effort.New(t.Context(), 2000, nil, time.Time{})}
	r := read(t, page.String(), opts)
	if !opts.Budget.Spent() || len(r.Links) < 100 || len(r.Links) > 2000 {
		t.Fatalf("%d links", len(r.Links))
	}
}

// checkSays holds that what a page says of itself is bounded, and that its relations are canonical URLs.
func checkSays(t *testing.T, r *Result) {
	t.Helper()
	if len(r.Directives) > maxDirectives || len(r.Alternates) > maxAlternates {
		t.Fatalf("%d directives, %d alternates", len(r.Directives), len(r.Alternates))
	}
	urls := []string{r.Next, r.Prev, r.Meta.Canonical}
	for _, a := range r.Alternates {
		if urls = append(urls, a.Href); len(a.HrefLang) > maxField || len(a.Type) > 3*maxRel {
			t.Fatalf("alternate %+v", a)
		}
	}
	for _, s := range urls {
		if u, err := canonical.Parse(s); s != "" && (err != nil || u.String() != s) {
			t.Fatalf("relation %q: %v", s, err)
		}
	}
}

func checkResult(t *testing.T, r *Result, opts Options, size int) {
	t.Helper()
	seen := make(map[canonical.URL]bool)
	for _, l := range r.Links {
		if again, err := canonical.Parse(l.URL.String()); err != nil || again != l.URL || seen[l.URL] {
			t.Fatalf("link %q is no canonical URL, or there twice", l.URL)
		}
		seen[l.URL] = true
		if l.Kind == Resource && !opts.Resources {
			t.Fatalf("link %+v", l)
		}
	}
	if !opts.Text && r.Text != "" {
		t.Fatalf("%d links, %d bytes of text with %+v", len(r.Links), len(r.Text), opts)
	}
	for _, s := range []string{r.Title, r.Lang, r.Meta.Description, r.Meta.Robots, r.Meta.Generator, r.Meta.OGTitle} {
		if len(s) > maxField || !utf8.ValidString(s) {
			t.Fatalf("field %q", s)
		}
	}
	// Three bytes replace one that is not UTF-8, or one of a legacy encoding.
	if len(r.Text) > 3*size || !utf8.ValidString(r.Text) {
		t.Fatalf("%d bytes of text from a page of %d", len(r.Text), size)
	}
}
