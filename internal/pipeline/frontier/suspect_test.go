package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// suspected is a frontier whose /bad is out as a suspect, after three pages were served.
func suspected(t *testing.T, pages int) (f *Frontier, bad *Lease) {
	t.Helper()
	f = open(t, Config{StrikeAfter: 3})
	add(t, f, start, "http://a.test/bad")
	for i := range pages {
		add(t, f, start, fmt.Sprintf("http://a.test/%d", i))
	}
	bad = next(t, f, start)
	require.False(t, bad.Suspect, "the first time")
	f.Freed(start, bad, time.Millisecond)
	f.NotNow(start, bad, start)
	for range 3 {
		l := next(t, f, start)
		require.NotEqual(t, "/bad", l.URL.Path(), "the trial after a refusal is another URL")
		end(f, start, l)
	}
	bad = next(t, f, start)
	require.Equal(t, "/bad", bad.URL.Path())
	require.True(t, bad.Suspect)
	f.Freed(start, bad, time.Millisecond)
	return f, bad
}

// Nobody waits for the verdict of those who may not be asked before a day is over; for
// those who only keep their pace, yes.
func TestBlameDoesNotWaitForAnOrderToEnd(t *testing.T) {
	for why, want := range map[ratelimit.Limit]Blame{
		ratelimit.LimitQuota: BlameHost, ratelimit.LimitRetryAfter: BlameHost, ratelimit.LimitLearned: BlameOpen,
	} {
		f, bad := suspected(t, 6)
		p := newPaced()
		p.why, p.free["a.test"] = why, at(24*time.Hour)
		f.cfg.Pacer = p
		wantNone(t, f, start, at(24*time.Hour))
		require.Equal(t, want, f.Blame(bad), why.String())
	}
}

// A suspect's refusal is the URL's when what is sent next is served, and the host's when
// that is refused too or there is nothing to compare with.
func TestBlame(t *testing.T) {
	f, bad := suspected(t, 6)
	require.Equal(t, BlameOpen, f.Blame(bad))
	l := next(t, f, start)
	require.Equal(t, "/3", l.URL.Path())
	f.Freed(start, l, time.Millisecond)
	require.Equal(t, BlameOpen, f.Blame(bad), "not answered yet")
	f.Outcome(l, outcome.OK, true)
	f.Done(start, l)
	require.Equal(t, BlameURL, f.Blame(bad))
	f.Refused(start, bad, at(time.Minute))
	end(f, start, next(t, f, start))
	end(f, start, next(t, f, start))
	wantNone(t, f, start, at(time.Minute))
	bad = next(t, f, at(time.Minute))
	require.Equal(t, uint8(1), bad.Strikes)
	require.True(t, bad.Suspect, "nobody is left to show it again")
	f.Freed(start, bad, time.Millisecond)
	require.Equal(t, BlameURL, f.Blame(bad))
}

func TestBlameOfHost(t *testing.T) {
	f, bad := suspected(t, 6)
	l := next(t, f, start)
	f.Freed(start, l, time.Millisecond)
	f.NotNow(start, l, start)
	require.Equal(t, BlameHost, f.Blame(bad))
	f.NotNow(start, bad, start)

	f, bad = suspected(t, 3)
	require.Equal(t, BlameHost, f.Blame(bad), "there is nobody to compare with")
}

// A 403 beside a suspect says nothing of it, unless the host is known to mean later by it, or
// refuses altogether.
func TestBlameBesideA403(t *testing.T) {
	for name, tc := range map[string]struct {
		before func(f *Frontier, bad *Lease)
		locked bool // the host refuses altogether
		now    Blame
		next   Blame // once the next one is served
	}{
		"the first":        {now: BlameOpen, next: BlameURL},
		"of a locked host": {locked: true, now: BlameHost, next: BlameHost},
		"that means later": {before: func(_ *Frontier, bad *Lease) { bad.host.record().lifted = true }, now: BlameHost, next: BlameHost},
		"that means never": {before: func(_ *Frontier, bad *Lease) { bad.host.record().again = neverAfter }, now: BlameOpen, next: BlameURL},
		"behind a failure": {before: func(f *Frontier, _ *Lease) {
			l, _ := f.Next(start)
			f.Freed(start, l, time.Millisecond)
			f.NotNow(start, l, at(time.Hour))
		}, now: BlameHost, next: BlameHost},
		"ahead of a failure": {now: BlameOpen, next: BlameURL},
	} {
		t.Run(name, func(t *testing.T) {
			f, bad := suspected(t, 9)
			if tc.before != nil {
				tc.before(f, bad)
			}
			l := next(t, f, start)
			f.Freed(start, l, time.Millisecond)
			if !tc.locked {
				f.Forbade(l)
			}
			f.Forbidden(start, l, at(time.Minute))
			require.Equal(t, tc.now, f.Blame(bad))
			if name == "ahead of a failure" {
				l := next(t, f, start)
				f.Freed(start, l, time.Millisecond)
				f.NotNow(start, l, at(time.Hour))
				require.Equal(t, BlameHost, f.Blame(bad))
				return
			}
			end(f, start, next(t, f, start))
			require.Equal(t, tc.next, f.Blame(bad))
		})
	}
}

// Of the URLs that a host refuses one at a time is a suspect, and where it refuses several
// the second refusal of each is the host's.
func TestOneSuspectAtATime(t *testing.T) {
	f := open(t, Config{StrikeAfter: 3})
	add(t, f, start, "http://a.test/bad", "http://a.test/worse")
	for range 2 {
		l := next(t, f, start)
		f.Freed(start, l, time.Millisecond)
		f.NotNow(start, l, start)
	}
	for i := range 9 {
		add(t, f, start, fmt.Sprintf("http://a.test/%d", i))
	}
	for range 3 {
		end(f, start, next(t, f, start))
	}
	bad, worse := next(t, f, start), next(t, f, start)
	require.Equal(t, "/bad/worse", bad.URL.Path()+worse.URL.Path())
	require.False(t, bad.Suspect || worse.Suspect)
	for _, l := range []*Lease{bad, worse} {
		f.Freed(start, l, time.Millisecond)
		f.NotNow(start, l, start)
	}
	for range 3 {
		end(f, start, next(t, f, start))
	}
	bad = next(t, f, start)
	require.True(t, bad.Suspect)
	require.NotEqual(t, "/worse", next(t, f, start).URL.Path())
}
