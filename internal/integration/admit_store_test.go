package integration_test

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/admit"
	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

// roundTrips are those of a machine, a region, a continent and an ocean.
var roundTrips = []time.Duration{0, 15 * time.Millisecond, 50 * time.Millisecond, 150 * time.Millisecond}

// hundred is a plan that admits a hundred in the time of a test.
func hundred(kind string) admit.Config {
	plan := admit.Plan{Name: "hundred", Capacity: 100, TokensPerSecond: 1e-6}
	if kind != "bucket" {
		plan = admit.Plan{Name: "hundred", Kind: "fixed-window", Capacity: 100, Window: 24 * time.Hour}
	}
	return admit.Config{
		Plans: []admit.Plan{plan},
		Rules: []admit.Rule{{Name: "all", Path: "/**", Plans: []string{"hundred"}}},
	}
}

// TestAdmitManyProcessesAtOnce has four processes ask 500 times each at once, with Redis at some distance, and nothing
// connected yet: whatever is late, no more than the limit is let in, and all of it, since nothing was out of reach.
func TestAdmitManyProcessesAtOnce(t *testing.T) {
	for _, processes := range []int{0, 4} {
		for _, trip := range roundTrips {
			t.Run(trip.String(), func(t *testing.T) {
				s := redistest.Redis.Start(t)
				between := newLAN(t, s.Addr, trip)
				var all []http.Handler
				var admissions []*admit.Limiter
				for range 4 {
					cfg := hundred("bucket")
					// A machine with other work takes longer to connect than the second after which Redis is out of reach.
					cfg.Store, cfg.Processes = "redis://"+between.addr+"?dial_timeout=1m&write_timeout=1m", processes
					a := admitting(t, cfg)
					admissions = append(admissions, a)
					all = append(all, a.Handler(hello))
				}
				var granted, undecided atomic.Int64
				var group sync.WaitGroup
				for i := range 2000 {
					group.Go(func() {
						switch statusFor(all[i%4], "192.0.2.1", "/") {
						case http.StatusOK:
							granted.Add(1)
						case http.StatusServiceUnavailable:
							undecided.Add(1)
						}
					})
				}
				group.Wait()
				t.Logf("processes %d, round trip %v: %d granted, %d undecided", processes, trip, granted.Load(), undecided.Load())
				for _, a := range admissions {
					require.False(t, a.Statistics().Down)
					require.Zero(t, a.Statistics().Fallbacks)
				}
				require.LessOrEqual(t, granted.Load(), int64(100))
				require.GreaterOrEqual(t, granted.Load()+undecided.Load(), int64(100), "what is not undecided is what Redis said")
			})
		}
	}
}

// TestAdmitDeadlineIsASetting: Redis at more than the default is asked by who allows for it, and
// a decision that is later than somebody allows is not let in by anybody else.
func TestAdmitDeadlineIsASetting(t *testing.T) {
	s := redistest.Redis.Start(t)
	between := newLAN(t, s.Addr, admission.DefaultDeadline+100*time.Millisecond)
	for deadline, wantLate := range map[time.Duration]uint64{0: 1, time.Minute: 0} {
		cfg := hundred("bucket")
		cfg.Store, cfg.Deadline = "redis://"+between.addr, deadline
		a := admitting(t, cfg)
		res, err := a.Allow(t.Context(), "ann", []string{"hundred"}, 1)
		require.NoError(t, err)
		require.Equal(t, wantLate == 0, res.Allowed, "%+v", res)
		require.Equal(t, wantLate, a.Statistics().Timeouts)
		require.Zero(t, a.Statistics().Fallbacks)
	}
}

// TestAdmitStoreOutOfReach has Redis go away in three ways under four processes that are told so: together they let in
// no more than the limit meanwhile, and when it is back it has been charged what they let in.
func TestAdmitStoreOutOfReach(t *testing.T) {
	for name, kind := range map[string]fault{
		"cut off": refuses, "hung": hangs, "reset": resets,
	} {
		t.Run(name, func(t *testing.T) {
			s := redistest.Redis.Start(t)
			between := newLAN(t, s.Addr, 15*time.Millisecond)
			var text lockedBuffer
			cfg := hundred("window")
			cfg.Store, cfg.Processes = "redis://"+between.addr, 4
			cfg.Log = slog.New(slog.NewTextHandler(&text, nil))
			var all []*admit.Limiter
			for range 3 { // one more is not asked
				all = append(all, admitting(t, cfg))
			}
			ask := func(a *admit.Limiter) admit.Result {
				res, err := a.Allow(t.Context(), "ann", []string{"hundred"}, 1)
				require.NoError(t, err)
				return res
			}
			for range 10 {
				require.True(t, ask(all[0]).Allowed)
			}
			between.turn(t, kind)
			granted := []int{0, 0, 0}
			for i, a := range all {
				for range 200 {
					if ask(a).Allowed {
						granted[i]++
					}
				}
				require.True(t, a.Statistics().Down)
			}
			require.Equal(t, []int{25 - 10, 25, 25}, granted)
			between.turn(t, passes)
			for _, a := range all {
				require.Eventually(t, func() bool { return !a.Statistics().Down }, redistest.Patience, 10*time.Millisecond)
			}
			res, err := all[1].Allow(t.Context(), "ann", []string{"hundred"}, 0)
			require.NoError(t, err)
			require.Equal(t, int64(100-10-15-25-25), res.Remaining)
			require.Empty(t, ask(all[2]).Reason)
			lines := strings.Count(text.String(), "\n")
			require.LessOrEqual(t, lines, 2*3, "one line for each change, of 610 requests:\n%s", text.String())
		})
	}
}

// TestAdmitSaysWhatProcessesMean once, and only where processes share something.
func TestAdmitSaysWhatProcessesMean(t *testing.T) {
	for store, want := range map[string]int{"redis://127.0.0.1:1": 1, "memory": 0} {
		var text lockedBuffer
		cfg := hundred("bucket")
		cfg.Store, cfg.Log = store, slog.New(slog.NewTextHandler(&text, nil))
		h := admitting(t, cfg).Handler(hello)
		for range 10 {
			statusFor(h, "192.0.2.1", "/")
		}
		require.Equal(t, want, strings.Count(text.String(), "granted_by_four_processes=400"), text.String())
	}
}
