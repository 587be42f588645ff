package extract

import (
	"bytes"
	"net/http"
	"strings"
)

// maxHeaderLinks bounds the links of an answer's header; a server that pushes what its
// pages show names some dozens.
const maxHeaderLinks = 512

// header takes what the answer's header says of the document. Its references are relative
// to the document, whatever base that names for its own.
func (e *Extractor) header(h http.Header) {
	for _, value := range h["X-Robots-Tag"] {
		e.directives.header(value, e.opts.Agent)
	}
	if langs := h["Content-Language"]; len(langs) == 1 && !strings.Contains(langs[0], ",") {
		e.headerLang = field([]byte(langs[0])) // of several, it would be none
	}
	n := 0
	for _, value := range h["Link"] {
		for rest := value; rest != "" && n < maxHeaderLinks; n++ {
			var l headerLink
			l, rest = nextLink(rest)
			e.headerLink(&l)
		}
	}
	if target := refreshTarget([]byte(h.Get("Refresh"))); len(target) > 0 {
		if ref, ok := e.fromDocument(target); ok {
			e.put(pending{tag: "header", attr: "refresh", kind: Navigation}, ref)
		}
	}
}

// headerLink takes a link of the header like a link element.
func (e *Extractor) headerLink(l *headerLink) {
	if l.rel == "" {
		return // there is no link without a relation, says RFC 8288 §3.3
	}
	ref, ok := e.fromDocument([]byte(l.target))
	if !ok {
		return
	}
	e.linked(&linked{
		tag: "header", attr: "link", ref: ref, rel: e.interned([]byte(l.rel), maxRel),
		mediaType: []byte(l.mediaType), as: []byte(l.as), hrefLang: []byte(l.hrefLang),
		ofAnotherDocument: l.anchor != "",
	})
}

// fromDocument resolves a reference at once and against the document.
func (e *Extractor) fromDocument(ref []byte) ([]byte, bool) {
	ref, _, _ = bytes.Cut(trim(ref), []byte("#"))
	if len(ref) == 0 {
		return nil, false
	}
	u, err := e.doc.ResolveBytes(ref)
	if err != nil {
		e.count(err)
		return nil, false
	}
	return []byte(u.String()), true
}

// headerLink is a link of a Link header. Of each parameter the first counts.
type headerLink struct {
	target                               string
	rel, mediaType, hrefLang, as, anchor string
}

// nextLink splits the first link off the value of a Link header: RFC 8288 appendix B.2.
// What stands there instead of a link is passed over up to the next comma, and the link
// is empty.
func nextLink(s string) (l headerLink, rest string) {
	s = strings.TrimLeft(s, " \t,")
	if !strings.HasPrefix(s, "<") {
		return l, afterComma(s)
	}
	end := strings.IndexByte(s, '>')
	if end < 0 {
		return l, ""
	}
	l.target, s = s[1:end], strings.TrimLeft(s[end+1:], " \t")
	for strings.HasPrefix(s, ";") {
		var name, value string
		name, value, s = nextParameter(s[1:])
		l.set(strings.ToLower(name), value)
	}
	return l, afterComma(s)
}

// afterComma is what stands behind the first comma that is not within quotes.
func afterComma(s string) string {
	for s != "" && s[0] != ',' {
		if s[0] == '"' {
			_, s = unquote(s)
			continue
		}
		s = s[1:]
	}
	return strings.TrimLeft(s, " \t,")
}

// nextParameter reads a name and perhaps a value behind a semicolon, appendix B.3.
func nextParameter(s string) (name, value, rest string) {
	s = strings.TrimLeft(s, " \t")
	end := len(s)
	if i := strings.IndexAny(s, " \t=;,"); i >= 0 {
		end = i
	}
	name, s = s[:end], strings.TrimLeft(s[end:], " \t")
	if !strings.HasPrefix(s, "=") {
		return name, "", s
	}
	s = strings.TrimLeft(s[1:], " \t")
	if strings.HasPrefix(s, `"`) {
		value, s = unquote(s)
		return name, value, strings.TrimLeft(s, " \t")
	}
	end = len(s)
	if i := strings.IndexAny(s, ";,"); i >= 0 {
		end = i
	}
	return name, strings.TrimRight(s[:end], " \t"), s[end:]
}

// unquote reads a quoted string, RFC 9110 §5.6.4, which the end of s may close.
func unquote(s string) (value, rest string) {
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"':
			return b.String(), s[i+1:]
		case c == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String(), ""
}

// set keeps a parameter that matters.
func (l *headerLink) set(name, value string) {
	to := (*string)(nil)
	switch name {
	case "rel":
		to = &l.rel
	case "type":
		to = &l.mediaType
	case "hreflang":
		to = &l.hrefLang
	case "as":
		to = &l.as
	case "anchor":
		to = &l.anchor
	default:
		return
	}
	if *to == "" {
		*to = value
	}
}
