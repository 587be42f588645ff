package extract

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// meaning says what an attribute refers to.
type meaning uint8

const (
	toPage    meaning = iota // a page
	toPart                   // a resource
	toParts                  // several resources, as in srcset
	inStyle                  // resources in CSS declarations
	xlink                    // a resource in SVG, a page in other XML
	likePage                 // a page, if it looks like a URL
	pathLike                 // a page, if it looks like a URL and begins like a URL or a path
	likePart                 // a resource, if it looks like a URL, or as in a style
	likeParts                // several resources, if the first looks like a URL
)

type reference struct {
	attr attr
	as   meaning
}

// anywhere has the meanings of attributes that count in every element, by attr from firstShared on. Attributes that
// begin with data- have no standard meaning, but most scripts that load images late or make rows clickable use these
// names.
var anywhere = [numAttrs - firstShared]meaning{
	likePage, pathLike, pathLike, xlink, inStyle,
	likePart, likePart, likePart, likePart, likePart, likePart, likePart, likePart, likePart, likePart, likePart,
	likeParts, likeParts, likeParts,
}

type element struct {
	name  string
	gap   gap              // its tags separate text
	refs  []reference      // in the order of their links
	own   uint64           // the attributes of refs; their meaning in anywhere does not apply here
	open  func(*Extractor) // what its start tag does, before refs
	close func(*Extractor) // what its end tag does
	field bool             // a form or one of its fields
}

// elementTable finds elements by name, faster than a map: a slot has few elements.
type elementTable [1 << 9][]*element

func slotOf(name []byte) int {
	return (len(name)<<6 ^ int(name[0])<<2 ^ int(name[len(name)-1])) % (1 << 9)
}

func (t *elementTable) find(name []byte) *element {
	if len(name) == 0 {
		return nil
	}
	for _, el := range t[slotOf(name)] {
		if el.name == string(name) {
			return el
		}
	}
	return nil
}

