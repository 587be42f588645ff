package sitemap

import (
	"bytes"
	"math"
	"strconv"
)

// element is a name that means something, whatever its prefix.
type element uint8

const (
	elOther element = iota
	elURLSet
	elSitemapIndex
	elRSS
	elRDF
	elFeed
	elHTML
	elURL
	elSitemap
	elItem
	elEntry
	elLoc
	elLastMod
	elChangeFreq
	elPriority
	elLink
	elImage
	elVideo
	elVideoLoc // of a video: its file, its player or its picture
	elGUID
	elDate
	elEnclosure
	elContent
	elComments
	elSource
	elTextInput
)

// elements are the names in lower case. Sites get the case wrong now and then.
var elements = map[string]element{
	"urlset": elURLSet, "sitemapindex": elSitemapIndex, "rss": elRSS, "rdf": elRDF, "feed": elFeed, "html": elHTML,
	"url": elURL, "sitemap": elSitemap, "item": elItem, "entry": elEntry,
	"loc": elLoc, "lastmod": elLastMod, "changefreq": elChangeFreq, "priority": elPriority, "link": elLink,
	"image": elImage, "video": elVideo, "content_loc": elVideoLoc, "player_loc": elVideoLoc, "thumbnail_loc": elVideoLoc,
	"guid": elGUID, "pubdate": elDate, "date": elDate, "updated": elDate, "published": elDate, "lastbuilddate": elDate,
	"enclosure": elEnclosure, "thumbnail": elEnclosure, "content": elContent, "comments": elComments,
	"source": elSource, "textinput": elTextInput,
}

// longestName is that of any element above.
const longestName = len("lastbuilddate")

// elementOf is what a qualified name means.
func elementOf(name []byte) element {
	name = name[bytes.LastIndexByte(name, ':')+1:]
	if len(name) > longestName {
		return elOther
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

// startOfProtocol takes in an element of a urlset or sitemapindex.
func (r *reader) startOfProtocol(e element, attrs []byte) {
	if e == elLoc && !r.group.open {
		r.begin(r.usual(), nil) // someone left the entry's own element out
	}
	switch e {
	case elURL:
		r.begin(Page, attrs)
	case elSitemap:
		r.begin(Sitemap, attrs)
	case elImage, elVideo:
		r.inside = e
	case elVideoLoc:
		r.collect(fieldExtra)
	case elLoc:
		r.loc()
	case elLink:
		if rel, _ := attribute(attrs, "rel"); bytes.EqualFold(rel, []byte("alternate")) {
			href, _ := attribute(attrs, "href")
			r.extra(Alternate, href)
		}
	}
	if r.inside != elOther {
		return
	}
	switch e {
	case elLastMod:
		r.collect(fieldDate)
	case elChangeFreq:
		r.collect(fieldFreq)
	case elPriority:
		r.collect(fieldPriority)
	}
}

// usual is what the entries of the document are.
func (r *reader) usual() Rel {
	if r.sum.Format == Index {
		return Sitemap
	}
	return Page
}

// loc is where a URL begins: of an image, of the entry, or of the next one, if that has no
// element of its own.
func (r *reader) loc() {
	switch {
	case r.inside != elOther:
		r.collect(fieldExtra)
		return
	case !r.group.main.URL.IsZero():
		r.begin(r.group.main.Rel, nil)
	}
	r.collect(fieldLoc)
}

// startOfFeed takes in an element of RSS or Atom.
func (r *reader) startOfFeed(e element, attrs []byte) {
	switch e {
	case elItem, elEntry:
		r.begin(Page, attrs)
		if about, ok := attribute(attrs, "rdf:about"); ok && bytes.HasPrefix(about, []byte("http")) {
			r.group.fallback, _ = r.resolve(about)
		}
		return
	case elImage, elSource, elTextInput:
		r.inside = e
		if href, ok := attribute(attrs, "href"); ok && e == elImage { // of iTunes
			r.extra(Resource, href)
		}
	}
	if r.inside != elOther {
		if r.inside == elImage && e == elURL {
			r.collect(fieldExtra)
		}
		return
	}
	switch e {
	case elLink:
		r.feedLink(attrs)
	case elGUID:
		if perma, _ := attribute(attrs, "isPermaLink"); !bytes.EqualFold(perma, []byte("false")) {
			r.collect(fieldGUID)
		}
	case elDate:
		r.collect(fieldDate)
	case elComments:
		r.collect(fieldAside)
	case elEnclosure, elContent:
		r.media(attrs)
	}
}

// media takes the file that an enclosure, a picture or a content out of line names.
func (r *reader) media(attrs []byte) {
	for _, name := range [...]string{"url", "src"} {
		if ref, ok := attribute(attrs, name); ok {
			r.extra(Resource, ref)
		}
	}
}

// feedLink takes a link: in RSS it is a text, in Atom an attribute, and documents mix them.
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

// priority takes in a number from 0 to 1. Some write it with a comma.
func (r *reader) priority(v []byte) {
	if i := bytes.IndexByte(v, ','); i >= 0 {
		v = append(bytes.Clone(v[:i]), append([]byte("."), v[i+1:]...)...)
	}
	p, err := strconv.ParseFloat(string(v[:min(len(v), 32)]), 32)
	if err != nil || math.IsNaN(p) || p < 0 || p > 1 {
		r.problem("%.40q is no priority: it goes from 0.0 to 1.0", v)
		return
	}
	r.group.main.Priority = float32(p)
}
