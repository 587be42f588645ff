package readable

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/web/dom"
	"github.com/treadlight/crawl/internal/web/effort"
)

// long is a paragraph that is main text anywhere.
const long = "<p>A paragraph that somebody wrote to be read, with more words than any line of a menu has, so that there is no doubt about what it is and where it belongs, even if nothing else on the page says so."

func text(page string) string { return Read(dom.Parse([]byte(page)), nil).Text() }

func TestNoMainText(t *testing.T) {
	for name, page := range map[string]string{
		"nothing": "", "only a menu": "<nav>" + long + "</nav>",
		"scripts": "<script>" + long + "</script>",
		"no body": strings.Repeat("<link>", dom.MaxElements),
	} {
		require.Empty(t, text(page), name)
	}
}

func TestWhatSaysThatItIsNoMainText(t *testing.T) {
	for _, open := range []string{
		"<nav>", "<aside>", "<footer>", "<div role=navigation>", "<div role=' Search '>", "<div class='x site-footer'>",
		"<div id=cookie_banner>", "<div hidden>", "<div aria-hidden=true>", "<div style='Display : none'>", "<button>", "<template>", "<select>",
	} {
		got := text("<body><article><div>" + long + "</div>" + open + "Not this.</div></nav></aside></footer></button></template></select><div>" + long)
		require.NotContains(t, got, "Not this", open)
		require.Equal(t, 2, strings.Count(got, "A paragraph"), open)
	}
}

// A class says something of the page and not of the element when the element holds the page's text.
func TestNamesOfLargeElements(t *testing.T) {
	require.Equal(t, 8, strings.Count(text("<div class='layout sidebar'>"+strings.Repeat(long, 8)+"</div>"), "A paragraph"))
	require.Contains(t, text("<div class=navy>"+long+"</div>"), "A paragraph")
	require.Contains(t, text("<body class=menu>"+long), "A paragraph")
}

// What is around the text of a page is not beside it, whatever it says of itself.
func TestWhatIsAroundTheText(t *testing.T) {
	text8 := strings.Repeat(long, 8)
	for _, open := range []string{
		"<aside class=banner><p>Notice.</aside-not-closed><main><article>", "<noscript><div role=main>", "<div hidden><main>", "<div hidden><div>",
		"<div id=S:0 hidden>", "<div class='elementor-widget'>", "<div role=tabpanel style='display:none'>",
	} {
		require.Equal(t, 8, strings.Count(text("<nav>Menu</nav>"+open+text8), "A paragraph"), open)
	}
	widgets := ""
	for range 8 {
		widgets += "<div class='page-widget'>" + long + "</div>"
	}
	require.Equal(t, 8, strings.Count(text(widgets), "A paragraph"), "each has less than a quarter")
	require.NotContains(t, text(text8+"<aside>Beside it.</aside>"), "Beside")
}

// Of a page that is a list of links these are the main text; of an article beside many links they are not.
func TestListings(t *testing.T) {
	links := ""
	for i := range 40 {
		links += fmt.Sprintf("<tr><td>%d.<td><a href=/%d>Somebody is hiring engineer number %d</a>", i, i, i)
	}
	require.Equal(t, 40, strings.Count(text("<nav><a href=/>Home of all</a></nav><table>"+links+"</table>"), "is hiring"))
	require.NotContains(t, text("<nav><a href=/>Home of all</a></nav><table>"+links+"</table>"), "Home")
	require.NotContains(t, text("<article>"+strings.Repeat(long, 8)+"</article><div><table>"+links+"</table></div>"), "is hiring")
	menu, stories := strings.Repeat("<a href=/m>Menu entry</a> ", 20), strings.Repeat("<p><a href=/s>A story that somebody wrote of it</a>", 40)
	for _, before := range []string{"", "Menu "} {
		got := text("<div role=navigation>" + before + menu + "</div>" + stories)
		require.NotContains(t, got, "entry", before)
		require.Equal(t, 40, strings.Count(got, "story"), before)
	}
}

