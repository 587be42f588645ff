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

// arrival is a request in a bubble, and how it ended.
type arrival struct {
	at, took time.Duration
	code     int
}

// arrive sends requests from one client, each at its time, and waits for all of them.
func (d *doorway) arrive(t *testing.T, at ...time.Duration) []arrival {
	t.Helper()
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

// TestWaitInLine: those who wait are let in when there is a token for each, in the order
// in which they came, and nobody passes them.
func TestWaitInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onePlan(admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 1}, func(r *admission.Rule) { r.Wait = 10 * time.Second })
		cfg.bubble = true
		d := newDoorway(t, cfg)
		ms := time.Millisecond
		all := d.arrive(t, 0, 100*ms, 200*ms, 1000*ms, 2500*ms)
		require.Equal(t, []int{in, in, in, in, in}, codes(all))
		for i, want := range []time.Duration{0, 900 * ms, 1800 * ms, 2000 * ms, 1500 * ms} {
			require.InDelta(t, want, all[i].took, float64(2*time.Microsecond), i)
		}
	})
}

// TestWaitNoLongerThanTheRuleSays: who cannot be served in time is denied at once if that
// is known, and otherwise when the time is over.
func TestWaitNoLongerThanTheRuleSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onePlan(admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 0.5}, func(r *admission.Rule) { r.Wait = 3 * time.Second })
		cfg.bubble = true
		d := newDoorway(t, cfg)
		all := d.arrive(t, 0, 1, 2, 3)
		require.Equal(t, []int{in, in, out, out}, codes(all))
		require.InDelta(t, 2*time.Second, all[1].took, float64(time.Millisecond))
		require.InDelta(t, 2*time.Second, all[2].took, float64(time.Millisecond), "its turn to ask: two seconds more are too long")
		require.InDelta(t, 2*time.Second, all[3].took, float64(time.Millisecond))

		w := d.get("/")
		require.Equal(t, in, w.Code, "what was denied cost nothing")
	})
}

// TestWaitBehindOneWhoWaits: the line itself may take longer than there is time.
func TestWaitBehindOneWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onePlan(admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 0.1}, func(r *admission.Rule) { r.Wait = 9500 * time.Millisecond })
		cfg.bubble = true
		d := newDoorway(t, cfg)
		s := time.Second
		all := d.arrive(t, 0, 1*s, 2*s, 11500*time.Millisecond)
		require.Equal(t, []int{in, in, out, in}, codes(all))
		require.InDelta(t, 8*s, all[2].took, float64(time.Millisecond), "it moved up, and then it was known")
		require.InDelta(t, 8500*time.Millisecond, all[3].took, float64(time.Millisecond))
	})
}

// TestNoLineWhileThereAreTokens: a store that is far away is asked by many at a time.
func TestNoLineWhileThereAreTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onePlan(admission.Plan{Name: "p", Capacity: 10, TokensPerSecond: 1}, func(r *admission.Rule) { r.Wait = time.Minute })
		cfg.bubble = true
		d := newDoorway(t, cfg)
		d.store.fail = func(context.Context) error { time.Sleep(10 * time.Millisecond); return nil }
		for i, a := range d.arrive(t, make([]time.Duration, 10)...) {
			require.Equal(t, arrival{0, 10 * time.Millisecond, in}, a, i)
		}
	})
}

// TestLineWhenTheStoreGoesDown: those in line are let in, as OnError says.
func TestLineWhenTheStoreGoesDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onePlan(admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 0.1}, func(r *admission.Rule) { r.Wait = 15 * time.Second })
		cfg.bubble = true
		d := newDoorway(t, cfg)
		begun := time.Now()
		d.store.fail = func(context.Context) error {
			if time.Since(begun) > 2*time.Second {
				return errDown
			}
			return nil
		}
		for _, a := range d.arrive(t, 0, 1, 2, 3) {
			require.Equal(t, in, a.code)
			require.LessOrEqual(t, a.took, 10*time.Second)
		}
	})
}

func TestLineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := onePlan(admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 0.001}, func(r *admission.Rule) { r.Wait = time.Hour })
		cfg.bubble = true
		d := newDoorway(t, cfg)
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
	synctest.Test(t, func(t *testing.T) {
		cfg := onePlan(admission.Plan{Name: "p", Capacity: 1, TokensPerSecond: 1}, func(r *admission.Rule) { r.Wait = time.Minute })
		cfg.bubble = true
		d := newDoorway(t, cfg)
		require.Equal(t, in, d.get("/").Code)
		ctx, leave := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer leave()
		go d.ask(httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		synctest.Wait()
		all := d.arrive(t, 100*time.Millisecond)
		require.Equal(t, in, all[0].code)
		require.InDelta(t, 900*time.Millisecond, all[0].took, float64(2*time.Microsecond))
	})
}

// slots is a rule of so many at a time, whose handler takes a second.
func slots(n int64, change func(*admission.Rule)) doorwayConfig {
	return doorwayConfig{
		bubble: true,
		rules: []admission.Rule{func() admission.Rule {
			r := admission.Rule{Name: "all", Path: "/**", Concurrency: n}
			if change != nil {
				change(&r)
			}
			return r
		}()},
		next: func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) },
	}
}

func TestConcurrencyIsHeldUntilTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorway(t, slots(2, nil))
		ms := time.Millisecond
		require.Equal(t, []int{in, in, out, in, out, in},
			codes(d.arrive(t, 0, 500*ms, 999*ms, 1001*ms, 1499*ms, 1501*ms)))
	})
}

func TestConcurrencyHeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorway(t, slots(1, nil))
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
	synctest.Test(t, func(t *testing.T) {
		d := newDoorway(t, slots(1, nil))
		go d.ask(asked("192.0.2.1:1"))
		synctest.Wait()
		require.Equal(t, in, d.ask(asked("192.0.2.2:1")).Code)
	})
}

// TestConcurrencyIsReleasedOnPanic: the place of a handler that panics is free again, and
// the panic goes on to whoever is outside.
func TestConcurrencyIsReleasedOnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := slots(1, nil)
		cfg.next = func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }
		d := newDoorway(t, cfg)
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
		require.Equal(t, []int{in, in}, codes(d.arrive(t, 0, time.Second+1)))
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
	d.store.failWith(nil)
	require.Equal(t, in, d.get("/").Code, "the place is free again")
}

func TestWaitForAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorway(t, slots(1, func(r *admission.Rule) { r.Wait = 2500 * time.Millisecond }))
		all := d.arrive(t, 0, 1, 2, 3)
		require.Equal(t, []int{in, in, in, out}, codes(all))
		require.InDelta(t, 2*time.Second, all[1].took, 10)
		require.InDelta(t, 3*time.Second, all[2].took, 10)
		require.InDelta(t, 2500*time.Millisecond, all[3].took, 10)
	})
}

// TestRuleChangeKeepsWhatIsUnderWay: putting a rule in its own place does not forget
// the requests that it counts.
func TestRuleChangeKeepsWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoorway(t, slots(1, nil))
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
	synctest.Test(t, func(t *testing.T) {
		cfg := onePlan(admission.Plan{Name: "hundred", Capacity: 100, TokensPerSecond: 0.001}, nil)
		cfg.bubble = true
		d := newDoorway(t, cfg)
		all := codes(d.arrive(t, make([]time.Duration, 2000)...))
		slices.Sort(all)
		require.Equal(t, in, all[99])
		require.Equal(t, out, all[100], fmt.Sprint(all[95:105]))
	})
}
