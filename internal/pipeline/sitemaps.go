package pipeline

import (
	"fmt"
	"hash/maphash"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/sitemap"
)

// A robots.txt that has come names the sitemaps of its origin, on whichever host; if it names
// none, there may be one at the usual place. They are queued like pages, paced like pages
// and subject to robots.txt like pages; see listed.go for what is read in them.
//
// The pages of a sitemap are one link deeper than the page for which robots.txt was asked:
// on the host of a seed they have depth 1. Where that is too deep no sitemap is asked for.
// Only of hosts that the scope reaches are sitemaps looked for: when another keeps the
// sitemap of one that it does, that says nothing of its own pages.

// Sitemaps says which lists of URLs a crawl reads. The zero Sitemaps asks for none, and
// reads a sitemap that was fetched as a page.
type Sitemaps struct {
	// Enabled asks for the sitemaps that robots.txt names, or for /sitemap.xml if it names
	// none; without robots.txt only for that of the seeds' origins. False asks for none.
	Enabled bool
	// Feeds reads RSS and Atom that were fetched as pages. False takes nothing from them.
	Feeds bool
	// Max bounds the sitemaps of one host. Zero means 1000.
	Max int
}

const (
	// defaultSitemaps leads to 50 million URLs of a host at most, five times what a frontier
	// holds by default.
	defaultSitemaps = 1000
	// earlySitemaps of a host are read before its pages: most sites have no more. The others
	// wait until no page is queued, so that a site with thousands of sitemaps is not asked
	// for hours before the first page is, and its URLs come as they are needed.
	earlySitemaps = 16
	// reasonSitemaps is the reason of sitemaps that are dropped for Sitemaps.Max.
	reasonSitemaps = "sitemaps"
)

// sitemapTally counts the sitemaps of hosts. Only Discovery uses it. It never forgets, as
// that would let a host name as many again: hosts beyond room share counters, and of some of
// them fewer sitemaps are read. A crawl that is resumed counts anew; what it knows already
// it does not ask for.
type sitemapTally struct {
	seed maphash.Seed
	room int
	used map[uint64]int32 // by a hash of the host

	over atomic.Int64 // sitemaps dropped, readable from any goroutine
}

func newSitemapTally() *sitemapTally {
	return &sitemapTally{seed: maphash.MakeSeed(), room: maxCounters, used: make(map[uint64]int32)}
}

// next counts a sitemap of u's host and returns how many came before it.
func (s *sitemapTally) next(u canonical.URL) int {
	key := maphash.String(s.seed, ratelimit.Domain(u.Host()))
	if _, ok := s.used[key]; !ok && len(s.used) >= s.room {
		key %= sharedCounters
	}
	n := s.used[key]
	if n < math.MaxInt32 {
		s.used[key] = n + 1
	}
	return int(n)
}

// sitemapRank is the rank of a host's nth sitemap, from 0, so many indexes below the first:
// lower than any page's, or higher.
func sitemapRank(n, level int) int32 {
	if n < earlySitemaps {
		return math.MinInt32 + int32(level)
	}
	return math.MaxInt32 - int32(level)
}

// sitemapLevel is how many indexes lead to a sitemap of that rank.
func sitemapLevel(rank int32) int {
	if rank < 0 {
		return int(int64(rank) - math.MinInt32)
	}
	return math.MaxInt32 - int(rank)
}

// announced queues the sitemaps of an origin, after its robots.txt has come or was found not
// to be there.
func (d *discovery) announced(l *frontier.Lease, e robots.Entry, now time.Time) {
	if !d.p.cfg.Sitemaps.Enabled || e.State != robots.Known {
		return
	}
	root, err := canonical.Parse(l.Origin + "/")
	if err != nil || !d.p.cfg.Scope.Reaches(root) {
		return
	}
	if len(e.Sitemaps) == 0 {
		if u, err := root.Resolve(frontier.UsualSitemap); err == nil && e.Rules.Check(u.Path()).Allowed {
			d.offerSitemap(frontier.Item{URL: u, Found: frontier.Found{Depth: l.Depth}}, now)
		}
		return
	}
	most := min(len(e.Sitemaps), d.p.cfg.Sitemaps.Max)
	if over := len(e.Sitemaps) - most; over > 0 {
		d.overSitemaps(over, e.Sitemaps[most])
	}
	for _, name := range e.Sitemaps[:most] {
		u, err := root.Resolve(name)
		if err != nil {
			d.p.cfg.Log.Debug("a sitemap is left out", slog.String("origin", l.Origin), slog.Any("error", err))
			continue
		}
		d.offerSitemap(frontier.Item{URL: u, Found: frontier.Found{Referrer: l.Origin + "/robots.txt", Depth: l.Depth}}, now)
	}
}

// unannounced queues the sitemap of a seed's origin when robots.txt is not asked for.
func (d *discovery) unannounced(seed canonical.URL, now time.Time) {
	if d.p.gate != nil || !d.p.cfg.Sitemaps.Enabled {
		return
	}
	if u, err := seed.Resolve(frontier.UsualSitemap); err == nil {
		d.offerSitemap(frontier.Item{URL: u}, now)
	}
}

// offerSitemap queues a sitemap that no index led to.
func (d *discovery) offerSitemap(it frontier.Item, now time.Time) {
	p := d.p
	it.Kind, it.URL = frontier.Sitemap, p.cfg.Rules.Apply(it.URL)
	if v := p.cfg.Scope.CheckSitemap(it.URL, int(it.Depth)+1, 0); !v.In {
		p.stats.outOfScope(v)
		return
	}
	it.Rank = sitemapRank(0, 0)
	d.addSitemap(&found{item: it, fp: d.frontier.Fingerprint(&it)}, now)
}

// addSitemap is add for a sitemap. Its rank tells its level, and is settled here.
func (d *discovery) addSitemap(link *found, now time.Time) {
	it := &link.item
	if d.frontier.Known(link.fp) {
		return
	}
	n := d.p.sitemaps.next(it.URL)
	if n >= d.p.cfg.Sitemaps.Max {
		d.overSitemaps(1, it.URL.String())
		return
	}
	it.Rank = sitemapRank(n, sitemapLevel(it.Rank))
	if added := d.frontier.Add(now, *it, link.fp); added > frontier.Seen {
		d.p.dropped(added, it)
	}
}

// overSitemaps counts sitemaps that are not asked for, and says so the first time.
func (d *discovery) overSitemaps(n int, first string) {
	if d.p.sitemaps.over.Add(int64(n)) == int64(n) {
		d.p.cfg.Log.Warn("links are being dropped",
			slog.String("reason", reasonSitemaps), slog.String("first", first),
			slog.String("fix", fmt.Sprintf("none: of a host %d sitemaps are read", d.p.cfg.Sitemaps.Max)))
	}
}

// below is the item of a sitemap that an index led to, or false if it led to too many.
func below(parent *frontier.Lease, u canonical.URL) (frontier.Item, bool) {
	level := 1
	if parent.Kind == frontier.Sitemap {
		level += sitemapLevel(parent.Rank)
	}
	it := frontier.Item{
		URL: u, Kind: frontier.Sitemap, Rank: sitemapRank(0, level),
		Found: frontier.Found{Referrer: parent.URL.String(), FoundOn: parent.ID, Depth: parent.Depth},
	}
	return it, level <= sitemap.MaxLevel
}
