package dashboard

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
)

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func newPages(t *testing.T) *Pages {
	t.Helper()
	p, err := New()
	require.NoError(t, err)
	return p
}

// full is pages in which every text is the same, as if a stranger had chosen them all.
func full(text string) (Overview, Host) {
	frame := Frame{Title: text, State: "running", Reason: text, Now: noon, LoggedIn: true, Checkpoint: true}
	chart := Chart{
		ID: "rate", Title: text, Unit: text, From: noon, To: noon.Add(time.Minute),
		Lines: []Line{{text, "a", []Point{{noon, 1}, {noon.Add(time.Second), 2}}}},
		Bands: []Band{{noon, noon.Add(time.Second), Open, text}}, Marks: []Mark{{noon.Add(time.Second), Cut, text}},
	}
	row := Row{Host: text, State: Active, Reason: text, Queued: 12345, Rate: 1.5, Limit: 2, LatencyMS: 3, Failures: 2}
	record := pipeline.Seen{At: noon, URL: text, Title: text, Status: 500, Class: text, Error: text}
	table := ParseTable(url.Values{"q": {text}, "span": {"all"}})
	table.Query, table.Span = text, text
	table.Hosts, table.Matching, table.Page, table.Pages, table.Rows = 500, 120, 2, 3, []Row{row}
	counts := Counts{text, text, []Count{{text, 7, text, 100}}}
	changed := Changed{[]Order{{text, text}}, []Order{{text, text}}, 7, []string{text}, []string{text}}
	o := Overview{frame, []Figure{{text, text, text}}, []Chart{chart}, counts, counts, text, text, changed, table, []pipeline.Seen{record}, []pipeline.Seen{record}}
	h := Host{
		Frame: frame, Host: text, Known: true, State: Failing, Reason: text, Waits: text, MaxRPS: text,
		Figures: o.Figures, Charts: o.Charts, Events: []ratelimit.Event{{Time: noon, FromRPS: 4, ToRPS: 2, Text: text}},
	}
	return o, h
}

// rendered is all pages, parsed.
func rendered(t *testing.T, text string) map[string]*html.Node {
	t.Helper()
	p := newPages(t)
	o, h := full(text)
	all := make(map[string]*html.Node)
	add := func(name string, page []byte, err error) {
		require.NoError(t, err, name)
		doc, err := html.Parse(strings.NewReader(string(page)))
		require.NoError(t, err, name)
		all[name] = doc
	}
	page, err := p.Overview(o)
	add("overview", page, err)
	page, err = p.Host(h)
	add("host", page, err)
	page, err = p.Login(text)
	add("login", page, err)
	page, err = p.Overview(Overview{Table: ParseTable(nil)})
	add("empty overview", page, err)
	page, err = p.Host(Host{Host: text})
	add("unknown host", page, err)
	return all
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// hostile is what a host may call itself, its pages and its errors.
var hostile = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `javascript:alert(1)`,
	`</title></style></textarea><script src=//evil.example/x></script>`, "a\x00b\xff\u202egpj.exe", `{{.Title}}`, `<!--`, `]]>`,
	`//evil.example/`, `\\evil.example\`, `data:text/html,<script>alert(1)</script>`, `../../../etc/passwd?x#y`, `a&lt;b&#x3c;script>`,
	`</svg><svg onload=alert(1)>`, strings.Repeat("long", 5000),
}

// TestHostileTexts has strangers choose every text, and looks at what a browser would make of
// the pages: nothing runs, loads or leads away that would not with a harmless word.
func TestHostileTexts(t *testing.T) {
	shape := func(doc *html.Node) (tags []string) {
		for n := range doc.Descendants() {
			if n.Type == html.ElementNode {
				tag := n.Data
				for _, a := range n.Attr {
					tag += " " + a.Key
				}
				tags = append(tags, tag)
			}
		}
		return tags
	}
	want := make(map[string][]string)
	for name, doc := range rendered(t, "harmless") {
		want[name] = shape(doc)
	}
	for _, text := range hostile {
		for name, doc := range rendered(t, text) {
			require.Equal(t, want[name], shape(doc), "%s with %.60q has other elements", name, text)
			requireOwn(t, doc)
		}
	}
}

