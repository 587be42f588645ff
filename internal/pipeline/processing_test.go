package pipeline

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/web/content"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/maintext"
	_ "github.com/treadlight/crawl/internal/web/readable"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/record"
)

const shopPage = `<title>Lamp</title><base href="/shop/"><meta property="og:type" content="product"><meta property="og:image" content=a><meta property="og:image" content=b>
<script type="application/ld+json">{"@type": "Product"}</script><script type="application/ld+json">{broken</script>
<nav><a href="/">Home</a></nav><main><h1>A lamp</h1><p class=price>12,50 €</p><a class=more href=other>More</a></main>`

func crawlTrees(t *testing.T, tree content.Tree) map[string]*record.Record {
	t.Helper()
	return crawlPages(t, map[string]string{
		"/item": shopPage, "/deep": "<h1>Deep</h1>" + strings.Repeat("<div>", 3000) + "<p class=price>3",
		"/large": "<h1>Large</h1>" + strings.Repeat("<br>", 100_000), "/plain": "<h1>no markup</h1>",
		"/legacy": "<meta charset=windows-1251><h1>\xcb\xe0\xec\xef\xe0</h1>",
	}, tree)
}

func crawlPages(t *testing.T, pages map[string]string, tree content.Tree) map[string]*record.Record {
	t.Helper()
	var records map[string]*record.Record
	synctest.Test(t, func(t *testing.T) {
		w, _ := served(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if r.URL.Path == "/plain" {
				w.Header().Set("Content-Type", "text/plain")
			}
			fmt.Fprint(w, pages[r.URL.Path])
		})})
		w.Tree = tree
		var seeds []string
		for path := range pages {
			seeds = append(seeds, "http://h.test"+path)
		}
		w.MaxPages = len(seeds)
		w.must(t, seeds...)
		records = w.out.byURL(t)
	})
	return records
}

func TestTrees(t *testing.T) {
	var rules []fields.Rule
	for _, line := range []string{"title=css:h1", "price:number=css:.price", "more:url:all=xpath://a[@class='more']/@href", "no=css:.no", "item=css:title url~/item$"} {
		r, err := fields.Parse(line)
		require.NoError(t, err)
		rules = append(rules, r)
	}
	set, err := fields.New(rules)
	require.NoError(t, err)
	read, err := maintext.Readers.Get()
	require.NoError(t, err)
	all := crawlTrees(t, content.Tree{Fields: set, Metadata: true, MainText: true, Markdown: true, Reader: read})

	item := all["http://h.test/item"]
	require.Equal(t, record.Named{
		{Name: "title", Values: []string{"A lamp"}},
		{Name: "price", Values: []string{"12.50"}, Number: true},
		{Name: "more", Values: []string{"http://h.test/shop/other"}, List: true},
		{Name: "item", Values: []string{"Lamp"}},
	}, item.Fields)
	require.Empty(t, item.FieldsError)
	require.Equal(t, record.Named{{Name: "og:type", Values: []string{"product"}}, {Name: "og:image", Values: []string{"a", "b"}, List: true}}, item.Properties)
	require.Len(t, item.JSONLD, 1)
	require.JSONEq(t, `{"@type":"Product"}`, string(item.JSONLD[0]))
	require.Equal(t, 1, item.InvalidJSONLD)
	require.Equal(t, "A lamp\n12,50 €\nMore", item.MainText)
	require.Contains(t, item.Markdown, "---\ntitle: \"")
	require.Contains(t, item.Markdown, "\nurl: \"http://h.test/item\"\n")
	require.Contains(t, item.Markdown, "\n---\n\n# A lamp\n\n12,50 €\n\n[More](")

	require.Equal(t, "Лампа", all["http://h.test/legacy"].Fields[0].Values[0])
	require.Equal(t, "[{title [Deep] false false} {price [3] false true}]", fmt.Sprint(all["http://h.test/deep"].Fields))
	require.Nil(t, all["http://h.test/plain"].Fields)
	require.Contains(t, all["http://h.test/large"].FieldsError, "only a part of the page was looked at")
	require.Equal(t, "Large", all["http://h.test/large"].Fields[0].Values[0])
	require.True(t, all["http://h.test/large"].Truncated)
	require.False(t, item.Truncated)
	for u, rec := range crawlTrees(t, content.Tree{}) { // without being asked nothing is read
		require.Empty(t, rec.MainText+rec.Markdown, u)
		require.Zero(t, len(rec.Fields)+len(rec.Properties)+len(rec.JSONLD), u)
	}
}

