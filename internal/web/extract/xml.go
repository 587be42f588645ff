package extract

import (
	"bytes"
	"encoding/json"
)

// prolog reads an XML document up to its root element, whose name it returns in lower case
// without a prefix, empty if there is none. It calls instruction for each processing
// instruction.
func prolog(body []byte, instruction func([]byte)) (root string) {
	s := scanner{body: body, xhtml: true, withText: true}
	for i := s.markupFrom(0); i+1 < len(body); i = s.markupFrom(s.at) {
		if kinds[body[i+1]]&letter != 0 {
			name := body[i+1 : endOf(body, i+1, endsName)]
			name = name[bytes.LastIndexByte(name, ':')+1:]
			return string(lowered(nil, name[:min(len(name), maxName)]))
		}
		if _, text := s.markupAt(i); text {
			break // which has no place before a root
		}
		if body[i+1] == '?' && instruction != nil {
			instruction(bytes.TrimSuffix(body[i+2:s.at], []byte("?>")))
		}
	}
	return ""
}

// xmlForm decides by the root element. Feeds and sitemaps have a parser of their own.
func xmlForm(body []byte) form {
	switch prolog(body, nil) {
	case "html":
		return xhtml
	case "", "urlset", "sitemapindex", "rss", "feed", "rdf":
		return opaque
	}
	return xml
}

// styleSheets adds the xml-stylesheets before the root.
func (e *Extractor) styleSheets(body []byte) {
	var s scanner // for its memory
	prolog(body, func(instruction []byte) {
		attributes, found := bytes.CutPrefix(instruction, []byte("xml-stylesheet"))
		for at := SkipSpace(attributes, 0); found && at < len(attributes); at = SkipSpace(attributes, at) {
			var key, val []byte
			if key, val, at = NextAttr(attributes, at); string(key) != "href" {
				continue
			}
			if ref := s.read(val, reading{refs: true, attr: true}); len(ref) > 0 && ref[0] != '#' {
				e.put(pending{tag: "xml-stylesheet", attr: "href", kind: Resource}, ref)
			}
		}
	})
}

// manifest has the URLs of a web application manifest.
type manifest struct {
	StartURL    string          `json:"start_url"`
	Icons       []manifestImage `json:"icons"`
	Screenshots []manifestImage `json:"screenshots"`
	Shortcuts   []struct {
		URL   string          `json:"url"`
		Icons []manifestImage `json:"icons"`
	} `json:"shortcuts"`
}

type manifestImage struct {
	Src string `json:"src"`
}

func (e *Extractor) webManifest(body []byte) {
	var m manifest
	_ = json.Unmarshal(body, &m) // what can be read counts
	add := func(kind Kind, attr, ref string) {
		if ref != "" && (kind == Navigation || e.opts.Resources) {
			e.put(pending{tag: "manifest", attr: attr, kind: kind}, []byte(ref))
		}
	}
	images := func(attr string, list []manifestImage) {
		for _, i := range list {
			add(Resource, attr, i.Src)
		}
	}
	add(Navigation, "start_url", m.StartURL)
	images("icons", m.Icons)
	images("screenshots", m.Screenshots)
	for i := range m.Shortcuts {
		add(Navigation, "shortcuts", m.Shortcuts[i].URL)
		images("icons", m.Shortcuts[i].Icons)
	}
}
