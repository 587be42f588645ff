package docs

import (
	"bytes"
	"html/template"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/dom"
)

const (
	// front is the source of the first page.
	front = "README.md"
	// repository has what pages link to and the site does not have, such as code.
	repository = "https://github.com/treadlight/crawl/blob/"
)

// page is a page of the site. Its source is a file of package docs.
type page struct {
	Path, Title, About string
	Body               template.HTML
	Headings           []heading // of the second level
	entries            []entry
	links              []string // sources of other pages, in the order of their links

	source  string
	sources map[string][]byte
	version string // of the program
}

type heading struct{ ID, Text string }

// entry is a part of a page as the search knows it: that below a heading.
type entry struct {
	URL     string `json:"u"`
	Title   string `json:"t"`
	Heading string `json:"h,omitempty"` // "" before the second heading of a page
	Text    string `json:"x"`
}

// markdown renders what GitHub shows: no HTML of pages gets through.
var markdown = goldmark.New(
	goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
	goldmark.WithParserOptions(parser.WithAutoHeadingID()),
)

func isPage(source string) bool { return path.Ext(source) == ".md" }

// pathOf is the path in the site of a file of package docs.
func pathOf(source string) string {
	switch {
	case source == front:
		return "index.html"
	case isPage(source):
		return strings.TrimSuffix(source, ".md") + ".html"
	}
	return source
}

// up leads from a page to the root of the site.
func up(from string) string { return strings.Repeat("../", strings.Count(from, "/")) }

// releases matches the versions that are tags of the repository; others, as of a commit after a release, are not.
var releases = lazy.Regexp(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)[.\d]*)?$`)

// refOf is where the repository has the files of that version of the program.
func refOf(version string) string {
	if releases().MatchString(version) {
		return version
	}
	return "main"
}

// render makes a page of its source.
func render(source string, sources map[string][]byte, version string) (*page, error) {
	p := &page{Path: pathOf(source), source: source, sources: sources, version: version}
	var b bytes.Buffer
	if err := markdown.Convert(sources[source], &b, parser.WithContext(parser.NewContext(parser.WithIDs(anchors{})))); err != nil {
		return nil, err
	}
	root := &html.Node{Type: html.ElementNode, Data: "div", DataAtom: atom.Div}
	nodes, err := html.ParseFragment(&b, root)
	if err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, n := range nodes {
		root.AppendChild(n)
	}
	for n := range root.ChildNodes() {
		p.read(n)
	}
	p.adapt(root)
	for n := range root.ChildNodes() {
		if err := html.Render(&out, n); err != nil {
			return nil, err
		}
	}
	p.Body = template.HTML(out.String()) //nolint:gosec // goldmark made it of pages that are part of the program
	return p, nil
}

// read takes title, headings and texts from a block of the page.
func (p *page) read(n *html.Node) {
	text := strings.Join(strings.Fields(textOf(n)), " ")
	switch n.Data {
	case "h1":
		p.Title = text
		p.entries = append(p.entries, entry{URL: p.Path, Title: text})
	case "h2", "h3":
		id, _ := dom.Attr(n, "id")
		p.entries = append(p.entries, entry{URL: p.Path + "#" + id, Title: p.Title, Heading: text})
		if n.Data == "h2" {
			p.Headings = append(p.Headings, heading{id, text})
		}
	default:
		if n.Data == "p" && p.About == "" {
			p.About = text
		}
		if i := len(p.entries) - 1; i >= 0 && text != "" {
			p.entries[i].Text += text + " "
		}
	}
}

// adapt makes links lead within the site, and tables fit screens and screen readers.
func (p *page) adapt(n *html.Node) {
	for _, c := range slices.Collect(n.ChildNodes()) { // which change
		p.adapt(c)
	}
	switch n.Data {
	case "a", "img":
		for i, a := range n.Attr {
			if a.Key == "href" || a.Key == "src" {
				n.Attr[i].Val = p.resolve(a.Val)
			}
		}
	case "th":
		if n.FirstChild == nil { // it would be announced, and say nothing
			n.Data, n.DataAtom = "td", atom.Td
		}
	case "table":
		box := &html.Node{Type: html.ElementNode, Data: "div", Attr: []html.Attribute{{Key: "class", Val: "scroll"}}}
		n.Parent.InsertBefore(box, n)
		n.Parent.RemoveChild(n)
		box.AppendChild(n)
	}
}

// resolve returns where a link of the page leads in the site.
func (p *page) resolve(link string) string {
	name, anchor, found := strings.Cut(link, "#")
	if name == "" || strings.Contains(link, ":") {
		return link
	}
	target := path.Join(path.Dir(p.source), name)
	switch _, here := p.sources[target]; {
	case !here:
		target = repository + refOf(p.version) + "/" + path.Join("docs", target)
	case isPage(target):
		p.links = append(p.links, target)
		fallthrough
	default:
		target = up(p.Path) + pathOf(target)
	}
	if found {
		target += "#" + anchor
	}
	return target
}

func textOf(n *html.Node) string {
	if n.Type == html.TextNode {
		return n.Data
	}
	var b strings.Builder
	for c := range n.ChildNodes() {
		b.WriteString(textOf(c))
	}
	switch n.Data {
	case "td", "th", "li", "p":
		b.WriteByte(' ')
	}
	return b.String()
}

// anchors are the IDs of headings, as GitHub makes them: links of the pages must work there too.
type anchors map[string]bool

var outOfAnchors = lazy.Regexp(`[^\p{L}\p{N} _-]`)

// Generate makes the ID of a heading that is written as value.
func (a anchors) Generate(value []byte, _ ast.NodeKind) []byte {
	id := strings.ReplaceAll(outOfAnchors().ReplaceAllString(strings.ToLower(string(value)), ""), " ", "-")
	first := id
	for n := 1; a[id]; n++ {
		id = first + "-" + strconv.Itoa(n)
	}
	a.Put([]byte(id))
	return []byte(id)
}

// Put notes an ID that is taken.
func (a anchors) Put(value []byte) { a[string(value)] = true }
