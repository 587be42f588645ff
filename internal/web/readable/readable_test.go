package readable

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/dom"
)

// score is how much of what was taken is main text, and how much of that was taken, by words and how often each
// comes.
type score struct{ right, taken, wanted int }

func (s score) precision() float64 { return float64(s.right) / float64(max(1, s.taken)) }
func (s score) recall() float64    { return float64(s.right) / float64(max(1, s.wanted)) }

// f1 is the harmonic mean of both.
func (s score) f1() float64 {
	return 2 * float64(s.right) / float64(max(1, s.taken+s.wanted))
}

func (s *score) add(o score) {
	s.right, s.taken, s.wanted = s.right+o.right, s.taken+o.taken, s.wanted+o.wanted
}

func bag(s string) map[string]int {
	b := map[string]int{}
	for w := range strings.FieldsFuncSeq(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if r := []rune(w); r[0] >= 0x2e80 {
			for _, c := range r {
				b[string(c)]++
			}
			continue
		}
		b[w]++
	}
	return b
}

func compare(got, want string) (s score) {
	g, w := bag(got), bag(want)
	for word, n := range g {
		s.taken += n
		s.right += min(n, w[word])
	}
	for n := range maps.Values(w) {
		s.wanted += n
	}
	return s
}

// marked takes the attribute data-main off a page and returns the text it stood on: what a person says is the main
// text.
func marked(d *dom.Document) string {
	var b strings.Builder
	for n := range d.Root.Descendants() {
		for i := range n.Attr {
			if n.Attr[i].Key == "data-main" {
				n.Attr = slices.Delete(n.Attr, i, i+1)
				b.WriteString(dom.TextWithin(n, MaxText, nil) + "\n")
				break
			}
		}
	}
	return b.String()
}

// TestPages holds the text that is found on pages of many layouts to what a person asIs.
func TestPages(t *testing.T) {
	files, err := filepath.Glob("testdata/*.html")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 8)
	var all score
	for _, f := range files {
		page, err := os.ReadFile(f)
		require.NoError(t, err)
		d := dom.Parse(page)
		want := marked(d)
		got := Read(d, nil).Text()
		s := compare(got, want)
		t.Logf("%-28s precision %.3f, recall %.3f of %d words", filepath.Base(f), s.precision(), s.recall(), s.wanted)
		require.GreaterOrEqual(t, s.f1(), 0.9, "%s:\n%s", f, got)
		all.add(s)
	}
	t.Logf("%-28s precision %.3f, recall %.3f of %d words", "all", all.precision(), all.recall(), all.wanted)
	require.GreaterOrEqual(t, all.f1(), 0.95)
}

// strip takes out the marks of main text, so that the rules for other pages are tried.
func strip(root *html.Node) {
	for n := range root.Descendants() {
		n.Attr = slices.DeleteFunc(n.Attr, func(a html.Attribute) bool {
			return a.Key == "role" || a.Key == "class" || a.Key == "id"
		})
	}
}

// documentation is a set of real pages, and what of each is main text.
type documentation struct {
	name, pattern string
	main          func(*html.Node) bool
	bar           float64
}

func hasClass(name string) func(*html.Node) bool {
	return func(n *html.Node) bool {
		class, _ := dom.Attr(n, "class")
		return slices.Contains(strings.Fields(class), name)
	}
}

func find(root *html.Node, is func(*html.Node) bool) *html.Node {
	for n := range root.Descendants() {
		if n.Type == html.ElementNode && is(n) {
			return n
		}
	}
	return nil
}

// withoutContents is the text of the main part of a page but for its table of contents, which leads to the text and
// is none.
func withoutContents(page []byte, main func(*html.Node) bool) string {
	root := dom.Parse(page).Root
	for toc := find(root, hasClass("toc")); toc != nil; toc = find(root, hasClass("toc")) {
		toc.Parent.RemoveChild(toc)
	}
	return dom.TextWithin(find(root, main), MaxText, nil)
}

// linked is the share of words that are links.
func linked(n *html.Node) float64 {
	var all block
	s := newSplitter(&dom.Document{Root: n}, nil)
	for _, b := range s.split() {
		all.words, all.linked = all.words+b.words, all.linked+b.linked
	}
	return all.links()
}

// TestDocumentation measures real documentation: with the marks that its pages have, and without any class, id or
// role, as old pages are.
func TestDocumentation(t *testing.T) {
	for _, set := range []documentation{
		{"python3-doc", "/usr/share/doc/python3-doc/html/*/*.html", hasClass("body"), 0.9},
		{"libboost-doc", "/usr/share/doc/libboost-doc/doc/html/*/*.html", hasClass("section"), 0.85},
	} {
		t.Run(set.name, func(t *testing.T) {
			files, err := filepath.Glob(set.pattern)
			require.NoError(t, err)
			if len(files) == 0 {
				t.Skip("not installed; 'make servers' does")
			}
			var asIs, bare score
			pages := 0
			for i := 0; i < len(files); i += 1 + len(files)/30 {
				page, err := os.ReadFile(files[i])
				require.NoError(t, err)
				d := dom.Parse(page)
				main := find(d.Root, set.main)
				if main == nil {
					continue
				}
				want := withoutContents(page, set.main)
				if len(bag(want)) < 50 || linked(main) > 0.5 { // nearly nothing, or an index
					continue
				}
				pages++
				asIs.add(compare(Read(d, nil).Text(), want))
				strip(d.Root)
				bare.add(compare(Read(d, nil).Text(), want))
			}
			require.Greater(t, pages, 10)
			t.Logf("%d pages as they are: precision %.3f, recall %.3f", pages, asIs.precision(), asIs.recall())
			t.Logf("%d pages without class, id and role: precision %.3f, recall %.3f", pages, bare.precision(), bare.recall())
			require.GreaterOrEqual(t, asIs.f1(), set.bar)
			require.GreaterOrEqual(t, bare.f1(), set.bar)
		})
	}
}