// A page that is made to cost more than others is read as far as it may cost, and its record says so.
func TestPagesThatCostTooMuch(t *testing.T) {
	var roots strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&roots, "<html a%d=x><body b%d=x>", i, i)
	}
	pages := map[string]string{
		"/roots":      "<title>Roots</title>" + roots.String() + "<h1>last</h1>",
		"/formatting": "<title>Formatting</title><h1>first</h1><p>" + strings.Repeat("<b><i class=a>", 200) + strings.Repeat("<p>x", 50_000),
		"/nested":     "<title>Nested</title><h1>first</h1>" + strings.Repeat("<div>x", 20_000),
		"/usual":      "<title>Usual</title><h1>first</h1><p>x",
	}
	rule, err := fields.Parse("n=xpath:count(//*//*//*//*)")
	require.NoError(t, err)
	title, err := fields.Parse("t=css:title")
	require.NoError(t, err)
	set, err := fields.New([]fields.Rule{title, rule})
	require.NoError(t, err)
	read, err := maintext.Readers.Get()
	require.NoError(t, err)
	for u, rec := range crawlPages(t, pages, content.Tree{Fields: set, Metadata: true, MainText: true, Reader: read}) {
		require.Equal(t, 200, rec.Status, u)
		require.Equal(t, u != "http://h.test/usual", rec.Truncated, u)
		require.NotEmpty(t, rec.Fields, u)
		require.Equal(t, rec.Title, rec.Fields[0].Values[0], u)
	}
}

// gallery is a host with pages, pictures and a film, and a robots.txt that says it is a picture.
func gallery(w http.ResponseWriter, r *http.Request) {
	const film = 5 << 20
	switch {
	case r.URL.Path == "/robots.txt":
		w.Header().Set("Content-Type", "image/png")
		_, _ = io.WriteString(w, "User-agent: *\nDisallow: /private\n")
	case r.URL.Path == "/":
		html(w, `<a href="/page">p</a> <a href="/a.png">a</a> <a href="/b.png">b</a> <a href="/film">f</a> <a href="/private">x</a> <a href="/gone.png">g</a>`)
	case r.URL.Path == "/gone.png":
		w.Header().Set("Content-Type", "image/png")
		w.WriteHeader(http.StatusNotFound)
	case strings.HasSuffix(r.URL.Path, ".png"):
		w.Header().Set("Content-Type", "image/png")
		_, _ = io.WriteString(w, "\x89PNG")
	case r.URL.Path == "/film":
		w.Header().Set("Content-Length", "5242880")
		_, _ = w.Write(make([]byte, film))
	default:
		html(w, "text with \x00 and ü")
	}
}

func visited(t *testing.T, change func(*world)) (map[string]*record.Record, *Pipeline, *fetchtest.Net) {
	t.Helper()
	w, net := served(t, map[string]http.Handler{"h.test": http.HandlerFunc(gallery)})
	change(w)
	p := w.must(t, "http://h.test/")
	records := make(map[string]*record.Record)
	for u, rec := range w.out.byURL(t) {
		records[strings.TrimPrefix(u, "http://h.test")] = rec
	}
	return records, p, net
}

