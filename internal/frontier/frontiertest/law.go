// Package frontiertest checks that a frontier, with or without a store, keeps the rules of frontiers: see [Law].
package frontiertest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
)

// Backend is a store under test.
type Backend interface {
	frontier.Storage
	// Answer returns the oldest answer not yet returned. It reports false if there is none and none is to come.
	Answer() (a frontier.Answer, ok bool)
	// Reopen closes the store and opens it again, as a later process does. Nothing is lost by it but the outstanding
	// requests. It is also called before the first use.
	Reopen() frontier.Left
}

// Key is the key of the fingerprints of [Law].
const Key = 7

// Law checks by random steps that every added URL is leased until it is done, exactly once more often than it was given
// back; that queued + leased is zero if and only if all are done; and that of the URLs of a host that were not
// requested yet, the one with the first place goes first. This holds with a store too, however late the store answers
// and however often the crawl is begun anew. backend makes a store for each check, and is nil for a frontier in memory.
// With a shared store a known URL may be taken for a new one, and the order holds only among URLs of one rank.
func Law(t *testing.T, backend func(t *rapid.T) Backend) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		l := &law{run: run{T: t, pacer: newPacer(), now: begin}, added: map[string]*added{}}
		l.cfg = frontier.Config{Key: Key, Pacer: l.pacer, Slots: 4, PerHost: 2}
		if backend != nil {
			l.store = backend(t)
			l.cfg.Store = l.store
			l.cfg.Resident = rapid.IntRange(1, 30).Draw(t, "resident")
			l.cfg.MaxHosts = rapid.IntRange(1, 5).Draw(t, "hosts")
		}
		l.begin()
		for range rapid.IntRange(0, 400).Draw(t, "steps") {
			l.step(rapid.IntRange(0, 8).Draw(t, "what"))
		}
		l.drain(func() { l.step(2) }, l.leased)
		for u, a := range l.added {
			require.Equal(t, 1, a.done, "how often %s was done", u)
		}
	})
}

type law struct {
	run
	added map[string]*added
}

type added struct {
	host  string
	kind  frontier.Kind
	place frontier.Place
	asked bool // leased at least once since the frontier was made
	done  int
}

func (l *law) begin() {
	l.run.begin()
	if l.store != nil {
		require.EqualValues(l, len(l.added), l.cfg.Left.Known)
	}
	for _, a := range l.added {
		a.asked = false
	}
}

func (l *law) step(what int) {
	switch {
	case what == 0:
		l.add()
	case what == 1 && len(l.out) < 4:
		if lease, _ := l.f.Next(l.now); lease != nil {
			l.leased(lease)
		}
	case what == 2 && len(l.out) > 0:
		lease := l.take()
		o := rapid.SampledFrom([]attribution.Outcome{
			{Class: outcome.OK, Status: 200}, {Class: outcome.ServerError, Status: 500}, {Class: outcome.Decode},
		}).Draw(l.T, "outcome")
		l.f.Release(l.now, lease, time.Millisecond, o)
		l.f.End(l.now, lease, frontier.Done(nil))
		if lease.Kind != frontier.Robots && lease.Kind != frontier.Control {
			l.added[lease.URL.String()].done++
		}
	case what == 3 && len(l.out) > 0:
		l.fail()
	case what == 4:
		l.now = l.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(l.T, "ms")) * time.Millisecond)
	case what == 5:
		l.answer()
	case what == 6 && l.store != nil && rapid.IntRange(0, 9).Draw(l.T, "restart") == 0:
		l.begin()
	case what == 7:
		l.pacer.closed[l.host()] = l.now.Add(time.Duration(rapid.IntRange(0, 600).Draw(l.T, "closed")) * time.Second)
	case what == 8:
		added := l.f.AddRobots(l.now, frontier.Item{URL: l.parse("http://%s/robots.txt", l.host()), Origin: "http://other.test"})
		require.True(l, added)
	}
}