// elements has all elements that mean something.
var elements = func() *elementTable {
	one := func(as meaning, list ...attr) (refs []reference) {
		for _, a := range list {
			refs = append(refs, reference{a, as})
		}
		return refs
	}
	src := one(toPart, attrSrc)
	images := append(one(toPart, attrSrc), one(toParts, attrSrcset)...)
	frame := []reference{{attrSrc, toPage}, {attrDataSrc, likePage}, {attrLongDesc, toPage}}
	all := new(elementTable)
	for _, row := range []struct {
		names string
		element
	}{
		{"td th img option button label input select iframe video audio", element{gap: blank}},
		{"p div br hr li ul ol dl dt dd tr table caption thead tbody tfoot h1 h2 h3 h4 h5 h6 pre blockquote section " +
			"article aside header footer nav main address figure figcaption form fieldset legend details summary dialog " +
			"body title textarea center menu search hgroup xmp noscript optgroup", element{gap: line}},
		{"form button select option input textarea", element{field: true}},
		{"title", element{open: (*Extractor).openTitle}},
		{"script", element{open: (*Extractor).openScript, refs: src}},
		{"textarea", element{open: (*Extractor).silence}},
		{"style", element{open: (*Extractor).openStyle}},
		{"iframe", element{open: (*Extractor).openIframe, refs: frame}},
		{"title script textarea style iframe", element{close: (*Extractor).closeRaw}},
		{"noscript noframes", element{open: func(e *Extractor) { e.source.markup() }}}, // for clients without scripts, like us
		{"template", element{open: (*Extractor).openTemplate, close: func(e *Extractor) { e.template = max(0, e.template-1) }}},
		{"svg", element{open: (*Extractor).openSVG, close: func(e *Extractor) { e.svg = max(0, e.svg-1) }}},
		{"form", element{close: func(e *Extractor) { e.form.end(&e.links) }}},
		{"option", element{close: func(e *Extractor) { e.form.endWords() }}},
		{"select", element{close: func(e *Extractor) { e.form.endSelect() }}},
		{"html", element{open: (*Extractor).openHTML, refs: one(toPart, attrManifest)}},
		{"base", element{open: (*Extractor).openBase}},
		{"meta", element{open: (*Extractor).openMeta}},
		{"link", element{open: (*Extractor).openLink}},
		{"a", element{open: (*Extractor).openAnchor, own: 1 << attrXlinkHref}},
		{"area", element{refs: one(toPage, attrHref)}},
		{"frame fencedframe portal amp-iframe", element{open: (*Extractor).openFrame, refs: frame}},
		{"blockquote q ins del", element{refs: one(toPage, attrCite)}},
		{"body table thead tbody tfoot tr td th", element{refs: one(toPart, attrBackground)}},
		{"img", element{refs: slices.Concat(one(toPage, attrLongDesc), images, one(toPart, attrLowSrc, attrDynSrc))}},
		{"source amp-img amp-anim", element{refs: images}},
		{"video", element{refs: one(toPart, attrSrc, attrPoster)}},
		{"audio track embed bgsound amp-audio amp-video", element{refs: src}},
		{"input", element{open: func(e *Extractor) { e.takeIf(is(e.attr(attrType), "image"), attrSrc, toPart) }}},
		{"object", element{open: (*Extractor).openObject, refs: one(toPart, attrData)}},
		{"param", element{open: (*Extractor).openParam}},
		{"applet", element{open: (*Extractor).openApplet}},
		{"image use feimage", element{open: (*Extractor).openGraphic}},
	} {
		for name := range strings.FieldsSeq(row.names) {
			el := all.find([]byte(name))
			if el == nil {
				el = &element{name: name}
				slot := slotOf([]byte(name))
				all[slot] = append(all[slot], el)
			}
			el.gap, el.field, el.own = max(el.gap, row.gap), el.field || row.field, el.own|row.own
			for _, r := range row.refs {
				el.refs, el.own = append(el.refs, r), el.own|1<<r.attr
			}
			if row.open != nil {
				el.open = row.open
			}
			if row.close != nil {
				el.close = row.close
			}
		}
	}
	return all
}()

// scan reads the page once.
func (e *Extractor) scan(body []byte, isXML bool) {
	e.source.reset(body, isXML, (e.opts.Text || e.opts.Forms) && !e.inner)
	switch {
	case e.opts.Resources:
		e.shared, e.scanner.shared = sharedAttrs, resourceAttrs
	case e.syntax == xml:
		e.shared, e.scanner.shared = sharedPages|1<<attrXlinkHref, sharedAttrs
	default:
		e.shared = sharedPages
	}
	e.xhtml = isXML
	for {
		at, t := e.scanner.at, e.source.next()
		if t == endOfPage || !e.opts.Budget.SpendText(e.scanner.at-at) {
			e.form.end(&e.links)
			return
		}
		switch t {
		case startTag:
			e.start()
		case endTag:
			if el := e.element(); el != nil && el.close != nil {
				el.close(e)
			}
		case chars:
			e.chars()
		}
	}
}

// maxSrcdoc bounds the srcdoc documents of a page together, in bytes.
const maxSrcdoc = 1 << 20

// scanInner scans the srcdoc documents of frames. Their references are relative to the base of the page. Their own
// srcdoc attributes are ignored.
func (e *Extractor) scanInner() {
	e.inner = true
	for _, body := range e.srcdocs {
		e.title, e.style, e.silent, e.template, e.svg = false, false, false, 0, 0
		e.scan(body, false)
	}
}

// element returns the element of the current tag, or nil. It notes the gap that the tag makes in the text.
func (e *Extractor) element() *element {
	el := elements.find(e.source.tag())
	if el != nil && e.opts.Text && !e.inner {
		e.text.due = max(e.text.due, el.gap)
	}
	return el
}

