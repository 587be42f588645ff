package pipeline

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/racetest"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/limit"
)

type limitedSite struct {
	mu       sync.Mutex // guards what follows
	requests int        // of pages
	refused  int
	status   int                                                          // of a refusal; zero means none at all
	header   http.Header                                                  // of a refusal
	page     string                                                       // at /
	refuse   func(path string, n int, now time.Time) (header http.Header) // nil lets a request pass
}

func (c *limitedSite) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	time.Sleep(50 * time.Millisecond)
	if r.URL.Path == "/robots.txt" {
		rw.WriteHeader(http.StatusNotFound)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if h := c.refuse(r.URL.Path, c.requests, time.Now()); h != nil {
		c.refused++
		maps.Copy(rw.Header(), h)
		if c.status == 0 {
			c.mu.Unlock()
			<-r.Context().Done() // never an answer
			c.mu.Lock()
			return
		}
		rw.WriteHeader(c.status)
		return
	}
	if r.URL.Path == "/" {
		html(rw, c.page)
		return
	}
	html(rw, "x")
}

// refusals is how many requests were refused. A handler that never answers may still run.
func (c *limitedSite) refusals() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

func (c *limitedSite) crawl(t *testing.T, strategy string, change func(*world)) (*world, *Pipeline) {
	t.Helper()
	w, _ := served(t, map[string]http.Handler{"a.test": c})
	w.limits.Strategy = strategy
	if change != nil {
		change(w)
	}
	p := w.must(t, "http://a.test/")
	return w, p
}

// URLs that fail whenever they are asked for, among others that do not, cost as many tries as
// the user said and little time, and each has one record with its status and its tries. How
// many there are, where they stand and by what they fail does not matter. Where half of a site
// refuses, whose the refusals are comes out within seconds of each other, and what the limiter
// made of the first of them is undone.
func TestURLsThatAlwaysFail(t *testing.T) {
	type behaviour struct {
		status int // zero: no answer in time
		wait   string
	}
	all := []behaviour{{429, ""}, {429, "7"}, {420, ""}, {503, ""}, {503, "7"}, {403, ""}, {502, ""}, {408, ""}, {0, ""}}
	places := []string{"among the others", "first", "last"}
	if racetest.Sample(t) {
		places = places[:1]
	}
	some := slices.DeleteFunc(slices.Clone(all), func(b behaviour) bool {
		return b.status == 420 || b.status == 408 || b.status == 503 && b.wait != "" // the smallest site shows it
	})
	for _, tc := range []struct {
		good, bad int
		within    time.Duration // of the crawl; more for those that wait
		does      []behaviour
		retries   []int
	}{
		{13, 1, 30 * time.Second, all, []int{0, 1, 3}},
		{200, 1, time.Minute, some, []int{0, 3}},
		{200, 5, 4 * time.Minute, some, []int{0, 3}},
		{50, 50, time.Hour, some, []int{0, 3}},
		{15, 15, 105 * time.Second, []behaviour{{429, ""}, {503, ""}, {403, ""}}, []int{0, 3}},
	} {
		for _, does := range tc.does {
			for _, retries := range tc.retries {
				for _, where := range places {
					for _, strategy := range []string{control.NameSteer, control.NameAIMD} {
						name := fmt.Sprintf("%d of %d/%d %s/%d retries/%s/%s", tc.bad, tc.good+tc.bad, does.status, does.wait, retries, where, strategy)
						t.Run(name, bubble(func(t *testing.T) {
							site := failing(tc.good, tc.bad, where)
							site.status = does.status
							if does.wait != "" {
								site.header = http.Header{"Retry-After": {does.wait}}
							}
							half, within := tc.good == tc.bad && tc.good < 50, tc.within
							switch {
							case half && strategy == control.NameAIMD && does.status == 503:
								within += 2 * time.Minute
							case half && (strategy == control.NameAIMD || does.status == 503):
								within += time.Minute // a circuit opens for longer, or an outage is waited for first
							case does.status == 0:
								within += time.Duration(tc.bad*(retries+2)) * time.Minute
							case does.wait != "":
								within += time.Duration(tc.bad*(retries+3)) * 8 * time.Second
							}
							site.requireGivenUp(t, tc.good, tc.bad, retries, strategy, within, half)
						}))
					}
				}
			}
		}
	}
}