// requireOwn fails if a page has anything inline, or leads elsewhere.
func requireOwn(t *testing.T, doc *html.Node) {
	t.Helper()
	for n := range doc.Descendants() {
		for _, a := range n.Attr {
			require.False(t, strings.HasPrefix(a.Key, "on") || a.Key == "style", "%s has an inline %s", n.Data, a.Key)
			switch a.Key {
			case "href", "src", "action", "data-order", "data-post":
				u, err := url.Parse(a.Val)
				require.NoError(t, err, a.Val)
				require.Empty(t, u.Scheme+u.Host, "%s %s=%q leads elsewhere", n.Data, a.Key, a.Val)
				require.Regexp(t, `^(/[^/\\]|/$|\?|#)`, a.Val)
			}
		}
		if n.Type == html.ElementNode && (n.Data == "script" || n.Data == "style") {
			require.Nil(t, n.FirstChild, "inline %s", n.Data)
		}
	}
}

// TestPagesAreUsable looks for what those who use a keyboard or a reader need, and the script.
func TestPagesAreUsable(t *testing.T) {
	for name, doc := range rendered(t, "word") {
		ids, labelled, headings := make(map[string]bool), make(map[string]bool), 0
		for n := range doc.Descendants() {
			if id := attr(n, "id"); id != "" {
				require.False(t, ids[id], "%s: id %s twice", name, id)
				ids[id] = true
			}
			if n.Data == "label" {
				labelled[attr(n, "for")] = true
			}
			if n.Data == "h1" {
				headings++
			}
		}
		require.Equal(t, 1, headings, name)
		for n := range doc.Descendants() {
			if n.Type != html.ElementNode {
				continue
			}
			_, live := find(n, "data-live")
			_, hidden := find(n, "hidden")
			switch {
			case live:
				require.NotEmpty(t, attr(n, "id"), "%s: what is live has an id", name)
			case n.Data == "input" && attr(n, "type") != "hidden" && !hidden, n.Data == "select", n.Data == "textarea":
				require.True(t, labelled[attr(n, "id")], "%s: %s has no label", name, attr(n, "id"))
			case n.Data == "th":
				require.NotEmpty(t, attr(n, "scope"), name)
			case n.Data == "img":
				_, ok := find(n, "alt")
				require.True(t, ok, name)
			case n.Data == "svg":
				require.True(t, attr(n, "aria-label") != "" || attr(n, "aria-hidden") == "true", name)
			}
			for _, key := range []string{"aria-labelledby", "aria-describedby"} {
				if ref := attr(n, key); ref != "" {
					require.True(t, ids[ref], "%s: %s is nowhere", name, ref)
				}
			}
		}
		require.Equal(t, name != "login", ids["said"], "orders say what became of them")
	}
}

func find(n *html.Node, key string) (string, bool) {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val, true
		}
	}
	return "", false
}

func TestAssets(t *testing.T) {
	for name, media := range map[string]string{"style.css": "text/css", "live.js": "text/javascript", "icon.svg": "image/svg+xml"} {
		content, got, ok := Asset(name)
		require.True(t, ok, name)
		require.Contains(t, got, media)
		require.NotEmpty(t, content)
		require.NotContains(t, strings.ReplaceAll(string(content), "http://www.w3.org/2000/svg", ""), "//www", "nothing from elsewhere")
	}
	for _, name := range []string{"", ".", "..", "../doc.go", "none.css", "../templates/login.html", `..\x`} {
		_, _, ok := Asset(name)
		require.False(t, ok, name)
	}
	require.NotContains(t, Policy, "unsafe")
	require.NotContains(t, Policy, "*")
}

