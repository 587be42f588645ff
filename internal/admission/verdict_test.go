package admission_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

type arrival struct {
	at, took time.Duration
	code     int
}

// arrive sends requests from one client, each at its time, and waits for all of them.
func (d *doorway) arrive(at ...time.Duration) []arrival {
	all := make([]arrival, len(at))
	var under sync.WaitGroup
	begun := time.Now()
	for i := range at {
		under.Go(func() {
			time.Sleep(at[i])
			w := d.get("/")
			all[i] = arrival{at[i], time.Since(begun) - at[i], w.Code}
		})
	}
	under.Wait()
	return all
}

func codes(all []arrival) []int {
	list := make([]int, len(all))
	for i := range all {
		list[i] = all[i].code
	}
	return list
}

const (
	in  = http.StatusOK
	out = http.StatusTooManyRequests
)

// inBubble runs a test with a doorway whose time is that of a bubble.
func inBubble(t *testing.T, cfg doorwayConfig, test func(t *testing.T, d *doorway)) {
	t.Helper()
	cfg.bubble = true
	synctest.Test(t, func(t *testing.T) { test(t, newDoorway(t, cfg)) })
}

func waiting(capacity int64, perSecond float64, wait time.Duration) doorwayConfig {
	return onePlan(admission.Plan{Name: "p", Capacity: capacity, TokensPerSecond: perSecond}, func(r *admission.Rule) { r.Wait = wait })
}

// TestWait is about requests that come at some times, each of which ends after some time.
func TestWait(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for name, tc := range map[string]struct {
		cfg      doorwayConfig
		at, took []time.Duration
		want     []int
	}{
		"in the order in which they came": {
			waiting(1, 1, 10*s),
			[]time.Duration{0, 100 * ms, 200 * ms, s, 2500 * ms},
			[]time.Duration{0, 900 * ms, 1800 * ms, 2 * s, 1500 * ms},
			[]int{in, in, in, in, in},
		},
		"no longer than the rule says: when it is its turn to ask, two seconds more are too long": {
			waiting(1, 0.5, 3*s), []time.Duration{0, 1, 2, 3, 4 * s}, // what was denied cost nothing
			[]time.Duration{0, 2 * s, 2 * s, 2 * s, 0}, []int{in, in, out, out, in},
		},
		"behind one who waits: it moves up, and then it is known": {
			waiting(1, 0.1, 9500*ms),
			[]time.Duration{0, s, 2 * s, 11500 * ms},
			[]time.Duration{0, 9 * s, 8 * s, 8500 * ms},
			[]int{in, in, out, in},
		},
		"for a place": {
			slots(1, func(r *admission.Rule) { r.Wait = 2500 * ms }),
			[]time.Duration{0, 1, 2, 3},
			[]time.Duration{s, 2 * s, 3 * s, 2500 * ms},
			[]int{in, in, in, out},
		},
		"a place is held until the end": {
			slots(2, nil),
			[]time.Duration{0, 500 * ms, 999 * ms, 1001 * ms, 1499 * ms, 1501 * ms},
			[]time.Duration{s, s, 0, s, 0, s},
			[]int{in, in, out, in, out, in},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, tc.cfg, func(t *testing.T, d *doorway) {
				all := d.arrive(tc.at...)
				require.Equal(t, tc.want, codes(all))
				for i, want := range tc.took {
					require.InDelta(t, want, all[i].took, float64(2*time.Microsecond), i)
				}
			})
		})
	}
}

// TestNoLineWhileThereAreTokens: a store that is far away is asked by many at a time.
func TestNoLineWhileThereAreTokens(t *testing.T) {
	inBubble(t, waiting(10, 1, time.Minute), func(t *testing.T, d *doorway) {
		d.store.fail = func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil }
		for i, a := range d.arrive(make([]time.Duration, 10)...) {
			require.Equal(t, arrival{0, 10 * time.Millisecond, in}, a, i)
		}
	})
}

// TestLineWhenTheStoreGoesDown: those in line are let in, as OnError says.
func TestLineWhenTheStoreGoesDown(t *testing.T) {
	inBubble(t, waiting(1, 0.1, 15*time.Second), func(t *testing.T, d *doorway) {
		begun := time.Now()
		d.store.fail = func(context.Context) error {
			if time.Since(begun) > 2*time.Second {
				return errDown
			}
			return nil
		}
		for _, a := range d.arrive(0, 1, 2, 3) {
			require.Equal(t, in, a.code)
			require.LessOrEqual(t, a.took, 10*time.Second)
		}
	})
}

func TestLineIsBounded(t *testing.T) {
	inBubble(t, waiting(1, 0.001, time.Hour), func(t *testing.T, d *doorway) {
		const more = 10
		ctx, leave := context.WithCancel(t.Context())
		var refused []*httptest.ResponseRecorder
		var mu sync.Mutex
		var under sync.WaitGroup
		require.Equal(t, in, d.get("/").Code)
		for range 1 + 128 + more { // one asks, 128 wait
			under.Go(func() {
				w := d.ask(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
				mu.Lock()
				defer mu.Unlock()
				refused = append(refused, w)
			})
		}
		synctest.Wait()
		require.Len(t, refused, more)
		require.Equal(t, out, refused[0].Code)
		require.Equal(t, "1000", refused[0].Header().Get("Retry-After"))
		leave() // and who leaves the line is no request any more
		under.Wait()
		require.Equal(t, http.StatusServiceUnavailable, refused[more].Code)
	})
}

// TestWhoLeavesTheLineTakesNothing: those behind move up.
func TestWhoLeavesTheLineTakesNothing(t *testing.T) {
	inBubble(t, waiting(1, 1, time.Minute), func(t *testing.T, d *doorway) {
		require.Equal(t, in, d.get("/").Code)
		ctx, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		go d.ask(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		synctest.Wait()
		all := d.arrive(100 * time.Millisecond)
		require.Equal(t, in, all[0].code)
		require.InDelta(t, 900*time.Millisecond, all[0].took, float64(2*time.Microsecond))
	})
}

// slots is a rule of so many at a time, whose handler takes a second.
func slots(n int64, change func(*admission.Rule)) doorwayConfig {
	r := admission.Rule{Name: "all", Path: "/**", Concurrency: n}
	if change != nil {
		change(&r)
	}
	return doorwayConfig{
		rules: []admission.Rule{r},
		next:  func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) },
	}
}

