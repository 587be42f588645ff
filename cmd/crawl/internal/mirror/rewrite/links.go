package rewrite

import (
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/web/extract"
)

// maxNested bounds documents in attributes of documents in attributes.
const maxNested = 4

// links handles the attributes of a start tag that have links. It reports whether the file that the element loads is
// in the copy.
func (w *walker) links(t *tag) (kept bool) {
	for i := range t.attr {
		a := &t.attr[i]
		if a.v0 == 0 {
			continue
		}
		switch a.name {
		case "id", "class", "rel", "type", "name", "alt", "title", "lang", "width", "height", "content", "role":
			if a.name != "content" || t.name != "meta" {
				continue
			}
			w.metaContent(t, a)
		case "style":
			w.inCSS(t, a)
		case "srcset", "imagesrcset":
			kept = w.srcset(t, a, Part) || kept
		case "data-srcset", "data-lazy-srcset", "data-bgset":
			w.srcset(t, a, Guess)
		case "srcdoc":
			w.srcdoc(t, a)
		case "fill", "stroke", "filter", "clip-path", "mask", "cursor", "marker", "marker-start", "marker-mid", "marker-end":
			if strings.Contains(string(t.s[a.v0:a.v1]), "url(") {
				w.inCSS(t, a)
			}
		default:
			if l, ok := role(t, a.name); ok {
				kept = w.url(t, a, l) && (l.Role == Part || l.Role == Frame) || kept
			}
		}
	}
	return kept
}

// url handles an attribute that is one reference. It reports whether the copy has it.
func (w *walker) url(t *tag, a *attribute, l Link) (kept bool) {
	if t.name == "link" && isIcon(t.get("rel")) {
		w.found.Icon = true
	}
	if t.name == "a" || t.name == "area" {
		l.NoFollow = slices.Contains(strings.Fields(strings.ToLower(t.get("rel"))), "nofollow")
	}
	out := w.link(w.text(t.value(a)), l, attr)
	if out.edit {
		w.set(a, out.text)
	}
	return out.had
}

// role says what an attribute leads to.
func role(t *tag, name string) (Link, bool) {
	switch name {
	case "href":
		return hrefRole(t)
	case "xlink:href":
		if t.name == "a" {
			return Link{Role: Page}, true
		}
		return Link{Role: Part}, true
	case "src":
		return srcRole(t)
	case "data":
		return Link{Role: Frame}, t.name == "object"
	case "poster":
		return Link{Role: Part}, t.name == "video"
	case "background", "lowsrc", "dynsrc":
		return Link{Role: Part}, true
	case "longdesc":
		return Link{Role: Page}, true
	case "action":
		return Link{Role: Outside}, t.name == "form"
	case "formaction", "cite", "ping":
		return Link{Role: Outside}, true
	case "manifest":
		return Link{Role: Outside}, t.name == "html"
	case "data-src", "data-original", "data-lazy", "data-lazy-src", "data-lazyload", "data-poster", "data-bg", "data-bg-src", "data-background", "data-background-image", "data-image":
		return Link{Role: Guess}, true
	}
	return Link{}, false
}

func hrefRole(t *tag) (Link, bool) {
	switch t.name {
	case "a", "area":
		return Link{Role: Page}, true
	case "link":
		return relRole(t)
	case "script":
		return Link{Role: Part}, true // of SVG
	case "image", "use", "feimage", "mpath", "textpath", "pattern", "lineargradient", "radialgradient", "filter", "cursor", "tref":
		return Link{Role: Part}, true
	}
	return Link{}, false
}

func srcRole(t *tag) (Link, bool) {
	switch t.name {
	case "iframe", "frame":
		return Link{Role: Frame}, true
	case "script":
		if l := (Link{Role: Part}); strings.EqualFold(strings.TrimSpace(t.get("type")), "module") {
			l.As = Module
			return l, true
		}
		return Link{Role: Part}, true
	case "img", "source", "video", "audio", "track", "embed", "input", "image", "bgsound", "amp-img",
		"square70x70logo", "square150x150logo", "wide310x150logo", "square310x310logo", "tileimage": // of browserconfig.xml
		return Link{Role: Part}, true
	}
	return Link{}, false
}

