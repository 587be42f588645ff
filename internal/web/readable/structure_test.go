package readable

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/treadlight/crawl/internal/records/chunk"
	"github.com/treadlight/crawl/internal/web/dom"
)

// generators are what makes documentation, and the element of their pages that contains the text.
var generators = []struct {
	name, pattern string
	main          func(*html.Node) bool
}{
	{"Sphinx (Python)", "python3-doc/html/*/*.html", hasClass("body")},
	{"Sphinx (Django)", "python-django-doc/html/*/*.html", hasClass("yui-b")},
	{"Sphinx (SQLAlchemy)", "python-sqlalchemy-doc/html/*/*.html", hasID("docs-body")},
	{"DocBook (PostgreSQL)", "postgresql-doc-15/html/*.html", hasClass("sect1")},
	{"Asciidoctor (git)", "git/html/*.html", hasID("content")},
	{"mdBook", "rust-doc/html/book/*.html", isElement(atom.Main)},
	{"rustdoc", "rust-doc/html/std/*/*.html", hasID("main-content")},
	{"javadoc", "openjdk-17-jre-headless/api/java.base/java/*/*.html", isElement(atom.Main)},
	{"Doxygen", "libeigen3-dev/html/*.html", hasClass("contents")},
	{"gi-docgen", "libgtk-4-dev/*/*.html", hasID("main")},
	{"Node.js", "nodejs/api/*.html", hasID("apicontent")},
	{"VitePress", "vitepress/*.html", hasClass("vp-doc")},
	{"MkDocs Material", "mkdocs/*.html", hasClass("md-content__inner")},
	{"Sphinx (Furo)", "furo/*.html", hasID("furo-main-content")},
	{"Sphinx (RTD)", "rtd/*.html", hasClass("document")},
	{"Sphinx (Alabaster)", "alabaster/*.html", hasClass("body")},
}

func hasID(id string) func(*html.Node) bool {
	return func(n *html.Node) bool { v, _ := dom.Attr(n, "id"); return v == id }
}

func isElement(name atom.Atom) func(*html.Node) bool {
	return func(n *html.Node) bool { return n.DataAtom == name }
}

// squash is a text without whatever Markdown could have changed in it.
func squash(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}

var (
	target   = regexp.MustCompile(`\]\((?:<[^>]*>|[^()\s]|\([^()]*\))*(?: "[^"]*")?\)`)
	listMark = regexp.MustCompile(`^[\s>]*(?:(?:[-*+]|\d+[.)])\s+)*`)
	lineEnd  = regexp.MustCompile(`<br ?/?>`)
)

// plain returns the squashed text of Markdown, its lines of code and its headings.
func plain(md string) (text string, code, headings []string) {
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(md) {
		bare := strings.TrimSpace(listMark.ReplaceAllString(line, ""))
		mark := bare[:len(bare)-len(strings.TrimLeft(bare, "`"))]
		switch {
		case fence != "" && bare == fence:
			fence = ""
		case fence != "":
			code = append(code, squash(line))
			b.WriteString(squash(line))
		case len(mark) >= 3:
			fence = mark
		default:
			s := squash(html.UnescapeString(lineEnd.ReplaceAllString(target.ReplaceAllString(bare, ""), "")))
			if strings.HasPrefix(bare, "#") {
				headings = append(headings, s)
			}
			b.WriteString(s)
		}
	}
	return b.String(), code, headings
}

// chrome reports whether an element is no part of the text that it stands in.
func chrome(n *html.Node) bool {
	class, _ := dom.Attr(n, "class")
	for word := range strings.FieldsSeq(class) {
		if slices.Contains([]string{"headerlink", "line-numbers-wrapper", "linenos", "toc", "contents", "toctree-wrapper", "lang"}, word) {
			return true
		}
	}
	return never(n) || dom.Silent(n) || n.DataAtom == atom.Form || permalink(n)
}

