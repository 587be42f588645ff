package trap

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/neardup"
)

// Detector decides which URLs of a crawl are traps. Build it with New.
type Detector struct {
	cfg Config

	large   atomic.Int32 // hosts with more than Config.After pages
	skipped atomic.Int32 // skipped patterns
	trying  atomic.Int32 // patterns in a trial
	learned atomic.Int32 // parameters that hold session ids

	mu       sync.Mutex                   // guards what follows
	hosts    *simplelru.LRU[uint64, *int] // visited pages, up to Config.After+1
	patterns *simplelru.LRU[uint64, *pattern]
	trials   *simplelru.LRU[*pattern, struct{}] // the patterns that have a trial
	sessions sessions
	told     map[uint64]struct{}  // pairs of host and reason that were logged; at most maxTold
	far      [1 << farBits]uint16 // number of URLs with a far date, by a hash of their pattern
}

// farBits makes 16,384 counters; patterns with equal hashes share one.
const farBits = 14

// New returns a Detector.
func New(cfg Config) *Detector {
	d := &Detector{cfg: cfg, told: make(map[uint64]struct{}), sessions: sessions{cfg.Key, newLRU[uint64, *part](maxParts, nil), newLRU[uint64, uint64](maxSeen, nil)}}
	d.hosts = newLRU(maxHosts, func(_ uint64, pages *int) {
		if *pages > cfg.After {
			d.large.Add(-1)
		}
	})
	d.patterns = newLRU(maxPatterns, func(_ uint64, p *pattern) { d.forget(p) })
	d.trials = newLRU(maxTrials, func(p *pattern, _ struct{}) { // a skipped pattern whose trial is evicted stays skipped, without probes
		d.end(p)
		p.trial, p.probeAt = nil, 0
	})
	return d
}

// newLRU returns a map that evicts the entry used least recently.
func newLRU[K comparable, V any](size int, evicted func(K, V)) *simplelru.LRU[K, V] {
	lru, err := simplelru.NewLRU(size, evicted)
	if err != nil {
		panic(err) // the size is a constant
	}
	return lru
}

// CheckLink decides whether to follow a link; thisYear tells which dates are far. Seeds and URLs of sitemaps are
// checked only with CheckQueued. CheckLink changes nothing.
func (d *Detector) CheckLink(u canonical.URL, thisYear int) Decision {
	if why := checkURL(u); why != Follow {
		return why
	}
	if d.large.Load() == 0 {
		return Follow
	}
	if year, _ := date(u.Path()); far(year, thisYear) {
		i := d.of(u).keys[byNames] >> (64 - farBits)
		d.mu.Lock()
		pages, known := d.hosts.Peek(d.host(u))
		used := known && *pages > d.cfg.After && d.far[i] >= maxFar
		d.mu.Unlock()
		if used {
			return Calendar
		}
	}
	return d.checkLearned(u, false)
}

// RecordAccepted records that u, which CheckLink accepted, was new and is queued. It was found on the page from, which
// may be zero.
func (d *Detector) RecordAccepted(from, u canonical.URL, thisYear int) {
	if d.large.Load() == 0 {
		return
	}
	year, _ := date(u.Path())
	s := d.of(u)
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := s.keys[byNames] >> (64 - farBits); far(year, thisYear) && d.far[i] < math.MaxUint16 {
		d.far[i]++
	}
	if d.learned.Load() > 0 {
		d.sessions.visited(u, true)
	}
	for _, key := range s.keys {
		if p, ok := d.patterns.Peek(key); ok {
			p.grown++
		}
	}
	if d.trying.Load() > 0 && !from.IsZero() {
		d.credit(from, &s)
	}
}

// credit counts a page as fresh for its own patterns if it links to new URLs of other patterns.
func (d *Detector) credit(from canonical.URL, to *shape) {
	s := d.of(from)
	for l := range levels {
		if s.keys[l] == 0 || s.keys[l] == to.keys[l] {
			continue
		}
		if p, ok := d.patterns.Peek(s.keys[l]); ok && p.trying {
			p.trial.score = max(0, p.trial.score-freshWeight)
		}
	}
}

// AllowProbe counts a new URL that CheckLink refused, and reports whether to fetch it nevertheless, as a probe of its
// pattern.
func (d *Detector) AllowProbe(u canonical.URL) (pass bool) {
	if d.skipped.Load() == 0 {
		return false
	}
	s := d.of(u)
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.skippedLocked(&s)
	return p != nil && p.probe(u)
}