func TestConcurrencyHeaders(t *testing.T) {
	inBubble(t, slots(1, nil), func(t *testing.T, d *doorway) {
		w := d.get("/")
		require.Equal(t, in, w.Code)
		require.Equal(t, map[string]string{
			"RateLimit-Policy": `"all-concurrency";q=1;qu="concurrent-requests"`, "RateLimit": `"all-concurrency";r=0`,
		}, limits(w.Header()), "one may be under way, and is: there is nothing to wait for but its end")
		quota, ok := header.Parse(w.Header(), time.Now())
		require.True(t, ok)
		require.Equal(t, header.Quota{InFlight: 1}, quota, "our own client reads it")
		go d.get("/")
		synctest.Wait()
		w = d.get("/")
		require.Equal(t, out, w.Code)
		require.Equal(t, map[string]string{
			"RateLimit-Policy": `"all-concurrency";q=1;qu="concurrent-requests"`,
			"RateLimit":        `"all-concurrency";r=0`, "Retry-After": "1",
		}, limits(w.Header()))
		require.Contains(t, w.Body.String(), `"violated-policies":["all-concurrency"]`)
		time.Sleep(time.Second)
		synctest.Wait()
	})
}

func TestConcurrencyIsPerKey(t *testing.T) {
	inBubble(t, slots(1, nil), func(t *testing.T, d *doorway) {
		go d.ask(asked("192.0.2.1:1"))
		synctest.Wait()
		require.Equal(t, in, d.ask(asked("192.0.2.2:1")).Code)
	})
}

// TestConcurrencyIsReleasedOnPanic: the place of a handler that panics is free again, and
// the panic goes on to whoever is outside.
func TestConcurrencyIsReleasedOnPanic(t *testing.T) {
	cfg := slots(1, nil)
	cfg.next = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
	inBubble(t, cfg, func(t *testing.T, d *doorway) {
		for range 3 {
			require.PanicsWithError(t, http.ErrAbortHandler.Error(), func() { d.get("/") })
		}
	})
}

// TestConcurrencyIsReleasedIfThePlanDenies, or if what is asked panics.
func TestConcurrencyIsReleasedIfThePlanDenies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := slots(1, func(r *admission.Rule) { r.Plans, r.CostBy = []string{"two"}, "cost" })
		cfg.plans = []admission.Plan{two}
		cfg.set.Costs = map[string]func(*http.Request) int64{"cost": func(r *http.Request) int64 {
			if r.URL.Path == "/panic" {
				panic("cost")
			}
			return 1
		}}
		d := newDoorway(t, cfg)
		require.Equal(t, []int{in, in}, codes(d.arrive(0, time.Second+1)))
		for range 3 {
			w := d.get("/")
			require.Equal(t, "0", w.Header().Get("X-RateLimit-Remaining"), "denied by the plan and not for want of a place")
		}
		require.Panics(t, func() { d.get("/panic") })
		require.Equal(t, "0", d.get("/").Header().Get("X-RateLimit-Remaining"))
	})
}

// TestConcurrencyIsReleasedIfAStorePanics: of a request that was charged and then lost.
func TestConcurrencyIsReleasedIfAStorePanics(t *testing.T) {
	d := newDoorway(t, onePlan(two, func(r *admission.Rule) { r.Concurrency = 1 }))
	d.store.fail = func(context.Context) error { panic("store") }
	require.PanicsWithValue(t, "store", func() { d.get("/") })
	d.store.set(nil)
	require.Equal(t, in, d.get("/").Code, "the place is free again")
}

// TestRuleChangeKeepsWhatIsUnderWay: putting a rule in its own place does not forget the requests that it counts.
func TestRuleChangeKeepsWhatIsUnderWay(t *testing.T) {
	inBubble(t, slots(1, nil), func(t *testing.T, d *doorway) {
		go d.get("/")
		synctest.Wait()
		rule := d.rules.Rules()[0]
		rule.Methods = []string{"GET"}
		require.NoError(t, d.rules.Put(rule, ""))
		require.Equal(t, out, d.get("/").Code)
		rule.Concurrency = 2
		require.NoError(t, d.rules.Put(rule, ""))
		require.Equal(t, in, d.get("/").Code, "another bound begins anew")
	})
}

// TestExactlyTheCapacityIsLetIn has two thousand requests at once on a plan of a hundred.
func TestExactlyTheCapacityIsLetIn(t *testing.T) {
	inBubble(t, waiting(100, 0.001, 0), func(t *testing.T, d *doorway) {
		all := codes(d.arrive(make([]time.Duration, 2000)...))
		slices.Sort(all)
		require.Equal(t, in, all[99])
		require.Equal(t, out, all[100], fmt.Sprint(all[95:105]))
	})
}
