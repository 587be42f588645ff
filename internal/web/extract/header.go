package extract

import (
	"bytes"
	"net/http"
	"regexp"
	"strings"
)

const maxHeaderLinks = 512 // of one response

// header reads the response header. References are relative to the document, whatever its base.
func (e *Extractor) header(h http.Header) {
	for _, value := range h["X-Robots-Tag"] {
		e.directives.read(value, e.opts.Agent, true)
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

// nextLink splits the first link off the value of a Link header, RFC 8288 appendix B. What is no
// link is skipped up to the next comma outside of quotes, and the link is zero.
func nextLink(s string) (l headerLink, rest string) {
	s = strings.TrimLeft(s, " \t,")
	if target, params, closed := strings.Cut(s, ">"); strings.HasPrefix(s, "<") {
		if !closed {
			return l, ""
		}
		l, s = headerLink{target[1:], make(map[string]string)}, params
		for m := linkParam.FindStringSubmatch(s); m != nil; m = linkParam.FindStringSubmatch(s) {
			s = s[len(m[0]):]
			if name := strings.ToLower(m[1]); l.params[name] == "" {
				l.params[name] = quotedPair.ReplaceAllString(m[2], "$1") + strings.TrimRight(m[3], " \t")
			}
		}
	}
	return l, s[len(linkJunk.FindString(s)):]
}

// The end of the value closes quotes.
var (
	linkParam  = regexp.MustCompile(`(?s)^[ \t]*;[ \t]*([^ \t=;,]*)[ \t]*(?:=[ \t]*(?:"((?:[^"\\]|\\.?)*)(?:"|$)|([^;,]*)))?`)
	linkJunk   = regexp.MustCompile(`(?s)^(?:[^",]|"(?:[^"\\]|\\.?)*(?:"|$))*[ \t,]*`)
	quotedPair = regexp.MustCompile(`(?s)\\(.)`)
)
