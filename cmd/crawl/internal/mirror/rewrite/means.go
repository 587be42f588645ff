package rewrite

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
)

// rawText has the elements whose text has no markup. The content of noscript, noframes and noembed is markup for
// browsers that show it, so they are not among them.
var rawText = map[string]bool{"script": true, "style": true, "textarea": true, "title": true, "xmp": true, "iframe": true, "plaintext": true}

// table says what attributes mean on the elements that have them; "*" is any element. Each line has a meaning,
// attributes, and elements.
const table = `
page|href xlink:href|a area
page|longdesc|*
part|xlink:href background lowsrc dynsrc|*
page|xlink:href|a
part|href|image use feimage mpath textpath pattern lineargradient radialgradient filter cursor tref script
part|src|img source video audio track embed input image bgsound amp-img square70x70logo square150x150logo wide310x150logo square310x310logo tileimage
part|poster|video
script|src|script
style sheet|href|?xml-stylesheet
frame|src|iframe frame
frame|data|object
outside|action|form
outside|manifest|html
outside|formaction cite ping|*
guess|data-src data-original data-lazy data-lazy-src data-lazyload data-poster data-bg data-bg-src data-background data-background-image data-image|*
set|srcset imagesrcset|*
set of guesses|data-srcset data-lazy-srcset data-bgset|*
declarations|style fill stroke filter clip-path mask cursor marker marker-start marker-mid marker-end|*
srcdoc|srcdoc|*
rel|href|link
base|href|base
charset|charset|meta
content|content|meta
policy|http-equiv|meta
|rel type name property itemprop integrity crossorigin|html head svg math style textarea title xmp plaintext`

// meaning handles an attribute that has a value.
type meaning func(*walker, *extract.Tag, extract.Attr)

// The names in the table, and the meanings of each attribute by element; "*" is any other.
var (
	elementNames, attrNames *extract.Names
	means                   []map[string]meaning
)

var once sync.Once // reads the table

func readTable() {
	var elements, attrs []string
	meanings, byName := meanings(), make(map[string]map[string]meaning)
	for line := range strings.SplitSeq(table[1:], "\n") {
		row := strings.Split(line, "|")
		of := strings.Fields(row[2])
		elements = append(elements, of...)
		for name := range strings.FieldsSeq(row[1]) {
			if byName[name] == nil {
				byName[name] = make(map[string]meaning)
				attrs, means = append(attrs, name), append(means, byName[name])
			}
			for _, element := range of {
				byName[name][element] = meanings[row[0]]
			}
		}
	}
	elementNames, attrNames = extract.NewNames(elements...), extract.NewNames(attrs...)
}

// meanings returns the functions for the meanings in the table.
func meanings() map[string]meaning {
	one := func(l Link) meaning { return func(w *walker, t *extract.Tag, a extract.Attr) { w.url(t, a, l) } }
	set := func(r Role) meaning {
		return func(w *walker, t *extract.Tag, a extract.Attr) { w.value(t, a, func(s []byte) { w.srcset(s, r) }) }
	}
	return map[string]meaning{
		"page": (*walker).page, "part": one(Link{Role: Part}), "style sheet": one(Link{Role: Part, As: CSS}), "frame": one(Link{Role: Frame}),
		"outside": one(Link{Role: Outside}), "guess": one(Link{Role: Guess}), "set": set(Part), "set of guesses": set(Guess),
		"rel": (*walker).rel, "base": (*walker).baseElement, "srcdoc": (*walker).srcdoc, "content": (*walker).content,
		"script": func(w *walker, t *extract.Tag, a extract.Attr) {
			l := Link{Role: Part}
			if t.Word("type") == "module" {
				l.As = Module
			}
			w.url(t, a, l)
		},
		"declarations": func(w *walker, t *extract.Tag, a extract.Attr) {
			if bytes.IndexByte(t.Text[a.Value[0]:a.Value[1]], '(') >= 0 {
				w.value(t, a, w.css)
			}
		},
		"charset": func(w *walker, t *extract.Tag, a extract.Attr) {
			w.value(t, a, func(s []byte) { w.label(s, 0, len(s)) })
		},
		"policy": func(w *walker, t *extract.Tag, a extract.Attr) {
			if t.Word("http-equiv") == "content-security-policy" {
				w.value(t, a, func(s []byte) { w.set(0, len(s), "x-disabled-content-security-policy") })
			}
		},
	}
}

// maxNested bounds how deep documents in attributes may be nested.
const maxNested = 4

func (w *walker) value(t *extract.Tag, a extract.Attr, walk func(s []byte)) {
	w.within(t.Text, a.Value[0], a.Value[1], true, walk)
}