func (c *limitedSite) requireGivenUp(t *testing.T, good, bad, retries int, strategy string, within time.Duration, strict bool) {
	t.Helper()
	w, p := c.crawl(t, strategy, func(w *world) { w.Retries = retries })
	requireEnd(t, p, EndDone)
	took, refused := time.Since(w.began), c.refusals()
	t.Logf("%v, %d requests that failed", took.Round(time.Second), refused)
	require.Less(t, took, within)
	refuses := slices.Contains([]int{429, 420, 503, 403}, c.status)
	tries := retries + 1
	if refuses {
		tries = max(tries, 2) // the first may have been the host's
	}
	if c.status == http.StatusForbidden {
		tries = 2
	}
	most := bad * (tries + 1)
	if strict || retries == 0 && refuses {
		most = bad * tries
	}
	require.LessOrEqual(t, refused, most, "requests")
	records := w.out.byURL(t)
	require.Len(t, records, good+bad+1)
	for u, rec := range records {
		if !strings.Contains(u, "login") {
			require.Equal(t, http.StatusOK, rec.Status, u)
			continue
		}
		require.Equal(t, c.status, rec.Status, u)
		require.LessOrEqual(t, rec.Attempt, tries, u)
		if c.status == 0 {
			require.Equal(t, outcome.Timeout.String(), rec.Error.Class)
		}
	}
}

// Where nothing is paced, and all goes out at once, whose a failure was comes out too.
func TestURLsThatAlwaysFailUnpaced(t *testing.T) {
	for _, status := range []int{429, 503, 403} {
		for _, good := range []int{0, 13} {
			t.Run(fmt.Sprintf("%d/%d", status, good), bubble(func(t *testing.T) {
				site := &limitedSite{page: links(good) + "<a href=/login>x</a>", status: status, refuse: func(path string, _ int, _ time.Time) http.Header {
					if path == "/login" {
						return http.Header{}
					}
					return nil
				}}
				w, p := site.crawl(t, control.NameSteer, func(w *world) { w.limits.Enabled = false })
				requireEnd(t, p, EndDone)
				require.Less(t, time.Since(w.began), time.Minute)
				require.Equal(t, status, w.out.byURL(t)["http://a.test/login"].Status)
			}))
		}
	}
}

func failing(good, bad int, where string) *limitedSite {
	var goods, bads, mixed strings.Builder
	for i := range good {
		fmt.Fprintf(&goods, "<a href=/%d>x</a>", i)
		fmt.Fprintf(&mixed, "<a href=/%d>x</a>", i)
		if bad > 0 && i%(good/bad) == good/bad/4 {
			fmt.Fprintf(&bads, "<a href=/login%d>x</a>", i)
			fmt.Fprintf(&mixed, "<a href=/login%d>x</a>", i)
		}
	}
	page := mixed.String()
	switch where {
	case "first":
		page = bads.String() + goods.String()
	case "last":
		page = goods.String() + bads.String()
	}
	site := &limitedSite{page: page, status: http.StatusTooManyRequests}
	site.refuse = func(path string, _ int, _ time.Time) http.Header {
		if strings.HasPrefix(path, "/login") {
			return site.header
		}
		return nil
	}
	site.header = http.Header{}
	return site
}

// The Retry-After of a refusal delays the host as long as the refusal may be the host's, and
// the URL alone as soon as it is known to be its own.
func TestRetryAfterOfAURL(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := failing(200, 1, "first")
		var at []time.Duration // of the refusals
		others := map[int]int{}
		began := time.Now()
		site.refuse = func(path string, _ int, now time.Time) http.Header {
			if strings.HasPrefix(path, "/login") {
				at = append(at, now.Sub(began))
				return http.Header{"Retry-After": {"20"}}
			}
			if len(at) > 0 && now.Sub(began) < at[len(at)-1]+20*time.Second {
				others[len(at)]++
			}
			return nil
		}
		w, p := site.crawl(t, control.NameSteer, func(w *world) { w.Concurrency = 1 })
		requireEnd(t, p, EndDone)
		require.Len(t, at, 4)
		for i := range at[1:] {
			require.GreaterOrEqual(t, at[i+1]-at[i], 20*time.Second, "the URL waits each time")
		}
		require.Zero(t, others[1], "the host waits the first time")
		require.Positive(t, others[2], "others do not wait for what the URL was told")
		require.Equal(t, http.StatusTooManyRequests, w.out.byURL(t)["http://a.test/login50"].Status)
		snap := p.Snapshot()
		require.EqualValues(t, 3, snap.OfURL)
		require.Len(t, snap.Hosts, 1)
		require.Zero(t, snap.Hosts[0].Failures, "what was the URL's affair to the end is no failure of its host")
		require.Empty(t, snap.Hosts[0].Trouble)
	})
}

