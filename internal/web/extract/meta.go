package extract

import (
	"bytes"
	"cmp"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/sitemap"
	"github.com/treadlight/crawl/record"
)

// openHTML reads the language of the first html tag that has one. Pages made of templates may have several html tags.
func (e *Extractor) openHTML() {
	if e.inner || e.template > 0 {
		return
	}
	for _, a := range [...]attr{attrLang, attrXMLLang} {
		e.dst.Lang = cmp.Or(e.dst.Lang, field(e.attr(a)))
	}
}

func (e *Extractor) openBase() {
	if e.hasBase || e.template > 0 || e.inner {
		return
	}
	ref, has := e.source.attr(attrHref)
	if !has {
		return
	}
	e.hasBase = true // the first one counts, even if it cannot be used
	if u, err := e.links.doc.ResolveBytes(ref); err == nil {
		e.links.base = u
		e.dst.Base = u.String()
	}
}

func (e *Extractor) openMeta() {
	if e.template > 0 {
		return
	}
	content := e.attr(attrContent)
	if equiv := e.attr(attrHTTPEquiv); is(equiv, "refresh") {
		if target := RefreshTarget(content); len(target) > 0 {
			e.links.add(toFollow, target)
		}
		return
	} else if e.opts.Named && is(equiv, "content-security-policy") {
		reports(e, content)
	} else if is(equiv, "content-language") && e.metaLang == "" && bytes.IndexByte(content, ',') < 0 {
		e.metaLang = field(content)
	}
	// Open Graph specifies property, but as many pages use name, so both attributes are read for all names.
	name := e.attr(attrName)
	if len(name) == 0 {
		name = e.attr(attrProperty)
	}
	var buf [2 * maxName]byte
	if len(name) > len(buf) || len(content) == 0 || e.inner {
		return
	}
	name = AppendLower(buf[:0], name)
	putMeta(&e.dst.Meta, name, content)
	if s := string(name); s == defaultAgent || s == e.opts.Agent {
		e.robots(content[:min(len(content), maxField)])
	}
	switch string(name) {
	case "og:url":
		e.take(attrContent, toPage)
	case "og:image", "og:image:url", "og:image:secure_url", "og:video", "og:video:url", "og:video:secure_url",
		"og:audio", "og:audio:url", "og:audio:secure_url", "twitter:image", "twitter:image:src", "twitter:player:stream",
		"msapplication-tileimage", "thumbnail":
		e.take(attrContent, toPart)
	}
}

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

// putMeta keeps the first value of a name; of robots it keeps all values.
func putMeta(m *record.Meta, name, content []byte) {
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
	*to = cmp.Or(*to, field(content))
}

const (
	maxDirectives     = 24      // kept; some twenty are in use
	maxDirective      = 64      // bytes
	maxDirectiveWords = 1 << 10 // read; dates are slow to parse
)

const defaultAgent = "robots"

// directives collects robots directives without duplicates. Those for all robots and those for the Agent are added
// together, as Google and Bing do.
type directives struct {
	list             []string
	words            int // how many were read
	noIndex          bool
	noFollow         bool
	unavailableAfter time.Time
}

func (d *directives) read(list, agent string, addressed bool) {
	for word := range Directives(list, agent, addressed) {
		if d.words++; d.words > maxDirectiveWords {
			return
		}
		d.add(word)
	}
}

// Directives yields the words of a list of robots directives that are for all robots or for the agent, in lower case
// and as they are written: "noindex", "none", "index". It reads at most 1,024 words. A list of an X-Robots-Tag is
// addressed: in it "name:" before a directive says for which robot that directive and the following ones are.
func Directives(list, agent string, addressed bool) iter.Seq[string] {
	return func(yield func(string) bool) {
		ours := true
		for n := 0; list != "" && n < maxDirectiveWords; n++ {
			m := nextDirective().FindStringSubmatch(list)
			list = list[len(m[0]):]
			word := strings.ToLower(strings.TrimSpace(m[1]))
			for name, rest, named := agentOf(word); addressed && named; name, rest, named = agentOf(word) {
				ours, word = name == agent || name == defaultAgent || name == "*", rest
			}
			if ours && !yield(word) {
				return
			}
		}
	}
}

// afterWord is the directive whose value may contain a comma, after the day of the week.
const afterWord = "unavailable_after"

var nextDirective = lazy.Regexp(`(?i)^[ \t\r\n\f,]*((?:[^,:]*:[ \t]*)*?` + afterWord + `[ \t:=]*[a-z]+,[ \t]*\d[^,]*|[^,]*)`)

// agentOf splits the name of a robot off a directive. If the name is that of a directive with a value, named is false.
func agentOf(word string) (name, rest string, named bool) {
	name, rest, named = strings.Cut(word, ":")
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case afterWord, "max-snippet", "max-image-preview", "max-video-preview", "":
		return "", word, false
	}
	return name, strings.TrimSpace(rest), named
}

