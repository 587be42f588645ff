package frontier

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func at(d time.Duration) time.Time { return start.Add(d) }

type paced struct {
	interval map[string]time.Duration
	free     map[string]time.Time
	why      ratelimit.Limit
}

func newPaced() *paced {
	return &paced{map[string]time.Duration{}, map[string]time.Time{}, ratelimit.LimitLearned}
}

func (p *paced) ReadyAt(host string, ahead, _ int) (time.Time, ratelimit.Limit) {
	return p.free[host].Add(time.Duration(ahead) * p.interval[host]), p.why
}

func (p *paced) take(l *Lease, now time.Time) {
	p.free[l.Host()] = now.Add(p.interval[l.Host()])
	l.Started()
}

type gateFunc func(u canonical.URL, now time.Time) Verdict

func (g gateFunc) Check(it *Item, now time.Time) Verdict { return g(it.URL, now) }

func link(t require.TestingT, s string) Item {
	u, err := canonical.Parse(s)
	require.NoError(t, err)
	return Item{URL: u}
}

func open(t *testing.T, cfg Config) *Frontier {
	t.Helper()
	if cfg.Pacer == nil {
		cfg.Pacer = newPaced()
	}
	f, err := New(cfg)
	require.NoError(t, err)
	return f
}

// add adds URLs of hosts that have answered before.
func add(t require.TestingT, f *Frontier, now time.Time, urls ...string) (last Added) {
	for _, s := range urls {
		it := link(t, s)
		last = f.Add(now, it, f.Fingerprint(&it))
	}
	f.Prove()
	return last
}

// next leases and takes the permit; it fails the test when nothing may be leased.
func next(t *testing.T, f *Frontier, now time.Time) *Lease {
	t.Helper()
	l, wake := f.Next(now)
	if l == nil {
		t.Fatalf("Next at %v = nothing until %v, want a lease", now.Sub(start), wake.Sub(start))
	}
	if p, ok := f.cfg.Pacer.(*paced); ok && l.Refused == nil {
		p.take(l, now)
	}
	return l
}

func wantNone(t *testing.T, f *Frontier, now, wantWake time.Time) {
	t.Helper()
	l, wake := f.Next(now)
	if l != nil || !wake.Equal(wantWake) {
		t.Fatalf("Next at %v = %v until %v, want nothing until %v", now.Sub(start), l, wake, wantWake)
	}
}

// Empty reports whether nothing is queued and nothing leased.
func (f *Frontier) Empty() bool {
	c := f.Counts()
	return c.Queued == 0 && c.Leased == 0
}

func end(f *Frontier, now time.Time, l *Lease) {
	f.Release(now, l, now.Sub(l.at)+1, attribution.Outcome{Class: outcome.OK, Status: 200})
	f.End(now, l, Done(nil))
}

func retry(f *Frontier, now time.Time, l *Lease, at time.Time, whose attribution.Attribution) {
	f.Release(now, l, time.Millisecond, attribution.Outcome{})
	f.End(now, l, RetryAt(at, attribution.Again(l.Tries, whose)))
}

func unused(f *Frontier, now time.Time, l *Lease, full bool) {
	f.Release(now, l, 0, attribution.Outcome{})
	why := ""
	if full {
		why = "no place in a queue"
	}
	f.End(now, l, WaitHost(why))
}

// Bytes is the length of the URLs queued in memory.
func (f *Frontier) Bytes() int { return f.bytes }

// Prove has all hosts in memory be such as have answered before, which may have more than one
// lease out.
func (f *Frontier) Prove() {
	for _, h := range f.hosts {
		h.proven = true
	}
}
