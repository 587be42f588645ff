package frontier_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
)

type closedUntil map[string]time.Time

func (c closedUntil) ReadyAt(host string, _, _ int) (time.Time, ratelimit.Limit) {
	return c[host], ratelimit.LimitRetryAfter
}

// closedHosts is a frontier with room for three hosts, and as many URLs of each of n. Those
// of the first so many refuse for a day.
func closedHosts(t *testing.T, n, closed int) (*stored, closedUntil) {
	t.Helper()
	pacer := closedUntil{}
	s := newStored(t, frontier.Config{Pacer: pacer, MaxHosts: 3, MaxURLs: 1000})
	for h := range n {
		name := fmt.Sprintf("h%d.test", h)
		if h < closed {
			pacer[name] = noon.Add(24*time.Hour + time.Duration(h)*time.Minute)
		}
		for i := range 7 {
			require.Equal(t, frontier.Queued, s.add(fmt.Sprintf("http://%s/%d", name, i), 0))
		}
	}
	return s, pacer
}

func (s *stored) visit(now, until time.Time) (hosts map[string]int) {
	hosts = map[string]int{}
	for range 100_000 {
		l, wake := s.Next(now)
		switch answered := s.answer(now); {
		case l != nil:
			hosts[l.Host()]++
			s.end(now, l)
		case answered:
		case wake.After(now):
			if wake.After(until) {
				return hosts
			}
			now = wake
		case s.Counts().Queued == 0, wake.IsZero():
			return hosts
		}
	}
	s.Fatal("it asks without end")
	return nil
}

// Hosts that refuse for a day give their places to those that refuse nothing, and come back.
func TestRefusingHostsGiveWay(t *testing.T) {
	s, _ := closedHosts(t, 9, 5)
	require.Equal(t, map[string]int{"h5.test": 7, "h6.test": 7, "h7.test": 7, "h8.test": 7}, s.visit(noon, noon.Add(2*time.Minute)))
	require.LessOrEqual(t, s.Counts().Hosts, int64(3))
	later := s.visit(noon.Add(2*time.Minute), noon.Add(25*time.Hour))
	require.Equal(t, map[string]int{"h0.test": 7, "h1.test": 7, "h2.test": 7, "h3.test": 7, "h4.test": 7}, later)
	require.Zero(t, s.Counts().Queued)
	require.Zero(t, s.Bytes())
}

// What is known of hosts that refuse ends when the rules of the pacer change.
func TestReviseWithInactiveHosts(t *testing.T) {
	s, pacer := closedHosts(t, 9, 9)
	require.Empty(t, s.visit(noon, noon.Add(5*time.Minute)))
	for h := range 6 { // the others are in memory
		delete(pacer, fmt.Sprintf("h%d.test", h))
	}
	now := noon.Add(5 * time.Minute)
	s.Revise(now)
	require.Len(t, s.visit(now, now.Add(time.Minute)), 6)
}

// slow is a pacer whose hosts are to be asked after five minutes, by their pace.
type slow struct{}

func (slow) ReadyAt(string, int, int) (time.Time, ratelimit.Limit) {
	return noon.Add(5 * time.Minute), ratelimit.LimitLearned
}

