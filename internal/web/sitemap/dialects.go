package sitemap

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

// elements maps the local names that matter, in lower case, to what they mean. Sites get the case
// wrong now and then.
var elements = map[string]string{
	"urlset": "urlset", "sitemapindex": "sitemapindex", "rss": "rss", "rdf": "rss", "feed": "feed", "html": "html",
	"url": "url", "sitemap": "sitemap", "item": "item", "entry": "entry",
	"loc": "loc", "lastmod": "lastmod", "changefreq": "changefreq", "priority": "priority", "link": "link",
	"image": "image", "video": "video", "content_loc": videoFile, "player_loc": videoFile, "thumbnail_loc": videoFile,
	"guid": "guid", "pubdate": "date", "date": "date", "updated": "date", "published": "date", "lastbuilddate": "date",
	"enclosure": "media", "thumbnail": "media", "content": "media", "comments": "comments",
	"source": "source", "textinput": "textinput",
}

// videoFile is the file, the player or the picture of a video.
const videoFile = "video file"

const longestName = len("lastbuilddate")

// elementOf is the meaning of a qualified name, or empty.
func elementOf(name []byte) string {
	name = name[bytes.LastIndexByte(name, ':')+1:]
	if len(name) > longestName {
		return ""
	}
	var lower [longestName]byte
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		lower[i] = c
	}
	return elements[string(lower[:len(name)])]
}

// startOfProtocol handles an element of a urlset or sitemapindex.
func (r *reader) startOfProtocol(e string, attrs []byte) {
	if e == "loc" && !r.group.open {
		r.begin(r.usual(), nil) // someone left the entry's own element out
	}
	switch e {
	case "url":
		r.begin(Page, attrs)
	case "sitemap":
		r.begin(Sitemap, attrs)
	case "image", "video":
		r.inside = e
	case videoFile:
		r.collect(fieldExtra)
	case "loc":
		r.loc()
	case "link":
		if rel, _ := attribute(attrs, "rel"); bytes.EqualFold(rel, []byte("alternate")) {
			href, _ := attribute(attrs, "href")
			r.extra(Alternate, href)
		}
	}
	if r.inside != "" {
		return
	}
	switch e {
	case "lastmod":
		r.collect(fieldDate)
	case "changefreq":
		r.collect(fieldFreq)
	case "priority":
		r.collect(fieldPriority)
	}
}

// usual is the relation of the document's entries.
func (r *reader) usual() Rel {
	if r.sum.Format == Index {
		return Sitemap
	}
	return Page
}

// loc begins a URL: of an image, of the entry, or of the next one, if that has no element of its
// own.
func (r *reader) loc() {
	switch {
	case r.inside != "":
		r.collect(fieldExtra)
		return
	case !r.group.main.URL.IsZero():
		r.begin(r.group.main.Rel, nil)
	}
	r.collect(fieldLoc)
}

// startOfFeed handles an element of RSS or Atom.
func (r *reader) startOfFeed(e string, attrs []byte) {
	switch e {
	case "item", "entry":
		r.begin(Page, attrs)
		if about, ok := attribute(attrs, "rdf:about"); ok && bytes.HasPrefix(about, []byte("http")) {
			r.group.fallback, _ = r.resolve(about)
		}
		return
	case "image", "source", "textinput":
		r.inside = e
		if href, ok := attribute(attrs, "href"); ok && e == "image" { // of iTunes
			r.extra(Resource, href)
		}
	}
	if r.inside != "" {
		if r.inside == "image" && e == "url" {
			r.collect(fieldExtra)
		}
		return
	}
	switch e {
	case "link":
		r.feedLink(attrs)
	case "guid":
		if perma, _ := attribute(attrs, "isPermaLink"); !bytes.EqualFold(perma, []byte("false")) {
			r.collect(fieldGUID)
		}
	case "date":
		r.collect(fieldDate)
	case "comments":
		r.collect(fieldAside)
	case "media":
		for _, name := range [...]string{"url", "src"} {
			if ref, ok := attribute(attrs, name); ok {
				r.extra(Resource, ref)
			}
		}
	}
}

// feedLink handles a link: in RSS a text, in Atom an attribute, and documents mix them.
func (r *reader) feedLink(attrs []byte) {
	href, ok := attribute(attrs, "href")
	if !ok {
		if r.group.open && r.group.main.URL.IsZero() && !r.group.loose {
			r.collect(fieldLoc)
		}
		return
	}
	rel, _ := attribute(attrs, "rel")
	switch string(bytes.ToLower(rel[:min(len(rel), len("prev-archive"))])) {
	case "", "alternate", "related", "via", "replies", "next", "prev", "previous", "first", "last",
		"current", "next-archive", "prev-archive": // of RFC 4287, 4685 and 5005
		r.extra(Page, href)
	case "enclosure", "icon", "logo":
		r.extra(Resource, href)
	}
}

// priority reads a number from 0 to 1, also with a comma.
func (r *reader) priority(v []byte) {
	text := strings.Replace(string(v[:min(len(v), 32)]), ",", ".", 1)
	p, err := strconv.ParseFloat(text, 32)
	if err != nil || math.IsNaN(p) || p < 0 || p > 1 {
		r.problem("%.40q is no priority: it goes from 0.0 to 1.0", v)
		return
	}
	r.group.main.Priority = float32(p)
}