// A host that refuses every request for ten minutes and recovers has all its pages visited, and
// no URL has spent a try; an outage without answers likewise.
func TestHostThatRefusesForMinutes(t *testing.T) {
	for _, status := range []int{429, 503, 403, 0} {
		for _, retries := range []int{0, 3} {
			t.Run(fmt.Sprintf("%d/%d retries", status, retries), bubble(func(t *testing.T) {
				began := time.Now()
				site := &limitedSite{page: links(100), status: status, refuse: func(_ string, _ int, now time.Time) http.Header {
					if at := now.Sub(began); at > 5*time.Second && at < 10*time.Minute {
						return http.Header{}
					}
					return nil
				}}
				w, p := site.crawl(t, control.NameSteer, func(w *world) { w.Retries, w.MaxBlocked = retries, time.Hour })
				requireEnd(t, p, EndDone)
				records := w.out.byURL(t)
				require.Len(t, records, 101)
				lost := 0
				for u, rec := range records {
					if status != 0 { // what is sent before the breaker opens may be the URL's
						require.Equal(t, http.StatusOK, rec.Status, u)
						require.Equal(t, 1, rec.Attempt, u)
					} else if rec.Status != http.StatusOK {
						lost++
					}
				}
				if retries > 0 {
					require.Zero(t, lost)
				}
			}))
		}
	}
}

// A host that refuses every request for more than a day is given up: each of its URLs that is
// asked for then has its record.
func TestHostThatRefusesForADay(t *testing.T) {
	for _, status := range []int{429, 503, 403} {
		t.Run(strconv.Itoa(status), bubble(func(t *testing.T) {
			site := &limitedSite{page: links(20), status: status, refuse: closing(2)}
			w, p := site.crawl(t, control.NameSteer, func(w *world) { w.MaxBlocked = 100 * 24 * time.Hour })
			requireEnd(t, p, EndDone)
			require.Greater(t, time.Since(w.began), attribution.MaxOutage)
			require.Len(t, w.out.byURL(t), 21)
		}))
	}
}

// A crawl that ends early has a record of each URL that it has asked for, whose last answer was a refusal too, or that
// was cut off: without a state nobody goes on with it. With one they stay queued, all others in both cases.
func TestURLsAskedForHaveRecordsAtTheEnd(t *testing.T) {
	const cutOff = -1 // no answer for longer than the crawl waits
	for end, change := range map[End]func(w *world){
		EndBlocked:     func(w *world) { w.MaxBlocked = time.Minute },
		EndLimit:       func(w *world) { w.MaxTime = 30 * time.Second },
		EndInterrupted: nil,
	} {
		for _, status := range []int{429, 503, 403, 0, cutOff} {
			if status == cutOff && end == EndBlocked {
				continue // it waits for what is under way
			}
			for _, kept := range []bool{false, true} {
				t.Run(fmt.Sprintf("%v/%d/state %t", end, status, kept), bubble(func(t *testing.T) {
					asked := map[string]bool{}
					refuse, timeout := closing(10), 2*time.Second
					if status == cutOff {
						timeout = time.Hour
					}
					site := &limitedSite{page: links(100), status: max(status, 0), refuse: func(path string, n int, now time.Time) http.Header {
						asked["http://a.test"+path] = true
						return refuse(path, n, now)
					}}
					w := newWorldOn(t, fetch.Config{DialContext: fetchtest.Serve(t, map[string]http.Handler{"a.test": site}).DialContext, Timeout: timeout, HeaderTimeout: timeout})
					w.Retries, w.Grace = 5, 2*time.Second
					if kept {
						w.State = newJournal(1).state()
					}
					if change != nil {
						change(w)
					}
					p := w.build(t)
					if end == EndInterrupted {
						time.AfterFunc(30*time.Second+time.Millisecond, p.Stop)
					}
					require.NoError(t, w.run(t.Context(), t, p, "http://a.test/"))
					requireEnd(t, p, end)
					site.mu.Lock()
					defer site.mu.Unlock()
					records := w.out.byURL(t)
					s := p.Snapshot()
					require.EqualValues(t, len(records), s.Records)
					require.EqualValues(t, 101, s.Records+s.Frontier.Queued)
					if kept {
						require.Len(t, records, 9)
						return
					}
					require.Len(t, records, len(asked))
					require.Greater(t, len(asked), 10)
					require.EqualValues(t, len(records)-9, s.Errors)
					for u, rec := range records {
						require.Contains(t, asked, u)
						if rec.Status == http.StatusOK {
							continue
						}
						require.Equal(t, max(status, 0), rec.Status)
						require.Positive(t, rec.Attempt)
						require.NotEqual(t, outcome.Unknown.String(), rec.Error.Class)
						require.Equal(t, status == cutOff, rec.Error.Class == outcome.Canceled.String())
						require.Contains(t, rec.Error.Message, "the crawl ended before")
					}
				}))
			}
		}
	}
}