// TestFilteredPages have a record with what their header said, are asked for once, and say nothing against their host.
func TestFilteredPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		records, p, net := visited(t, func(w *world) {
			var err error
			w.Filter, err = fetch.NewFilter([]string{"text/*"}, 1<<20)
			require.NoError(t, err)
		})
		class := map[string]string{"/a.png": "filtered", "/b.png": "filtered", "/film": "filtered", "/private": "robots"}
		require.Len(t, records, 7)
		for path, rec := range records {
			if want := class[path]; want == "" {
				require.Nil(t, rec.Error, path)
			} else {
				require.Equal(t, want, rec.Error.Class, path)
			}
			require.LessOrEqual(t, net.Count("h.test", path), 1, path)
		}
		require.Equal(t, "image/png", records["/a.png"].ContentType)
		require.Equal(t, 200, records["/a.png"].Status)
		require.Empty(t, records["/a.png"].Digest)
		require.Equal(t, 404, records["/gone.png"].Status)
		require.Contains(t, records["/film"].Error.Message, "a body of 5242880 bytes, more than 1048576 are not wanted")
		snap := p.Snapshot()
		require.EqualValues(t, 3, snap.Outcomes["filtered"])
		require.EqualValues(t, 2, snap.Pages)
		require.EqualValues(t, 1, snap.Errors, "the 404; what is not wanted is none")
		require.EqualValues(t, 1, snap.Refused)
		require.Zero(t, snap.Retries)
		require.Less(t, snap.WireBytes, int64(1<<10))
		require.Len(t, snap.Limiter.Top, 1)
		require.Zero(t, snap.Limiter.Top[0].ErrorRate)
	})
}

func TestStoredBodies(t *testing.T) {
	for name, wanted := range map[string]bool{"stored": true, "not asked for": false} {
		t.Run(name, bubble(func(t *testing.T) {
			records, _, _ := visited(t, func(w *world) { w.StoreBody = wanted })
			text, picture := records["/page"], records["/a.png"]
			require.NotEmpty(t, text.Digest)
			if !wanted {
				require.Empty(t, text.Body)
				require.Empty(t, picture.BodyBase64)
				return
			}
			require.Contains(t, text.Body, "text with \x00 and ü")
			require.Empty(t, text.BodyBase64)
			require.Equal(t, []byte("\x89PNG"), picture.BodyBase64)
			require.Empty(t, picture.Body)
			require.Len(t, records["/film"].Body, 5<<20)
		}))
	}
}

// TestBodiesWaitForRoom: what waits for Output is bounded by its size, not only by number.
func TestBodiesWaitForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		carrying := func(body, exchange int) *result {
			return &result{rec: &record.Record{Body: strings.Repeat("x", body), Exchange: &record.Exchange{Response: make([]byte, exchange)}}}
		}
		b := newWorldOn(t, fetch.Config{}).build(t)
		hold := func(ctx context.Context, r *result) error { return (&processor{p: b}).hold(ctx, r) }
		first, second, third := carrying(maxHeld/2, maxHeld/4), carrying(maxHeld/4, 0), carrying(1, 0)
		require.NoError(t, hold(t.Context(), first))
		require.NoError(t, hold(t.Context(), second))
		require.NoError(t, hold(t.Context(), &result{rec: &record.Record{}}), "a record that carries nothing needs no room")
		done := make(chan error)
		go func() { done <- hold(t.Context(), third) }()
		synctest.Wait()
		select {
		case <-done:
			t.Fatal("there was room beyond the bound")
		default:
		}
		first.unhold(b)
		first.unhold(b) // which counts once
		require.NoError(t, <-done)

		huge := carrying(2*maxHeld, 0)
		soon, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, hold(soon, huge), context.DeadlineExceeded)
		second.unhold(b)
		third.unhold(b)
		require.NoError(t, hold(t.Context(), huge), "alone it has its way")
		huge.unhold(b)
	})
}

