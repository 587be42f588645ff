package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/resilience"
)

type fullQueue struct {
	Fetcher
	full func() bool
	wait time.Duration
	n    atomic.Int64
}

func (f *fullQueue) Fetch(ctx context.Context, req fetch.Request) (*fetch.Response, error) {
	if f.full() {
		f.n.Add(1)
		time.Sleep(f.wait)
		return nil, &fetch.Error{Op: fetch.OpPolicy, URL: req.URL, Err: resilience.ErrBulkheadFull}
	}
	if req.Permit != nil {
		if err := req.Permit(ctx); err != nil {
			return nil, &fetch.Error{Op: fetch.OpPolicy, URL: req.URL, Err: err}
		}
		req.Permit = nil
	}
	return f.Fetcher.Fetch(ctx, req)
}

func queuedWorld(t *testing.T, full func() bool, wait time.Duration) (*world, *fullQueue) {
	t.Helper()
	w, _ := served(t, map[string]http.Handler{"a.test": site(404, 200, 1e6, 20), "b.test": site(404, 200, 1e6, 20)})
	q := &fullQueue{Fetcher: w.Fetcher, full: full, wait: wait}
	w.Fetcher, w.Queues = q, true
	return w, q
}

// A queue that is full for ever ends the crawl, and costs next to nothing until then.
func TestAQueueThatIsFullForEver(t *testing.T) {
	for _, wait := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			w, q := queuedWorld(t, func() bool { return true }, wait)
			p := w.finish(t, EndBlocked, "http://a.test/", "http://b.test/")
			_, reason := p.End()
			require.Equal(t, "no request could be sent for 5m0s: policy http://"+reason[len(reason)-len("a.test/robots.txt: bulkhead full"):], reason)
			require.InDelta(t, 5*60, time.Since(w.began).Seconds(), 15)
			require.Less(t, q.n.Load(), int64(250))
			s := p.Snapshot()
			require.Zero(t, s.Requests)
			require.Zero(t, s.Limiter.Requests, "no permit was spent")
			require.Zero(t, s.Records)
			require.EqualValues(t, 4, s.Frontier.Queued, "two pages and two robots.txt are left")
			require.InDelta(t, wait.Seconds()*float64(q.n.Load()), s.Workers.WaitSeconds, 20)
			require.Zero(t, s.Workers.BusySeconds)
		})
	}
}

// judging is a State of several processes, of which this is one.
type judging struct {
	*journal
	judged chan struct{}

	mu      sync.Mutex // guards what follows
	told    []frontier.Idleness
	verdict string
}

func (j *judging) Idles(i frontier.Idleness) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.told = append(j.told, i)
}

func (j *judging) Verdict() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.verdict
}

func (j *judging) heard() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.told)
}

func (j *judging) say(verdict string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.verdict = verdict
}

func (j *judging) Seeded()                   {}
func (j *judging) Pages(int) (int, bool)     { return math.MaxInt, false }
func (j *judging) Changed() <-chan struct{}  { return j.judged }
func (j *judging) Noted(_, _ bool, _ string) {}
func (j *judging) Unvisited() string         { return "" }

// A process whose queues let nothing pass says so to the others and tries on; the crawl ends by what
// is so of all of them, or goes on when a request can be sent.
func TestAQueueThatIsFullInOneProcess(t *testing.T) {
	const limit = 5 * time.Minute
	for name, tc := range map[string]struct{ verdict, opens time.Duration }{
		"no process has anything to do": {verdict: 20 * time.Minute},
		"it opens":                      {opens: 20 * time.Minute},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			begun := time.Now()
			w, q := queuedWorld(t, func() bool { return tc.opens == 0 || time.Since(begun) < tc.opens }, 0)
			j := &judging{journal: newJournal(1), judged: make(chan struct{}, 1)}
			w.State = j.state()
			w.State.Peers = j
			p := w.build(t)
			told := make(chan int, 1)
			time.AfterFunc(limit+10*time.Second, func() { told <- j.heard() })
			if tc.verdict > 0 {
				time.AfterFunc(tc.verdict, func() { j.say("so it is everywhere") })
			}
			require.NoError(t, w.run(t.Context(), t, p, "http://a.test/", "http://b.test/"))
			stuck := <-told
			require.Positive(t, stuck)
			last := j.told[stuck-1]
			require.True(t, last.Still())
			require.Equal(t, limit, last.Patience)
			require.WithinDuration(t, begun, last.Since, time.Second)
			require.Contains(t, last.Reason, "no request could be sent for 5m0s: policy http://")
			require.Less(t, q.n.Load(), int64(1000))
			if tc.verdict > 0 {
				require.Len(t, j.told, stuck, "what is being tried is nothing new")
				requireEnd(t, p, EndBlocked)
				_, reason := p.End()
				require.Equal(t, "so it is everywhere", reason)
				require.InDelta(t, tc.verdict.Seconds(), time.Since(begun).Seconds(), 15)
				return
			}
			requireEnd(t, p, EndDone)
			require.False(t, j.told[stuck].Still(), "it works again")
			require.Len(t, w.out.byURL(t), 42)
		}))
	}
}

