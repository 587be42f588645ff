package pipeline

import (
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// A sitemap is looked for at its usual place, and where there is none that is no news. If a
// page links to that place it is: what is there is then asked for once more, as the page that
// the link promises, and has its record whatever it is. The first answer was read as no page,
// and is gone by the time somebody links to it.

// Of a crawl of several processes the store of all of them knows what was looked for, and which
// links there are to it; a state keeps both for a crawl that is resumed.

// guesses are the usual places of sitemaps, by their fingerprints; Discovery's alone.
type guesses map[uint64]*guess

// guess is what is known of one.
type guess struct {
	absent bool   // there is no sitemap
	link   *found // the first of a page to it, that was not followed yet; nil for none
}

// of is the guess of a fingerprint, or nil if there is no room for it.
func (g guesses) of(fp uint64) *guess {
	one := g[fp]
	if one == nil && len(g) < frontier.MaxGuesses {
		one = new(guess)
		g[fp] = one
	}
	return one
}

// linked takes in a link to a page whose URL is known. It may be known as a sitemap.
func (d *discovery) linked(link *found, now time.Time) {
	if !frontier.IsUsual(link.item.URL) || link.item.Kind != frontier.Page || !d.p.cfg.Sitemaps.Enabled {
		return
	}
	g := d.guesses.of(link.fp)
	if g == nil || g.link != nil {
		return
	}
	again := *link
	again.fp = frontier.AsPage(link.fp)
	g.link = &again
	d.keepGuess(link.item.URL, g)
	if !d.frontier.Linked(now, link.item, link.fp) {
		d.promised(g, now)
	}
}

// noSitemap takes in that there is none at the usual place of a host. A shared store hears of it
// with the end of the lease.
func (d *discovery) noSitemap(l *frontier.Lease, now time.Time) {
	if d.peers != nil || !frontier.IsUsual(l.URL) {
		return
	}
	if g := d.guesses.of(d.frontier.Fingerprint(&l.Item)); g != nil && !g.absent {
		g.absent = true
		d.keepGuess(l.URL, g)
		d.promised(g, now)
	}
}

// promised follows the link to the usual place if there is one, and no sitemap.
func (d *discovery) promised(g *guess, now time.Time) {
	if g.absent && g.link != nil {
		d.add(nil, []found{*g.link}, now)
	}
}

// keepGuess has the state keep a guess.
func (d *discovery) keepGuess(u canonical.URL, g *guess) {
	s := d.p.cfg.State
	if s == nil || s.Guesses == nil {
		return
	}
	kept := frontier.Guess{URL: u, Absent: g.absent}
	if g.link != nil {
		it := g.link.item
		kept.Link = &it
	}
	s.Guesses.Guess(kept)
}

// recall takes in the guesses that the state has kept. A link to where there is no sitemap was
// followed in the batch by which the second of both was known.
func (d *discovery) recall() {
	s := d.p.cfg.State
	if s == nil || s.Guesses == nil {
		return
	}
	for _, kept := range s.Guesses.TakeGuesses() {
		fp := kept.URL.Fingerprint(d.p.cfg.Key)
		g := d.guesses.of(fp)
		if g == nil {
			return
		}
		g.absent = kept.Absent
		if it := kept.Link; it != nil {
			it.Rank = d.p.cfg.Rank(it.URL, it.Depth)
			g.link = &found{*it, frontier.AsPage(fp), d.p.budgets.of(it.URL.String())}
		}
	}
}