func (e *Extractor) start() {
	el, has := e.element(), e.source.has()
	shared := has & e.shared
	if el != nil {
		shared &^= el.own
	}
	if e.template == 0 {
		for ; shared != 0; shared &= shared - 1 {
			a := attr(bits.TrailingZeros64(shared))
			e.take(a, anywhere[a-firstShared])
		}
	}
	if el == nil {
		return
	}
	if el.open != nil {
		el.open(e)
	}
	if e.template > 0 {
		return
	}
	if el.field && e.opts.Forms {
		e.form.start(e.source, e.links.doc, e.silent)
	}
	if has&el.own == 0 {
		return
	}
	for _, r := range el.refs {
		if has&(1<<r.attr) != 0 {
			e.take(r.attr, r.as)
		}
	}
}

// attr returns the value of an attribute of the current tag, or nil.
func (e *Extractor) attr(a attr) []byte {
	val, _ := e.source.attr(a)
	return val
}

func (e *Extractor) takeIf(is bool, a attr, as meaning) {
	if is && e.template == 0 {
		e.take(a, as)
	}
}

// take adds what an attribute of the current tag refers to.
func (e *Extractor) take(a attr, as meaning) {
	val := e.attr(a)
	switch as {
	case toPage:
		if len(val) > 0 {
			e.links.add(worthOf(e.attr(attrRel)), val)
		}
	case toPart:
		if e.opts.Resources && len(val) > 0 && val[0] != '#' {
			e.links.add(part, val)
		}
	case toParts:
		for e.opts.Resources && len(val) > 0 && e.opts.Budget.Spend(1) {
			var ref []byte
			if ref, val = NextImage(val); len(ref) > 0 {
				e.links.add(part, ref)
			}
		}
	case inStyle:
		if bytes.IndexByte(val, '(') >= 0 {
			e.css(val)
		}
	case xlink:
		if e.svg > 0 {
			e.take(a, toPart)
		} else if e.syntax == xml {
			e.take(a, toPage)
		}
	case likePage:
		e.takeIf(likeURL(val), a, toPage)
	case pathLike:
		begins := func(start string) bool { return hasPrefix(canonical.Trim(val), start) }
		e.takeIf(slices.ContainsFunc(paths, begins) && likeURL(val), a, toPage)
	case likePart:
		if hasPrefix(canonical.Trim(val), "url(") {
			e.css(val)
		} else if likeURL(val) {
			e.take(a, toPart)
		}
	case likeParts:
		first := canonical.Trim(val)
		e.takeIf(likeURL(bytes.TrimRight(first[:endOf(first, 0, space)], ",")), a, toParts)
	}
}

var paths = []string{"/", "./", "../", "?", "http://", "https://"}

// likeURL reports whether a value looks like a URL. It excludes words, numbers, colors, data and templates.
func likeURL(s []byte) bool {
	s = canonical.Trim(s)
	if len(s) == 0 || len(s) > canonical.MaxLength || s[0] == '#' {
		return false
	}
	letters, marks := false, false
	for _, c := range s {
		switch {
		case c <= ' ', c == '{', c == '}', c == '<', c == '>', c == '"', c == '`':
			return false
		case c == '/', c == '.', c == '?':
			marks = true
		case c >= 0x80, kinds[c]&letter != 0:
			letters = true
		}
	}
	return letters && marks
}

// openAnchor adds a link. In SVG the target may be in either of two attributes.
func (e *Extractor) openAnchor() {
	ref, has := e.source.attr(attrHref)
	if !has {
		ref = e.attr(attrXlinkHref)
	}
	if len(ref) > 0 && e.template == 0 {
		e.links.add(worthOf(e.attr(attrRel)), ref)
	}
}

func (e *Extractor) openTitle() {
	e.title = !e.hasTitle && e.svg == 0 && e.template == 0 && !e.inner
	e.silence()
}

func (e *Extractor) openStyle() {
	e.silence()
	e.style = e.silent && e.opts.Resources && e.template == 0
}