func (w *walker) url(t *extract.Tag, a extract.Attr, l Link) {
	w.value(t, a, func(s []byte) { w.link(s, 0, len(s), l, plain) })
}

// srcdoc walks through a page in an attribute.
func (w *walker) srcdoc(t *extract.Tag, a extract.Attr) {
	if len(w.frames) < maxNested {
		base := w.base
		w.value(t, a, w.markup)
		w.base = base
	}
}

func (w *walker) page(t *extract.Tag, a extract.Attr) {
	w.url(t, a, Link{Role: Page, NoFollow: t.HasWord("rel", "nofollow")})
}

// baseElement takes the first base with a valid href as the base of the page. It empties or removes the href in the copy.
func (w *walker) baseElement(t *extract.Tag, a extract.Attr) {
	w.value(t, a, func(s []byte) {
		if u, err := w.doc.URL.ResolveBytes(w.utf8(canonical.Trim(s))); err == nil && w.base.IsZero() {
			w.base = u
			w.again = w.again || w.late && len(w.frames) == 1
		}
	})
	if a.Quoted {
		w.set(a.Value[0], a.Value[1], "")
	} else {
		w.set(a.From, a.To, "") // quotes would end a value that the page is in
	}
}

const icons = "icon mask-icon fluid-icon apple-touch-icon apple-touch-icon-precomposed apple-touch-startup-image"

// rels says what a link element is for, by its rel; the first match counts. Links that name the page itself, such as
// canonical, stay absolute, and so do those that only prepare a connection.
var rels = []struct {
	words string
	Link
}{
	{"stylesheet", Link{Role: Part, As: CSS}},
	{"modulepreload", Link{Role: Part, As: Module}},
	{"manifest", Link{Role: Part, As: Manifest}},
	{icons, Link{Role: Part}},
	{"preload prefetch prerender image_src", Link{Role: Part}},
	{"canonical shortlink amphtml pingback edituri webmention search self edit dns-prefetch preconnect", Link{Role: Outside}},
}

func (w *walker) rel(t *extract.Tag, a extract.Attr) {
	l := Link{Role: Page}
	if t.Word("rel") == "" {
		l.Role = Outside
	}
	for _, r := range rels {
		if t.HasWord("rel", strings.Fields(r.words)...) {
			l = r.Link
			w.places.Icon = w.places.Icon || r.words == icons
			break
		}
	}
	w.url(t, a, l)
}

// The names of meta elements that name files of the page (tiles), and others (outside).
var (
	tiles   = lazy.Regexp(`^msapplication-(tileimage|\w+logo)$`)
	outside = lazy.Regexp(`^(og:(image|url|video|audio)(:(secure_)?url)?|twitter:(image(:src)?|player)|image|thumbnailurl)$`)
)

// content handles the content of a meta element.
func (w *walker) content(t *extract.Tag, a extract.Attr) {
	w.value(t, a, func(s []byte) {
		equiv, name := t.Word("http-equiv"), t.Word("name")+t.Word("property")+t.Word("itemprop")
		switch {
		case equiv == "content-type":
			if m := charsetLabel().FindSubmatchIndex(s); m != nil {
				w.label(s, m[2], m[3])
			}
		case equiv == "refresh":
			if to := extract.RefreshTarget(s); len(to) > 0 {
				from := cap(s) - cap(to)
				w.link(to, from, from+len(to), Link{Role: Page}, plain)
			}
		case name == "msapplication-config" && !bytes.EqualFold(s, []byte("none")):
			w.link(s, 0, len(s), Link{Role: Part, As: XML}, plain)
		case tiles().MatchString(name):
			w.link(s, 0, len(s), Link{Role: Part}, plain)
		case outside().MatchString(name):
			w.link(s, 0, len(s), Link{Role: Outside}, plain)
		}
	})
}

// srcset handles a list of pictures.
func (w *walker) srcset(s []byte, r Role) {
	for rest, ref := s, []byte(nil); len(rest) > 0; {
		if ref, rest = extract.NextImage(rest); len(ref) > 0 {
			from := cap(s) - cap(ref)
			w.link(ref, from, from+len(ref), Link{Role: r}, inSet)
		}
	}
}

// css walks through a style sheet or a declaration.
func (w *walker) css(s []byte) {
	extract.CSSReferences(s, func(ref []byte, from, to int) {
		if ref = canonical.Trim(ref); len(ref) > 0 && ref[0] != '#' {
			if own := canonical.Trim(s[from:to]); bytes.Equal(ref, own) {
				ref = own
			}
			w.link(slices.Clip(ref), from, to, Link{Role: Part}, plain)
		}
	})
}
