package ratelimit

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// queue starts an Acquire and lets it come to rest before the next is started, so that the order of arrival is known.
// The order and the times of the grants, counted from its making, are in log.
type queue struct {
	t     *testing.T
	l     *AdaptiveRateLimiter
	begin time.Time
	wg    sync.WaitGroup

	mu  sync.Mutex
	log []string
}

func newQueue(t *testing.T, change func(c *Config)) *queue {
	c := simplest()
	if change != nil {
		change(&c)
	}
	return &queue{t: t, l: mustNew(t, c), begin: time.Now()}
}

func (q *queue) join(ctx context.Context, domain, name string) {
	q.wg.Go(func() {
		p, err := q.l.Acquire(ctx, domain)
		what := "granted"
		if err != nil {
			what = err.Error()
		} else {
			p.Release()
		}
		q.mu.Lock()
		defer q.mu.Unlock()
		q.log = append(q.log, fmt.Sprintf("%v %s %s", time.Since(q.begin), name, what))
	})
	synctest.Wait()
}

func (q *queue) want(log ...string) {
	q.t.Helper()
	q.wg.Wait()
	require.Equal(q.t, log, q.log)
	require.Zero(q.t, q.l.Snapshot().Waiting)
	require.Zero(q.t, q.l.Snapshot().InFlight)
}

func TestWaitersAreServedInOrderAtExactInstants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, func(c *Config) { c.InitialRPS = 4 })
		for _, name := range []string{"a", "b", "c", "d"} {
			q.join(t.Context(), host, name)
		}
		q.want("0s a granted", "250ms b granted", "500ms c granted", "750ms d granted")
		require.Equal(t, uint64(3), q.l.Snapshot().Throttled)
		require.Equal(t, uint64(4), q.l.Snapshot().Requests)
	})
}

func TestNewcomerQueuesWhileAnyoneWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, nil)
		q.join(t.Context(), host, "a")
		q.join(t.Context(), host, "b")
		// At the instant at which b is due a newcomer finds the token there and b perhaps not awake yet.
		s := q.l.lock(host)
		time.Sleep(time.Second)
		q.wg.Go(func() { q.join(t.Context(), host, "c") })
		s.mu.Unlock()
		q.want("0s a granted", "1s b granted", "2s c granted")
	})
}

// Whoever gives up leaves no hole: those behind him move up at once.
func TestCancelledWaiterLetsOthersMoveUp(t *testing.T) {
	for _, tc := range []struct {
		name   string
		cancel string
		want   []string
	}{
		{"head", "b", []string{"0s a granted", "400ms b context canceled", "1s c granted", "2s d granted"}},
		{"middle", "c", []string{"0s a granted", "400ms c context canceled", "1s b granted", "2s d granted"}},
		{"tail", "d", []string{"0s a granted", "400ms d context canceled", "1s b granted", "2s c granted"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, nil)
				for _, name := range []string{"a", "b", "c", "d"} {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if name == tc.cancel {
						time.AfterFunc(400*time.Millisecond, cancel)
					}
					q.join(ctx, host, name)
				}
				q.want(tc.want...)
			})
		})
	}
}

// Feedback that moves the next grant moves the timer of who waits for it.
func TestFeedbackRearmsTheHead(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(l *AdaptiveRateLimiter)
		want string
	}{
		{"rate up: half a token at 1/s, the rest at 1.1/s", func(l *AdaptiveRateLimiter) { l.Feedback(host, ok(0)) }, "954.545455ms"},
		{"rate down: the rest at 0.5/s", func(l *AdaptiveRateLimiter) { l.Feedback(host, status(500)) }, "1.5s"},
		{"Retry-After", func(l *AdaptiveRateLimiter) { l.Feedback(host, Feedback{StatusCode: 429, RetryAfter: 7 * time.Second}) }, "7.5s"},
		{"Crawl-delay", func(l *AdaptiveRateLimiter) { l.SetCrawlDelay(host, 5*time.Second) }, "5s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t, nil)
				q.join(t.Context(), host, "a")
				q.join(t.Context(), host, "b")
				time.Sleep(500 * time.Millisecond)
				tc.do(q.l)
				q.want("0s a granted", tc.want+" b granted")
			})
		})
	}
}

// A deadline that a slip of the schedule puts out of reach fails then, wherever in
// line its owner stands, and not when it has passed in vain.
func TestSlippedScheduleFailsDeadlinesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, nil)
		by := func(d time.Duration) context.Context {
			return deadlineContext{t.Context(), time.Now().Add(d)}
		}
		q.join(t.Context(), host, "a")
		q.join(by(time.Hour), host, "b")
		q.join(by(5*time.Second), host, "c")
		q.join(t.Context(), host, "d")
		q.join(by(time.Second), host, "e") // its turn would come after 4s
		time.Sleep(500 * time.Millisecond)
		q.l.Feedback(host, Feedback{StatusCode: 429, RetryAfter: 10 * time.Second})
		late := "acquire a.test: the next permit in %s comes after the deadline"
		q.want("0s a granted",
			"0s e "+fmt.Sprintf(late, "4s (start)"),
			"500ms c "+fmt.Sprintf(late, "12s (learned)"),
			"10.5s b granted", "12.5s d granted")
	})
}

func TestTooManyWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, func(c *Config) { c.MaxWaiters = 2 })
		for _, name := range []string{"a", "b", "c", "d"} {
			q.join(t.Context(), host, name)
		}
		q.want("0s a granted", "0s d acquire a.test: too many waiters: 2", "1s b granted", "2s c granted")
	})
}

// A breaker that opens sends everyone home; so does the probe of a half-open one.
func TestBreakerDismissesWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, func(c *Config) { c.ConsecutiveFailThreshold = 2; c.OpenStateDuration = 4 * time.Second })
		for _, name := range []string{"a", "b", "c"} {
			q.join(t.Context(), host, name)
		}
		time.Sleep(time.Millisecond)
		q.l.Feedback(host, Feedback{StatusCode: 500})
		q.l.Feedback(host, Feedback{StatusCode: 500})
		synctest.Wait()
		q.l.Feedback(host, Feedback{StatusCode: 429, RetryAfter: 10 * time.Second})
		time.Sleep(4*time.Second - time.Millisecond)
		q.join(t.Context(), host, "before the end")
		time.Sleep(time.Millisecond)
		q.join(t.Context(), host, "probe")
		q.join(t.Context(), host, "behind")
		until := "acquire a.test: circuit open until " + q.begin.Add(4001*time.Millisecond).Format(time.TimeOnly)
		lost := "acquire a.test: circuit open until " + q.begin.Add(14001*time.Millisecond).Format(time.TimeOnly)
		q.wg.Wait()
		slices.Sort(q.log[1:3]) // woken at the same instant, as the two at the end
		slices.Sort(q.log[4:])
		q.want("0s a granted", "1ms b "+until, "1ms c "+until, "4s before the end "+until,
			"10.001s behind "+lost, "10.001s probe granted")
		require.Equal(t, uint64(4), q.l.Snapshot().Denied)
	})
}

// All domains together: the heads of three domains take turns at the global bucket,
// first come, first served, and a Retry-After gives a place up.
func TestGlobalRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, func(c *Config) { c.GlobalRPS = 2 })
		for i, name := range []string{"a", "b", "c", "d"} {
			q.join(t.Context(), fmt.Sprintf("%d.test", i), name)
		}
		at, why := q.l.ReadyAt("9.test", 0, 0)
		require.Equal(t, LimitGlobal, why)
		require.Equal(t, 2*time.Second, at.Sub(q.begin))
		_, err := q.l.Acquire(deadlineContext{t.Context(), q.begin.Add(time.Second)}, "9.test")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		time.Sleep(600 * time.Millisecond)
		q.l.Feedback("2.test", Feedback{StatusCode: 503, RetryAfter: 3 * time.Second})
		q.want("0s a granted", "500ms b granted", "1s d granted", "3.6s c granted")
	})
}

func TestGlobalWaiterThatGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t, func(c *Config) { c.GlobalRPS = 1 })
		for i, name := range []string{"a", "b", "c"} {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if name == "b" {
				time.AfterFunc(300*time.Millisecond, cancel)
			}
			q.join(ctx, fmt.Sprintf("%d.test", i), name)
		}
		q.want("0s a granted", "300ms b context canceled", "1s c granted")
	})
}

// Many goroutines, some of which give up, on few domains: no grant is lost, none is
// made up, and in the end nobody is left over.
func TestConservationUnderStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := simplest()
		c.InitialRPS, c.MaxRPS, c.TokenBucketCapacity, c.GlobalRPS = 50, 50, 5, 120
		l := mustNew(t, c)
		begin := time.Now()
		var (
			wg     sync.WaitGroup
			mu     sync.Mutex
			grants = map[string][]time.Duration{}
		)
		for g := range 64 {
			wg.Go(func() {
				for i := range 50 {
					domain := fmt.Sprintf("%d.test", (g+i)%3)
					ctx, cancel := context.WithCancel(t.Context())
					if i%4 == 3 {
						time.AfterFunc(time.Duration(g*i)*time.Millisecond, cancel)
					}
					if p, err := l.Acquire(ctx, domain); err == nil {
						mu.Lock()
						grants[domain] = append(grants[domain], time.Since(begin))
						grants["all"] = append(grants["all"], time.Since(begin))
						mu.Unlock()
						l.Feedback(domain, ok(time.Second)) // neither raises nor cuts
						p.Release()
					}
					cancel()
				}
			})
		}
		wg.Wait()
		for domain, times := range grants {
			capacity, rps := 5.0, 50.0
			if domain == "all" {
				capacity, rps = 1.2, 120 // ten milliseconds' worth
			}
			slices.Sort(times)
			for i := range times {
				for j := i + 1; j < len(times); j++ {
					most := capacity + rps*(times[j]-times[i]).Seconds()
					if n := float64(j - i + 1); n > most+1e-6 {
						t.Fatalf("%s: %v grants within %v, want at most %v", domain, n, times[j]-times[i], most)
					}
				}
			}
		}
		s := l.Snapshot()
		require.Equal(t, uint64(len(grants["all"])), s.Requests)
		require.Zero(t, s.InFlight)
		require.Zero(t, s.Waiting)
		require.GreaterOrEqual(t, len(grants["all"]), 64*37) // those that never gave up
	})
}