// That no request can be sent is not said of hosts that others have by now.
func TestWhoHasNoHostsIsNotStuck(t *testing.T) {
	f, err := frontier.New(frontier.Config{Pacer: struct{ ratelimit.Pacer }{}, Slots: 1})
	require.NoError(t, err)
	j := &judging{}
	stuck := frontier.Idleness{Blockage: frontier.Blockage{Whole: true}, Since: time.Now(), Reason: "no place"}
	d := &discovery{p: &Pipeline{}, frontier: f, peers: j, blocking: blocking{stuck: stuck, idleness: stuck, told: stuck}}
	d.testify()
	require.Equal(t, []frontier.Idleness{{}}, j.told)
}

// One that is full for a while, though that is longer than a host may refuse, is waited for.
func TestAQueueThatIsFullForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := time.Now().Add(50 * time.Second)
		w, _ := queuedWorld(t, func() bool { return time.Now().Before(open) }, 0)
		w.MaxBlocked = 0
		p := w.finish(t, EndDone, "http://a.test/", "http://b.test/")
		require.Len(t, w.out.byURL(t), 42)
		for _, rec := range w.out.records {
			require.EqualValues(t, 1, rec.Attempt)
		}
		s := p.Snapshot()
		require.EqualValues(t, 44, s.Requests)
		require.EqualValues(t, 44, s.Limiter.Requests)
		require.Less(t, s.Workers.WaitSeconds, 1.0)
	})
}

type repeater struct {
	before *fetch.Response
	err    error
	pause  time.Duration
}

var errNoOther = errors.New("no other try")

func (r *repeater) Fetch(ctx context.Context, req fetch.Request) (*fetch.Response, error) {
	if r.before != nil && req.OnHeader != nil {
		req.OnHeader(r.before)
	}
	time.Sleep(r.pause)
	if err := req.Again(ctx, r.before, r.err); err != nil {
		return nil, &fetch.Error{Op: fetch.OpPolicy, URL: req.URL, Err: err}
	}
	return nil, errNoOther
}

// When the limiter refuses another try, the one before is the answer; a good header of
// which the Fetcher has dropped the body is none.
func TestTheTryBeforeStands(t *testing.T) {
	for name, tc := range map[string]struct {
		repeater
		class  string
		reason string
		wait   time.Duration
	}{
		"a status":      {repeater{before: &fetch.Response{Status: 503}}, "unavailable", "status 503", time.Second},
		"an error":      {repeater{err: context.DeadlineExceeded}, "timeout", "deadline exceeded", 0},
		"a dropped one": {repeater{before: &fetch.Response{Status: 200}}, "timeout", "came too late", time.Second},
	} {
		t.Run(name, bubble(func(t *testing.T) {
			tc.pause = time.Second // too short for a host that is asked every ten
			w := newWorldOn(t, fetch.Config{})
			w.Fetcher, w.Retries = &tc.repeater, 0
			w.limits.MinDelay = 10 * time.Second
			p := w.must(t, "http://a.test/")
			s := p.Snapshot()
			require.EqualValues(t, 1, s.Unruled)
			require.EqualValues(t, 1, s.Requests)
			require.Equal(t, map[string]int64{tc.class: 1}, s.Outcomes)
			require.EqualValues(t, 1, s.Limiter.Requests)
			require.Zero(t, s.Limiter.InFlight)
			require.Zero(t, s.Returned)
			require.Equal(t, tc.wait.Seconds(), s.Workers.WaitSeconds, "the pause, if it is known when it began")
			require.Contains(t, w.out.records[0].Error.Message, tc.reason)
		}))
	}
}

