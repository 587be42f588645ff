package admission_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/memory"
)

type store struct {
	admission.Repository
	mu    sync.Mutex
	fail  func(ctx context.Context) error // nil means it answers
	keys  []string
	plans [][]admission.Plan
}

func newStore(clk *admissiontest.Clock) *store {
	r := must(memory.New(memory.Config{Clock: clk}))
	return &store{Repository: r}
}

func (s *store) Take(ctx context.Context, key string, plans []admission.Plan, n int64) (admission.Result, error) {
	s.mu.Lock()
	fail := s.fail
	s.keys, s.plans = append(s.keys, key), append(s.plans, plans)
	s.mu.Unlock()
	if fail != nil {
		if err := fail(ctx); err != nil {
			return admission.Result{}, err
		}
	}
	return s.Repository.Take(ctx, key, plans, n)
}

func (s *store) set(fail func(context.Context) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = fail
}

func (s *store) failWith(err error) { s.set(func(context.Context) error { return err }) }

// late is a store that answers only when its context ends.
func late(ctx context.Context) error {
	<-ctx.Done()
	return fmt.Errorf("store: %w", ctx.Err())
}

func admitter(t testing.TB, cfg admission.Config) *admission.Admitter {
	t.Helper()
	if cfg.Rules == nil {
		cfg.Rules = plansOf(login, api, daily)
	}
	a := must(admission.New(cfg))
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

func allow(t testing.TB, a *admission.Admitter, key string, n int64, plans ...string) admission.Result {
	t.Helper()
	return must(a.Allow(t.Context(), key, plans, n))
}

var errDown = errors.New("connection refused")

func TestNewRejects(t *testing.T) {
	repo, reg := newStore(admissiontest.NewClock()), plansOf()
	for _, tc := range []struct {
		cfg  admission.Config
		want string
	}{
		{admission.Config{Rules: reg}, "Repository is missing"},
		{admission.Config{Repository: repo}, "Rules is missing"},
		{admission.Config{Repository: repo, Rules: reg, OnError: "ajar"}, `OnError is ajar`},
		{admission.Config{Repository: repo, Rules: reg, Deadline: -1}, "Deadline is -1ns"},
		{admission.Config{Repository: repo, Rules: reg, Share: 1.5}, "Share is 1.5"},
		{admission.Config{Repository: repo, Rules: reg, Share: -0.5}, "Share is -0.5"},
	} {
		_, err := admission.New(tc.cfg)
		require.ErrorContains(t, err, tc.want)
	}
}

func TestAllow(t *testing.T) {
	a := admitter(t, admission.Config{Repository: newStore(admissiontest.NewClock())})
	for i := range 5 {
		r := allow(t, a, "ann", 1, "login", "api")
		require.Equal(t, "login", r.Plan)
		require.True(t, r.Allowed)
		require.Equal(t, int64(4-i), r.Remaining)
	}
	r := allow(t, a, "ann", 1, "login", "api")
	require.False(t, r.Allowed)
	require.Equal(t, admission.ReasonLimited, r.Reason)
	require.Equal(t, int64(95), allow(t, a, "ann", 0, "api").Remaining, "what was denied is not charged")
	require.True(t, allow(t, a, "bob", 1, "login").Allowed)

	require.NoError(t, a.Remove(t.Context(), "ann"))
	require.Equal(t, int64(5), allow(t, a, "ann", 0, "login").Remaining)
	require.Equal(t, admission.Result{Allowed: true}, allow(t, a, "ann", 1), "of no plans")
	require.Equal(t, uint64(1), a.Statistics().Denied)
	require.Equal(t, uint64(9), a.Statistics().Allowed)
}

func TestDecideErrors(t *testing.T) {
	a := admitter(t, admission.Config{Repository: newStore(admissiontest.NewClock())})
	for _, plans := range [][]string{{"none"}, {"login", "none"}} {
		_, err := a.Allow(t.Context(), "ann", plans, 1)
		require.ErrorIs(t, err, admission.ErrUnknownPlan)
		require.ErrorContains(t, err, `"none"`)
	}
	_, err := a.Allow(t.Context(), "ann", []string{"login"}, -1)
	require.ErrorContains(t, err, "Tokens is -1")
	require.Zero(t, a.Statistics(), "what was not decided is not counted")

	must(a.Allow(t.Context(), "ann", []string{"login", "api"}, 0))
	for _, name := range []string{"login api", "login api ", "login\x03api", "login,api"} { // none is the list that was just used
		_, err = a.Allow(t.Context(), "ann", []string{name}, 1)
		require.ErrorIs(t, err, admission.ErrUnknownPlan, name)
	}
}

// TestAllowNamesAPlanTwice charges it once: a rule and its parent may both name it.
func TestAllowNamesAPlanTwice(t *testing.T) {
	repo := newStore(admissiontest.NewClock())
	a := admitter(t, admission.Config{Repository: repo})
	for range 2 { // the second time from what is kept ready
		allow(t, a, "ann", 1, "login", "api", "login")
	}
	require.Equal(t, [][]admission.Plan{{login, api}, {login, api}}, repo.plans)
	require.Equal(t, int64(3), allow(t, a, "ann", 0, "login").Remaining)
}

// TestPlansReplacedLive decides by the plans of now, of one and of several names.
func TestPlansReplacedLive(t *testing.T) {
	reg := plansOf(login, api)
	repo := newStore(admissiontest.NewClock())
	a := admitter(t, admission.Config{Repository: repo, Rules: reg})
	require.Equal(t, int64(5), allow(t, a, "ann", 1, "login").Limit)
	require.Equal(t, int64(5), allow(t, a, "ann", 1, "login", "api").Limit)
	stricter := login
	stricter.Capacity = 2
	require.NoError(t, reg.PutPlan(stricter))
	require.Equal(t, int64(2), allow(t, a, "ann", 0, "login").Limit)
	require.Equal(t, int64(2), allow(t, a, "ann", 0, "login", "api").Limit)
	require.Equal(t, [][]admission.Plan{{login}, {login, api}}, repo.plans[:2], "what a store was given stays as it was")
	require.NoError(t, reg.RemovePlan("api"))
	_, err := a.Allow(t.Context(), "ann", []string{"login", "api"}, 1)
	require.ErrorIs(t, err, admission.ErrUnknownPlan)
}

func TestStoreDown(t *testing.T) {
	for _, tc := range []struct {
		config, request admission.OnError
		want            admission.Reason
	}{
		{"", "", admission.ReasonFailOpen},
		{admission.FailOpen, "", admission.ReasonFailOpen},
		{admission.FailClosed, "", admission.ReasonFailClosed},
		{"", admission.FailClosed, admission.ReasonFailClosed},
		{admission.FailClosed, admission.FailOpen, admission.ReasonFailOpen},
	} {
		repo := newStore(admissiontest.NewClock())
		repo.failWith(errDown)
		a := admitter(t, admission.Config{Repository: repo, OnError: tc.config})
		r := must(a.AllowOr(t.Context(), tc.request, "ann", []string{"login"}, 1))
		require.Equal(t, tc.want, r.Reason)
		want := admission.Result{Allowed: true, Limit: 5, Plan: "login", Reason: tc.want}
		stats := admission.Statistics{Allowed: 1, Failures: 1, FailedOpen: 1, Down: true}
		if tc.want == admission.ReasonFailClosed {
			want.Allowed, want.Wait = false, time.Second
			stats = admission.Statistics{Denied: 1, Failures: 1, FailedClosed: 1, Down: true}
		}
		require.Equal(t, want, r)
		require.Equal(t, stats, a.Statistics())
	}
}

// TestStoreLoggedOncePerChange has the store go down twice, for many questions each time, of which but the first ask it.
func TestStoreLoggedOncePerChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		repo := newStore(admissiontest.NewClock())
		a := admitter(t, admission.Config{Repository: repo, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 2 {
			repo.failWith(errDown)
			for range 10 {
				require.Equal(t, admission.ReasonFailOpen, allow(t, a, "ann", 1, "api").Reason)
			}
			require.True(t, a.Statistics().Down)
			repo.set(nil)
			time.Sleep(time.Second) // a question whether it is back
			synctest.Wait()
			require.False(t, a.Statistics().Down)
			require.Empty(t, allow(t, a, "ann", 1, "api").Reason)
		}
		lines := strings.Split(strings.TrimSpace(log.String()), "\n")
		require.Len(t, lines, 4, log.String())
		for i, want := range []string{`level=WARN msg="admission store does not answer" error="connection refused"`, `level=INFO msg="admission store answers again"`} {
			require.Contains(t, lines[i], want)
			require.Contains(t, lines[i+2], want)
		}
		require.Equal(t, uint64(2), a.Statistics().Failures)
	})
}

