package pipeline

import (
	"fmt"
	"log/slog"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/trap"
	"github.com/treadlight/crawl/record"
)

const (
	// reasonPageLinks is the reason of links that are dropped because their page has too many.
	reasonPageLinks = "page_links"
	// reasonNofollow is the reason of links that are not followed because the page asks crawlers not to.
	reasonNofollow = "nofollow"
	// maxFollows bounds the memory that a worker keeps for links from page to page, at 1 MB. Few pages have more links
	// that are new.
	maxFollows = 1 << 12
	// passedSlots bounds what a worker remembers of the links it has passed on, at 256 KB.
	passedSlots = 1 << 14
)

// passed is a link that was in scope and was passed on to the frontier, identified by the fingerprint of its URL.
type passed struct {
	fp    uint64
	depth int32 // the depth at which it was found; never zero
	kind  extract.Kind
}

// passedLinks remembers links that one worker of Processing has passed on. Most links repeat from page to page, and the
// frontier takes no URL twice. If two links fall on the same slot, the later one is remembered.
type passedLinks [passedSlots]passed

// covers reports whether t was passed on, with the same depth or a greater one.
func (l *passedLinks) covers(t passed) bool {
	was := &l[t.fp%passedSlots]
	return was.fp == t.fp && was.kind == t.kind && was.depth >= t.depth
}

func (l *passedLinks) put(t passed) { l[t.fp%passedSlots] = t }

// lost counts the links of a page that were not taken: those beyond the maximum, and those longer than a URL may be.
// The former are not added to the seen set, as another page may lead there.
func (w *processor) lost(page string) {
	w.p.drop(reasonPageLinks, w.reader.Found.DroppedLinks, page, "none: a page has at most 10,000 links that are followed")
	w.p.drop(trap.URLLength.String(), w.reader.Found.LongLinks, page, longFix)
}

var longFix = fmt.Sprintf("none: most servers refuse a URL of more than %d bytes", canonical.MaxLength)

// followAll follows the links of a page. They are gathered in memory that is reused, and copied when their number is
// known. Once the frontier had no room for a link, every link is passed on every time, because there may be room again.
func (w *processor) followAll(r *result, l *frontier.Lease) {
	if w.p.cfg.HandlersFollow {
		return
	}
	r.links = w.follows[:0]
	all := w.p.stats.full.Load()
	for i := range w.reader.Found.Links {
		link := &w.reader.Found.Links[i]
		if w.obeys(r, link) {
			continue
		}
		t := passed{link.Fingerprint, l.Depth + 1, link.Kind}
		if !all && w.passed.covers(t) {
			continue
		}
		if r.follow(w.p, below(r, link.URL), t.fp, link.Kind == extract.Resource).In {
			w.passed.put(t)
		}
	}
	gathered := r.links
	r.links = append([]found(nil), gathered...)
	if w.follows = nil; cap(gathered) <= maxFollows {
		clear(gathered)
		w.follows = gathered
	}
}

// obeys reports whether a link is not to be followed because the page says so, for this link or for all of its links,
// and counts it. Resources of the page are exempt, as they are no links to a reader.
func (w *processor) obeys(r *result, l *extract.Link) bool {
	if w.p.cfg.FollowNofollow || l.Kind == extract.Resource || !w.reader.Found.NoFollow && !l.NoFollow {
		return false
	}
	w.p.stats.nofollow.Add(1)
	if w.p.cfg.OnSkip != nil {
		r.skips = append(r.skips, Skip{URL: l.URL.String(), Referrer: r.rec.URL, Reason: reasonNofollow, Detail: "the page asks crawlers not to follow it"})
	}
	return true
}

// itemsMeta is the key in Request.Meta of a link to the next page of a list. The value is the digest of the items of
// the page with the link.
const itemsMeta = "items of the page before"

// followList follows the links to the next page of a list.
func (w *processor) followList(r *result) {
	cfg := &w.p.cfg
	if w.reader.Repeats {
		cfg.Log.Debug("a page has the items of the page before it, and its list ends there", slog.String("url", r.rec.URL))
	}
	for _, ref := range w.reader.Next {
		u, err := canonical.Parse(ref)
		if err != nil {
			continue
		}
		it := below(r, cfg.Rules.Apply(u))
		if w.reader.Items != "" {
			q := request.Request{Meta: map[string]string{itemsMeta: w.reader.Items}}
			if it.Request, err = q.Encode(); err != nil {
				continue
			}
		}
		if r.follow(w.p, it, it.Fingerprint(cfg.Key), false).In {
			r.links[len(r.links)-1].asked = true
		}
	}
}

// below returns a URL that the page of a result leads to.
func below(r *result, u canonical.URL) frontier.Item {
	return frontier.Item{URL: u, Found: frontier.Found{Referrer: r.rec.URL, FoundOn: r.lease.ID, Depth: r.lease.Depth + 1}}
}

// follow sends a URL on to the frontier if the scope lets it in.
func (o *outward) follow(p *Pipeline, it frontier.Item, fp uint64, resource bool) scope.Decision {
	v := p.cfg.Scope.Check(it.URL, int(it.Depth), int(it.Hops), resource)
	o.admit(p, it, fp, v)
	return v
}

func (o *outward) admit(p *Pipeline, it frontier.Item, fp uint64, v scope.Decision) {
	if v.In {
		it.Rank = p.cfg.Rank.Of(it.URL, it.Depth)
		o.links = append(o.links, found{item: it, fp: fp, budget: p.cfg.Budgets.Of(it.URL.String())})
	} else {
		o.outOfScope(p, it.URL, it.Referrer, v)
	}
}

// redirect makes the target of a redirect a URL of its own, with the depth of the page that was redirected.
func (w *processor) redirect(r *result, f *fetched) {
	l := f.lease
	to, err := l.URL.Resolve(canonical.Location(f.resp.Location))
	if f.resp.Location == "" {
		err = fmt.Errorf("status %d without a Location", f.resp.Status)
	}
	if err != nil {
		r.rec.Error = &record.Error{Class: classBadLocation, Message: err.Error()}
		return
	}
	if ruled := w.p.cfg.Rules.Apply(to); ruled != l.URL {
		to = ruled // otherwise the server insists on a spelling that the rules would change back
	}
	r.rec.RedirectTo = to.String()
	it := frontier.Item{
		URL: to, Found: frontier.Found{Referrer: l.URL.String(), FoundOn: l.ID, Depth: l.Depth, Hops: l.Hops + 1},
		Wait: w.p.cfg.waitOfTarget(f.resp),
	}
	if l.Request != "" {
		q := request.Decode(l.Request).Moved(f.resp.Status)
		it.Request, _ = q.Encode() // cannot fail: the request was encoded before
	}
	if l.Kind == frontier.Sitemap {
		w.moved(r, l, it)
		return
	}
	if it.Seed = l.Seed; it.Seed {
		// The address that the user gave redirects: the site at the target is what was meant.
		w.p.cfg.Scope.AddSeed(to)
	}
	n, v := len(r.links), r.follow(w.p, it, it.Fingerprint(w.p.cfg.Key), false)
	if v.In {
		r.links[n].item.Rank = w.p.cfg.Rank.Moved(l.Rank, l.URL, to, l.Depth)
	}
	w.tooFar(r, v)
}

// tooFar reports whether a chain of redirects was too long, and notes that in the record.
func (w *processor) tooFar(r *result, v scope.Decision) bool {
	if v.Code != scope.TooManyRedirects {
		return false
	}
	r.rec.Error = &record.Error{Class: classRedirect, Message: v.Reason()}
	return true
}