// relRole is what a link element is for. What names the page itself, as canonical does, stays with the network; so
// does what only prepares a connection.
func relRole(t *tag) (Link, bool) {
	rels := strings.Fields(strings.ToLower(t.get("rel")))
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return slices.Contains(rels, word) })
	}
	switch {
	case has("stylesheet"):
		return Link{Role: Part, As: CSS}, true
	case has("modulepreload"):
		return Link{Role: Part, As: Module}, true
	case has("manifest"):
		return Link{Role: Part, As: Manifest}, true
	case has("preload", "prefetch", "prerender", "image_src") || isIcon(t.get("rel")):
		return Link{Role: Part}, true
	case has("canonical", "shortlink", "amphtml", "pingback", "edituri", "webmention", "search", "self", "edit", "dns-prefetch", "preconnect") || len(rels) == 0:
		return Link{Role: Outside}, true
	}
	return Link{Role: Page}, true
}

func isIcon(rel string) bool {
	for word := range strings.FieldsSeq(strings.ToLower(rel)) {
		switch word {
		case "icon", "mask-icon", "fluid-icon", "apple-touch-icon", "apple-touch-icon-precomposed", "apple-touch-startup-image":
			return true
		}
	}
	return false
}

// metaContent handles a meta element that names a file.
func (w *walker) metaContent(t *tag, a *attribute) {
	name := strings.ToLower(strings.TrimSpace(t.get("name") + t.get("property") + t.get("itemprop")))
	switch name {
	case "msapplication-config":
		if !strings.EqualFold(t.value(a), "none") {
			w.url(t, a, Link{Role: Part, As: XML})
		}
	case "msapplication-tileimage", "msapplication-square70x70logo", "msapplication-square150x150logo", "msapplication-wide310x150logo", "msapplication-square310x310logo":
		w.url(t, a, Link{Role: Part})
	case "og:image", "og:url", "og:video", "og:audio", "og:image:url", "og:image:secure_url", "twitter:image", "twitter:image:src", "twitter:player", "image", "thumbnailurl":
		w.url(t, a, Link{Role: Outside})
	}
}

// refresh handles the content of a meta refresh: seconds, and perhaps where to.
func (w *walker) refresh(t *tag, a *attribute) {
	value := []byte(t.value(a))
	target := extract.RefreshTarget(value)
	if len(target) == 0 {
		return
	}
	from := cap(value) - cap(target)
	if out := w.link(w.text(string(target)), Link{Role: Page}, bare); out.edit {
		w.set(a, escape(string(value[:from])+out.text+string(value[from+len(target):])))
	}
}

// inCSS handles declarations in an attribute.
func (w *walker) inCSS(t *tag, a *attribute) {
	raw := string(t.s[a.v0:a.v1])
	if !strings.Contains(raw, "(") {
		return
	}
	if !strings.Contains(raw, "&") {
		w.css(t.s[a.v0:a.v1], a.v0, attr)
		return
	}
	if text, ok := w.whole(extract.Unescape(raw), func(v *walker, s []byte) { v.css(s, 0, bare) }); ok {
		w.set(a, escape(text))
	}
}

// srcdoc handles a page in an attribute.
func (w *walker) srcdoc(t *tag, a *attribute) {
	if w.nested >= maxNested {
		return
	}
	text, ok := w.whole(t.value(a), func(v *walker, s []byte) {
		v.nested++
		v.foreign = 0
		v.markup(s)
	})
	if ok {
		w.set(a, escape(text))
	}
}

// escape is a text as the value of an attribute in quotes of either kind.
func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", `"`, "&quot;", "'", "&#39;").Replace(s)
}

// srcset handles a list of pictures. It reports whether the copy has one of them.
func (w *walker) srcset(t *tag, a *attribute, r Role) (kept bool) {
	value := []byte(t.value(a))
	var b strings.Builder
	at := 0
	for rest, ref := value, []byte(nil); len(rest) > 0; {
		if ref, rest = extract.NextImage(rest); len(ref) == 0 {
			continue
		}
		from := cap(value) - cap(ref)
		out := w.link(w.text(string(ref)), Link{Role: r}, inSet)
		if kept = kept || out.had; out.edit {
			b.Write(value[at:from])
			b.WriteString(out.text)
			at = from + len(ref)
		}
	}
	if at > 0 {
		w.set(a, escape(b.String()+string(value[at:])))
	}
	return kept
}