func TestParseTable(t *testing.T) {
	for _, tc := range []struct {
		query string
		want  Table
	}{
		{"", Table{Sort: "queued", Desc: true, Page: 1}},
		{"q=+A.Test+&state=failing&sort=host&page=3", Table{Query: "a.test", State: Failing, Sort: "host", Page: 3}},
		{"sort=rate", Table{Sort: "rate", Desc: true, Page: 1}},
		{"sort=rate&dir=asc", Table{Sort: "rate", Page: 1}},
		{"sort=nothing&state=nothing&page=-4&dir=x", Table{Sort: "queued", Desc: true, Page: 1}},
		{"page=99999999999999999999", Table{Sort: "queued", Desc: true, Page: 1}},
		{"q=" + strings.Repeat("x", 1000), Table{Query: strings.Repeat("x", maxQuery), Sort: "queued", Desc: true, Page: 1}},
	} {
		q, err := url.ParseQuery(tc.query)
		require.NoError(t, err)
		require.Equal(t, tc.want, ParseTable(q), "%.40s", tc.query)
	}
}

// manyHosts is rows in no order.
func manyHosts(n int) []Row {
	rows := make([]Row, n)
	for i := range rows {
		n := i * 7919 % len(rows)
		rows[i] = Row{
			Host: fmt.Sprintf("h%05d.test", n), State: States()[n%len(States())], Queued: n % 100,
			Pages: n, Rate: float64(n % 7), Limit: float64(n % 5), LatencyMS: float64(n % 11), Failures: n % 2,
		}
	}
	return rows
}

// TestTablePages goes through all pages by the links on them: every host comes once, in order.
func TestTablePages(t *testing.T) {
	rows := manyHosts(730)
	for _, c := range columns() {
		for _, dir := range []string{"asc", "desc"} {
			seen := make(map[string]bool)
			var last *Row
			query := "?sort=" + c.Key + "&dir=" + dir
			for range len(rows)/PageSize + 1 {
				q, err := url.ParseQuery(query[1:])
				require.NoError(t, err)
				table := ParseTable(q)
				table.Fill(rows)
				for i := range table.Rows {
					r := &table.Rows[i]
					require.False(t, seen[r.Host])
					seen[r.Host] = true
					if last != nil {
						order := c.compare(*last, *r)
						require.True(t, order == 0 || (order < 0) == (dir == "asc"), "%s %s", c.Key, dir)
					}
					last = r
				}
				if table.Page == table.Pages {
					break
				}
				query = table.Next()
			}
			require.Len(t, seen, len(rows), "%s %s", c.Key, dir)
		}
	}
}

func TestTableFilter(t *testing.T) {
	rows := manyHosts(10_000)
	table := Table{Query: "h0000", State: Failing, Sort: "host", Page: 9}
	table.Fill(rows)
	require.Equal(t, 10_000, table.Hosts)
	require.Equal(t, 2, table.Matching) // 3 and 9
	require.Equal(t, 1, table.Page, "a page that there is")
	require.Equal(t, []string{"h00003.test", "h00009.test"}, []string{table.Rows[0].Host, table.Rows[1].Host})
	require.Equal(t, 1, table.First())
	require.Equal(t, 2, table.Last())

	require.Equal(t, []Filter{
		{"all", "?dir=asc&q=h0000&sort=host", 10, false},
		{"active", "?dir=asc&q=h0000&sort=host&state=active", 2, false},
		{"paused", "?dir=asc&q=h0000&sort=host&state=paused", 2, false},
		{"refusing", "?dir=asc&q=h0000&sort=host&state=refusing", 2, false},
		{"failing", "?dir=asc&q=h0000&sort=host&state=failing", 2, true},
		{"blocked", "?dir=asc&q=h0000&sort=host&state=blocked", 1, false},
		{"idle", "?dir=asc&q=h0000&sort=host&state=idle", 1, false},
	}, table.Filters())

	none := Table{Query: "nowhere", Sort: "host", Page: 1}
	none.Fill(rows)
	require.Zero(t, none.Matching)
	require.Equal(t, 1, none.Pages)
	require.Empty(t, none.Rows)
}