// TestOneBadKey is no verdict on the store: the others are decided by it.
func TestOneBadKey(t *testing.T) {
	repo := newStore(admissiontest.NewClock())
	a := admitter(t, admission.Config{Repository: repo, Fallback: newStore(admissiontest.NewClock())})
	repo.failWith(fmt.Errorf("the key is another's: %w", admission.ErrNoVerdict))
	require.Equal(t, admission.ReasonFailOpen, allow(t, a, "ann", 1, "api").Reason)
	require.False(t, a.Statistics().Down)
	repo.set(nil)
	require.Empty(t, allow(t, a, "bob", 1, "api").Reason)
}

// TestStoreHangs has a store that answers only when its context ends: the decision comes
// after the deadline, and not when the caller's own would have.
func TestStoreHangs(t *testing.T) {
	for _, tc := range []struct{ deadline, want time.Duration }{{0, admission.DefaultDeadline}, {7 * time.Millisecond, 7 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			repo := newStore(admissiontest.NewClock())
			repo.set(late)
			a := admitter(t, admission.Config{Repository: repo, Deadline: tc.deadline})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			begun := time.Now()
			require.Equal(t, admission.ReasonFailOpen, must(a.Allow(ctx, "ann", []string{"login"}, 1)).Reason)
			require.Equal(t, tc.want, time.Since(begun))
		})
	}
}

