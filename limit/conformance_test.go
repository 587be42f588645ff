package limit_test

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

// What every limiter does alike, without a wait. The tests with waits are in conformance_wait_test.go.

func TestFreshLimiter(t *testing.T) {
	eachSubject(t, func(t *testing.T, s subject) {
		l := s.make(t, limit.WithClock(fakeClock()))
		require.Equal(t, limit.Statistics{Available: suiteMax, Max: suiteMax}, l.Statistics())
		require.Zero(t, l.Wait(1))
		require.Zero(t, l.Wait(suiteMax))
		require.EqualValues(t, suiteMax, drain(t, l))
		st := l.Statistics()
		require.EqualValues(t, suiteMax, st.Acquired)
		require.EqualValues(t, 1, st.Rejected, "drain asked for one too many")
		require.Zero(t, st.Available)
	})
}

func TestWeightOutOfRange(t *testing.T) {
	eachSubject(t, func(t *testing.T, s subject) {
		l := s.make(t, limit.WithClock(fakeClock()))
		for _, tc := range []struct {
			n   int64
			err error
		}{
			{0, limit.ErrInvalidWeight},
			{-1, limit.ErrInvalidWeight},
			{math.MinInt64, limit.ErrInvalidWeight},
			{suiteMax + 1, limit.ErrExceedsCapacity},
			{math.MaxInt64, limit.ErrExceedsCapacity},
		} {
			require.False(t, l.TryAcquireN(tc.n), "TryAcquireN(%d)", tc.n)
			err := l.AcquireN(t.Context(), tc.n)
			require.ErrorIs(t, err, tc.err, "AcquireN(%d)", tc.n)
			require.NotErrorIs(t, err, limit.ErrLimited, "asking again would not help")
			require.ErrorIs(t, l.AcquireTimeout(t.Context(), tc.n, 0), tc.err)
			require.Equal(t, limit.Never, l.Wait(tc.n), "Wait(%d)", tc.n)
			l.ReleaseN(min(tc.n, 0))
		}
		st := l.Statistics()
		require.Zero(t, st.Acquired)
		require.EqualValues(t, suiteMax, st.Available, "a refusal costs nothing")
		require.EqualValues(t, uint64(math.MaxUint64), st.Rejected, "a counter stops at its maximum")
	})
}

// The RetryAfter of a refusal is exact to the nanosecond, and so is Wait.
func TestExactRetryAfter(t *testing.T) {
	eachSubject(t, func(t *testing.T, s subject) {
		if !s.timed {
			return
		}
		for n := int64(1); n <= suiteMax; n++ {
			clk := fakeClock()
			l := s.make(t, limit.WithClock(clk))
			clk.Advance(suitePer/7 + 1)
			drain(t, l)
			wait := l.Wait(n)
			require.Positive(t, wait)
			err := l.AcquireTimeout(t.Context(), n, 0)
			refusal, ok := asLimit(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, wait, refusal.RetryAfter)
			require.ErrorIs(t, err, limit.ErrLimited)
			clk.Advance(wait - 1)
			require.Equal(t, time.Duration(1), l.Wait(n))
			require.False(t, l.TryAcquireN(n), "a nanosecond early")
			clk.Advance(1)
			require.Zero(t, l.Wait(n))
			require.True(t, l.TryAcquireN(n), "after Wait(%d) = %v", n, wait)
		}
	})
}

// Available is the largest weight there is room for, at any time.
func TestAvailableIsWhatCanBeHad(t *testing.T) {
	eachSubject(t, func(t *testing.T, s subject) {
		clk := fakeClock()
		l := s.make(t, limit.WithClock(clk))
		for range 50 {
			n := l.Statistics().Available
			require.False(t, n < suiteMax && l.TryAcquireN(n+1), "one more than is available")
			if n > 0 {
				require.True(t, l.TryAcquireN(n))
				l.ReleaseN(n)
			}
			clk.Advance(suitePer / 11)
		}
	})
}

func TestHundredIdleYears(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	eachSubject(t, func(t *testing.T, s subject) {
		clk := fakeClock()
		l := s.make(t, limit.WithClock(clk))
		for range 2 {
			l.ReleaseN(drain(t, l))
			clk.Advance(century)
			require.EqualValues(t, suiteMax, l.Statistics().Available, "as much as ever, and no more")
		}
		drain(t, l)
		if s.timed {
			require.LessOrEqual(t, l.Wait(1), 2*suitePer)
		}
	})
}

