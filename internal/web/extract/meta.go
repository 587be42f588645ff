package extract

import (
	"bytes"
	"slices"
)

// htmlElement reads the language of the first html tag that has one: pages made of templates
// have several.
func (e *Extractor) htmlElement() {
	if e.inner {
		return
	}
	for _, a := range [...]attr{attrLang, attrXMLLang} {
		if e.dst.Lang == "" {
			e.dst.Lang = field(e.attr(a))
		}
	}
}

func (e *Extractor) baseElement() {
	if e.hasBase || e.template > 0 || e.inner {
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

func (e *Extractor) metaElement() {
	if e.template > 0 {
		return
	}
	content := e.attr(attrContent)
	if equiv := e.attr(attrHTTPEquiv); is(equiv, "refresh") {
		if target := refreshTarget(content); len(target) > 0 {
			e.add(Navigation, "meta", "content", target)
		}
		return
	} else if is(equiv, "content-language") && e.metaLang == "" && bytes.IndexByte(content, ',') < 0 {
		e.metaLang = field(content)
	}
	// Open Graph says property, but as many pages say name, and so read all others.
	name := e.attr(attrName)
	if len(name) == 0 {
		name = e.attr(attrProperty)
	}
	var buf [2 * maxName]byte
	if len(name) > len(buf) || len(content) == 0 || e.inner {
		return
	}
	name = lowered(buf[:0], name)
	e.dst.Meta.put(name, content)
	if s := string(name); s == defaultAgent || s == e.opts.Agent {
		e.robots(content[:min(len(content), maxField)])
	}
	e.metaLink(name, content)
}

// robots reads directives. The pages of a site repeat them, so the last ones are kept.
func (e *Extractor) robots(content []byte) {
	if len(e.directives.list) > 0 {
		e.directives.read(string(content), "", false)
		return
	}
	if e.lastRobots == "" || e.lastRobots != string(content) {
		e.lastRobots, e.lastDirectives = string(content), directives{}
		e.lastDirectives.read(e.lastRobots, "", false)
		e.lastDirectives.list = slices.Clip(e.lastDirectives.list)
	}
	e.directives = e.lastDirectives
}

func (e *Extractor) metaLink(name, content []byte) {
	switch string(name) {
	case "og:url":
		e.add(Navigation, "meta", "content", content)
	case "og:image", "og:image:url", "og:image:secure_url", "og:video", "og:video:url", "og:video:secure_url",
		"og:audio", "og:audio:url", "og:audio:secure_url", "twitter:image", "twitter:image:src", "twitter:player:stream",
		"msapplication-tileimage", "thumbnail":
		e.resource("meta", attrContent)
	}
}

// put keeps the first value of a name; of robots all.
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
