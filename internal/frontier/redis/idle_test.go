//go:build unix

package redis

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/redistest"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// idleLease is that of tests of verdicts. Nobody is heard of otherwise than by its beats.
const idleLease = 10 * time.Minute

// refusing is a process whose hosts have ordered to be left alone, until an hour after noon.
func refusing(since time.Time, patience time.Duration) frontier.Idleness {
	return frontier.Idleness{
		Blockage: frontier.Blockage{Whole: true, Ordered: true, Until: noon.Add(time.Hour)},
		Since:    since, Patience: patience, Reason: "a.test refuses",
	}
}

// One process has only hosts that refuse: it is not said of the job before all others have had
// nothing to do for long enough, and then of all.
func TestVerdict(t *testing.T) {
	const minute = time.Minute
	idle := frontier.Idleness{Blockage: frontier.Blockage{Idle: true}, Since: noon.Add(3 * minute)}
	paced := refusing(noon, 25*minute)
	paced.Ordered = false
	barred := frontier.Idleness{Blockage: frontier.Blockage{Whole: true, Ordered: true, Excluded: true}, Since: noon, Patience: 20 * minute, Reason: "blocked by hand"}
	soon := refusing(noon, 25*minute)
	soon.Until = noon.Add(20 * minute)
	for name, c := range map[string]struct {
		a, b   frontier.Idleness
		at     time.Duration // of the verdict, after noon; zero: there is none
		reason string
	}{
		"the other works":        {refusing(noon, 0), frontier.Idleness{}, 0, ""},
		"nobody refuses":         {idle, idle, 0, ""},
		"the other has nothing":  {refusing(noon, 5*minute), idle, 3*minute + idleLease, "a.test refuses"},
		"by patience":            {paced, idle, 28 * minute, "a.test refuses"},
		"the longest patience":   {paced, refusing(noon.Add(minute), 30*minute), 31 * minute, "a.test refuses"},
		"one may be asked soon":  {soon, idle, 28 * minute, "a.test refuses"},
		"all are barred":         {barred, idle, 23 * minute, "blocked by hand"},
		"who refuses is told of": {barred, refusing(noon, 0), idleLease, "a.test refuses"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Lease = idleLease
			a, b := r.open(), r.open()
			a.Idles(c.a)
			b.Idles(c.b)
			end := c.at
			if end == 0 {
				end = 50 * minute
			}
			for r.clk.Now().Before(noon.Add(end - time.Millisecond)) {
				r.clk.Advance(min(minute, noon.Add(end-time.Millisecond).Sub(r.clk.Now())))
				beat(t, a, b, a)
				require.Empty(t, a.Verdict()+b.Verdict(), r.clk.Now())
			}
			if c.at == 0 {
				return
			}
			r.clk.Advance(time.Millisecond)
			beat(t, b, a)
			require.Equal(t, c.reason, a.Verdict())
			require.Equal(t, c.reason, b.Verdict())
			<-a.Changed()
			<-b.Changed()
		})
	}
}

func beat(t *testing.T, stores ...*Store) {
	t.Helper()
	for _, s := range stores {
		require.NoError(t, s.beat(t.Context()))
	}
}

// Who works takes a verdict back, and who comes does. One who has heard of it is not told twice.
func TestVerdictIsTakenBack(t *testing.T) {
	r := newRig(t)
	r.cfg.Lease = idleLease
	a, b := r.open(), r.open()
	judged := func() {
		t.Helper()
		a.Idles(refusing(noon, 0))
		b.Idles(refusing(noon, 0))
		r.clk.Advance(idleLease - time.Second)
		beat(t, a, b)
		r.clk.Advance(time.Second)
		beat(t, a, b)
		require.NotEmpty(t, a.Verdict())
		require.NotEmpty(t, b.Verdict())
	}
	judged()
	b.Idles(frontier.Idleness{})
	require.Empty(t, b.Verdict(), "it knows better")
	require.Eventually(t, func() bool { // it says so at once
		beat(t, a)
		return a.Verdict() == ""
	}, redistest.Patience, time.Millisecond)
	judged()
	r.open()
	beat(t, a, b)
	require.Empty(t, a.Verdict()+b.Verdict())
}

