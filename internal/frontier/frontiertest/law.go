package frontiertest

import (
	"fmt"
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
	// Answer is the oldest answer not yet given, if there is one or one is to come.
	Answer() (a frontier.Answer, ok bool)
	// Reopen closes the store and opens it again, as a later process does; nothing is lost by it but the questions.
	// It is called before the first use, too.
	Reopen() frontier.Left
	// Owner says which hosts are this process's; nil: all.
	Owner() frontier.Ownership
}

// Key is that of the fingerprints of [Law].
const Key = 7

// Law checks by random steps: every URL added is leased until it is done, exactly once more than it was given back;
// queued + leased is zero then and only then; and of a host's URLs that were not asked for yet the one goes first
// whose place is. It holds with a store, however late it answers and however often the crawl is begun anew; backend
// makes one for each check, and is nil for a frontier in memory. Of one that is shared, a URL that is known may be
// taken for new, and the order holds among URLs of one rank.
func Law(t *testing.T, backend func(t *rapid.T) Backend) {
	t.Helper()
	rapid.Check(t, func(t *rapid.T) {
		l := &law{run: run{T: t, pacer: newPacer(), now: begin}, added: map[string]*added{}}
		l.cfg = frontier.Config{Key: Key, Pacer: l.pacer, Slots: 4, PerHost: 2}
		if backend != nil {
			l.store = backend(t)
			l.cfg.Store, l.cfg.Owner = l.store, l.store.Owner()
			l.shared = l.cfg.Owner != nil
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

// law is one run of a frontier under random steps.
type law struct {
	run
	added map[string]*added
}

// added is what is known of a URL that was added.
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

func (l *law) take() *frontier.Lease {
	i := rapid.IntRange(0, len(l.out)-1).Draw(l.T, "which")
	lease := l.out[i]
	l.out = append(l.out[:i], l.out[i+1:]...)
	return lease
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

func (l *law) parse(format string, args ...any) canonical.URL {
	u, err := canonical.Parse(fmt.Sprintf(format, args...))
	require.NoError(l, err)
	return u
}

// add adds what a page might link to: URLs of one host and one rank.
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

// leased takes a lease in hand. The first time it must be of the URL that goes first of those of its host that were
// not asked for yet, wherever they are.
func (l *law) leased(lease *frontier.Lease) {
	if !l.shared {
		require.EqualValues(l, len(l.added), l.f.Counts().Known)
	}
	l.pacer.take(lease, l.now)
	l.out = append(l.out, lease)
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
			continue // it may have been found when others had been loaded
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
		l.f.End(l.now, lease, frontier.WaitHost(false))
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
		l.f.End(l.now, lease, frontier.WaitHost(false))
	}
}

// begin is when the steps begin.
var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// pacer lets a host be asked every interval, counted in permits taken, but for those that are closed.
type pacer struct {
	interval     map[string]time.Duration
	free, closed map[string]time.Time
}

func newPacer() *pacer {
	return &pacer{map[string]time.Duration{}, map[string]time.Time{}, map[string]time.Time{}}
}

// ReadyAt implements [frontier.Pacer].
func (p *pacer) ReadyAt(host string, ahead, _ int) (time.Time, ratelimit.Limit) {
	at := p.free[host].Add(time.Duration(ahead) * p.interval[host])
	if closed := p.closed[host]; closed.After(at) {
		return closed, ratelimit.LimitRetryAfter
	}
	return at, ratelimit.LimitLearned
}

// take is the permit that the holder of a lease gets.
func (p *pacer) take(l *frontier.Lease, now time.Time) {
	p.free[l.Host()] = now.Add(p.interval[l.Host()])
	l.Started()
}
