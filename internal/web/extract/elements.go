package extract

import "bytes"

// maxSrcdoc bounds the documents within a page, in bytes.
const maxSrcdoc = 1 << 20

// scan goes over the page once.
func (e *Extractor) scan(body []byte, isXML bool) {
	e.source.reset(body, isXML, (e.opts.Text || e.opts.Forms) && !e.inner)
	e.scanner.every, e.sharedMask = e.opts.Resources || e.form == xml, sharedNavigation|1<<attrXlinkHref
	if e.opts.Resources {
		e.sharedMask = sharedAttrs
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

func (e *Extractor) start() {
	name := e.source.tag()
	if e.opts.Text && !e.inner {
		e.text.breakBefore(name)
	}
	if has := e.source.has() & e.sharedMask; has != 0 && e.template == 0 {
		e.shared(name, has)
	}
	// The switches do not allocate. They are split by the frequency of elements.
	switch string(name) {
	case "a":
		e.endAnchor() // links do not nest
		e.anchor = e.link(Navigation, "a", attrHref, attrXlinkHref)
	case "area":
		e.link(Navigation, "area", attrHref)
	case "img":
		e.leads("img", attrLongDesc)
		e.startMedia(name)
	case "iframe", "frame", "fencedframe", "portal", "amp-iframe":
		e.frame(name)
	case "link":
		e.linkElement()
	case "base":
		e.baseElement()
	case "meta":
		e.metaElement()
	case "html":
		e.htmlElement()
	default:
		e.startOther(name)
	}
}

func (e *Extractor) startOther(name []byte) {
	switch string(name) {
	case "title":
		e.title = !e.hasTitle && e.svg == 0 && e.template == 0 && !e.inner
		e.silence()
	case "script":
		e.silence()
		e.resource("script", attrSrc)
	case "style":
		e.silence()
		e.style = e.silent && e.opts.Resources && e.template == 0
	case "textarea":
		if e.silence(); e.silent {
			e.formField(name)
		}
	case "noscript", "noframes":
		e.source.markup() // we are who it is written for
	case "template":
		e.startTemplate()
	case "svg":
		if !e.source.selfClosing() {
			e.svg++
		}
	case "form":
		e.formElement()
	case "button", "select", "option":
		e.formField(name)
	case "input":
		e.formField(name)
		e.startMedia(name)
	case "blockquote", "q", "ins", "del":
		e.leads(e.interned(name, maxName), attrCite)
	case "object":
		if f := formOf(string(e.attr(attrType)), nil); f == html || f == xhtml {
			e.leads("object", attrData)
		}
		e.startMedia(name)
	default:
		e.startMedia(name)
	}
}

// startMedia handles elements that show a resource.
func (e *Extractor) startMedia(name []byte) {
	if !e.opts.Resources || e.template > 0 {
		return
	}
	switch string(name) {
	case "img":
		e.resource("img", attrSrc)
		e.srcset("img", attrSrcset)
		e.resource("img", attrLowSrc)
		e.resource("img", attrDynSrc)
	case "source":
		e.resource("source", attrSrc)
		e.srcset("source", attrSrcset)
	case "video":
		e.resource("video", attrSrc)
		e.resource("video", attrPoster)
	case "audio", "track", "embed", "bgsound", "amp-audio", "amp-video":
		e.resource(e.interned(name, maxName), attrSrc)
	case "amp-img", "amp-anim":
		e.resource(e.interned(name, maxName), attrSrc)
		e.srcset(e.interned(name, maxName), attrSrcset)
	case "input":
		if is(e.attr(attrType), "image") { // of all others it would be no attribute
			e.resource("input", attrSrc)
		}
	case "object":
		e.resource("object", attrData)
	case "applet":
		e.applet()
	case "param":
		e.param()
	case "image", "use", "feimage":
		e.graphic(name)
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
		e.srcset("image", attrSrcset)
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