// TestCallerGivesUp has the caller end the wait: that says nothing about the store.
func TestCallerGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		repo := newStore(admissiontest.NewClock())
		repo.set(late)
		a := admitter(t, admission.Config{Repository: repo})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		_, err := a.Allow(ctx, "ann", []string{"login"}, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Zero(t, a.Statistics())
	})
}

// TestImmediateHasNoDeadline: a timer per request costs more than the decision.
func TestImmediateHasNoDeadline(t *testing.T) {
	for _, immediate := range []bool{false, true} {
		repo := newStore(admissiontest.NewClock())
		repo.fail = func(ctx context.Context) error {
			_, ok := ctx.Deadline()
			require.NotEqual(t, immediate, ok)
			return nil
		}
		cfg := admission.Config{Repository: repo}
		if immediate {
			cfg.Repository = instant{repo}
		}
		allow(t, admitter(t, cfg), "ann", 1, "login")
	}
}

type instant struct{ *store }

func (instant) Immediate() {}

// TestFallbackIsWarm has one process of four lose its store: it goes on with a quarter of
// each plan, of which it has already used what it let in before.
func TestFallbackIsWarm(t *testing.T) {
	clk := admissiontest.NewClock()
	repo, local := newStore(clk), newStore(clk)
	a := admitter(t, admission.Config{Repository: repo, Fallback: local, Share: 0.25})
	for range 10 {
		require.Empty(t, allow(t, a, "ann", 1, "api").Reason)
	}
	repo.failWith(errDown)
	for i := range 15 {
		r := allow(t, a, "ann", 1, "api")
		require.True(t, r.Allowed, "question %d", i)
		require.Equal(t, admission.ReasonFallback, r.Reason)
		require.Equal(t, int64(25), r.Limit)
		require.Equal(t, int64(14-i), r.Remaining)
	}
	r := allow(t, a, "ann", 1, "api")
	require.False(t, r.Allowed)
	require.Equal(t, admission.ReasonLimited, r.Reason, "a limit is one, whoever found it")
	require.Equal(t, uint64(16), a.Statistics().Fallbacks)

	require.True(t, allow(t, a, "bob", 60, "api").Allowed, "more than a share holds, but not more than the plan")
	require.Equal(t, admission.ReasonTooLarge, allow(t, a, "cid", 101, "api").Reason)

	local.failWith(errDown)
	require.Equal(t, admission.ReasonFailOpen, allow(t, a, "ann", 1, "api").Reason)
	require.NoError(t, a.Remove(t.Context(), "ann"))
	local.set(nil)
	require.True(t, allow(t, a, "ann", 1, "api").Allowed, "Remove reaches the fallback")
}