func (l *law) host() string { return fmt.Sprintf("h%d.test", rapid.IntRange(0, 5).Draw(l.T, "host")) }

// add adds URLs as a page might link to them: of one host and one rank.
func (l *law) add() {
	host, rank := l.host(), int32(rapid.IntRange(-1, 2).Draw(l.T, "rank"))
	l.pacer.interval[host] = time.Duration(rapid.IntRange(0, 3).Draw(l.T, "interval")) * time.Second
	for range rapid.IntRange(1, 6).Draw(l.T, "links") {
		kind := rapid.SampledFrom([]frontier.Kind{frontier.Page, frontier.Sitemap}).Draw(l.T, "kind")
		l.link(frontier.Item{URL: l.parse("http://%s/%d", host, rapid.IntRange(0, 99).Draw(l.T, "page")), Kind: kind, Rank: rank})
	}
}

func (l *law) link(it frontier.Item) {
	u := it.URL
	known := l.added[u.String()] != nil
	if got := l.f.Add(l.now, it, l.f.Fingerprint(&it)); (got == frontier.Seen) != known && (!l.shared || !known) {
		l.Fatalf("Add(%s) = %v, known %v", u, got, known)
	}
	if !known {
		l.added[u.String()] = &added{host: u.Host(), kind: it.Kind, place: frontier.Place{Rank: it.Rank, ID: int64(len(l.added)) + 1}}
	}
}

// leased records a lease. The first lease of a URL must be of the one that goes first among those of its host that were
// not requested yet, wherever they are.
func (l *law) leased(lease *frontier.Lease) {
	if !l.shared {
		require.EqualValues(l, len(l.added), l.f.Counts().Known)
	}
	l.run.leased(lease)
	a := l.added[lease.URL.String()]
	if lease.Kind == frontier.Robots {
		require.Nil(l, a)
		return
	}
	if lease.Kind == frontier.Control {
		return // whatever became of it
	}
	require.Equal(l, a.place, lease.Place(), "%s", lease.URL)
	require.Equal(l, a.kind, lease.Kind, "%s", lease.URL)
	require.Zero(l, a.done, "%s is leased once more", lease.URL)
	if a.asked {
		return
	}
	a.asked = true
	for u, other := range l.added {
		if l.shared && other.place.Rank != a.place.Rank {
			continue // the URL may have been found after others were loaded
		}
		if other.host == a.host && other.done == 0 && !other.asked && other.place.Before(a.place) {
			l.Fatalf("%s was leased before %s", lease.URL, u)
		}
	}
}

func (l *law) fail() {
	lease := l.take()
	later := l.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(l.T, "backoff")) * time.Second)
	l.f.Release(l.now, lease, time.Duration(rapid.IntRange(0, 3000).Draw(l.T, "took"))*time.Millisecond, attribution.Outcome{})
	switch fate := rapid.IntRange(0, 3).Draw(l.T, "fate"); {
	case lease.Kind == frontier.Robots:
		l.f.End(l.now, lease, frontier.WaitHost(""))
	case fate == 0:
		l.f.End(l.now, lease, frontier.RetryAt(later, attribution.Again(lease.Tries, attribution.Either)))
	case lease.Kind == frontier.Control:
		l.f.End(l.now, lease, frontier.Done(nil))
	case lease.Evidence.OfURL:
		l.f.End(l.now, lease, frontier.RetryAt(later, attribution.Again(lease.Tries, attribution.OfURL)))
	case fate < 3:
		l.f.End(l.now, lease, frontier.RetryAt(later, attribution.Again(lease.Tries, attribution.OfHost)))
	case rapid.Bool().Draw(l.T, "lost"):
		l.f.End(l.now, lease, frontier.RetryAt(l.now, attribution.Again(lease.Tries, attribution.Nobody)))
	default:
		l.f.End(l.now, lease, frontier.WaitHost(""))
	}
}

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pacer allows a request to a host every interval, counted in permits taken. Closed hosts allow none.
type pacer struct {
	interval     map[string]time.Duration
	free, closed map[string]time.Time
}

