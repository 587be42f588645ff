package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// The law of the frontier: every URL added is leased until it is done, exactly once
// more than it was given back, and queued + leased is zero then and only then. It holds
// with a store too, however late it answers and however often the crawl is begun anew.
func TestEveryURLOnce(t *testing.T) {
	for name, stored := range map[string]bool{"memory": false, "store": true} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { newLaw(t, stored).run() })
		})
	}
}

// law is one run of the frontier under random steps.
type law struct {
	*rapid.T
	f     *Frontier
	p     *paced
	store *naive // nil for none
	cfg   Config
	now   time.Time
	added map[string]bool
	done  map[string]int
	out   []*Lease
	asked map[int64]bool // URLs leased at least once since the frontier was made
}

func newLaw(t *rapid.T, stored bool) *law {
	l := &law{T: t, p: newPaced(), now: start, added: map[string]bool{}, done: map[string]int{}}
	l.cfg = Config{Pacer: l.p, Slots: 4, PerHost: 2, StrikeAfter: 2}
	if stored {
		l.store = newNaive()
		l.cfg.Store = l.store
		l.cfg.Resident = rapid.IntRange(1, 30).Draw(t, "resident")
		l.cfg.MaxHosts = rapid.IntRange(1, 5).Draw(t, "hosts")
	}
	l.begin()
	return l
}

func (l *law) begin() {
	if l.store != nil {
		l.cfg.Left = l.store.reopen()
	}
	f, err := New(l.cfg)
	require.NoError(l, err)
	l.f, l.out, l.asked = f, nil, map[int64]bool{}
}

func (l *law) take() *Lease {
	i := rapid.IntRange(0, len(l.out)-1).Draw(l.T, "which")
	lease := l.out[i]
	l.out = append(l.out[:i], l.out[i+1:]...)
	return lease
}

func (l *law) step(what int) {
	switch {
	case what == 0:
		u := fmt.Sprintf("http://h%d.test/%d", rapid.IntRange(0, 3).Draw(l.T, "host"), rapid.IntRange(0, 29).Draw(l.T, "page"))
		l.p.interval[link(l, u).URL.Host()] = time.Duration(rapid.IntRange(0, 3).Draw(l.T, "interval")) * time.Second
		it := link(l, u)
		it.Rank = int32(rapid.IntRange(-1, 2).Draw(l.T, "rank"))
		if got, want := l.f.Add(l.now, it, l.f.Fingerprint(&it)), l.added[u]; (got == Seen) != want {
			l.Fatalf("Add(%s) = %v, known %v", u, got, want)
		}
		l.added[u] = true
	case what == 1 && len(l.out) < 4:
		if lease, _ := l.f.Next(l.now); lease != nil {
			l.leased(lease)
		}
	case what == 2 && len(l.out) > 0:
		lease := l.take()
		l.f.Freed(l.now, lease, time.Millisecond)
		class := rapid.SampledFrom([]outcome.Class{outcome.OK, outcome.ServerError, outcome.Decode}).Draw(l.T, "class")
		l.f.Outcome(lease, class, class == outcome.OK)
		l.f.Done(l.now, lease)
		l.done[lease.URL.String()]++
	case what == 3 && len(l.out) > 0:
		l.fail()
	case what == 4:
		l.now = l.now.Add(time.Duration(rapid.IntRange(0, 2000).Draw(l.T, "ms")) * time.Millisecond)
	case what == 5 && l.store != nil:
		l.answer()
	case what == 6 && l.store != nil && rapid.IntRange(0, 9).Draw(l.T, "restart") == 0:
		l.begin()
	}
}

// leased takes a lease in hand. The first time it must be of the URL that goes first of
// those of its host that were not asked for yet, wherever they are.
func (l *law) leased(lease *Lease) {
	l.p.take(lease, l.now)
	l.out = append(l.out, lease)
	if l.store == nil || l.asked[lease.ID] {
		return
	}
	l.asked[lease.ID] = true
	for id, u := range l.store.urls {
		if u.host == lease.Host() && !u.done && !l.asked[id] && u.Place().Before(lease.Place()) {
			l.Fatalf("%s was leased before %s", lease.URL, u.URL)
		}
	}
}