// A clock that jumps to and fro by 5 s would let a limiter that believes it grant without
// end; one that holds on to the latest instant grants what that instant allows.
func TestTimeNeverGoesBack(t *testing.T) {
	eachSubject(t, func(t *testing.T, s subject) {
		clk := &settableClock{Clock: clock.System()}
		l := s.make(t, limit.WithClock(clk))
		granted := 0
		for i := range 1000 {
			clk.set(time.Duration(i%2) * 5 * time.Second)
			if l.TryAcquire() {
				granted++
			}
		}
		require.LessOrEqual(t, granted, 3*suiteMax)
	})
}

func TestEndedContextNeverAcquires(t *testing.T) {
	eachSubject(t, func(t *testing.T, s subject) {
		l := s.make(t, limit.WithClock(fakeClock()))
		for range 1000 {
			require.ErrorIs(t, l.Acquire(canceled()), context.Canceled)
		}
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		err := l.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, limit.ErrLimited)
		require.Equal(t, limit.Statistics{Cancelled: 1001, Available: suiteMax, Max: suiteMax}, l.Statistics())
	})
}

func TestClosed(t *testing.T) {
	eachSubject(t, func(t *testing.T, s subject) {
		l := s.make(t, limit.WithClock(fakeClock()))
		require.True(t, l.TryAcquire())
		for range 2 {
			require.NoError(t, l.Close())
			require.False(t, l.TryAcquire())
			require.ErrorIs(t, l.Acquire(t.Context()), limit.ErrClosed)
			require.ErrorIs(t, l.AcquireTimeout(t.Context(), 1, 0), limit.ErrClosed)
			require.Equal(t, limit.Never, l.Wait(1))
			_, err := limit.AcquireRelease(t.Context(), l)
			require.ErrorIs(t, err, limit.ErrClosed)
		}
		l.Release()
		require.Zero(t, l.Statistics().InUse, "what is out can be released after Close")
	})
}

func TestQueueLimitZeroIsNowOrNever(t *testing.T) {
	eachSubject(t, func(t *testing.T, s subject) {
		l := s.make(t, limit.WithClock(fakeClock()), limit.WithQueueLimit(0))
		drain(t, l)
		err := l.Acquire(t.Context())
		require.ErrorIs(t, err, limit.ErrQueueFull)
		require.ErrorIs(t, err, limit.ErrLimited)
	})
}

// Ready calls allocate nothing: nor do refusals by TryAcquire, or questions.
func TestReadyPathAllocatesNothing(t *testing.T) {
	eachSubject(t, func(t *testing.T, s subject) {
		clk := fakeClock()
		l := s.make(t, limit.WithClock(clk))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for name, do := range map[string]func(){
			"TryAcquire": func() {
				if l.TryAcquire() {
					l.Release()
				}
			},
			"Acquire": func() {
				clk.Advance(2 * suitePer)
				if l.Acquire(ctx) == nil {
					l.Release()
				}
			},
			"Statistics": func() { l.Statistics() },
		} {
			require.Zero(t, testing.AllocsPerRun(100, do), name)
		}
	})
}

func TestAcquireRelease(t *testing.T) {
	eachSubject(t, func(t *testing.T, s subject) {
		l := s.make(t, limit.WithClock(fakeClock()))
		release := must(limit.AcquireRelease(t.Context(), l))
		require.EqualValues(t, 1, l.Statistics().Acquired)
		for range 3 {
			release()
		}
		require.Zero(t, l.Statistics().InUse)
		if st := l.Statistics(); s.name == string(limit.KindConcurrency) || s.name == "all-mixed" {
			require.EqualValues(t, 2, st.OverReleased)
		} else {
			require.Zero(t, st.OverReleased, "a rate has nothing to give back to")
		}
		_, err := limit.AcquireRelease(canceled(), l)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestAcquireReleaseOfAForeignLimiter(t *testing.T) {
	l := of(limit.KindConcurrency, nil).make(t)
	release := must(limit.AcquireRelease(t.Context(), foreignWeighted{l}))
	require.EqualValues(t, 1, l.Statistics().InUse)
	release()
	release()
	require.Equal(t, limit.Statistics{Acquired: 1, Available: suiteMax, Max: suiteMax}, l.Statistics())
	_, err := limit.AcquireRelease(canceled(), foreignWeighted{l})
	require.ErrorIs(t, err, context.Canceled)
}
