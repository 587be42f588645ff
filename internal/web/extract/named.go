package extract

import (
	"bytes"
	"net/http"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/web/scope"
)

const (
	maxNamed      = 100 // of a document
	maxNamedBytes = 2 << 10
	endsNamed     = " \n\t\r\f\v\x00\"'`<>{}"
)

// named adds texts of a document that have the form of a URL of its own site. In scripts, data, comments and the
// attributes of any tag, these are paths within quotes that begin with a slash or dots. In prose they are those that
// [inProse] accepts.
func (e *Extractor) named(body []byte) {
	if e.syntax < html {
		e.namedIn(body, e.syntax == plain)
		return
	}
	for i := 0; i < len(body); {
		lt := near(body, i, '<')
		if lt < 0 {
			lt = len(body)
		}
		e.namedIn(body[i:lt], true)
		switch i = lt; {
		case hasPrefix(body[lt:], "<!--"):
			i = CommentEnd(body, lt+len("<!--"))
		case lt+1 < len(body) && isTag(body, lt+1, "script"):
			i = scriptEnd(body, Through(body, lt, ">"))
		case lt < len(body):
			i = Through(body, lt, ">")
		}
		e.namedIn(body[lt:i], false)
	}
}

// namedIn adds those of a part of the document.
func (e *Extractor) namedIn(s []byte, prose bool) {
	if bytes.IndexByte(s, '/') < 0 || !e.opts.Budget.SpendText(len(s)) {
		return
	}
	if e.syntax >= html && bytes.IndexByte(s, '&') >= 0 {
		s = []byte(unquoted.Replace(string(s)))
	}
	for i := 0; e.mentions < maxNamed; {
		slash := bytes.IndexByte(s[i:], '/')
		if slash < 0 {
			return
		}
		from, to, ok := namedAt(s, i, i+slash, prose)
		if i = to; ok {
			e.mention(s[from:to])
		}
	}
}

// unquoted resolves the references that occur in attributes with scripts or data.
var unquoted = strings.NewReplacer("&amp;", "&", "&quot;", `"`, "&#34;", `"`, "&#39;", "'", "&#x27;", "'", "&apos;", "'", "&lt;", "<", "&gt;", ">", "&#x2F;", "/", "&#47;", "/")

// namedAt returns the begin and end of the text around the slash, and whether it is taken for a URL. It does not begin
// before least.
func namedAt(s []byte, least, slash int, prose bool) (from, to int, ok bool) {
	from = slash
	for from > least && (s[from-1] == '.' || s[from-1] == '\\') { // ./ and ../, and the escaped slashes of JSON
		from--
	}
	scheme := 0
	for _, p := range [...]string{"https:", "http:"} {
		if at := from - len(p); scheme == 0 && at >= least && strings.EqualFold(string(s[at:from]), p) {
			from, scheme = at, len(p)
		}
	}
	for to = slash + 1; to < len(s) && strings.IndexByte(endsNamed, s[to]) < 0 && (s[to] != '\\' || to+1 < len(s) && s[to+1] == '/'); {
		to++
	}
	quote := from > 0 && to < len(s) && s[from-1] == s[to] && (s[to] == '"' || s[to] == '\'' || s[to] == '`')
	switch text := s[from:to]; {
	case to-from > maxNamedBytes, to < len(s) && s[to] == '{': // a template continues with an unknown part
		return from, to, false
	case scheme > 0:
		return from, to, true
	case quote && !prose:
		return from, to, likePathOf(text)
	case from > 0 && !quote && !isSpace(s[from-1]) && s[from-1] != '(':
		return from, to, false
	default:
		return from, to, inProse(text)
	}
}

// likePathOf reports whether a text looks like a path. It excludes a slash alone, patterns, and operators of scripts.
func likePathOf(s []byte) bool {
	letters := false
	for i, c := range s {
		switch {
		case c == '*', c == '$', c == '^', c == '|', c == '[', c == ']', c == '(', c == ')', c == ',', c == ';',
			c == ':' && i > 0 && s[i-1] == '/': // a parameter in the pattern of a router
			return false
		case c >= 0x80, kinds[c]&(letter|digit) != 0:
			letters = true
		}
	}
	return letters && !hasPrefix(s, "...") && (!hasPrefix(s, "//") || len(s) > 2 && kinds[s[2]]&(letter|digit) != 0 && bytes.IndexByte(s, '.') > 0)
}

// inProse reports whether a word of prose is a path: one that begins with dots and has a directory, or one that ends in
// a usual file extension.
func inProse(s []byte) bool {
	s = bytes.TrimRight(s, ".,;:!?)")
	path, _, _ := bytes.Cut(s, []byte("?"))
	last := path[bytes.LastIndexByte(path, '/')+1:]
	dot := bytes.LastIndexByte(last, '.')
	return likePathOf(s) && (s[0] == '.' && bytes.Count(path, []byte("/")) > 1 || dot > 0 && slices.Contains(extensions, string(AppendLower(nil, last[dot+1:]))))
}

var extensions = strings.Fields("html htm xhtml shtml php phtml asp aspx jsp jspx do action cgi pl cfm json xml txt md csv pdf doc docx xls xlsx ppt pptx rtf odt zip gz tgz bak old sql log js css svg png jpg jpeg gif webp ico mp3 mp4")

// mention adds a text that has the form of a URL, if it is one of the document's own site. It counts only URLs that the
// document does not name as a link, and adds at most maxNamed of them.
func (e *Extractor) mention(ref []byte) {
	ref = bytes.TrimRight(ref, ".,;:!?")
	if bytes.HasSuffix(ref, []byte(")")) && bytes.IndexByte(ref, '(') < 0 {
		ref = bytes.TrimRight(ref, ").,;:!?")
	}
	if bytes.IndexByte(ref, '\\') >= 0 {
		ref = bytes.ReplaceAll(ref, []byte(`\`), nil)
	}
	if len(ref) == 0 || e.mentions >= maxNamed || !e.opts.Budget.SpendText(len(ref)+len(e.links.base.String())) {
		return
	}
	u, err := e.links.base.ResolveBytes(ref)
	if err != nil || scope.SiteOf(u) != scope.SiteOf(e.links.doc) {
		return
	}
	known := len(e.links.pending)
	e.links.add(mentioned, ref)
	e.mentions += len(e.links.pending) - known
}

// namedByHeader adds URLs in header fields other than Link and Refresh.
func (e *Extractor) namedByHeader(h http.Header) {
	for _, name := range [...]string{"Content-Location", "Location", "Sourcemap", "X-Sourcemap"} {
		if ref, ok := e.links.fromDocument([]byte(h.Get(name))); ok {
			e.mention(ref)
		}
	}
	for _, name := range [...]string{"Content-Security-Policy", "Content-Security-Policy-Report-Only"} {
		for _, policy := range h[name] {
			reports(e, []byte(policy))
		}
	}
	for _, name := range [...]string{"Reporting-Endpoints", "Report-To"} {
		for _, value := range h[name] {
			e.namedIn([]byte(value), false)
		}
	}
}

// reports adds the URLs to which a policy has violations reported.
func reports(e *Extractor, policy []byte) {
	for directive := range bytes.SplitSeq(policy, []byte(";")) {
		words := bytes.Fields(directive)
		if len(words) == 0 || !is(words[0], "report-uri") {
			continue
		}
		for _, ref := range words[1:min(len(words), maxSubmits)] {
			e.mention(ref)
		}
	}
}
