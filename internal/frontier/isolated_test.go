package frontier

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func refuse(f *Frontier, now time.Time, l *Lease) {
	f.Release(now, l, time.Millisecond, attribution.Outcome{Class: outcome.Throttled, Status: 429})
	f.End(now, l, RetryAt(now, attribution.Again(l.Tries, attribution.OfHost)))
}

func failOwn(f *Frontier, now time.Time, l *Lease) {
	f.Release(now, l, time.Millisecond, attribution.Outcome{Class: outcome.Throttled, Status: 429})
	f.End(now, l, RetryAt(now, attribution.Again(l.Tries, attribution.OfURL)))
}

func page(t *testing.T, f *Frontier, now time.Time, path string) *Lease {
	t.Helper()
	l := next(t, f, now)
	require.Equal(t, path, l.URL.Path())
	return l
}

// soon is the next lease, and the time at which it comes.
func soon(t *testing.T, f *Frontier, now *time.Time) *Lease {
	t.Helper()
	for range 10 {
		l, wake := f.Next(*now)
		if l != nil {
			return l
		}
		require.False(t, wake.IsZero())
		*now = wake
	}
	t.Fatal("no lease")
	return nil
}

// site is a frontier of some pages of a host behind the given ones, of which / was answered.
func site(t *testing.T, pages int, first ...string) *Frontier {
	t.Helper()
	f := open(t, Config{})
	add(t, f, start, "http://a.test/")
	end(f, start, page(t, f, start, "/"))
	for _, path := range first {
		add(t, f, start, "http://a.test"+path)
	}
	for i := range pages {
		add(t, f, start, fmt.Sprintf("http://a.test/%d", i))
	}
	return f
}

// A URL that was refused goes again when another was answered, alone and after a pause. What
// comes then is its own failure.
func TestRefusedURLGoesAlone(t *testing.T) {
	f := site(t, 4, "/x")
	x := page(t, f, start, "/x")
	require.False(t, x.Evidence.OfURL, "nobody knows whose it is")
	refuse(f, start, x)
	l0, l1 := page(t, f, start, "/0"), page(t, f, start, "/1")
	end(f, start, l0)
	wantNone(t, f, start, time.Time{}) // /1 is under way
	end(f, start, l1)
	wantNone(t, f, start, start.Add(quiet))
	now := start.Add(quiet)
	x = page(t, f, now, "/x")
	require.True(t, x.Evidence.OfURL)
	require.True(t, x.Evidence.Clears, "the refusal before was reported as the host's")
	failOwn(f, now, x)
	require.False(t, f.hosts["a.test"].history.Failing(), "it is not held against the host")
	end(f, now, page(t, f, now, "/2"))
	wantNone(t, f, now, now.Add(quiet))
	x = page(t, f, now.Add(quiet), "/x")
	require.True(t, x.Evidence.OfURL)
	require.False(t, x.Evidence.Clears, "nothing more was reported as the host's")
	require.EqualValues(t, 1, x.Attempt)
	require.EqualValues(t, 1, x.URLFailures)
}

// While the host answers nobody all failures are its own, and the next trial is another URL.
func TestRefusalsWhileNobodyIsAnswered(t *testing.T) {
	f := site(t, 3, "/x")
	for _, path := range []string{"/x", "/0", "/1", "/2"} {
		l := page(t, f, start, path)
		require.False(t, l.Evidence.OfURL)
		refuse(f, start.Add(time.Minute), l)
	}
	l := next(t, f, start.Add(time.Hour))
	require.Equal(t, start.Add(time.Minute), l.Evidence.FailingSince)
	now := start.Add(time.Hour)
	end(f, now, l)
	require.True(t, soon(t, f, &now).Evidence.FailingSince.IsZero())
}

// Where nobody else is left to ask, a page that was answered before shows whose the failure is.
func TestControl(t *testing.T) {
	f := site(t, 0, "/x")
	for range 2 {
		l := page(t, f, start, "/x")
		require.False(t, l.Evidence.OfURL)
		refuse(f, start, l)
	}
	c := page(t, f, start, "/")
	require.Equal(t, Control, c.Kind)
	wantNone(t, f, start, time.Time{}) // nothing is sent beside it
	known := f.Counts().Known
	f.Release(start, c, time.Millisecond, attribution.Outcome{Class: outcome.Throttled, Status: 429})
	f.End(start, c, Done(nil))
	require.Equal(t, known, f.Counts().Known)
	refuse(f, start, page(t, f, start, "/x")) // the host refuses the control too: no two of them in a row
	c = page(t, f, start, "/")
	require.Equal(t, Control, c.Kind)
	end(f, start, c)
	now := start
	for i := range 3 {
		l := soon(t, f, &now)
		require.Equal(t, "/x", l.URL.Path())
		require.True(t, l.Evidence.OfURL, i)
		require.EqualValues(t, i, l.URLFailures)
		failOwn(f, now, l)
	}
	end(f, now, soon(t, f, &now))
	require.Zero(t, f.Counts().Queued+f.Counts().Leased)
}

// A control that comes back unused is asked for no more, and counts for nothing.
func TestControlThatIsNotAsked(t *testing.T) {
	for _, back := range []func(*Frontier, *Lease){
		func(f *Frontier, c *Lease) { f.End(start, c, WaitHost("")) },
		func(f *Frontier, c *Lease) { f.End(start, c, WaitHost("no place")) },
	} {
		f := site(t, 0, "/x")
		for range 2 {
			refuse(f, start, page(t, f, start, "/x"))
		}
		c := page(t, f, start, "/")
		f.Release(start, c, 0, attribution.Outcome{})
		back(f, c)
		require.EqualValues(t, 1, f.Counts().Queued)
		require.Zero(t, f.Counts().Leased)
	}
}

// The pause before a URL is asked for alone is the host's pace, and not the time that a trial of its circuit may take.
func TestIsolatedWhileTheCircuitIsOpen(t *testing.T) {
	for why, pause := range map[ratelimit.Limit]time.Duration{ratelimit.LimitLearned: 15 * time.Second, ratelimit.LimitBreaker: quiet} {
		f := site(t, 6, "/x", "/y")
		for _, path := range []string{"/x", "/y"} {
			refuse(f, start, page(t, f, start, path))
		}
		l := page(t, f, start, "/0")
		host := l.Host()
		f.cfg.Pacer = &paced{map[string]time.Duration{host: 15 * time.Second}, map[string]time.Time{host: start}, why}
		end(f, start, l)
		wantNone(t, f, start, start.Add(pause))
		page(t, f, start.Add(pause), "/x")
	}
}

// A host of which several URLs were refused on their own refuses some and serves others; one
// of them that is served later shows that it has a limit.
func TestSelectiveHost(t *testing.T) {
	f := site(t, 20, "/w", "/x", "/y", "/z")
	for range attribution.ManyOfURLs {
		refuse(f, start, next(t, f, start))
	}
	now := start
	for own := 0; own < attribution.ManyOfURLs; {
		l := soon(t, f, &now)
		if !l.Evidence.OfURL {
			end(f, now, l)
			continue
		}
		if l.URLFailures == 0 {
			own++
		}
		failOwn(f, now, l)
	}
	b := &f.hosts["a.test"].history
	end(f, now, soon(t, f, &now))
	require.True(t, b.Selective())
	l := soon(t, f, &now)
	require.True(t, l.Evidence.OfURL, "from the first on")
	for ; l.Returns == 0; l = soon(t, f, &now) {
		end(f, now, l)
	}
	end(f, now, l)
	require.False(t, b.Selective())
}