// CheckQueued decides on a URL that is to be fetched next, by what was learned since it was queued. It counts and logs
// the URLs it refuses, and accepts some as probes, or all if traps are only reported.
func (d *Detector) CheckQueued(u canonical.URL) Decision {
	if d.cfg.Report {
		return Follow
	}
	why := d.checkLearned(u, true)
	if why != Follow {
		d.Tell(u, why)
	}
	return why
}

// Reports reports whether URLs of traps are followed all the same.
func (d *Detector) Reports() bool { return d.cfg.Report }

// Tell logs the first URL of a host for each reason.
func (d *Detector) Tell(u canonical.URL, why Decision) {
	if d.cfg.Log == nil {
		return
	}
	key := xxhash.Sum64String(u.Host()) + uint64(why)
	d.mu.Lock()
	_, known := d.told[key]
	known = known || len(d.told) >= maxTold
	if !known {
		d.told[key] = struct{}{}
	}
	d.mu.Unlock()
	if known {
		return
	}
	const shown = 200 // in bytes: the longest URLs have thousands
	first := u.String()
	if len(first) > shown {
		first = first[:shown] + "…"
	}
	done := "left"
	if d.cfg.Report {
		done = "followed"
	}
	//nolint:sloglint // one of two constants
	d.cfg.Log.Warn("links that lead nowhere are "+done,
		slog.String("host", u.Host()), slog.String("reason", why.String()), slog.String("first", first),
		slog.String("why", why.Why()), slog.String("fix", why.Fix()))
}

// checkLearned decides by the pages visited so far. next means that u is to be fetched now.
func (d *Detector) checkLearned(u canonical.URL, next bool) Decision {
	left, learned := d.skipped.Load() > 0, d.learned.Load() > 0
	if !left && !learned {
		return Follow
	}
	s := d.of(u)
	d.mu.Lock()
	defer d.mu.Unlock()
	if learned && d.sessions.visited(u, next) {
		return Sessions
	}
	p := d.skippedLocked(&s)
	if p == nil || next && p.probe(u) {
		return Follow
	}
	return p.decision
}

// skippedLocked returns the narrowest skipped pattern of a URL, or nil.
func (d *Detector) skippedLocked(s *shape) *pattern {
	for _, key := range s.keys {
		if p, ok := d.patterns.Peek(key); ok && p.decision != Follow {
			_, _ = d.patterns.Get(key) // marks the pattern as used, so that it is evicted last
			return p
		}
	}
	return nil
}

// Visit is what RecordVisit found about a page, for RecordText.
type Visit struct {
	Read bool // RecordText needs the text of the page

	part     foundPart // part of the URL that the page tests for being a session id
	tests    bool
	shape    shape
	newTitle [levels]bool
}

// RecordVisit records that u was fetched, and the title of its page.
func (d *Detector) RecordVisit(u canonical.URL, title string) (v Visit) {
	if !d.countPage(u) {
		return v
	}
	v.shape = d.of(u)
	name := titleHash(title)
	d.mu.Lock()
	defer d.mu.Unlock()
	v.part, v.tests = d.sessions.open(u)
	v.Read = v.tests
	for l := range levels {
		key := v.shape.keys[l]
		if key == 0 {
			continue
		}
		p := d.visitLocked(key, l)
		if p.trying || p.decision != Follow && p.trial != nil {
			v.Read = true
			v.newTitle[l] = name != 0 && p.trial.add(name)
		}
		if l == byNames && p.passedTrial {
			break
		}
	}
	return v
}

// RecordText compares the text of a page with earlier ones. notFound says that it reads like a "not found" page.
func (d *Detector) RecordText(v *Visit, text *neardup.Text, notFound bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if v.tests && d.sessions.learn(v.part, text) {
		d.learned.Add(1)
	}
	for l := range levels {
		if p, ok := d.patterns.Peek(v.shape.keys[l]); ok && p.trial != nil {
			d.addText(p, v, l, text, notFound)
			if l == byNames && p.passedTrial {
				break
			}
		}
	}
}

// maxHosts bounds the hosts whose pages are counted, at about 40 bytes each.
const maxHosts = 1 << 16

func (d *Detector) host(u canonical.URL) uint64 { return xxhash.Sum64String(u.Host()) ^ d.cfg.Key }

// countPage counts a page and reports whether its host had more than Config.After before.
func (d *Detector) countPage(u canonical.URL) bool {
	key := d.host(u)
	d.mu.Lock()
	defer d.mu.Unlock()
	pages, known := d.hosts.Get(key)
	if !known {
		pages = new(int)
		d.hosts.Add(key, pages)
	}
	if *pages > d.cfg.After {
		return true
	}
	if *pages++; *pages > d.cfg.After {
		d.large.Add(1)
	}
	return *pages > d.cfg.After
}
