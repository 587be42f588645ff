package extract

import "bytes"

// scan goes over the page once. References are kept as they stand until the end, when
// the base is known.
func (e *Extractor) scan(body []byte, isXHTML bool) {
	e.source.reset(body, isXHTML, e.opts.Text)
	e.xhtml = isXHTML
	for {
		switch e.source.next() {
		case endOfPage:
			return
		case startTag:
			e.start()
		case endTag:
			e.end()
		case chars:
			e.chars()
		}
	}
}

// start handles a start tag. Most tags mean nothing to us and cost one look.
func (e *Extractor) start() {
	name := e.source.tag()
	if e.opts.Text {
		e.text.breakBefore(name)
	}
	// The switches compare without making strings. They are split by how often pages
	// have an element, not by what it is.
	switch string(name) {
	case "a":
		e.endAnchor() // links do not nest
		e.anchor = e.link(Navigation, "a", attrHref, attrXlinkHref)
	case "area":
		e.link(Navigation, "area", attrHref)
	case "iframe":
		e.silence()
		e.link(Navigation, "iframe", attrSrc)
	case "frame":
		e.link(Navigation, "frame", attrSrc)
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

// startOther handles elements that hold or hide something.
func (e *Extractor) startOther(name []byte) {
	switch string(name) {
	case "title":
		e.title = !e.hasTitle && e.svg == 0 && e.template == 0
		e.silence()
	case "script":
		e.silence()
		e.resource("script", attrSrc)
	case "style", "textarea":
		e.silence()
	case "noscript", "noframes":
		e.source.markup() // we are who it is written for
	case "template":
		e.startTemplate()
	case "svg":
		if !e.source.selfClosing() {
			e.svg++
		}
	default:
		e.startMedia(name)
	}
}

// startMedia handles elements that show something else, if that is asked for.
func (e *Extractor) startMedia(name []byte) {
	if !e.opts.Resources {
		return
	}
	switch string(name) {
	case "img":
		e.resource("img", attrSrc)
		e.srcset("img", attrSrcset)
	case "source":
		e.resource("source", attrSrc)
		e.srcset("source", attrSrcset)
	case "video":
		e.resource("video", attrSrc)
		e.resource("video", attrPoster)
	case "audio":
		e.resource("audio", attrSrc)
	case "track":
		e.resource("track", attrSrc)
	case "embed":
		e.resource("embed", attrSrc)
	case "input":
		e.resource("input", attrSrc)
	case "object":
		e.resource("object", attrData)
	case "image":
		e.resource("image", attrHref)
		e.resource("image", attrXlinkHref)
	}
}

// silence handles an element whose content is text that nobody reads. In XML, and in
// SVG inside of HTML, it may have none: then no end tag will come.
func (e *Extractor) silence() {
	if (e.xhtml || e.svg > 0) && e.source.selfClosing() {
		e.source.markup()
		e.title = false
		return
	}
	e.silent = true
}

// startTemplate hides what is inert: scripts may clone it or not. A shadow root is
// shown as it stands, so it is no template to us.
func (e *Extractor) startTemplate() {
	if e.xhtml && e.source.selfClosing() {
		return
	}
	if _, shadow := e.source.attr(attrShadowRootMode); e.template > 0 || !shadow {
		e.template++
	}
}

// end handles an end tag. Pages leave elements open and close what was never opened,
// so counts stop at zero.
func (e *Extractor) end() {
	name := e.source.tag()
	if e.opts.Text {
		e.text.breakBefore(name)
	}
	switch string(name) {
	case "a":
		e.endAnchor()
	case "title", "script", "style", "textarea", "iframe":
		e.title = false
		e.silent = false // raw text does not nest
	case "template":
		e.template = max(0, e.template-1)
	case "svg":
		e.svg = max(0, e.svg-1)
	}
}

// chars handles text. To ask for it costs a look at every byte, so it is asked only for
// what is kept.
func (e *Extractor) chars() {
	switch {
	case e.title && !e.hasTitle:
		e.dst.Title = field(e.source.text())
		e.hasTitle = e.dst.Title != ""
	case e.opts.Text && !e.silent && e.template == 0:
		e.text.add(e.source.text())
	}
}

// htmlElement takes the language, from the first html tag that has one: pages glued
// together by templates have several.
func (e *Extractor) htmlElement() {
	if e.dst.Lang == "" {
		e.dst.Lang = field(e.attr(attrLang))
	}
}

// baseElement takes the first base that can be used.
func (e *Extractor) baseElement() {
	if e.hasBase || e.template > 0 {
		return
	}
	ref, has := e.source.attr(attrHref)
	if !has {
		return
	}
	e.hasBase = true // the first counts, even if it is of no use
	if u, err := e.doc.ResolveBytes(ref); err == nil {
		e.base = u
		e.dst.Base = u.String()
	}
}

// metaElement takes what the page says of itself, and where it sends us.
func (e *Extractor) metaElement() {
	if e.template > 0 {
		return
	}
	content := e.attr(attrContent)
	if bytes.EqualFold(e.attr(attrHTTPEquiv), []byte("refresh")) {
		if target := refreshTarget(content); len(target) > 0 {
			e.add(Navigation, "meta", "content", target)
		}
		return
	}
	// Open Graph says property, but as many pages say name, and so read all others.
	name := e.attr(attrName)
	if len(name) == 0 {
		name = e.attr(attrProperty)
	}
	var buf [2 * maxName]byte
	if len(name) <= len(buf) && len(content) > 0 {
		e.dst.Meta.put(lowered(buf[:0], name), content)
	}
}

// put takes one name of interest. The first of a name counts; of robots all do,
// because each of them forbids something.
func (m *Meta) put(name, content []byte) {
	to := (*string)(nil)
	switch string(name) {
	case "robots":
		if m.Robots != "" {
			m.Robots = field([]byte(m.Robots + ", " + string(content)))
			return
		}
		to = &m.Robots
	case "description":
		to = &m.Description
	case "generator":
		to = &m.Generator
	case "og:title":
		to = &m.OGTitle
	case "og:type":
		to = &m.OGType
	case "og:image":
		to = &m.OGImage
	default:
		return
	}
	if *to == "" {
		*to = field(content)
	}
}