// The hosts of a process that dies or leaves come to the others, who wait for that.
func TestVerdictWaitsForWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		end  func(*Store)
		gone time.Duration // when its hosts are there for others
	}{
		"leaves": {func(s *Store) { require.NoError(t, s.Close()) }, 0},
		"dies":   {die, idleLease},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.cfg.Lease = idleLease
			a, b := r.open(), r.open()
			a.Idles(refusing(noon.Add(-time.Hour), 0))
			c.end(b)
			most := c.gone + idleLease
			for r.clk.Now().Before(noon.Add(most - time.Second)) {
				r.clk.Advance(min(time.Minute, noon.Add(most-time.Second).Sub(r.clk.Now())))
				beat(t, a)
				require.Empty(t, a.Verdict(), r.clk.Now())
			}
			r.clk.Advance(time.Second)
			beat(t, a)
			require.Equal(t, "a.test refuses", a.Verdict())
		})
	}
}

// The hosts of one who ends by a verdict are others' when all have heard of it.
func TestHostsAfterAVerdict(t *testing.T) {
	r := newRig(t)
	r.cfg.Lease = idleLease
	a := r.open()
	put(t, a, "http://a.test/1")
	require.Equal(t, []string{"a.test"}, names(activate(t, a, 1)))
	a.Idles(refusing(noon.Add(-time.Hour), 0))
	beat(t, a)
	require.NotEmpty(t, a.Verdict(), "nobody else is there")
	require.NoError(t, a.Close())
	b := r.open()
	none := activate(t, b, 1)
	require.Empty(t, none.Hosts)
	require.Equal(t, idleLease, none.Due)
	r.clk.Advance(idleLease)
	require.Equal(t, []string{"a.test"}, names(activate(t, b, 1)))
}

type refusal struct{}

func (refusal) ReadyAt(string, int, int) (time.Time, ratelimit.Limit) {
	return noon.Add(time.Hour), ratelimit.LimitRetryAfter
}

// What a frontier says of itself: nothing before the store has answered that there is no
// other host, and nothing when others may be there.
func TestIdleness(t *testing.T) {
	r := newRig(t)
	r.cfg.Lease = idleLease
	s, other := r.open(), r.open()
	f, err := frontier.New(frontier.Config{Pacer: refusal{}, Store: s, Left: s.Left(), Key: s.Key(), Slots: 4, PerHost: 1, MaxHosts: 8, Resident: 20})
	require.NoError(t, err)
	turn := func() frontier.Blockage {
		for range 4 { // hosts are asked for, their URLs, and whether there are more
			_, _ = f.Next(r.clk.Now())
			flush(t, s)
			takeAll(t, f, s, r.clk.Now())
			r.clk.Advance(sweepMost)
		}
		return f.Blocked(r.clk.Now())
	}
	require.True(t, f.Blocked(r.clk.Now()).Unsure)
	put(t, other, "http://a.test/1")
	flush(t, other)
	activate(t, other, 9)
	require.True(t, turn().Idle, "its host is another's")
	other.Deactivate("a.test", time.Time{})
	flush(t, other)
	b := turn()
	require.True(t, b.Whole && b.Ordered && !b.Idle, "%+v", b)
	require.Equal(t, noon.Add(time.Hour), b.Until)
	it := item(t, "http://b.test/1")
	f.Add(r.clk.Now(), *it, f.Fingerprint(it))
	require.True(t, f.Blocked(r.clk.Now()).Unsure, "its host may be nobody's")
	require.True(t, turn().Whole)
}

// sweepMost is the longest time after which a frontier asks for hosts again.
const sweepMost = 2 * time.Second