// The marks of a page are believed if what they mark is a part of it worth mentioning.
func TestMarks(t *testing.T) {
	short := "<h1>Note</h1><p>Three short words.</p>"
	require.Equal(t, "Note\nThree short words.", text("<nav>"+long+"</nav><main>"+short+"</main>"))
	require.Equal(t, "Note\nThree short words.", text("<div role=main>"+short+"</div>"))
	require.Contains(t, text("<main>x</main>"+strings.Repeat(long, 3)), "A paragraph", "too little to be a mark")
}

// Generators of documentation have each heading link to itself, by a sign.
func TestPermalinks(t *testing.T) {
	a := Read(dom.Parse([]byte("<h2>Names<a class=headerlink href=#names title='Permalink'>¶</a></h2>"+long+"<p>See <a href=/c>C#</a>."+long)), nil)
	require.NotContains(t, a.Text(), "¶")
	require.Contains(t, a.Text(), "Names\n")
	require.Contains(t, a.Text(), "C#")
	require.NotContains(t, a.Markdown(), "¶")
}

func TestPreformattedTextKeepsItsLines(t *testing.T) {
	require.Contains(t, text(long+"<pre>\nif x {\n\treturn  <b>y</b>, z<br>}\n</pre>"+long), "\nif x {\n\treturn  y, z\n}\nA paragraph")
}

func TestBounds(t *testing.T) {
	got := text(strings.Repeat(long, MaxText/len(long)+100))
	require.LessOrEqual(t, len(got), MaxText)
	require.Greater(t, len(got), MaxText-len(long))
}

// counted is the main text of a page, and what it took of a budget.
func counted(page string, steps int64) (string, *effort.Budget) {
	d := dom.Parse([]byte(page))
	d.Budget = effort.New(context.Background(), steps, nil, time.Time{})
	return Read(d, nil).Text(), d.Budget
}

func TestTheBudgetEndsTheText(t *testing.T) {
	_, b := counted(strings.Repeat(long, 1000), 500)
	require.True(t, b.Spent())
	require.Less(t, b.Used(), int64(2000))
}

// Each of the ways over a page is charged: where its prose is, its blocks, and what stands as it is.
func TestTheWaysOverAPageAreCharged(t *testing.T) {
	const n = 1000
	for page, least := range map[string]int64{
		"<p>" + long + "<div>" + strings.Repeat("<br>", n):                      2 * n,
		"<p>" + long + "<pre>" + strings.Repeat("x<br>", n):                     4 * n,
		"<p>" + long + "<div>" + strings.Repeat(strings.Repeat("x", 640), 64):   2 * 640,
		"<p>" + long + "<p><a href=/>" + strings.Repeat("<b>x</b>", n) + "</a>": 4 * n,
	} {
		_, b := counted(page, math.MaxInt64)
		require.GreaterOrEqual(t, b.Used(), least, "%.200s", page[len(page)-60:])
	}
}

// FuzzText: any page has main text within its bounds, and what it costs grows with its size: nesting must not
// multiply the work.
func FuzzText(f *testing.F) {
	f.Add("<main>" + long + "</main>")
	f.Add(strings.Repeat("<div class=nav><form>", 200) + long)
	f.Add(strings.Repeat("<h1>a<p>b", 50))
	f.Fuzz(func(t *testing.T, page string) {
		d := dom.Parse([]byte(page))
		require.LessOrEqual(t, len(Read(d, nil).Text()), MaxText)
		_, b := counted(page, math.MaxInt64)
		require.LessOrEqual(t, b.Used(), int64(1000+10*len(page)), "steps")
	})
}