func newPacer() *pacer {
	return &pacer{map[string]time.Duration{}, map[string]time.Time{}, map[string]time.Time{}}
}

func (p *pacer) ReadyAt(host string, ahead, _ int) (time.Time, ratelimit.Limit) {
	at := p.free[host].Add(time.Duration(ahead) * p.interval[host])
	if closed := p.closed[host]; closed.After(at) {
		return closed, ratelimit.LimitRetryAfter
	}
	return at, ratelimit.LimitLearned
}

// take takes the permit for a lease, as its holder would.
func (p *pacer) take(l *frontier.Lease, now time.Time) {
	p.free[l.Host()] = now.Add(p.interval[l.Host()])
	l.Started()
}

// Bound checks by random steps what a bound on the pages of a host means, wherever its URLs are kept: never are more
// pages visited, and URLs that are refused when their turn comes or that are not pages do not count. So if all links
// are found again and again, in the end as many pages of each host are visited as the bound allows, if the host has so
// many. This last rule does not hold for a store in which hosts become inactive or that is opened anew, unless it is
// shared: there the pages of such a host beyond the bound are dropped for good. backend makes a store with that bound
// for each check, and is nil for a frontier in memory.
func Bound(t *testing.T, backend func(t *rapid.T, most int) Backend) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		b := &bound{run: run{T: t, pacer: newPacer(), now: begin}, most: rapid.IntRange(1, 6).Draw(t, "most"), done: map[string]bool{}, visited: map[string]int{}}
		b.cfg = frontier.Config{Key: Key, Pacer: b.pacer, Slots: 4, PerHost: 2, Gate: refusing{}, MaxPagesPerHost: b.most}
		asleep := false
		if backend != nil {
			b.store = backend(t, b.most)
			b.cfg.Store = b.store
			b.cfg.Resident = rapid.IntRange(1, 30).Draw(t, "resident")
			if asleep = rapid.Bool().Draw(t, "asleep"); asleep {
				b.cfg.MaxHosts = rapid.IntRange(1, 2).Draw(t, "hosts")
			}
		}
		b.begin()
		for range rapid.IntRange(0, 80).Draw(t, "steps") {
			b.step(rapid.IntRange(0, 5).Draw(t, "what"), asleep)
		}
		for before := -1; before < len(b.done); {
			before = len(b.done)
			for _, u := range b.web() {
				b.find(u)
			}
			b.drain(b.visit, b.leased)
		}
		for h := range boundHosts {
			host := boundHost(h)
			require.LessOrEqual(t, b.visited[host], b.most, host)
			if b.shared || !asleep {
				require.Equal(t, min(b.most, boundPages), b.visited[host], host)
			}
		}
	})
}

// Each host of the web has boundPages pages that may be visited, and boundOther each of refused pages and sitemaps.
const (
	boundHosts = 3
	boundPages = 5
	boundOther = 4
)

func boundHost(n int) string { return fmt.Sprintf("h%d.test", n) }

type refusing struct{}

func (refusing) Check(it *frontier.Item, _ time.Time) frontier.Verdict {
	if strings.HasPrefix(it.URL.Path(), "/no") {
		return frontier.Verdict{Pass: frontier.Refuse, Refusal: &frontier.Refusal{Class: "robots", Reason: "it says no"}}
	}
	return frontier.Verdict{Pass: frontier.Go}
}

type bound struct {
	run
	most    int
	done    map[string]bool
	visited map[string]int // visited pages per host
}

