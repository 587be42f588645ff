package sitemap

import (
	"bytes"
	"fmt"

	"github.com/treadlight/crawl/internal/web/canonical"
)

func (r *reader) begin(rel Rel, attrs []byte) {
	r.flush(false)
	r.inside = ""
	r.group.open = true
	r.group.main = Entry{Rel: rel, Priority: DefaultPriority}
	r.group.base = r.rebase(r.base, attrs)
	r.group.loose = r.sum.Format == Atom
}

// rebase applies an xml:base attribute.
func (r *reader) rebase(base canonical.URL, attrs []byte) canonical.URL {
	if !bytes.Contains(attrs, []byte("xml:base")) {
		return base
	}
	ref, _ := attribute(attrs, "xml:base")
	if u, err := base.ResolveBytes(ref); err == nil {
		return u
	}
	return base
}

// flush yields the open entry. At the end of the document one without a URL is left out: it may
// have been cut off.
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
	case !g.named && !last && r.dialect == protocol:
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

// extra adds a URL to the open entry.
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
	ref = bytes.Trim(ref, space)
	if len(ref) == 0 {
		r.problem("an empty URL")
		return canonical.URL{}, false
	}
	base := r.group.base
	if base.IsZero() {
		base = r.base
	}
	u, err := base.ResolveBytes(ref)
	if err != nil {
		r.problem("%.100q: %v", ref, err)
		return u, false
	}
	return r.doc.Rules.Apply(u), true
}

// collect makes the following text a field.
func (r *reader) collect(f field) { r.field, r.value = f, r.value[:0] }

// settle ends a field.
func (r *reader) settle() {
	f := r.field
	if r.field = noField; f == noField || !r.group.open {
		return
	}
	main := &r.group.main
	switch v := bytes.Trim(r.value, space); f {
	case fieldLoc:
		r.group.named = true
		if u, ok := r.resolve(v); ok {
			main.URL = u
		}
	case fieldExtra:
		r.extra(Resource, v)
	case fieldAside:
		r.extra(Page, v)
	case fieldGUID:
		if bytes.HasPrefix(v, []byte("http")) {
			r.group.fallback, _ = r.resolve(v)
		}
	case fieldDate:
		r.date(v)
	case fieldPriority:
		r.priority(v)
	case fieldFreq:
		main.ChangeFreq = ""
		for _, word := range freqs {
			if bytes.EqualFold(v, []byte(word)) {
				main.ChangeFreq = word
			}
		}
	}
}

// date keeps the latest date.
func (r *reader) date(v []byte) {
	at, ok := ParseTime(v)
	if !ok {
		r.problem("%.40q is no date", v)
		return
	}
	if main := &r.group.main; at.After(main.LastMod) && at.Year() < maxYear {
		main.LastMod = at
	}
}

// maxYear is beyond any date of a page; later ones are mistakes, or mean "for ever".
const maxYear = 2200

// freqs are the words of the Sitemaps protocol.
var freqs = []string{"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"}