// TestRemoveWhereOfTheFallback removes keys that asked while the store was away: they are known to the fallback alone.
func TestRemoveWhereOfTheFallback(t *testing.T) {
	clk := admissiontest.NewClock()
	repo := newStore(clk)
	a := admitter(t, admission.Config{Repository: repo, Fallback: newStore(clk)})
	repo.failWith(errDown)
	for _, key := range []string{"ann", "bob"} {
		require.True(t, allow(t, a, key, 100, "api").Allowed)
		require.False(t, allow(t, a, key, 1, "api").Allowed)
	}
	require.Equal(t, 1, must(a.RemoveWhere(t.Context(), func(key string) bool { return key == "ann" })))
	require.True(t, allow(t, a, "ann", 1, "api").Allowed)
	require.False(t, allow(t, a, "bob", 1, "api").Allowed)
}

// TestLongKeys has keys that are longer than what stores should keep.
func TestLongKeys(t *testing.T) {
	repo := newStore(admissiontest.NewClock())
	a := admitter(t, admission.Config{Repository: repo})
	long := strings.Repeat("k", 1<<20)
	for _, key := range []string{long + "a", long + "b", strings.Repeat("k", 256)} {
		require.Equal(t, int64(4), allow(t, a, key, 1, "login").Remaining, "another key counts for it")
	}
	for _, key := range repo.keys {
		require.LessOrEqual(t, len(key), 256)
	}
	require.Equal(t, int64(4), allow(t, a, repo.keys[0], 1, "login").Remaining, "the digest of a key is another key")
	require.NoError(t, a.Remove(t.Context(), long+"a"))
	require.Equal(t, int64(4), allow(t, a, long+"a", 1, "login").Remaining)
}

// TestAdmitterAtOnce has many goroutines ask while plans are replaced: as none of the
// replacements changes the numbers, exactly the capacity is let in.
func TestAdmitterAtOnce(t *testing.T) {
	reg := plansOf(login, api, daily)
	a := admitter(t, admission.Config{Repository: newStore(admissiontest.NewClock()), Rules: reg})
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() {
			if i%10 == 0 {
				if err := reg.Replace([]admission.Plan{login, api, daily}, nil, nil); err != nil {
					t.Errorf("Replace = %v", err)
				}
			}
			plans := [][]string{{"api"}, {"api", "daily"}, {"daily", "api"}}[i%3]
			if _, err := a.Allow(t.Context(), "ann", plans, 1); err != nil {
				t.Errorf("Allow = %v", err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, uint64(100), a.Statistics().Allowed)
	require.Equal(t, uint64(100), a.Statistics().Denied)
}

func TestDecideAllocatesNothing(t *testing.T) {
	r := must(memory.New(memory.Config{}))
	a := admitter(t, admission.Config{Repository: r})
	ctx := t.Context()
	for _, plans := range [][]string{{"api"}, {"api", "daily", "login"}} {
		require.Zero(t, testing.AllocsPerRun(100, func() {
			_, _ = a.Allow(ctx, "ann", plans, 1)
		}), "%v", plans)
	}
}
