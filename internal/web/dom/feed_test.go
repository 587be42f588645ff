package dom

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/effort"
)

func numbered(format string) func(int) string {
	return func(size int) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			b.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
		}
		return b.String()
	}
}

// after is a page that begins with n of one thing and goes on with another.
func after(n int, begin, format string) func(int) string {
	return func(size int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.ReplaceAll(begin, "#", fmt.Sprint(i)))
		}
		return b.String() + numbered(format)(max(0, size-b.Len()))
	}
}

// hostile are pages of any size that cost a parser more than others of their size.
var hostile = map[string]func(int) string{
	"roots":                 numbered("<html a#=x><body b#=x>"),
	"roots, odd case":       numbered("<HTML\na#/><bOdY/b#>"),
	"roots, large first":    func(size int) string { return "<body" + numbered(" a#")(size/2) + ">" + numbered("<body c#>")(size/2) },
	"roots in SVG":          numbered("<svg><style><body b#=x></style></svg>"),
	"attributes":            func(size int) string { return "<p" + numbered(" a#=b")(size) + ">" },
	"attributes, then tags": func(size int) string { return "<p" + numbered(" a#")(size/2) + ">" + numbered("<p x#>")(size/2) },
	"attributes reopened":   func(size int) string { return "<p><b" + numbered(" a#")(size/2) + ">" + numbered("<p>x")(size/2) },
	"formatting":            numbered("<p><b a=#>x"),
	"formatting reopened":   after(400, "<p><b c=#>", "<p>x"),
	"few reopened":          after(1, "<p><b><b><b><i><i><i><u><u><u><s><s><s><tt><tt><tt><em><em><em>", "<p>x"),
	"reopened in SVG":       after(200, "<p><font a=#>", "<p><svg><style></font></style></svg>x"),
	"misnested":             numbered("<b a=#><p></b>"),
	"misnested deeply":      after(300, "<b a=#><p>", "</b>"),
	"open links":            numbered("<a href=#><div>x"),
	"nobr":                  numbered("<nobr><div>x"),
	"markers":               after(3000, "<table><td><object>", "<td><b></b></td>"),
	"fostered":              numbered("<table><b a=#>x"),
	"fostered text":         after(1, "<table>", "x<br>"),
	"tables":                numbered("<table><tr><td>x"),
	"divs":                  numbered("<div>x"),
	"divs and ends":         after(500, "<div>", "</span></p>"),
	"templates":             numbered("<template><td>x"),
	"selects":               numbered("<select><option><optgroup>x"),
	"framesets":             numbered("<frameset><noscript><body a#>"),
	"comments":              func(size int) string { return "<!--" + strings.Repeat("<b>", size/3) },
	"CDATA":                 func(size int) string { return "<svg><![CDATA[" + strings.Repeat(">", size) },
	"scripts in scripts":    func(size int) string { return "<script><!--<script>" + strings.Repeat("</script><script>", size/17) },
	"quotes":                func(size int) string { return "</p a=\"" + strings.Repeat(">", size) },
	"brackets":              func(size int) string { return strings.Repeat("<", size) },
	"entities":              func(size int) string { return strings.Repeat("&notit", size/6) },
	"forms":                 numbered("<form><input><button>x"),
	"headings":              numbered("<h1><li><dd>x"),
	"ruby":                  numbered("<ruby><rt><rb>x"),
	"foreign":               numbered("<svg><desc><math><mi>x"),
}

func plain(size int) string {
	return numbered("<div class=c#><p>some <b>words</b> and a <a href=/#>link</a></p></div>\n")(size)
}

func counting(size int) *effort.Budget {
	return effort.New(context.Background(), effort.Steps(size, math.MaxInt64), nil, time.Time{})
}

// overshoot is what one token may cost beyond the bound.
const overshoot = 2000

func nodes(root *html.Node) (n, attrs int) {
	for c := range root.Descendants() {
		n++
		attrs += len(c.Attr)
	}
	return n, attrs
}

// checkFeed holds that a tree costs no more than its page may, has no more nodes than the page has bytes, and is the
// parser's own unless the document says otherwise.
func checkFeed(t *testing.T, page []byte) {
	t.Helper()
	budget := counting(len(page))
	d := ParseWithin(page, MaxElements, budget)
	require.LessOrEqual(t, budget.Used(), effort.Steps(len(page), math.MaxInt64)+overshoot+int64(len(page)/effort.Bytes))
	n, attrs := nodes(d.Root)
	require.LessOrEqual(t, n, minNodes+len(page)+overshoot)
	require.LessOrEqual(t, attrs, 2*(minNodes+len(page)+overshoot))
	if d.Cut || depth(d.Root) > maxDepth/2 { // or deep, which is not the parser's own
		return
	}
	want, err := html.ParseWithOptions(bytes.NewReader(page), html.ParseOptionEnableScripting(false))
	require.NoError(t, err)
	require.Equal(t, shape("", want), shape("", d.Root))
}