// Documentation keeps the code, the headings and the boxes that Readability drops out of its middle, and lines of code that are
// elements of their own stay lines.
func TestCodeOfDocumentation(t *testing.T) {
	prose := strings.Repeat("<p>A paragraph says, in so many words, what the reader of a page like this has to know, and then goes on, for a while.</p>", 3)
	page := "<html><head><meta property=og:type content=article><title>T</title></head><body><nav><a href=/a>Other</a></nav><main><h1>T</h1>" + prose +
		"<pre><code><div class=line>a := <b>1</b></div><div class=line>b := 2</div></code></pre>" + prose + "</main></body></html>"
	a := Read(dom.Parse([]byte(page)), nil)
	require.Contains(t, a.Text(), "a := 1\nb := 2\n")
	require.Contains(t, a.Markdown(), "```\na := 1\nb := 2\n```")
	require.NotContains(t, a.Text(), "Other")
}

// What stands beside code is no code, notes in asides are text, and the id of a section says nothing.
func TestPartsOfDocumentation(t *testing.T) {
	code := "<pre><span class=linenos>1</span>a := 1\n<span class=linenos>2</span>b := 2\n<button>copy</button></pre>"
	table := "<table><tr><td class=linenos><pre>1\n2</pre><td class=code><pre>c := 1\nd := 2</pre></table>"
	a := Read(dom.Parse([]byte("<main><h1>T</h1>"+long+code+"<aside class='admonition note'><p>A note of it.</aside>"+table+
		"<aside class=ad><p>Buy this.</aside><section id=skip-menu><h2>Skip</h2>"+long+"</section></main>")), nil)
	md := a.Markdown()
	for _, want := range []string{"```\na := 1\nb := 2\n```", "```\nc := 1\nd := 2\n```", "A note of it.", "## Skip"} {
		require.Contains(t, md, want)
	}
	require.NotContains(t, md, "Buy this")
}

// Labels that come again and again are no text; paragraphs and headings are.
func TestLabels(t *testing.T) {
	var blocks []*block
	for range maxCopies + 1 {
		blocks = append(blocks, &block{text: "Reply", words: 1}, &block{text: "Part", words: 1, marks: marks{heading: true}}, &block{text: "long", words: minParagraph})
	}
	for _, b := range blocks {
		b.inBody = true
	}
	choose(blocks, false)
	for _, b := range blocks {
		require.Equal(t, b.text != "Reply", b.main, b.text)
	}
}

// A theme may name the class of a heading after its navigation bar: the heading stays with what is below it.
func TestHeadingsStayWithTheirSections(t *testing.T) {
	got := text("<meta property=og:type content=article><article><h1>T</h1>" + long + "<h2 class=anchorWithStickyNavbar>Second part</h2>" + long +
		"<h2 class=related>Elsewhere</h2><ul class=related><li><a href=/x>Another page</a></ul></article>")
	require.Contains(t, got, "Second part")
	require.NotContains(t, got, "Elsewhere")
}

// A page that is too large gives what was read of it, and says so.
func TestLargePages(t *testing.T) {
	for _, page := range []string{"<p>" + strings.Repeat("x", 2*MaxText), "<table><tr>" + strings.Repeat("<td>a cell of a row that has many of them", 90_000)} {
		md := Read(dom.Parse([]byte(page)), nil).Markdown()
		require.Greater(t, len(md), MaxText/2)
		require.LessOrEqual(t, len(md), MaxText)
		require.True(t, strings.HasSuffix(md, partialNote))
	}
	d := dom.Parse([]byte(strings.Repeat("<div>", 1000) + "Few words."))
	require.NotContains(t, Read(d, nil).Markdown(), partialNote)
	stripped := dom.Parse([]byte("<p" + strings.Repeat(" a=b", 300) + ">Few words.")) // every text is there
	require.Equal(t, "Few words."+strippedNote, Read(stripped, nil).Markdown())
	d.Budget = effort.New(context.Background(), 0, nil, time.Time{})
	require.Equal(t, "Few words."+partialNote, Read(d, nil).Markdown())
}
