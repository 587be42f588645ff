package admission_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
)

// hundred and its kin admit a hundred, or three.
var (
	hundred = admission.Plan{Name: "hundred", Kind: admission.KindFixedWindow, Capacity: 100, Window: time.Hour}
	three   = admission.Plan{Name: "three", Kind: admission.KindFixedWindow, Capacity: 3, Window: time.Hour}
	flowing = admission.Plan{Name: "flowing", Capacity: 100, TokensPerSecond: 1}
)

func fleet(t *testing.T, n int, share float64, log *bytes.Buffer) (repo *store, all []*admission.Admitter) {
	t.Helper()
	repo = &store{Repository: must(memory.New(memory.Config{}))}
	logger := slog.New(slog.DiscardHandler)
	if log != nil {
		logger = slog.New(slog.NewTextHandler(log, nil))
	}
	for range n {
		all = append(all, admitter(t, admission.Config{
			Repository: repo, Fallback: must(memory.New(memory.Config{})), Share: share, Rules: plansOf(hundred, three, flowing), Log: logger,
		}))
	}
	return repo, all
}

func granted(t *testing.T, a *admission.Admitter, asked int, plan string) (n int) {
	t.Helper()
	for range asked {
		if allow(t, a, "ann", 1, plan).Allowed {
			n++
		}
	}
	return n
}

// TestShareWhileOutOfReach: each process grants its part of the limit per whole window, also
// if the limit does not divide or is below the number of processes, and no more.
func TestShareWhileOutOfReach(t *testing.T) {
	for processes, want := range map[int]int{4: 100, 3: 99, 1: 100} { // of all, in a window
		synctest.Test(t, func(t *testing.T) {
			repo, all := fleet(t, processes, 1/float64(processes), nil)
			repo.failWith(errDown)
			for range 2 {
				sum := 0
				for _, a := range all {
					sum += granted(t, a, 500, "hundred")
				}
				require.Equal(t, want, sum, processes)
				time.Sleep(time.Hour)
			}
		})
	}
}

// TestGrantsAreCharged: what was granted while the store was out of reach is charged to it
// before it decides again, as much as still counts.
func TestGrantsAreCharged(t *testing.T) {
	for _, tc := range []struct {
		plan string
		wait time.Duration // until it is back
		want int64         // left
	}{
		{"hundred", time.Minute, 100 - 10 - 25 - 25},
		{"hundred", 2 * time.Hour, 100},
		{"flowing", 20 * time.Second, 100 - 2*(25-20/4)}, // what flowed in meanwhile does not count any more
	} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			repo, all := fleet(t, 2, 0.25, &log)
			other := admitter(t, admission.Config{Repository: repo.Repository, Rules: plansOf(hundred, three, flowing)})
			if tc.plan == "hundred" {
				require.Equal(t, 10, granted(t, other, 10, tc.plan))
			}
			repo.failWith(errDown)
			for _, a := range all {
				require.Equal(t, 25, granted(t, a, 100, tc.plan))
				require.True(t, a.Statistics().Down)
			}
			time.Sleep(tc.wait)
			repo.set(nil)
			time.Sleep(time.Second) // a question whether it is back
			synctest.Wait()
			for _, a := range all {
				require.False(t, a.Statistics().Down)
			}
			res := allow(t, other, "ann", 0, tc.plan)
			require.InDelta(t, tc.want, res.Remaining, 2, tc)
			require.Empty(t, allow(t, all[0], "ann", 1, tc.plan).Reason, "the store decides")
			require.Equal(t, 2, strings.Count(log.String(), "does not answer"), log.String())
			require.Equal(t, 2, strings.Count(log.String(), "answers again"), log.String())
			require.Contains(t, log.String(), "decided_here=100 granted_here=25")
			require.Equal(t, 4, strings.Count(log.String(), "\n"))
		})
	}
}

// TestMoreIsOwedThanIsLeft charges what there is.
func TestMoreIsOwedThanIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo, all := fleet(t, 1, 1, nil)
		other := admitter(t, admission.Config{Repository: repo.Repository, Rules: plansOf(hundred, three, flowing)})
		require.Equal(t, 60, granted(t, other, 60, "hundred"))
		repo.failWith(errDown)
		require.Equal(t, 100, granted(t, all[0], 200, "hundred"))
		repo.set(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.False(t, allow(t, other, "ann", 1, "hundred").Allowed)
	})
}

// TestDebtsOutliveAnotherOutage: what the store does not take, as it is away again, it is charged when it is back; and
// nothing is charged to a key that was removed meanwhile.
func TestDebtsOutliveAnotherOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo, all := fleet(t, 1, 0.25, nil)
		a := all[0]
		repo.failWith(errDown)
		for _, key := range []string{"ann", "bob", "cid"} {
			require.True(t, allow(t, a, key, 5, "hundred").Allowed)
		}
		require.NoError(t, a.Remove(t.Context(), "cid"))
		var asked atomic.Int32
		repo.set(func(context.Context) error { // it answers one question, and takes one charge
			if asked.Add(1) > 2 {
				return errDown
			}
			return nil
		})
		time.Sleep(time.Second)
		synctest.Wait()
		require.True(t, a.Statistics().Down)
		repo.set(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.False(t, a.Statistics().Down)
		for key, left := range map[string]int64{"ann": 95, "bob": 95, "cid": 100} {
			require.Equal(t, left, allow(t, a, key, 0, "hundred").Remaining, key)
		}
	})
}