// lost returns what of the text of an element Markdown has not, or has more often: items, cells, paragraphs, lines of code;
// and the headings that are not in order.
func lost(main *html.Node, md string) (bad []string) {
	var drop []*html.Node
	for n := range main.Descendants() {
		if n.Type == html.ElementNode && chrome(n) {
			drop = append(drop, n)
		}
	}
	for _, n := range drop {
		n.Parent.RemoveChild(n)
	}
	textOf := func(n *html.Node) string { return squash(dom.TextWithin(n, MaxText, nil)) }
	all := textOf(main)
	have, code, headings := plain(md)
	lines := make(map[string]int) // of code, wanted less had
	for _, line := range code {
		lines[line]--
	}
	for n := range main.Descendants() {
		switch n.DataAtom {
		case atom.Li, atom.Td, atom.Th, atom.Dd, atom.Dt, atom.P:
			if find(n, func(c *html.Node) bool { return !dom.Inline(c) }) != nil {
				continue // its parts are units
			}
			if u := textOf(n); strings.Count(have, u) < strings.Count(all, u) || len(u) > 30 && strings.Count(have, u) > strings.Count(all, u)+1 {
				bad = append(bad, n.Data+": "+u)
			}
		case atom.Pre:
			if find(n, isElement(atom.Pre)) != nil {
				continue
			}
			s := newSplitter(&dom.Document{Root: n}, nil)
			s.open.pre = true
			s.children(n, marks{}, false)
			for line := range strings.Lines(s.raw.String()) {
				lines[squash(line)]++
			}
		case atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6:
			u := textOf(n)
			i := slices.Index(headings, u)
			if i < 0 && n.DataAtom != atom.H1 && !strings.Contains(have[:min(len(have), 200)], u) { // the title may take its place
				bad = append(bad, "heading: "+u)
			}
			headings = headings[i+1:]
		}
	}
	for line, n := range lines {
		if line != "" && n != 0 {
			bad = append(bad, fmt.Sprintf("code: %s, %d", line, n))
		}
	}
	return bad
}

// TestStructure holds the Markdown of real documentation, and its chunks, to the tree: of what is installed, or what is below
// READABLE_DOCS.
func TestStructure(t *testing.T) {
	const installed = "/usr/share/doc"
	root := cmp.Or(os.Getenv("READABLE_DOCS"), installed)
	for _, g := range generators {
		t.Run(g.name, func(t *testing.T) {
			files, err := filepath.Glob(filepath.Join(root, g.pattern))
			require.NoError(t, err)
			pages := 0
			for i := len(files) / 7; i < len(files) && pages < 3; i += 1 + len(files)/5 {
				page, err := os.ReadFile(files[i])
				require.NoError(t, err)
				d := dom.Parse(page)
				main := find(dom.Parse(page).Root, g.main)
				if main == nil || len(page) > 200<<10 && root == installed {
					continue
				}
				pages++
				md := Read(d, nil).Markdown()
				require.Empty(t, lost(main, md), files[i])
				checkChunks(t, md)
			}
			if t.Logf("%d pages", pages); pages == 0 {
				t.Skip("not installed")
			}
		})
	}
}

// checkChunks holds chunks to their offsets, and their headings to those above them.
func checkChunks(t *testing.T, md string) {
	t.Helper()
	at := 0
	for _, c := range chunk.Split(md, "https://a.test/", chunk.DefaultTokens) {
		require.Equal(t, at, c.Start)
		require.Equal(t, md[c.Start:c.End], c.Text[c.Repeats:])
		require.LessOrEqual(t, c.Tokens, chunk.DefaultTokens)
		at = c.End
		_, _, above := plain(md[:c.End])
		for _, h := range c.Headings {
			i := slices.IndexFunc(above, func(s string) bool { return strings.HasPrefix(s, squash(h)) })
			require.GreaterOrEqual(t, i, 0, "%q is not above, or not in this order", h)
			above = above[i+1:]
		}
	}
	require.Equal(t, len(md), at)
}