func (d *directives) add(word string) {
	if at, ok := unavailable(word); ok {
		if d.unavailableAfter.IsZero() {
			d.unavailableAfter = at
			d.put(afterWord + ": " + at.UTC().Format(time.RFC3339))
		}
		return
	}
	switch word {
	case "", "all", "index", "follow", "archive", "snippet":
	case "none":
		d.add("noindex")
		d.add("nofollow")
	default:
		d.noIndex = d.noIndex || word == "noindex"
		d.noFollow = d.noFollow || word == "nofollow"
		d.put(word)
	}
}

func (d *directives) put(word string) {
	if len(d.list) >= maxDirectives || len(word) > maxDirective || slices.Contains(d.list, word) {
		return
	}
	if !strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		d.list = append(d.list, word)
	}
}

// unavailable returns the time of an unavailable_after directive.
func unavailable(word string) (time.Time, bool) {
	if len(word) < len(afterWord) || !strings.EqualFold(word[:len(afterWord)], afterWord) {
		return time.Time{}, false
	}
	date := strings.ToUpper(strings.Trim(word[len(afterWord):], " \t:=")) // time zones are in upper case
	return sitemap.ParseTime([]byte(date))
}

const maxHeaderLinks = 512 // of one response

// header reads the header of the response. References in it are relative to the document, whatever its base is.
func (e *Extractor) header(h http.Header) {
	for _, value := range h["X-Robots-Tag"] {
		e.directives.read(value, e.opts.Agent, true)
	}
	if langs := h["Content-Language"]; len(langs) == 1 && !strings.Contains(langs[0], ",") {
		e.headerLang = field([]byte(langs[0])) // several languages say nothing about the page
	}
	n := 0
	for _, value := range h["Link"] {
		for rest := value; rest != "" && n < maxHeaderLinks; n++ {
			var l HeaderLink
			l, rest = NextLink(rest)
			e.links.headerLink(l)
		}
	}
	if values := h["Refresh"]; len(values) > 0 {
		if ref, ok := e.links.fromDocument(RefreshTarget([]byte(values[0]))); ok {
			e.links.add(toFollow, ref)
		}
	}
}

// headerLink handles a link in the header like a link element. Without a relation it is not a link (RFC 8288 §3.3).
func (l *links) headerLink(h HeaderLink) {
	ref, ok := l.fromDocument([]byte(h.Target))
	param := func(name string) []byte { return []byte(h.Params[name]) }
	if ok && h.Params["rel"] != "" {
		l.linked(&linked{ref, param("rel"), param("type"), param("as"), param("hreflang"), h.Params["anchor"] != ""})
	}
}

// fromDocument resolves a reference against the URL of the document.
func (l *links) fromDocument(ref []byte) ([]byte, bool) {
	if ref = withoutFragment(ref); len(ref) == 0 {
		return nil, false
	}
	u, err := l.doc.ResolveBytes(ref)
	l.count(err)
	return []byte(u.String()), err == nil
}

// HeaderLink is a link of a Link header. Params has the first value of each parameter, by its name in lower case.
type HeaderLink struct {
	Target string
	Params map[string]string
}

// NextLink splits the first link off the value of a Link header, RFC 8288 appendix B. If it does not begin with a link,
// it skips to the next comma outside of quotes and returns a zero link.
func NextLink(s string) (l HeaderLink, rest string) {
	s = strings.TrimLeft(s, " \t,")
	if target, params, closed := strings.Cut(s, ">"); strings.HasPrefix(s, "<") {
		if !closed {
			return l, ""
		}
		l, s = HeaderLink{target[1:], make(map[string]string)}, params
		for m := linkParam().FindStringSubmatch(s); m != nil; m = linkParam().FindStringSubmatch(s) {
			s = s[len(m[0]):]
			if name := strings.ToLower(m[1]); l.Params[name] == "" {
				l.Params[name] = quotedPair().ReplaceAllString(m[2], "$1") + strings.TrimRight(m[3], " \t")
			}
		}
	}
	return l, s[len(linkJunk().FindString(s)):]
}

// An unclosed quote extends to the end of the value.
var (
	linkParam  = lazy.Regexp(`(?s)^[ \t]*;[ \t]*([^ \t=;,]*)[ \t]*(?:=[ \t]*(?:"((?:[^"\\]|\\.?)*)(?:"|$)|([^;,]*)))?`)
	linkJunk   = lazy.Regexp(`(?s)^(?:[^",]|"(?:[^"\\]|\\.?)*(?:"|$))*[ \t,]*`)
	quotedPair = lazy.Regexp(`(?s)\\(.)`)
)
