package extract

import (
	"bytes"
	"cmp"
	"math/bits"
	"slices"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// maxSrcdoc bounds the documents within a page, in bytes.
const maxSrcdoc = 1 << 20

// scan goes over the page once.
func (e *Extractor) scan(body []byte, isXML bool) {
	e.source.reset(body, isXML, (e.opts.Text || e.opts.Forms) && !e.inner)
	e.scanner.every, e.sharedMask, e.referring = e.form == xml, sharedNavigation|1<<attrXlinkHref, pageAttrs
	if e.opts.Resources {
		e.scanner.every, e.sharedMask, e.referring = true, sharedAttrs, pageAttrs|resourceAttrs
	}
	e.xhtml = isXML
	for {
		at, t := e.scanner.at, e.source.next()
		if t == endOfPage || !e.opts.Budget.SpendText(e.scanner.at-at) {
			e.endForm()
			return
		}
		switch t {
		case startTag:
			e.start()
		case endTag:
			e.end()
		case chars:
			e.chars()
		}
	}
}

// scanInner scans the srcdoc documents of frames. Their references are relative to the base of
// the page, and they have no srcdoc of their own.
func (e *Extractor) scanInner() {
	e.inner = true
	for _, body := range e.srcdocs {
		e.title, e.style, e.silent, e.template, e.svg = false, false, false, 0, 0
		e.endAnchor()
		e.scan(body, false)
	}
}

// references are the attributes of an element that refer to something, in the order of their
// links: pages and, if the Options say so, resources.
var references = map[string]struct{ pages, resources []attr }{
	"blockquote": {pages: []attr{attrCite}}, "q": {pages: []attr{attrCite}},
	"ins": {pages: []attr{attrCite}}, "del": {pages: []attr{attrCite}},
	"html": {resources: []attr{attrManifest}}, "object": {resources: []attr{attrData}},
	"img":    {[]attr{attrLongDesc}, []attr{attrSrc, attrSrcset, attrLowSrc, attrDynSrc}},
	"source": {resources: []attr{attrSrc, attrSrcset}}, "amp-img": {resources: []attr{attrSrc, attrSrcset}},
	"amp-anim": {resources: []attr{attrSrc, attrSrcset}}, "video": {resources: []attr{attrSrc, attrPoster}},
	"script": {resources: []attr{attrSrc}}, "input": {resources: []attr{attrSrc}}, "audio": {resources: []attr{attrSrc}},
	"track": {resources: []attr{attrSrc}}, "embed": {resources: []attr{attrSrc}}, "bgsound": {resources: []attr{attrSrc}},
	"amp-audio": {resources: []attr{attrSrc}}, "amp-video": {resources: []attr{attrSrc}},
}

const (
	pageAttrs     = 1<<attrCite | 1<<attrLongDesc
	resourceAttrs = 1<<attrSrc | 1<<attrSrcset | 1<<attrLowSrc | 1<<attrDynSrc | 1<<attrPoster | 1<<attrData |
		1<<attrManifest
)

func (e *Extractor) start() {
	name := e.source.tag()
	if e.opts.Text && !e.inner {
		e.text.breakBefore(name)
	}
	if has := e.source.has() & e.sharedMask; has != 0 && e.template == 0 {
		e.shared(name, has)
	}
	switch string(name) { // which does not allocate
	case "a":
		e.endAnchor() // links do not nest
		e.anchor = e.link("a", attrHref, attrXlinkHref)
		return
	case "area":
		e.link("area", attrHref)
		return
	case "iframe", "frame", "fencedframe", "portal", "amp-iframe":
		e.frame(name)
		return
	case "link":
		e.linkElement()
		return
	case "base":
		e.baseElement()
		return
	case "meta":
		e.metaElement()
		return
	}
	e.startHidden(name)
	if e.opts.Forms {
		e.startForm(name)
	}
	if e.template > 0 {
		return
	}
	switch string(name) {
	case "html":
		e.htmlElement()
	case "object":
		if f := formOf(string(e.attr(attrType)), nil); f == html || f == xhtml {
			e.leads("object", attrData)
		}
	case "input":
		if !is(e.attr(attrType), "image") { // of all others it would be no attribute
			return
		}
	case "applet":
		e.applet()
	case "param":
		e.param()
	case "image", "use", "feimage":
		e.graphic(name)
	}
	if e.source.has()&e.referring == 0 {
		return
	}
	if refs, ok := references[string(name)]; ok {
		tag := e.interned(name, maxName)
		for _, a := range refs.pages {
			e.leads(tag, a)
		}
		for _, a := range refs.resources {
			e.resource(tag, a)
		}
	}
}

// startHidden handles elements whose content is not for reading, or is only in part.
func (e *Extractor) startHidden(name []byte) {
	switch string(name) {
	case "title":
		e.title = !e.hasTitle && e.svg == 0 && e.template == 0 && !e.inner
		e.silence()
	case "script", "textarea":
		e.silence()
	case "style":
		e.silence()
		e.style = e.silent && e.opts.Resources && e.template == 0
	case "noscript", "noframes":
		e.source.markup() // we are who it is written for
	case "template":
		e.startTemplate()
	case "svg":
		if !e.source.selfClosing() {
			e.svg++
		}
	}
}

func (e *Extractor) startForm(name []byte) {
	switch string(name) {
	case "form":
		e.formElement()
	case "textarea":
		if e.silent {
			e.formField(name)
		}
	case "button", "select", "option", "input":
		e.formField(name)
	}
}

// leads adds a link to a page, unless it is empty.
func (e *Extractor) leads(tag string, a attr) {
	if ref := e.attr(a); len(ref) > 0 && e.template == 0 {
		e.add(Navigation, tag, attrNames[a], ref)
	}
}

// frame handles an element that shows a page. Scripts may make data-src its src.
func (e *Extractor) frame(name []byte) {
	tag := e.interned(name, maxName)
	if tag == "iframe" {
		e.silence()
	}
	e.leads(tag, attrSrc)
	if likeURL(e.attr(attrDataSrc)) {
		e.leads(tag, attrDataSrc)
	}
	e.leads(tag, attrLongDesc)
	if doc := e.attr(attrSrcdoc); len(doc) > 0 && e.template == 0 && !e.inner {
		doc = doc[:min(len(doc), maxSrcdoc-e.srcdocBytes)]
		e.srcdocBytes += len(doc)
		e.srcdocs = append(e.srcdocs, bytes.Clone(doc))
	}
}

// graphic handles elements of SVG. In HTML, image is img.
func (e *Extractor) graphic(name []byte) {
	switch {
	case e.svg > 0:
		e.resource(e.interned(name, maxName), attrHref) // xlink:href is for any element
	case string(name) == "image":
		e.resource("image", attrSrc)
		e.resource("image", attrSrcset)
	}
}

// silence handles an element with hidden text. In XML and SVG it may be empty; then there is no
// end tag.
func (e *Extractor) silence() {
	if (e.xhtml || e.svg > 0) && e.source.selfClosing() {
		e.source.markup()
		e.title = false
		return
	}
	e.silent = true
}

// startTemplate hides templates. A shadow root is shown.
func (e *Extractor) startTemplate() {
	if e.xhtml && e.source.selfClosing() {
		return
	}
	if _, shadow := e.source.attr(attrShadowRootMode); e.template > 0 || !shadow {
		e.template++
	}
}

// end handles an end tag. Elements may be left open, or closed without being open.
func (e *Extractor) end() {
	name := e.source.tag()
	if e.opts.Text && !e.inner {
		e.text.breakBefore(name)
	}
	switch string(name) {
	case "a":
		e.endAnchor()
	case "title", "script", "style", "textarea", "iframe":
		e.endWords()
		e.title, e.style = false, false
		e.silent = false // raw text does not nest
	case "template":
		e.template = max(0, e.template-1)
	case "svg":
		e.svg = max(0, e.svg-1)
	case "form":
		e.endForm()
	case "option":
		e.endWords()
	case "select":
		e.endWords()
		e.endSelect()
	}
}

// chars handles text. It is decoded only if it is kept.
func (e *Extractor) chars() {
	if e.sent.wordsOf != "" {
		e.sent.takeWords(e.source.text())
	}
	switch {
	case e.title && !e.hasTitle:
		e.dst.Title = field(e.source.text())
		e.hasTitle = e.dst.Title != ""
	case e.style:
		e.css("style", "css", e.source.text())
	case e.opts.Text && !e.silent && e.template == 0 && !e.inner:
		e.text.add(e.source.text())
	}
}

// shared handles the attributes of any element. Those of data- belong to the page, but most
// scripts that load images late or make rows clickable use the same names; what is no URL is
// recognised by its form.
func (e *Extractor) shared(name []byte, has uint64) {
	tag := e.tagName(name)
	if has&sharedNavigation != 0 {
		e.sharedLinks(tag)
	}
	if ref := e.attr(attrXlinkHref); len(ref) > 0 && tag != "a" {
		switch {
		case e.svg > 0:
			e.resource(tag, attrXlinkHref)
		case e.form == xml:
			e.leads(tag, attrXlinkHref)
		}
	}
	if !e.opts.Resources || has&(sharedResource&^(1<<attrXlinkHref)) == 0 {
		return
	}
	if style := e.attr(attrStyle); bytes.IndexByte(style, '(') >= 0 {
		e.css(tag, "style", style)
	}
	switch tag {
	case "body", "table", "thead", "tbody", "tfoot", "tr", "td", "th":
		e.resource(tag, attrBackground)
	}
	for rest := has & sharedImages; rest != 0; rest &= rest - 1 {
		e.sharedImage(tag, attr(bits.TrailingZeros64(rest)))
	}
	for rest := has & sharedSets; rest != 0; rest &= rest - 1 {
		if a := attr(bits.TrailingZeros64(rest)); likeURL(bytes.TrimRight(first(e.attr(a)), ",")) {
			e.resource(tag, a)
		}
	}
}

// sharedLinks adds links to pages. Only data-href always is one.
func (e *Extractor) sharedLinks(tag string) {
	rel := "" // as other elements have none
	if tag == "a" || tag == "area" {
		rel = e.relOf()
	}
	if ref := e.attr(attrDataHref); likeURL(ref) {
		e.put(pending{tag: tag, attr: attrNames[attrDataHref], kind: Navigation, rel: rel}, ref)
	}
	for _, a := range [...]attr{attrDataURL, attrDataLink} {
		ref := trim(e.attr(a))
		for _, start := range [...]string{"/", "./", "../", "?", "http://", "https://"} {
			if hasPrefix(ref, start) && likeURL(ref) {
				e.put(pending{tag: tag, attr: attrNames[a], kind: Navigation, rel: rel}, ref)
				break
			}
		}
	}
}

// sharedImage adds an image, given as a URL or as in a style.
func (e *Extractor) sharedImage(tag string, a attr) {
	switch ref := e.attr(a); {
	case tag == "iframe" || tag == "amp-iframe": // which shows pages
	case hasPrefix(trim(ref), "url("):
		e.css(tag, attrNames[a], ref)
	case likeURL(ref):
		e.resource(tag, a)
	}
}

// likeURL rules out words, numbers, colours, data and templates.
func likeURL(s []byte) bool {
	s = trim(s)
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

func first(s []byte) []byte {
	s = trim(s)
	for i, c := range s {
		if isSpace(c) {
			return s[:i]
		}
	}
	return s
}

// tagName is an element name for a [Link], "other" if it is no name of HTML or SVG.
func (e *Extractor) tagName(name []byte) string {
	for _, c := range name {
		if kinds[c]&(letter|digit) == 0 && c != '-' && c != ':' {
			return "other"
		}
	}
	return cmp.Or(e.interned(name, maxName), "other")
}

// maxArchives bounds the archives of an applet.
const maxArchives = 64

// applet adds the program of an applet. Its codebase is a directory.
func (e *Extractor) applet() {
	base := bytes.Clone(trim(e.attr(attrCodebase)))
	if len(base) > 0 && base[len(base)-1] != '/' {
		base = append(base, '/')
	}
	for _, a := range [...]attr{attrCode, attrArchive} {
		list := e.attr(a)
		for n := 0; len(list) > 0 && n < maxArchives; n++ {
			var ref []byte
			ref, list, _ = bytes.Cut(list, []byte(","))
			if ref = trim(ref); len(ref) > 0 {
				e.add(Resource, "applet", attrNames[a], append(slices.Clip(base), ref...))
			}
		}
	}
}

// param adds what an object is to load.
func (e *Extractor) param() {
	names := []string{"movie", "src", "filename", "url", "href", "ref", "data"}
	known := slices.ContainsFunc(names, func(n string) bool { return is(e.attr(attrName), n) })
	if is(e.attr(attrValueType), "ref") || known && likeURL(e.attr(attrValue)) {
		e.resource("param", attrValue)
	}
}