// Whichever request is the last of a quota, that of a URL that is asked alone too, the crawl ends then and
// does not wait a day for the next one to show whose failure it was.
func TestSuspicionEndsWithTheQuota(t *testing.T) {
	for quota := int64(20); quota < 60; quota++ { // a URL that was refused is asked for again in between
		synctest.Test(t, func(t *testing.T) {
			w, p := failing(60, 1, "").crawl(t, control.NameSteer, func(w *world) {
				w.limits.InitialRPS, w.MaxBlocked = 10, 5*time.Minute
				w.limits.Hosts = []ratelimit.HostRule{{Match: "*", Quota: limit.Spec{Permits: quota, Per: 24 * time.Hour}}}
			})
			requireEnd(t, p, EndBlocked)
			require.Less(t, time.Since(w.began), time.Hour, "quota %d", quota)
		})
	}
}

func tokens(rps, burst float64) func(string, int, time.Time) http.Header {
	level, at := burst, time.Time{}
	return func(_ string, _ int, now time.Time) http.Header {
		if at.IsZero() {
			at = now
		}
		level, at = min(burst, level+now.Sub(at).Seconds()*rps), now
		if level < 1 {
			return http.Header{}
		}
		level--
		return nil
	}
}

func window(quota int, length time.Duration) func(string, int, time.Time) http.Header {
	n, begun := 0, time.Time{}
	return func(_ string, _ int, now time.Time) http.Header {
		if now.Sub(begun) >= length {
			n, begun = 0, now.Truncate(length)
		}
		if n++; n > quota {
			return http.Header{}
		}
		return nil
	}
}

func closing(from int) func(string, int, time.Time) http.Header {
	return func(_ string, n int, _ time.Time) http.Header {
		if n >= from {
			return http.Header{}
		}
		return nil
	}
}

// Who limits all URLs alike sees hardly more of the crawl than if every refusal were taken for
// the host's (the bounds are a quarter above what that came to), and no page is given up.
func TestRetestsAreNoWayRoundALimit(t *testing.T) {
	type limit = func(string, int, time.Time) http.Header
	statuses, allowed := []int{http.StatusTooManyRequests, http.StatusServiceUnavailable}, []int{0, 3}
	if racetest.Sample(t) {
		statuses, allowed = statuses[:1], allowed[1:]
	}
	for name, tc := range map[string]struct {
		refuse             func() limit
		steer, aimd, whole int // refusals; pages if all are to be had
	}{
		"bucket":              {func() limit { return tokens(3, 1) }, 12, 64, 1001},
		"bucket with a burst": {func() limit { return tokens(3, 10) }, 40, 45, 1001},
		"17 in 10s":           {func() limit { return window(17, 10*time.Second) }, 20, 75, 0},
		"20 in 10s":           {func() limit { return window(20, 10*time.Second) }, 20, 75, 0},
		"33 in 5s":            {func() limit { return window(33, 5*time.Second) }, 15, 32, 1001},
		"closes":              {func() limit { return closing(100) }, 50, 43, 0},
		"is closed":           {func() limit { return closing(3) }, 50, 43, 0},
	} {
		for _, strategy := range []string{control.NameSteer, control.NameAIMD} {
			for _, status := range statuses {
				for _, retries := range allowed {
					t.Run(fmt.Sprintf("%s/%s/%d/%d", strategy, name, status, retries), bubble(func(t *testing.T) {
						site := &limitedSite{page: links(1000), refuse: tc.refuse(), status: status}
						w, _ := site.crawl(t, strategy, func(w *world) {
							w.MaxTime, w.MaxBlocked, w.Retries = 10*time.Minute, time.Hour, retries
						})
						records := w.out.byURL(t)
						for u, rec := range records {
							if rec.Error == nil || !strings.Contains(rec.Error.Message, "the crawl ended before the URL was asked for again") {
								require.Equal(t, http.StatusOK, rec.Status, u)
							}
							require.Equal(t, 1, rec.Attempt, u)
						}
						most := tc.steer
						if strategy == control.NameAIMD {
							most = tc.aimd
						}
						t.Logf("%d requests, %d refused, %d records", site.requests, site.refused, len(records))
						require.LessOrEqual(t, site.refused, most+most/4)
						if tc.whole > 0 {
							require.Len(t, records, tc.whole)
						}
					}))
				}
			}
		}
	}
}