// pagesThatSay is a site whose front page leads to pages with something to say to robots,
// each with a link below its own name and an image.
func pagesThatSay(t *testing.T, asked map[string]int) fetch.Config {
	t.Helper()
	var mu sync.Mutex // guards asked while the crawl goes
	heads := map[string]string{
		"/plain": "", "/noindex": `<meta name=robots content=noindex>`, "/nofollow": `<meta name=robots content=nofollow>`,
		"/ours": `<meta name=treadlight content=none>`, "/theirs": `<meta name=googlebot content=none>`,
	}
	tags := map[string]string{
		"/tagged": "nofollow, noarchive", "/others": "otherbot: none", "/gone": "unavailable_after: 1999-12-31",
		"/soon": "unavailable_after: 2999-12-31",
	}
	network := fetchtest.Serve(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked[r.URL.Path]++
		mu.Unlock()
		head, known := heads[r.URL.Path]
		if tag := tags[r.URL.Path]; tag != "" {
			w.Header().Set("X-Robots-Tag", tag)
			known = true
		}
		switch {
		case r.URL.Path == "/":
			body := `<a rel=nofollow href=/never></a><link rel=next href=/plain><link rel=alternate hreflang=de type=text/html href=/theirs>`
			for name := range heads {
				body += "<a href=" + name + "></a>"
			}
			for name := range tags {
				body += "<a href=" + name + "></a>"
			}
			html(w, body)
		case known:
			html(w, fmt.Sprintf("%s<a href=%s/link></a><img src=%[2]s/image>", head, r.URL.Path))
		default:
			http.NotFound(w, r)
		}
	})})
	return fetch.Config{DialContext: network.DialContext}
}

func TestPagesThatSay(t *testing.T) {
	for _, tt := range []struct {
		name             string
		follow, skip     bool
		omit             bool // links and digests, which are followed and counted all the same
		agent            string
		barred, left     []string // pages whose links are not followed, and those without a record
		nofollow, hidden int64
	}{
		{"as they ask", false, false, false, "treadlight", []string{"/nofollow", "/ours", "/tagged"}, nil, 4, 0},
		{"under another name", false, false, true, "", []string{"/nofollow", "/tagged"}, nil, 3, 0},
		{"without those that are not to be found", false, true, false, "treadlight", []string{"/nofollow", "/ours", "/tagged"}, []string{"/noindex", "/ours", "/gone"}, 4, 3},
		{"against their wishes", true, false, false, "treadlight", nil, nil, 0, 0},
	} {
		t.Run(tt.name, bubble(func(t *testing.T) {
			asked := map[string]int{}
			w := newWorldOn(t, pagesThatSay(t, asked))
			w.FollowNofollow, w.SkipNoindex, w.Extract.Agent, w.Extract.Resources = tt.follow, tt.skip, tt.agent, true
			w.OmitLinks, w.OmitDigest = tt.omit, tt.omit
			var err error
			w.Scope, err = scope.New(scope.Config{MaxDepth: scope.Unlimited, Resources: true})
			require.NoError(t, err)
			p := w.must(t, "http://h.test/")
			records := w.out.byURL(t)
			for _, page := range []string{"/plain", "/noindex", "/nofollow", "/ours", "/theirs", "/tagged", "/others", "/gone", "/soon"} {
				require.Equal(t, 1, asked[page], page)
				require.Equal(t, 1, asked[page+"/image"], "what %s is made of", page)
				barred, left := slices.Contains(tt.barred, page), slices.Contains(tt.left, page)
				require.Equal(t, !barred, asked[page+"/link"] == 1, "the link of %s", page)
				require.Equal(t, !left, records["http://h.test"+page] != nil, "the record of %s", page)
			}
			require.Equal(t, tt.follow, asked["/never"] == 1)
			snap := p.Snapshot()
			require.Equal(t, tt.nofollow, snap.OutOfScope[reasonNofollow])
			require.Equal(t, tt.hidden, snap.Unindexed)
			require.EqualValues(t, len(records), snap.Records)

			front := records["http://h.test/"]
			require.Equal(t, tt.omit, front.NofollowLinks == nil)
			require.Equal(t, tt.omit, front.Links == nil)
			require.Equal(t, tt.omit, front.Digest == "")
			require.Positive(t, front.Bytes)
			require.Subset(t, []string{"http://h.test/never"}, front.NofollowLinks)
			require.Equal(t, "http://h.test/plain", front.Next)
			require.Equal(t, []record.Alternate{{Href: "http://h.test/theirs", HrefLang: "de", Type: "text/html"}}, front.Alternates)
			require.Equal(t, []string{"nofollow", "noarchive"}, records["http://h.test/tagged"].Directives)
			require.Nil(t, records["http://h.test/plain"].Directives)
		}))
	}
}