// The fields that the feed reads are there, so that an update of x/net that renames them is noticed here and not by a
// page.
func TestFeedSeesTheParser(t *testing.T) {
	f := newFeed([]byte("<p><b>x<p>y<script>"), MaxElements, nil)
	_, err := html.ParseWithOptions(f, f.option())
	require.NoError(t, err)
	require.True(t, f.ok)
	require.Equal(t, 1, f.formatted.Len())
	require.Equal(t, 4, f.open.Len(), "html, body, p and b; the script has ended")
}

// A page of any kind costs steps in proportion to its size.
func TestHostilePagesCostNoMoreThanOthers(t *testing.T) {
	for name, page := range hostile {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{200, 5_000, 100_000} {
				checkFeed(t, []byte(page(size)))
			}
		})
	}
}

// Attributes of a tag and of repeated html and body tags are bounded, and the rest of the page is there.
func TestAttributesAreBounded(t *testing.T) {
	d := Parse([]byte(hostile["roots"](200_000) + "<p id=last>"))
	require.True(t, d.Cut && d.Stripped)
	require.Len(t, find(d.Root, "html").Attr, maxRoots/2)
	require.Len(t, find(d.Root, "body").Attr, maxRoots/2)
	require.NotNil(t, find(d.Root, "p"))

	d = Parse([]byte(hostile["attributes"](200_000) + "<i>last"))
	require.True(t, d.Cut && d.Stripped)
	require.Len(t, find(d.Root, "p").Attr, maxAttrs)
	require.Equal(t, "last", TextWithin(find(d.Root, "i"), 100, nil))

	d = ParseWithin([]byte(hostile["attributes"](200_000)+strings.Repeat("<i>last", 20)), 10, nil)
	require.True(t, d.Cut)
	require.False(t, d.Stripped, "elements are left out too")

	d = Parse([]byte(`<html lang=a><body class=b><html data-c=d><body lang=e x="y">` + numbered(" a#")(900)))
	require.False(t, d.Cut, "what careless templates do")
	require.Len(t, find(d.Root, "html").Attr, 2)
	require.Len(t, find(d.Root, "body").Attr, 3)
}

// A small page cannot make a large tree.
func TestReopenedElementsAreBounded(t *testing.T) {
	d := Parse([]byte(hostile["formatting reopened"](1 << 20)))
	require.True(t, d.Cut)
	n, _ := nodes(d.Root)
	require.Less(t, n, 2*nodesPerElement*MaxElements)
	// Elements that stay open are none of that: old pages are one font element.
	d = Parse([]byte("<font size=1><b><i>" + strings.Repeat("x<br>", MaxElements/2)))
	require.False(t, d.Cut)
}

// A budget that is spent ends the page, and a deadline does.
func TestTheBudgetEndsThePage(t *testing.T) {
	page := []byte(plain(1 << 20))
	d := ParseWithin(page, MaxElements, effort.New(t.Context(), 5000, nil, time.Time{}))
	require.True(t, d.Cut)
	some := count(d.Root, isElement)
	require.Greater(t, some, 100)
	require.Less(t, some, 5000)

	now := time.Unix(0, 0)
	d = ParseWithin(page, MaxElements, effort.New(t.Context(), math.MaxInt64, func() time.Time { now = now.Add(time.Second); return now }, time.Unix(3, 0)))
	require.True(t, d.Cut)
	require.Less(t, count(d.Root, isElement), 20_000)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	d = ParseWithin(page, MaxElements, effort.New(ctx, math.MaxInt64, nil, time.Time{}))
	require.True(t, d.Cut)
	require.Less(t, count(d.Root, isElement), 20_000)
}

// What the parser does for a tag is charged: it goes over the open elements, the attributes, and the formatting
// elements that it opens again.
func TestWhatTheParserDoesIsCharged(t *testing.T) {
	const n = 400
	font := "<p><font" + numbered(" a#=x")(600) + ">"
	for _, tc := range []struct {
		page  string
		least int
	}{
		{strings.Repeat("<div>", n), n * n / 2},
		{strings.Repeat("<div>", n) + strings.Repeat("</p>", n), n * n},
		{"<br" + numbered(" a#=x")(1000) + ">", 100},
		{font + strings.Repeat("</p><p>", n/10), n / 10 * 50},
	} {
		budget := effort.New(t.Context(), math.MaxInt64, nil, time.Time{})
		ParseWithin([]byte(tc.page), MaxElements, budget)
		require.GreaterOrEqual(t, budget.Used(), int64(tc.least), "%.60s", tc.page)
	}
	// The end tag of a formatting element may have others made anew, unless it is the innermost.
	for _, tag := range []string{"<b><p></b>", "<b><p></p></b>"} {
		f := newFeed([]byte(tag), MaxElements, nil)
		nodes := f.nodes
		_, err := html.ParseWithOptions(f, f.option())
		require.NoError(t, err)
		require.Equal(t, tag == "<b><p></b>", nodes-f.nodes > misnested, tag)
	}
}