func siteAfter(n int, wait func(http.ResponseWriter, *http.Request) (answered bool)) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch {
		case wait(rw, r):
		case r.URL.Path == "/robots.txt":
			rw.WriteHeader(http.StatusNotFound)
		case r.URL.Path == "/":
			html(rw, links(n-1))
		default:
			html(rw, "x")
		}
	})
}

func sleeps(d time.Duration) func(http.ResponseWriter, *http.Request) bool {
	return func(http.ResponseWriter, *http.Request) bool { time.Sleep(d); return false }
}

func requestsOf(network *fetchtest.Net, prefix string) (n int, last time.Time) {
	for _, r := range network.Requests() {
		if strings.HasPrefix(r.Host, prefix) {
			n, last = n+1, r.At
		}
	}
	return n, last
}

type slowHosts struct {
	n, pages int
	first    time.Duration             // from the request to the first byte of a page
	at       func(path string) bool    // which paths are slow; nil: all
	then     func(http.ResponseWriter) // instead of a page, after first; nil: a page
}

func (s slowHosts) wait(rw http.ResponseWriter, r *http.Request) bool {
	if s.at != nil && !s.at(r.URL.Path) {
		time.Sleep(20 * time.Millisecond)
		return false
	}
	select {
	case <-time.After(s.first):
	case <-r.Context().Done():
		return true
	}
	if s.then != nil {
		s.then(rw)
	}
	return s.then != nil
}

func healthyDone(t *testing.T, slow slowHosts, slots, perHost int) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const hosts, pages = 20, 200
		serve := map[string]http.Handler{}
		var seeds []string
		host := func(name string, pages http.Handler) {
			seeds = append(seeds, "http://"+name+"/")
			serve[name] = pages
		}
		for i := range slow.n { // first, as is worst
			host(fmt.Sprintf("slow%d.test", i), siteAfter(slow.pages, slow.wait))
		}
		for i := range hosts {
			host(fmt.Sprintf("quick%d.test", i), siteAfter(pages, sleeps(20*time.Millisecond)))
		}
		w, network := served(t, serve)
		w.Concurrency, w.PerHost = slots, perHost
		w.limits.Enabled = false
		w.MaxTime, w.Grace = 5*time.Minute, time.Second
		p := w.build(t)
		var watch sync.WaitGroup
		watch.Go(func() { // what is left is of slow hosts
			for time.Sleep(time.Second); ; time.Sleep(100 * time.Millisecond) {
				if n, _ := requestsOf(network, "quick"); n >= hosts*(pages+1) {
					p.Stop()
				}
				if end, _ := p.End(); end != EndNone {
					return
				}
			}
		})
		require.NoError(t, w.run(t.Context(), t, p, seeds...))
		watch.Wait()
		n, last := requestsOf(network, "quick")
		require.Equal(t, hosts*(pages+1), n)
		took = last.Sub(w.began)
	})
	return took
}

// Hosts that are slow to answer do not hold up others, whichever way they are slow.
func TestSlowHostsBesideHealthyOnes(t *testing.T) {
	slow := func(d time.Duration, n int) slowHosts { return slowHosts{n: n, pages: 200, first: d} }
	pagesOnly := slow(5*time.Second, 5)
	pagesOnly.at = func(path string) bool { return path != "/robots.txt" }
	hang := slow(time.Hour, 5)
	hang.then = func(http.ResponseWriter) {}
	few := racetest.Sample(t)
	for _, tc := range []struct {
		name  string
		slow  slowHosts
		slots int
		ratio float64
	}{
		{"5 at 5 s beside 16 slots", slow(5*time.Second, 5), 16, 1.1},
		{"5 at 5 s beside 64 slots", slow(5*time.Second, 5), 64, 1.05},
		{"5 at 5 s with a quick robots.txt beside 16 slots", pagesOnly, 16, 1.1},
		{"5 at 5 s with a quick robots.txt beside 64 slots", pagesOnly, 64, 1.05},
		{"5 that never answer beside 16 slots", hang, 16, 1.1},
		{"100 at 5 s beside 16 slots", slow(5*time.Second, 100), 16, 10},
	} {
		if few && tc.slots != 16 {
			continue
		}
		t.Run(tc.name, func(t *testing.T) {
			alone := healthyDone(t, slowHosts{}, tc.slots, 2)
			beside := healthyDone(t, tc.slow, tc.slots, 2)
			ratio := float64(beside) / float64(alone)
			t.Logf("%v alone, %v beside slow hosts: %.3f", alone, beside, ratio)
			require.LessOrEqual(t, ratio, tc.ratio)
		})
	}
}