// TestAccountsThatOweNothingMakeRoom: in an outage with more accounts than can be charged, those whose debts have run
// off make room, after a second at the latest.
func TestAccountsThatOweNothingMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo, all := fleet(t, 1, 1, nil)
		a := all[0]
		a.SetMaxOwed(2)
		repo.failWith(errDown)
		for _, step := range []struct {
			key    string
			tokens int64
			wait   time.Duration // before
		}{
			{"ann", 1, 0},
			{"bob", 1, 0},
			{"cid", 50, 500 * time.Millisecond}, // ann and bob still owe
			{"dan", 50, 700 * time.Millisecond}, // too early for another search
			{"eve", 50, 400 * time.Millisecond},
			{"fay", 50, 100 * time.Millisecond},
			{"gus", 50, 2 * time.Second}, // eve and fay owe
		} {
			time.Sleep(step.wait)
			require.True(t, allow(t, a, step.key, step.tokens, "flowing").Allowed, step.key)
		}
		repo.set(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		for key, used := range map[string]int64{"ann": 0, "bob": 0, "cid": 0, "dan": 0, "eve": 50, "fay": 50, "gus": 0} {
			require.InDelta(t, 100-used, allow(t, a, key, 0, "flowing").Remaining, 5, key)
		}
	})
}

// TestLateIsNoLoss: decisions that are late are kept out, as they may have been charged; the
// store is out of reach when three in a row were, and not when many at once were.
func TestLateIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo, all := fleet(t, 1, 0.25, nil)
		a := all[0]
		burst := func() {
			var group sync.WaitGroup
			for range 50 {
				group.Go(func() {
					r := allow(t, a, "ann", 1, "hundred")
					if r.Allowed || r.Reason != admission.ReasonTimeout || r.Status() != 503 || r.Wait <= 0 {
						t.Errorf("%+v", r)
					}
				})
			}
			group.Wait()
		}
		repo.set(late)
		burst()
		require.False(t, a.Statistics().Down, "fifty at once say it once")
		repo.set(nil)
		require.Empty(t, allow(t, a, "ann", 1, "hundred").Reason)
		repo.set(late)
		burst()
		burst()
		require.False(t, a.Statistics().Down)
		begun := time.Now()
		require.Equal(t, admission.ReasonFallback, allow(t, a, "ann", 1, "hundred").Reason)
		require.Equal(t, admission.DefaultDeadline, time.Since(begun))
		require.True(t, a.Statistics().Down)
		for range 100 {
			allow(t, a, "bob", 1, "hundred")
		}
		require.Equal(t, admission.DefaultDeadline, time.Since(begun), "nobody waits for it any more")
		require.Equal(t, uint64(150), a.Statistics().Timeouts)
	})
}

// TestClosedIsClosed: who says closed is not let in by a fallback.
func TestClosedIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo, all := fleet(t, 1, 1, nil)
		repo.failWith(errDown)
		ask := func(how admission.OnError) admission.Result {
			return must(all[0].AllowOr(t.Context(), how, "ann", []string{"hundred"}, 1))
		}
		for range 3 {
			r := ask(admission.FailClosed)
			require.Equal(t, admission.ReasonFailClosed, r.Reason)
			require.False(t, r.Allowed)
			require.Equal(t, 503, r.Status())
			require.Equal(t, time.Second, r.Wait)
			require.Equal(t, admission.ReasonFallback, ask("").Reason)
		}
		repo.set(nil)
		time.Sleep(time.Second)
		synctest.Wait()
		require.Empty(t, ask(admission.FailClosed).Reason)
		// One answer that is late is no loss of the store, and is no less closed.
		repo.set(late)
		r := ask(admission.FailClosed)
		require.Equal(t, admission.ReasonFailClosed, r.Reason)
		require.Equal(t, 503, r.Status())
		require.False(t, all[0].Statistics().Down)
		require.Equal(t, uint64(4), all[0].Statistics().FailedClosed)
	})
}

// TestLimitBelowProcesses: while the store is away, processes of which each has less than one token of a limit take
// turns, and together grant no more than the limit in any whole window, however often they are asked.
func TestLimitBelowProcesses(t *testing.T) {
	for _, kind := range admission.Kinds() {
		for _, tc := range []struct {
			limit     int64
			processes int
		}{{1, 2}, {3, 4}, {3, 8}, {1, 8}, {5, 6}, {2, 7}} {
			t.Run(fmt.Sprintf("%s %d of %d", kind, tc.limit, tc.processes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					p := admission.Plan{Name: "p", Kind: kind, Capacity: tc.limit, Window: time.Minute}
					if kind == admission.KindTokenBucket {
						p.Window, p.TokensPerSecond = 0, float64(tc.limit)/60
					}
					repo := &store{Repository: must(memory.New(memory.Config{}))}
					repo.failWith(errDown)
					var all []*admission.Admitter
					for i := range tc.processes {
						all = append(all, admitter(t, admission.Config{
							Repository: repo, Fallback: must(memory.New(memory.Config{})), Share: 1 / float64(tc.processes), Process: int64(i), Rules: plansOf(p),
						}))
					}
					total := 0
					const windows = 24
					for range windows {
						n := 0
						for range 6 {
							for _, a := range all {
								for {
									res := allow(t, a, "ann", 1, "p")
									if !res.Allowed {
										require.Positive(t, res.Wait)
										break
									}
									n++
								}
							}
							time.Sleep(10 * time.Second)
						}
						require.LessOrEqual(t, n, int(tc.limit), "in a whole window")
						total += n
					}
					cycle := (tc.processes + int(tc.limit) - 1) / int(tc.limit)
					require.Equal(t, tc.processes*windows/cycle, total, "each in all of its turns")
				})
			})
		}
	}
}
