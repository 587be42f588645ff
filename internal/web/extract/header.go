package extract

import (
	"bytes"
	"net/http"
	"strings"
)

const maxHeaderLinks = 512 // of one response

// header reads the response header. References are relative to the document, whatever its base.
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
			e.headerLink(l)
		}
	}
	if target := refreshTarget([]byte(h.Get("Refresh"))); len(target) > 0 {
		if ref, ok := e.fromDocument(target); ok {
			e.put(pending{tag: "header", attr: "refresh", kind: Navigation}, ref)
		}
	}
}

// headerLink handles a link of the header like a link element. Without a relation it is none
// (RFC 8288 §3.3).
func (e *Extractor) headerLink(l headerLink) {
	ref, ok := e.fromDocument([]byte(l.target))
	if !ok || l.params["rel"] == "" {
		return
	}
	e.linked(&linked{
		tag: "header", attr: "link", ref: ref, rel: e.interned([]byte(l.params["rel"]), maxRel),
		mediaType: []byte(l.params["type"]), as: []byte(l.params["as"]), hrefLang: []byte(l.params["hreflang"]),
		ofAnotherDocument: l.params["anchor"] != "",
	})
}

// fromDocument resolves a reference against the document.
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

// headerLink is a link of a Link header, with the first of each parameter.
type headerLink struct {
	target string
	params map[string]string
}

// nextLink splits the first link off the value of a Link header, RFC 8288 appendix B.2. What is no
// link is skipped up to the next comma, and the link is zero.
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
	l.params = make(map[string]string)
	for strings.HasPrefix(s, ";") {
		var name, value string
		name, value, s = nextParameter(s[1:])
		if name = strings.ToLower(name); l.params[name] == "" {
			l.params[name] = value
		}
	}
	return l, afterComma(s)
}

// afterComma is what follows the first comma outside of quotes.
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

// nextParameter reads a parameter after a semicolon, appendix B.3.
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