func (e *Extractor) openIframe() {
	e.silence()
	e.openFrame()
}

// openFrame keeps the srcdoc document of a frame for scanInner.
func (e *Extractor) openFrame() {
	if doc := e.attr(attrSrcdoc); len(doc) > 0 && e.template == 0 && !e.inner {
		doc = doc[:min(len(doc), maxSrcdoc-e.srcdocBytes)]
		e.srcdocBytes += len(doc)
		e.srcdocs = append(e.srcdocs, bytes.Clone(doc))
	}
}

// openScript notes that the page has a script.
func (e *Extractor) openScript() {
	e.dst.Scripts = true
	e.silence()
}

// silence handles the start tag of an element whose text is hidden. In XML and SVG the tag may be self-closing; then
// there is no end tag.
func (e *Extractor) silence() {
	if (e.xhtml || e.svg > 0) && e.source.selfClosing() {
		e.source.markup()
		e.title = false
		return
	}
	e.silent = true
}

// closeRaw handles the end tag of an element whose content is raw text. Such elements do not nest.
func (e *Extractor) closeRaw() {
	e.form.endWords()
	e.title, e.style, e.silent = false, false, false
}

// openTemplate hides the content of templates, except that of a shadow root, which is shown.
func (e *Extractor) openTemplate() {
	if e.xhtml && e.source.selfClosing() {
		return
	}
	if _, shadow := e.source.attr(attrShadowRootMode); e.template > 0 || !shadow {
		e.template++
	}
}

func (e *Extractor) openSVG() {
	if !e.source.selfClosing() {
		e.svg++
	}
}

func (e *Extractor) openObject() {
	s := syntaxOf(string(e.attr(attrType)), nil)
	e.takeIf(s == html || s == xhtml, attrData, toPage)
}

// openGraphic handles elements of SVG. In HTML, image means img.
func (e *Extractor) openGraphic() {
	isImage := string(e.source.tag()) == "image"
	e.takeIf(e.svg > 0, attrHref, toPart) // xlink:href is handled for every element
	e.takeIf(e.svg == 0 && isImage, attrSrc, toPart)
	e.takeIf(e.svg == 0 && isImage, attrSrcset, toParts)
}

const maxArchives = 64

// openApplet adds the files of an applet. Its codebase is a directory.
func (e *Extractor) openApplet() {
	if e.template > 0 || !e.opts.Resources {
		return
	}
	base := bytes.Clone(canonical.Trim(e.attr(attrCodebase)))
	if len(base) > 0 && base[len(base)-1] != '/' {
		base = append(base, '/')
	}
	for _, a := range [...]attr{attrCode, attrArchive} {
		for i, ref := range bytes.SplitN(e.attr(a), []byte(","), maxArchives+1) {
			if ref = canonical.Trim(ref); len(ref) > 0 && i < maxArchives {
				e.links.add(part, append(slices.Clip(base), ref...))
			}
		}
	}
}

var params = []string{"movie", "src", "filename", "url", "href", "ref", "data"}

func (e *Extractor) openParam() {
	known := slices.ContainsFunc(params, func(name string) bool { return is(e.attr(attrName), name) })
	e.takeIf(is(e.attr(attrValueType), "ref") || known && likeURL(e.attr(attrValue)), attrValue, toPart)
}

// chars handles text. Text is decoded only if it is kept.
func (e *Extractor) chars() {
	if f := &e.form; f.wordsOf != "" {
		if s := e.source.text(); len(f.words)+len(s) <= maxQuery {
			f.words = append(f.words, s...)
		}
	}
	switch {
	case e.title && !e.hasTitle:
		e.dst.Title = field(e.source.text())
		e.hasTitle = e.dst.Title != ""
	case e.style:
		e.css(e.source.text())
	case e.opts.Text && !e.silent && e.template == 0 && !e.inner:
		e.text = e.text.add(e.source.text())
	}
}
