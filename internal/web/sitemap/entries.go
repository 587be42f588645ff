package sitemap

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/mail"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// startOfProtocol handles an element of a urlset or sitemapindex.
func (r *reader) startOfProtocol(e string) {
	switch e {
	case "url":
		r.begin(Page)
	case "sitemap":
		r.begin(Sitemap)
	case "image", "video":
		r.inside = e
	case "content_loc", "player_loc", "thumbnail_loc":
		r.collect("extra")
	case "loc":
		r.loc()
	case "link":
		if rel, _ := r.attribute("rel"); strings.EqualFold(rel, "alternate") {
			href, _ := r.attribute("href")
			r.extra(Alternate, []byte(href))
		}
	case "lastmod", "changefreq", "priority":
		if r.inside == "" {
			r.collect(e)
		}
	}
}

// loc begins a URL: that of an image, of the entry, or, if the entry already has one and the document has no element
// for each entry, of the next entry.
func (r *reader) loc() {
	switch {
	case r.inside != "":
		r.collect("extra")
		return
	case !r.group.open && r.sum.Format == Index:
		r.begin(Sitemap)
	case !r.group.open:
		r.begin(Page)
	case !r.group.main.URL.IsZero():
		r.begin(r.group.main.Rel)
	}
	r.collect("loc")
}

// startOfFeed handles an element of RSS or Atom.
func (r *reader) startOfFeed(e string) {
	switch e {
	case "item", "entry":
		r.begin(Page)
		if about, _ := r.attribute("rdf:about"); strings.HasPrefix(about, "http") {
			r.group.fallback, _ = r.resolve([]byte(about))
		}
		return
	case "image", "source", "textinput":
		r.inside = e
		if href, ok := r.attribute("href"); ok && e == "image" { // an element of iTunes
			r.extra(Resource, []byte(href))
		}
	}
	if r.inside != "" {
		if r.inside == "image" && e == "url" {
			r.collect("extra")
		}
		return
	}
	switch e {
	case "link":
		r.feedLink()
	case "guid":
		if perma, _ := r.attribute("ispermalink"); !strings.EqualFold(perma, "false") {
			r.collect(e)
		}
	case "pubdate", "date", "updated", "published", "lastbuilddate":
		r.collect("lastmod")
	case "comments":
		r.collect(e)
	case "enclosure", "thumbnail", "content":
		for _, name := range [...]string{"url", "src"} {
			if ref, ok := r.attribute(name); ok {
				r.extra(Resource, []byte(ref))
			}
		}
	}
}

// feedLink handles a link, which is a text in RSS and an attribute in Atom; documents mix them.
func (r *reader) feedLink() {
	href, ok := r.attribute("href")
	if !ok {
		if r.group.open && r.group.main.URL.IsZero() && !r.group.loose {
			r.collect("loc")
		}
		return
	}
	rel, _ := r.attribute("rel")
	switch strings.ToLower(rel) {
	case "", "alternate", "related", "via", "replies", "next", "prev", "previous", "first", "last",
		"current", "next-archive", "prev-archive": // of RFC 4287, 4685 and 5005
		r.extra(Page, []byte(href))
	case "enclosure", "icon", "logo":
		r.extra(Resource, []byte(href))
	}
}

// collect makes the text that follows a field.
func (r *reader) collect(field string) { r.field, r.value = field, r.value[:0] }

func (r *reader) settle() {
	field, main := r.field, &r.group.main
	r.field = ""
	if !r.group.open {
		return
	}
	switch v := bytes.TrimFunc(r.value, isSpace); field {
	case "loc":
		r.group.named = true
		if u, ok := r.resolve(v); ok {
			main.URL = u
		}
	case "extra":
		r.extra(Resource, v)
	case "comments":
		r.extra(Page, v)
	case "guid":
		if bytes.HasPrefix(v, []byte("http")) {
			r.group.fallback, _ = r.resolve(v)
		}
	case "lastmod": // of several, the latest counts; one beyond 2200 is a mistake, or means "for ever"
		if at, ok := ParseTime(v); !ok {
			r.problem("%.40q is no date", v)
		} else if at.After(main.LastMod) && at.Year() < 2200 {
			main.LastMod = at
		}
	case "priority": // a comma is accepted too
		p, err := strconv.ParseFloat(strings.Replace(string(v), ",", ".", 1), 32)
		if err != nil || math.IsNaN(p) || p < 0 || p > 1 {
			r.problem("%.40q is no priority: it goes from 0.0 to 1.0", v)
			return
		}
		main.Priority = float32(p)
	case "changefreq":
		main.ChangeFreq = ""
		if word := strings.ToLower(string(v)); slices.Contains(freqs, word) {
			main.ChangeFreq = word
		}
	}
}

