package extract

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	nethtml "golang.org/x/net/html"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// domLinks is a second way to read a page: over the tree that a browser would build, with
// tables of what leads where. It knows what pages of documentation have, and no more.
type domLinks struct {
	base  canonical.URL
	found map[string]Kind
}

// domPages and domResources are attributes by element.
var (
	domPages = map[string][]string{
		"a": {"href"}, "area": {"href"}, "iframe": {"src"}, "frame": {"src"}, "blockquote": {"cite"}, "q": {"cite"}, "ins": {"cite"}, "del": {"cite"},
	}
	domResources = map[string][]string{
		"img": {"src"}, "script": {"src"}, "source": {"src"}, "video": {"src", "poster"}, "audio": {"src"}, "track": {"src"}, "embed": {"src"},
		"object": {"data"}, "body": {"background"}, "table": {"background"}, "td": {"background"},
	}
	domRels = map[string]Kind{
		"next": Navigation, "prev": Navigation, "home": Navigation, "up": Navigation, "canonical": Navigation, "author": Navigation, "index": Navigation,
		"copyright": Navigation, "top": Navigation, "contents": Navigation, "start": Navigation, "alternate": Navigation, "help": Navigation,
		"previous": Navigation, "bookmark": Navigation, "license": Navigation, "search": Navigation, "self": Navigation,
		"stylesheet": Resource, "icon": Resource, "preload": Resource, "manifest": Resource, "apple-touch-icon": Resource,
	}
	domStyleURL = regexp.MustCompile(`url\(\s*['"]?([^'")]+)['"]?\s*\)`)
	domComment  = regexp.MustCompile(`(?s)/\*.*?\*/`)
)

// linksByTree is what a page has by its tree.
func linksByTree(t *testing.T, doc canonical.URL, body []byte) map[string]Kind {
	t.Helper()
	root, err := nethtml.ParseWithOptions(bytes.NewReader(body), nethtml.ParseOptionEnableScripting(false))
	require.NoError(t, err)
	d := &domLinks{base: doc, found: map[string]Kind{}}
	for n := range root.Descendants() {
		if ref := domAttr(n, "href"); n.Data == "base" && ref != "" && d.base == doc {
			if u, err := doc.Resolve(ref); err == nil {
				d.base = u
			}
		}
	}
	d.walk(root)
	return d.found
}

func (d *domLinks) walk(n *nethtml.Node) {
	if n.Type == nethtml.ElementNode {
		if n.Data == "template" {
			return
		}
		d.element(n)
	}
	for c := range n.ChildNodes() {
		d.walk(c)
	}
}

func (d *domLinks) element(n *nethtml.Node) {
	for _, a := range domPages[n.Data] {
		if ref := domAttr(n, a); !slices.Contains(strings.Fields(strings.ToLower(domAttr(n, "rel"))), "nofollow") {
			d.add(Navigation, ref)
		}
	}
	for _, a := range domResources[n.Data] {
		d.add(Resource, domAttr(n, a))
	}
	switch n.Data {
	case "img", "source":
		for image := range strings.SplitSeq(domAttr(n, "srcset"), ", ") {
			ref, _, _ := strings.Cut(strings.TrimSpace(image), " ")
			d.add(Resource, ref)
		}
	case "link":
		d.link(n)
	case "style":
		for c := range n.ChildNodes() {
			d.style(c.Data)
		}
	case "meta":
		d.meta(n)
	}
	d.style(domAttr(n, "style"))
}

func (d *domLinks) meta(n *nethtml.Node) {
	content := domAttr(n, "content")
	if i := strings.Index(strings.ToLower(content), "url="); i >= 0 && strings.EqualFold(domAttr(n, "http-equiv"), "refresh") {
		d.add(Navigation, content[i+len("url="):])
	}
	switch domAttr(n, "property") {
	case "og:image":
		d.add(Resource, content)
	case "og:url":
		d.add(Navigation, content)
	}
}

func (d *domLinks) link(n *nethtml.Node) {
	kind, known := Navigation, false
	for token := range strings.FieldsSeq(strings.ToLower(domAttr(n, "rel"))) {
		if k, ok := domRels[token]; ok {
			kind, known = max(kind, k), true
		}
	}
	mediaType := domAttr(n, "type")
	if known && (kind == Resource || mediaType == "" || mediaType == "text/html") {
		d.add(kind, domAttr(n, "href"))
	}
}

func (d *domLinks) style(s string) {
	for _, m := range domStyleURL.FindAllStringSubmatch(domComment.ReplaceAllString(s, ""), -1) {
		d.add(Resource, strings.TrimSpace(m[1]))
	}
}

func (d *domLinks) add(kind Kind, ref string) {
	ref, _, _ = strings.Cut(ref, "#")
	if ref = strings.TrimSpace(ref); ref == "" {
		return
	}
	u, err := d.base.Resolve(ref)
	if err != nil {
		return
	}
	if old, ok := d.found[u.String()]; !ok || kind < old {
		d.found[u.String()] = kind
	}
}

func domAttr(n *nethtml.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name && a.Namespace == "" {
			return a.Val
		}
	}
	return ""
}

// TestAgainstTheTree reads pages of real documentation, if there are any on this machine,
// and made-up ones in both ways: the same links, and of the same kind.
func TestAgainstTheTree(t *testing.T) {
	var e Extractor
	var r Result
	pages, links := 0, 0
	check := func(name string, body []byte) {
		doc := mustParse(t, "https://docs.example.org/"+name)
		require.NoError(t, e.Page(doc, "text/html", "utf-8", body, Options{Resources: true}, &r))
		got := map[string]Kind{}
		for _, l := range r.Links {
			if !l.NoFollow() {
				got[l.URL.String()] = l.Kind
			}
		}
		require.Equal(t, linksByTree(t, doc, body), got, name)
		pages++
		links += len(got)
	}
	for i := range 20 {
		check("made-up", madeUpPage(i))
	}
	const every = 31 // a parser takes its time
	for _, dir := range []string{"/usr/share/doc/python3-doc/html/", "/usr/share/doc/libboost-doc/doc/"} {
		n := 0
		_ = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(name) != ".html" {
				return nil
			}
			if n++; n%every == 0 {
				body, err := os.ReadFile(name)
				require.NoError(t, err)
				check(strings.TrimPrefix(name, dir), body)
			}
			return nil
		})
	}
	t.Logf("%d pages, %d links", pages, links)
}