// A host that is just slow keeps its place, and one that has a request out, and one that waits
// to try a URL again until all hosts in memory refuse.
func TestHostsThatKeepTheirPlaces(t *testing.T) {
	s := newStored(t, frontier.Config{Pacer: slow{}, MaxHosts: 1})
	s.add("http://a.test/", 0)
	s.add("http://b.test/", 0)
	require.Empty(t, s.visit(noon, noon.Add(4*time.Minute)))
	require.Equal(t, "a.test", s.Hosts(noon, 1)[0].Host)

	pacer := closedUntil{}
	s = newStored(t, frontier.Config{Pacer: pacer, MaxHosts: 1, PerHost: 2})
	s.add("http://a.test/1", 0)
	s.add("http://a.test/2", 0)
	s.add("http://b.test/", 0)
	out := s.lease(noon)
	pacer["a.test"] = noon.Add(time.Hour)
	require.Empty(t, s.visit(noon, noon.Add(2*time.Minute)))
	now := noon.Add(2 * time.Minute)
	s.Release(now, out, time.Second, attribution.Outcome{})
	s.End(now, out, frontier.RetryAt(now, attribution.Again(out.Tries, attribution.Either)))
	require.Equal(t, map[string]int{"b.test": 1}, s.visit(now, now.Add(2*time.Minute)))
	require.Equal(t, map[string]int{"a.test": 2}, s.visit(now, now.Add(2*time.Hour)))

	s = newStored(t, frontier.Config{MaxHosts: 1})
	s.add("http://a.test/", 0)
	s.add("http://b.test/", 0)
	out = s.lease(noon)
	s.Release(noon, out, time.Second, attribution.Outcome{})
	s.End(noon, out, frontier.RetryAt(noon.Add(time.Hour), attribution.Again(out.Tries, attribution.OfHost)))
	require.Empty(t, s.visit(noon, now))
	require.False(t, s.Blocked(now).Whole)
	require.Equal(t, map[string]int{"b.test": 1, "a.test": 1}, s.visit(now, now.Add(time.Minute)))
}

// That every host refuses is known when all have been looked at, and tells of the first.
func TestBlockedWithInactiveHosts(t *testing.T) {
	s, pacer := closedHosts(t, 9, 9)
	pacer["h4.test"] = noon.Add(20 * time.Hour)
	_, _ = s.Next(noon)
	require.False(t, s.Blocked(noon).Whole, "nothing is known of six")
	require.Empty(t, s.visit(noon, noon.Add(5*time.Minute)))
	now := noon.Add(5 * time.Minute)
	l, wake := s.Next(now)
	require.Nil(t, l)
	require.Equal(t, frontier.Blockage{Whole: true, Until: noon.Add(20 * time.Hour), Ordered: true}, s.Blocked(now))
	require.Equal(t, noon.Add(20*time.Hour), wake, "and until then nobody looks")
	require.Equal(t, frontier.Queued, s.add("http://h4.test/late", 0))
	_, _ = s.Next(now)
	require.True(t, s.Blocked(now).Whole)
	require.Equal(t, frontier.Queued, s.add("http://open.test/", 0))
	require.False(t, s.Blocked(now).Whole)
	require.Equal(t, map[string]int{"open.test": 1}, s.visit(now, now.Add(5*time.Minute)))
	require.True(t, s.Blocked(now.Add(5*time.Minute)).Whole)
	require.Len(t, s.visit(now.Add(5*time.Minute), noon.Add(48*time.Hour)), 9)
	require.Zero(t, s.Counts().Queued)
	require.Zero(t, s.Bytes())
}

// Excluded hosts give their places in memory to others, are inactive as others do, are told
// from hosts that refuse, and come back when they are included, wherever they are.
func TestExcludedHostsGiveWay(t *testing.T) {
	s, _ := closedHosts(t, 9, 0)
	for h := range 5 {
		require.NoError(t, s.Exclude(noon, fmt.Sprintf("h%d.test", h)))
	}
	require.Equal(t, map[string]int{"h5.test": 7, "h6.test": 7, "h7.test": 7, "h8.test": 7}, s.visit(noon, noon.Add(2*time.Minute)))
	require.LessOrEqual(t, s.Counts().Hosts, int64(3))
	require.EqualValues(t, 5*7, s.Counts().Queued)
	now := noon.Add(2 * time.Minute)
	for range 10 { // until every one has had its turn in memory
		s.visit(now, now.Add(time.Minute))
		now = now.Add(time.Minute)
		s.Blocked(now)
	}
	b := s.Blocked(now)
	require.True(t, b.Whole)
	require.True(t, b.Excluded)
	for h := range 4 {
		require.True(t, s.Include(now, fmt.Sprintf("h%d.test", h)))
	}
	require.Equal(t, map[string]int{"h0.test": 7, "h1.test": 7, "h2.test": 7, "h3.test": 7}, s.visit(now, now.Add(time.Hour)))
	require.EqualValues(t, 7, s.Counts().Queued)
	require.True(t, s.Include(now, "h4.test"))
	require.Equal(t, map[string]int{"h4.test": 7}, s.visit(now, now.Add(2*time.Hour)))
	require.Zero(t, s.Bytes())
}