var freqs = []string{"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"}

func (r *reader) begin(rel Rel) {
	r.flush(false)
	r.inside = ""
	r.group.open, r.group.loose = true, r.sum.Format == Atom
	r.group.main = Entry{Rel: rel, Priority: DefaultPriority}
	r.group.base = r.rebase(r.base)
}

// rebase returns base changed by an xml:base attribute.
func (r *reader) rebase(base canonical.URL) canonical.URL {
	if ref, ok := r.attribute("xml:base"); ok {
		if u, err := base.Resolve(ref); err == nil {
			return u
		}
	}
	return base
}

// flush yields the open entry. At the end of the document it drops one without a URL, which may have been cut off.
func (r *reader) flush(last bool) {
	g := &r.group
	if !g.open {
		return
	}
	if g.main.URL.IsZero() && !last {
		g.main.URL = g.fallback
	}
	switch {
	case !g.main.URL.IsZero():
		r.emit(&g.main)
	case last && !g.loose:
		g.extras = g.extras[:0]
	case !g.named && !last && !r.feed:
		r.problem("an entry without a URL")
	}
	for i := range g.extras {
		e := &g.extras[i]
		e.LastMod = g.main.LastMod
		if e.URL != g.main.URL {
			r.emit(e)
		}
	}
	*g = group{extras: g.extras[:0]}
}

// emit yields an entry unless a bound is reached.
func (r *reader) emit(e *Entry) {
	if r.stopped {
		r.sum.Dropped++
		return
	}
	count, most := &r.sum.URLs, MaxURLs-r.sum.Sitemaps
	switch e.Rel {
	case Sitemap:
		count, most = &r.sum.Sitemaps, MaxURLs-r.sum.URLs
	case Alternate:
		count, most = &r.sum.Alternates, MaxExtras-r.sum.Resources
	case Resource:
		count, most = &r.sum.Resources, MaxExtras-r.sum.Alternates
	}
	if *count >= most {
		r.sum.Dropped++
		if e.Rel <= Sitemap {
			r.sum.Bound, r.stopped = fmt.Sprintf("%d URLs", MaxURLs), true
		}
		return
	}
	*count++
	if e.LastMod.After(r.sum.LastMod) {
		r.sum.LastMod = e.LastMod
	}
	r.stopped = !r.yield(*e)
}

func (r *reader) extra(rel Rel, ref []byte) {
	if !r.group.open {
		return
	}
	if len(r.group.extras) >= maxExtras {
		r.sum.Dropped++
		return
	}
	if u, ok := r.resolve(ref); ok {
		r.group.extras = append(r.group.extras, Entry{URL: u, Rel: rel, Priority: DefaultPriority})
	}
}

func (r *reader) resolve(ref []byte) (canonical.URL, bool) {
	ref = bytes.TrimFunc(ref, isSpace)
	if len(ref) == 0 {
		r.problem("an empty URL")
		return canonical.URL{}, false
	}
	u, err := cmp.Or(r.group.base, r.base).ResolveBytes(ref)
	if err != nil {
		r.problem("%.100q: %v", ref, err)
		return u, false
	}
	return r.doc.Rules.Apply(u), true
}

const longestDate = 64

// dateLayouts has the layouts of the W3C's note on dates. Go accepts a fraction of a second in all of them.
var dateLayouts = func() (all []string) {
	for _, clock := range []string{"T15:04:05", "T15:04"} {
		for _, zone := range []string{"Z07:00", "", "Z0700", "Z07"} {
			all = append(all, time.DateOnly+clock+zone)
		}
	}
	return append(all, time.DateOnly, "2006-01", "2006")
}()

// ParseTime parses a date of a sitemap or feed: each form of the W3C's note, from a year alone to fractions of a
// second, also with a space in place of "T" and without a zone (UTC); and the form of RFC 5322, which RSS uses.
func ParseTime(s []byte) (time.Time, bool) {
	if len(s) > longestDate {
		return time.Time{}, false
	}
	if len(s) < len("2006-") || s[4] == '-' {
		text := strings.ReplaceAll(strings.ToUpper(strings.Replace(string(s), " ", "T", 1)), " ", "")
		for _, layout := range dateLayouts {
			if t, err := time.Parse(layout, text); err == nil {
				return t.UTC(), true
			}
		}
		return time.Time{}, false
	}
	t, err := mail.ParseDate(string(s))
	return t.UTC(), err == nil
}