// web returns all URLs that there are to find, in a new order each time.
func (b *bound) web() []string {
	var all []string
	for h := range boundHosts {
		for i := range boundPages {
			all = append(all, fmt.Sprintf("http://%s/%d", boundHost(h), i))
		}
		for i := range boundOther {
			all = append(all, fmt.Sprintf("http://%s/no%d", boundHost(h), i), fmt.Sprintf("http://%s/map%d", boundHost(h), i))
		}
	}
	return rapid.Permutation(all).Draw(b.T, "web")
}

func (b *bound) find(text string) {
	it := frontier.Item{URL: b.parse("%s", text), Rank: int32(len(text) % 2)}
	if strings.HasPrefix(it.URL.Path(), "/map") {
		it.Kind = frontier.Sitemap
	}
	b.f.Add(b.now, it, b.f.Fingerprint(&it))
}

func (b *bound) step(what int, asleep bool) {
	switch {
	case what <= 1:
		for _, u := range b.web()[:rapid.IntRange(1, 12).Draw(b.T, "links")] {
			b.find(u)
		}
	case what == 2 && len(b.out) < b.cfg.Slots:
		if l, _ := b.f.Next(b.now); l != nil {
			b.leased(l)
		}
	case what == 3 && len(b.out) > 0:
		b.visit()
	case what == 4:
		b.answer()
	case what == 5 && asleep && rapid.IntRange(0, 4).Draw(b.T, "restart") == 0:
		b.begin()
	}
}

// visit ends a lease, and checks that no URL is done twice.
func (b *bound) visit() {
	l := b.take()
	if l.Refused == nil {
		b.f.Release(b.now, l, time.Millisecond, attribution.Outcome{Class: outcome.OK, Status: 200})
		if l.Kind == frontier.Page {
			b.visited[l.Host()]++
		}
	}
	require.False(b, b.done[l.URL.String()], "%s is done twice", l.URL)
	b.done[l.URL.String()] = true
	b.f.End(b.now, l, frontier.Done(nil))
}

type run struct {
	*rapid.T
	f      *frontier.Frontier
	pacer  *pacer
	store  Backend // nil for none
	shared bool
	cfg    frontier.Config
	now    time.Time
	out    []*frontier.Lease
}

// begin makes the frontier, or makes it anew from what the store has.
func (r *run) begin() {
	if r.store != nil {
		r.cfg.Left = r.store.Reopen()
		r.shared = r.cfg.Left.Shared
	}
	f, err := frontier.New(r.cfg)
	require.NoError(r, err)
	r.f, r.out = f, nil
}

func (r *run) parse(format string, args ...any) canonical.URL {
	u, err := canonical.Parse(fmt.Sprintf(format, args...))
	require.NoError(r, err)
	return u
}

func (r *run) leased(l *frontier.Lease) {
	if l.Refused == nil {
		r.pacer.take(l, r.now)
	}
	r.out = append(r.out, l)
}

// take removes one of the open leases.
func (r *run) take() *frontier.Lease {
	i := rapid.IntRange(0, len(r.out)-1).Draw(r.T, "which")
	l := r.out[i]
	r.out = slices.Delete(r.out, i, i+1)
	return l
}

func (r *run) answer() bool {
	if r.store == nil {
		return false
	}
	a, ok := r.store.Answer()
	if ok {
		require.NoError(r, r.f.Take(r.now, a))
	}
	return ok
}

// mostTurns is more turns than it takes to visit all queued URLs.
const mostTurns = 3000

// drain visits all queued URLs: end ends one of the open leases, and leased receives each new one.
func (r *run) drain(end func(), leased func(*frontier.Lease)) {
	for i := 0; ; i++ {
		for len(r.out) > 0 {
			end()
		}
		if r.f.Over() {
			return
		}
		if i > mostTurns {
			r.Fatalf("the frontier does not drain: %+v, waits %+v", r.f.Counts(), r.f.Hosts(r.now, 9))
		}
		l, wake := r.f.Next(r.now)
		switch {
		case l != nil:
			leased(l)
		case r.answer():
		case wake.After(r.now):
			r.now = wake
		}
	}
}