func TestTableLinks(t *testing.T) {
	table := Table{Query: "a b&c", State: Idle, Sort: "host", Span: "all", Page: 2}
	require.Equal(t, "?dir=desc&q=a+b%26c&sort=host&span=all&state=idle", table.By(Column{Key: "host"}))
	require.Equal(t, "?dir=desc&q=a+b%26c&sort=rate&span=all&state=idle", table.By(Column{Key: "rate", Numeric: true}))
	require.Equal(t, "?dir=asc&page=3&q=a+b%26c&sort=host&span=all&state=idle", table.Next())
	require.Equal(t, "?dir=asc&q=a+b%26c&sort=host&span=all&state=idle", table.Previous())
	require.Equal(t, "ascending", table.Order(Column{Key: "host"}))
	require.Equal(t, "none", table.Order(Column{Key: "rate"}))
	require.Equal(t, "descending", Table{Sort: "rate", Desc: true}.Order(Column{Key: "rate"}))
	require.Equal(t, "/hosts/a.test:8080", HostPath("a.test:8080"))
	require.Equal(t, "/hosts/%5B::1%5D:80%2F..%3Fx", HostPath("[::1]:80/..?x"))
}

func TestChartDraws(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	d := Chart{
		Title: "Rate", Unit: "per second", From: noon, To: at(10),
		Lines: []Line{
			{"allowed", "a", []Point{{at(-20), 9}, {at(-10), 0}, {at(0), 4}, {at(5), math.NaN()}, {at(5), 3}, {at(10), 1}}},
			{"asked", "b", nil},
		},
		Bands: []Band{{at(-5), at(1), Open, "x"}, {at(9), at(30), Half, "y"}, {at(20), at(30), Open, "z"}},
		Marks: []Mark{{at(5), Cut, "cut"}, {at(11), Rise, "later"}, {at(-1), Rise, "before"}},
	}.Draw()
	require.Equal(t, "M-1000.0 100.0L0 20.0M500.0 40.0L1000.0 80.0", strings.ReplaceAll(d.Paths[0].D, " 0L", " 0L"))
	require.Equal(t, "1", d.Paths[0].Last)
	require.Empty(t, d.Paths[1].D)
	require.Equal(t, []string{"5", "2.5"}, []string{d.Top, d.Middle}, "what is before it begins is no part of the scale")
	require.Equal(t, []Area{{"0", "100.0", Open, "x"}, {"900.0", "100.0", Half, "y"}}, d.Areas)
	require.Equal(t, []Tick{{"500.0", Cut, "cut"}}, d.Ticks)
	require.Equal(t, "Rate from 12:00:00 to 12:00:10, at most 4 per second; last: allowed 1 per second", d.Summary)
	require.False(t, d.Empty)
	require.True(t, Chart{}.Draw().Empty)
	require.True(t, Chart{Lines: []Line{{"n", "a", []Point{{noon, math.Inf(1)}, {noon, math.NaN()}}}}}.Draw().Empty)
}

func TestWords(t *testing.T) {
	require.Equal(t, "1\u202f234\u202f567", Whole(1234567))
	require.Equal(t, "-1\u202f000", Whole(-1000))
	require.Equal(t, "999", Whole(999))
	for v, want := range map[float64]string{0: "0", 0.254: "0.25", 3.5: "3.5", 12.34: "12.3", 120.4: "120", 1234.5: "1\u202f235", 100: "100", 10: "10"} {
		require.Equal(t, want, Number(v))
	}
	require.Equal(t, "–", Number(math.NaN()))
	require.Equal(t, "999\u202fB", Bytes(999))
	require.Equal(t, "1.5\u202fkB", Bytes(1500))
	require.Equal(t, "2.0\u202fTB", Bytes(2e12))
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 59 * time.Second: "59 s", 61 * time.Second: "1 min 1 s",
		3*time.Hour + 59*time.Second: "3 h 0 min", 49 * time.Hour: "2 d 1 h",
	} {
		require.Equal(t, want, since(d))
	}
}
