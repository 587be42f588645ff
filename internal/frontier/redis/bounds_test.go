//go:build unix

package redis

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/redistest"
)

func pages(n int64) Bounds { return Bounds{Pages: &n} }

// A bound that is raised holds for the process that has come to the end of the old one, and for
// those that join later, whatever they were given.
func TestSetPages(t *testing.T) {
	redistest.OnEach(t, func(t *testing.T, p redistest.Program) {
		r := realTime(rigOn(t, p.Shared(t).Addr))
		r.cfg.Lease = 400 * time.Millisecond
		bounded := func(c *Config) { c.MaxPages, c.Terms = 20, map[string]string{maxPages: "20"} }
		heard := make(chan Bounds, 10)
		a := r.open(bounded, func(c *Config) { c.OnOrder = func(o Order) { heard <- o.Bounds } })
		used, last := use(t, a, 0, 30)
		require.True(t, last)
		require.Equal(t, 20, used)

		f := r.dial()
		require.Equal(t, map[string]string{maxPages: "20"}, set(t, f, pages(50)))
		require.EqualValues(t, 50, *(<-heard).Pages, "who is there hears of it")
		used, last = use(t, a, used, 10)
		require.False(t, last, "and goes on")
		require.Equal(t, 30, used)

		joined := make(chan Bounds, 1)
		b := r.open(bounded, func(c *Config) { c.OnOrder = func(o Order) { joined <- o.Bounds } })
		require.EqualValues(t, 50, *(<-joined).Pages, "before Open returns")
		a.Pages(used)
		require.NoError(t, a.Close())
		more, last := use(t, b, 0, 100)
		require.True(t, last)
		require.Equal(t, 20, more, "of all processes together")

		set(t, f, pages(0))
		for bound := (<-joined).Pages; *bound != 0; bound = (<-joined).Pages {
		}
		_, last = use(t, b, more, 100)
		require.False(t, last, "there is no bound any more")
		st := statusOf(t, f)
		require.Empty(t, st.Budgets)

		c := r.open(bounded) // that comes while there is none
		used, last = use(t, c, 0, 300)
		require.False(t, last)
		require.Equal(t, 300, used)
		set(t, f, pages(60)) // all of them have counted
		for bound := (<-joined).Pages; *bound != 60; bound = (<-joined).Pages {
		}
		require.Eventually(t, func() bool { used, last = use(t, c, used, 1); return last }, redistest.Patience, time.Millisecond, "what they have used is more")
	})
}

// Pages are counted whether there is a bound or not, so that there may be one later. Processes of earlier versions
// counted none then: of a job of theirs what is done counts.
func TestSetPagesOfAJobWithout(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		r := realTime(newRig(t))
		r.cfg.Lease = 400 * time.Millisecond
		s, f := r.open(), r.dial()
		used, last := use(t, s, 0, 300)
		require.False(t, last)
		require.Equal(t, 300, used)
		got := own(t, s, 1, "http://a.test/1", "http://a.test/2", "http://a.test/3")
		visit(s, &got.Items[0])
		flush(t, s)
		want, bound := 50, int64(350)
		if earlier {
			require.NoError(t, s.link.Do(t.Context(), s.link.B().Hdel().Key(s.key("job")).Field("counted").Build()).Error())
			require.NoError(t, s.link.Do(t.Context(), s.link.B().Del().Key(s.key("drawn")).Build()).Error())
			want, bound = 1, 2
		}
		s.Pages(used)
		require.NoError(t, s.Close())
		require.Equal(t, map[string]string{maxPages: ""}, set(t, f, pages(bound)))
		used, last = use(t, r.open(), 0, 100)
		require.True(t, last)
		require.Equal(t, want, used)
	}
}

// Of pages that were drawn when there was no bound, those that were not used are drawn anew by the bound.
func TestSetPagesWhileTheyAreUsed(t *testing.T) {
	r := newRig(t)
	a, b := r.open(), r.open()
	first, _ := use(t, a, 0, 10)
	second, _ := use(t, b, 0, 20)
	set(t, r.dial(), pages(40))
	beat(t, a, b)
	for last := false; !last; {
		first, last = use(t, a, first, 1)
		if !last {
			second, _ = use(t, b, second, 1)
		}
	}
	second, last := use(t, b, second, 40)
	require.True(t, last)
	require.Equal(t, 40, first+second)
}

// What is set together is heard of together; what makes no sense, or is of a job that is gone, is an error.
func TestSetBoth(t *testing.T) {
	r := realTime(newRig(t))
	r.open()
	f, hour := r.dial(), time.Hour
	_, err := f.Set(t.Context(), pages(-1))
	require.ErrorContains(t, err, "below zero")
	set(t, f, Bounds{Pages: pages(2).Pages, Time: &hour})
	heard := r.open().Order().Bounds
	require.Equal(t, time.Hour, *heard.Time)
	require.EqualValues(t, 2, *heard.Pages)
	_, err = f.Purge(t.Context())
	require.NoError(t, err)
	_, err = f.Set(t.Context(), pages(2))
	require.ErrorIs(t, err, ErrNoJob)
}

// A bound below what is used ends the job, and is raised again; two that are set at once are
// both heard of, and one of them holds.
func TestSetBelowWhatIsUsed(t *testing.T) {
	r := realTime(newRig(t))
	r.cfg.Lease = time.Second
	a := r.open(func(c *Config) { c.MaxPages, c.Terms = 1000, map[string]string{maxPages: "1000"} })
	used, _ := use(t, a, 0, 30)
	f := r.dial()
	set(t, f, pages(10))
	var last bool
	for !last { // what it has drawn is its own
		used, last = use(t, a, used, 1)
	}
	require.LessOrEqual(t, used, 30+3*(1000/drawPart+1)/2)
	st := statusOf(t, f)
	require.GreaterOrEqual(t, st.Budgets[0].Used, 30.0)
	require.True(t, st.Budgets[0].UsedUp())

	var both sync.WaitGroup
	var errs [2]error
	for i, n := range []int64{2000, 3000} {
		another := r.dial()
		both.Go(func() { _, errs[i] = another.Set(t.Context(), pages(n)) })
	}
	both.Wait()
	require.NoError(t, errors.Join(errs[:]...))
	st = statusOf(t, f)
	require.Contains(t, []string{"2000", "3000"}, st.Terms[maxPages])
	now, last := used, true
	for deadline := time.Now().Add(redistest.Patience); last && time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		now, last = use(t, a, used, 1)
	}
	require.Equal(t, used+1, now, "it goes on")
}

// What a process has drawn last is forgotten when it leaves, and an hour after it died: the job
// has no field for each that ever was.
func TestDrawnIsForgotten(t *testing.T) {
	r := newRig(t)
	left, died := r.open(pagesOf(100)), r.open(pagesOf(100))
	use(t, left, 0, 1)
	use(t, died, 0, 1)
	require.NoError(t, left.Close())
	die(died)
	fields := func() (list []string) {
		s := r.open()
		all, err := s.link.Do(t.Context(), s.link.B().Hkeys().Key(jobKey(r.cfg.Job, "drawn")).Build()).AsStrSlice()
		require.NoError(t, err)
		for _, field := range all {
			if strings.Contains(field, "/") {
				list = append(list, field)
			}
		}
		return list
	}
	require.Equal(t, []string{maxPages + "/" + died.worker}, fields())
	r.clk.Advance(r.cfg.Lease + time.Hour + time.Second)
	require.Empty(t, fields())
}