func (l *law) fail() {
	lease := l.take()
	later := l.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(l.T, "backoff")) * time.Second)
	l.f.Freed(l.now, lease, time.Duration(rapid.IntRange(0, 3000).Draw(l.T, "took"))*time.Millisecond)
	switch fate := rapid.IntRange(0, 3).Draw(l.T, "fate"); {
	case fate == 0:
		l.f.Retry(l.now, lease, later)
	case lease.Suspect && l.f.Blame(lease) == BlameOpen && len(l.out) > 0:
		l.out = append(l.out, lease) // until others have been asked
	case lease.Suspect && l.f.Blame(lease) == BlameURL:
		l.f.Refused(l.now, lease, later)
	case fate < 3:
		l.f.NotNow(l.now, lease, later)
	default:
		l.f.Return(l.now, lease, rapid.Bool().Draw(l.T, "asked"))
	}
}

func (l *law) answer() bool {
	if l.store == nil {
		return false
	}
	a, ok := l.store.answer()
	if ok {
		require.NoError(l, l.f.Take(l.now, a))
	}
	return ok
}

func (l *law) run() {
	for range rapid.IntRange(0, 400).Draw(l.T, "steps") {
		l.step(rapid.IntRange(0, 6).Draw(l.T, "what"))
	}
	l.drain()
	require.Len(l, l.done, len(l.added))
	for u, n := range l.done {
		require.Equal(l, 1, n, u)
	}
	if l.store == nil {
		return
	}
	for _, u := range l.store.urls {
		require.True(l, u.done, u.URL)
	}
	require.Empty(l, l.f.vault.away)
}

func (l *law) drain() {
	for i := 0; !l.f.Empty(); i++ {
		if i > 3000 {
			l.Fatalf("the frontier does not drain: %+v, waits %+v", l.f.Counts(), l.f.Hosts(l.now, 9))
		}
		for len(l.out) > 0 {
			l.step(2)
		}
		lease, wake := l.f.Next(l.now)
		switch {
		case lease != nil:
			l.leased(lease)
		case l.answer():
		case wake.After(l.now):
			l.now = wake
		}
	}
}

// What was put and does not come back is no crawl to go on with.
func TestStoreThatLosesURLs(t *testing.T) {
	lossy := func(hosts int) (*Frontier, *naive) {
		s := newNaive()
		f := open(t, Config{Store: s, Resident: 1, MaxHosts: hosts})
		for i := range 20 {
			add(t, f, start, fmt.Sprintf("http://a.test/%d", i))
		}
		add(t, f, start, "http://b.test/")
		return f, s
	}
	f, s := lossy(2)
	clear(s.urls)
	next(t, f, start)
	next(t, f, start)
	next(t, f, start)
	next(t, f, start) // two of a's four, and b's one: half a head is gone
	a, ok := s.answer()
	require.True(t, ok)
	require.ErrorContains(t, f.Take(start, a), "16 URLs of a.test are not where they were put")

	s = newNaive()
	f = open(t, Config{Store: s, MaxHosts: 1, Left: Left{Queued: 3, Known: 3, LastID: 3}})
	_, _ = f.Next(start)
	a, ok = s.answer()
	require.True(t, ok)
	require.ErrorContains(t, f.Take(start, a), "3 URLs of hosts that had no room")
}

func TestSeenSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s seenSet
		model := map[uint64]bool{}
		for _, fp := range rapid.SliceOf(rapid.Uint64Range(0, 300)).Draw(t, "fingerprints") {
			fp *= 1 << 40 // equal low bits: every one collides in the table
			require.Equal(t, model[fp], s.has(fp))
			require.Equal(t, !model[fp], s.add(fp))
			model[fp] = true
			require.Equal(t, len(model), s.len())
		}
	})
}

// BenchmarkDispatch is one lease and its end among many hosts, ready or waiting.
func BenchmarkDispatch(b *testing.B) {
	for _, hosts := range []int{1, 1000, 100_000} {
		b.Run(fmt.Sprintf("hosts=%d", hosts), func(b *testing.B) {
			p := newPaced()
			f, err := New(Config{Pacer: p})
			require.NoError(b, err)
			for h := range hosts {
				add(b, f, start, fmt.Sprintf("http://h%d.test/", h))
				p.interval[fmt.Sprintf("h%d.test", h)] = time.Duration(h) * time.Millisecond
			}
			now := start
			b.ReportAllocs()
			for b.Loop() {
				l, wake := f.Next(now)
				if l == nil {
					now = wake
					continue
				}
				p.take(l, now)
				f.Freed(now, l, time.Millisecond)
				f.Return(now, l, true)
			}
		})
	}
}
