package limit_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/limit"
)

func asLimit(err error) (*limit.Error, bool) { return errors.AsType[*limit.Error](err) }

// eachBubble runs the test for every subject in a bubble, where time passes by itself.
func eachBubble(t *testing.T, run func(t *testing.T, s subject)) {
	eachSubject(t, func(t *testing.T, s subject) {
		synctest.Test(t, func(t *testing.T) { run(t, s) })
	})
}

// releasing gives permits back one by one, every second, for limiters that time does not fill.
func releasing(s subject, l limit.Weighted, n int64) {
	if s.timed {
		return
	}
	for range n {
		time.Sleep(time.Second)
		l.Release()
	}
}

// Who waits is served in the order of arrival, each at the very instant that Wait told
// when it came, and nobody passes them.
func TestFirstComeFirstServed(t *testing.T) {
	eachBubble(t, func(t *testing.T, s subject) {
		l, served := s.make(t), newOrder()
		out := drain(t, l)
		var wg sync.WaitGroup
		var names []string
		var told []time.Duration
		for i := range 6 {
			n, name := int64(1+i%2), fmt.Sprint(i)
			names, told = append(names, name), append(told, time.Since(served.begin)+l.Wait(n))
			wg.Go(func() {
				require.NoError(t, l.AcquireN(t.Context(), n))
				served.add(name)
				if !s.timed {
					l.ReleaseN(n)
				}
			})
			synctest.Wait()
			require.EqualValues(t, i+1, l.Statistics().Queued)
			require.False(t, l.TryAcquire(), "nobody passes those who wait")
			time.Sleep(time.Millisecond)
		}
		releasing(s, l, out)
		wg.Wait()
		gotNames, gotAt := served.get()
		require.Equal(t, names, gotNames)
		if s.timed {
			require.Equal(t, told, gotAt)
		}
		require.Zero(t, l.Statistics().Queued)
	})
}

// While somebody waits, TryAcquire is false even for a weight there is room for.
func TestTryAcquireFalseWhileSomebodyWaits(t *testing.T) {
	for _, kind := range limit.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := of(kind, nil).make(t)
				require.True(t, l.TryAcquireN(1))
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- l.AcquireN(ctx, suiteMax) }()
				synctest.Wait()
				require.False(t, l.TryAcquireN(1))
				require.Positive(t, l.Wait(1), "behind the one who waits")
				before := l.Statistics().Available
				cancel()
				require.ErrorIs(t, <-done, context.Canceled)
				if kind != limit.KindLeakyBucket {
					require.Positive(t, before, "there was room all the time")
					require.True(t, l.TryAcquireN(1), "nobody waits any more")
				}
			})
		})
	}
}

// A waiter who gives up gives its place up: those behind move up and are served as if it
// had never come. x/time, 40 ms into two waits of 100 ms, serves the second at 200.
func TestCancelledWaiterLetsOthersMoveUp(t *testing.T) {
	eachBubble(t, func(t *testing.T, s subject) {
		l := s.make(t)
		drain(t, l)
		alone := l.Wait(1)
		begin := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error), make(chan error)
		go func() { first <- l.AcquireN(ctx, suiteMax) }()
		synctest.Wait()
		go func() { second <- l.Acquire(t.Context()) }()
		synctest.Wait()
		time.Sleep(40 * time.Millisecond)
		cancel()
		require.ErrorIs(t, <-first, context.Canceled)
		if !s.timed {
			alone = 40 * time.Millisecond
			l.Release()
		}
		require.NoError(t, <-second)
		require.Equal(t, alone, time.Since(begin))
		require.EqualValues(t, suiteMax, l.Statistics().Cancelled)
	})
}

// A deadline that comes before the turn fails at once; the turn's own instant is too late.
func TestDeadlineThatCannotBeMet(t *testing.T) {
	eachBubble(t, func(t *testing.T, s subject) {
		l := s.make(t)
		drain(t, l)
		wait := l.Wait(1)
		longest := wait
		if !s.timed {
			longest = time.Second // nobody knows better: it is waited for
		}
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), longest)
		defer cancel()
		err := l.Acquire(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, limit.ErrLimited)
		e, ok := asLimit(err)
		require.True(t, ok)
		if !s.timed {
			require.Equal(t, longest, time.Since(begin))
			require.Zero(t, e.RetryAfter, "nobody knows")
			return
		}
		require.Zero(t, time.Since(begin), "at once")
		require.Equal(t, wait, e.RetryAfter)
		ctx, cancel = context.WithTimeout(t.Context(), wait+1)
		defer cancel()
		require.NoError(t, l.Acquire(ctx), "a nanosecond later it is in time")
		require.Equal(t, wait, time.Since(begin))
	})
}

func TestAcquireTimeout(t *testing.T) {
	eachBubble(t, func(t *testing.T, s subject) {
		l := s.make(t)
		out := drain(t, l)
		begin := time.Now()
		require.ErrorIs(t, l.AcquireTimeout(t.Context(), 1, 0), limit.ErrLimited, "now or never")
		require.ErrorIs(t, l.AcquireTimeout(t.Context(), 1, -time.Second), limit.ErrLimited)
		require.Zero(t, time.Since(begin))
		if s.timed {
			wait := l.Wait(1)
			require.ErrorIs(t, l.AcquireTimeout(t.Context(), 1, wait-1), limit.ErrLimited)
			require.Zero(t, time.Since(begin), "at once")
			require.NoError(t, l.AcquireTimeout(t.Context(), 1, wait), "the timeout's own instant is in time")
			require.Equal(t, wait, time.Since(begin))
			return
		}
		err := l.AcquireTimeout(t.Context(), 1, time.Second)
		require.ErrorIs(t, err, limit.ErrLimited)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "no context ended")
		require.Equal(t, time.Second, time.Since(begin))
		go releasing(s, l, out)
		require.NoError(t, l.AcquireTimeout(t.Context(), 1, 2*time.Second))
		require.Equal(t, 2*time.Second, time.Since(begin))
		time.Sleep(suitePer)
	})
}

func TestQueueIsBounded(t *testing.T) {
	eachBubble(t, func(t *testing.T, s subject) {
		l := s.make(t, limit.WithQueueLimit(2))
		drain(t, l)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { require.ErrorIs(t, l.Acquire(ctx), context.Canceled) })
		}
		synctest.Wait()
		err := l.Acquire(t.Context())
		require.ErrorIs(t, err, limit.ErrQueueFull)
		e, ok := asLimit(err)
		require.True(t, ok)
		if s.timed {
			require.Equal(t, l.Wait(1), e.RetryAfter, "behind those who wait")
		}
		cancel()
		wg.Wait()
		require.EqualValues(t, 0, l.Statistics().Queued, "their places are free again")
	})
}

func TestCloseFailsWaiters(t *testing.T) {
	eachBubble(t, func(t *testing.T, s subject) {
		l := s.make(t)
		drain(t, l)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { require.ErrorIs(t, l.Acquire(t.Context()), limit.ErrClosed) })
		}
		synctest.Wait()
		require.NoError(t, l.Close())
		wg.Wait()
		st := l.Statistics()
		require.Zero(t, st.Queued)
		require.EqualValues(t, 3, st.Cancelled)
	})
}

// One timer runs, that of the head, however many wait.
func TestOneTimerForTheHead(t *testing.T) {
	eachBubble(t, func(t *testing.T, s subject) {
		clk := &countingClock{Clock: clock.System()}
		l := s.make(t, limit.WithClock(clk))
		out := drain(t, l)
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				require.NoError(t, l.Acquire(t.Context()))
				if !s.timed {
					time.Sleep(time.Millisecond)
					l.Release()
				}
			})
		}
		synctest.Wait()
		l.ReleaseN(out)
		wg.Wait()
		require.LessOrEqual(t, clk.most, 1)
		require.Zero(t, clk.live, "every timer has been stopped")
	})
}

// A permit is never lost between a waiter who is being served and gives up at the same instant and those behind it.
func TestCancellationAtTheInstantOfTheTurn(t *testing.T) {
	eachBubble(t, func(t *testing.T, s subject) {
		for round := range 20 {
			l := s.make(t)
			drain(t, l)
			turn := l.Wait(1)
			if !s.timed {
				turn = time.Second
			}
			ctx, cancel := context.WithCancel(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- l.Acquire(ctx) }()
			synctest.Wait()
			go func() { second <- l.Acquire(t.Context()) }()
			synctest.Wait()
			time.Sleep(turn)
			go cancel()
			if !s.timed {
				l.Release()
			}
			err := <-first
			if err == nil && !s.timed {
				l.Release()
			}
			require.NoError(t, <-second, "round %d, the first: %v", round, err)
			cancel()
		}
	})
}

// Calls of all sorts at once: each weight ends in exactly one counter, nothing is left
// in line, and every slot is back.
func TestCountersAddUp(t *testing.T) {
	eachBubble(t, func(t *testing.T, s subject) {
		l := s.make(t, limit.WithQueueLimit(5))
		var wg sync.WaitGroup
		var asked sync.Map
		for g := range 8 {
			wg.Go(func() {
				rnd := rand.New(rand.NewPCG(1, uint64(g)))
				sum := uint64(0)
				for range 200 {
					n := 1 + rnd.Int64N(suiteMax)
					sum += uint64(n)
					if hammer(t, l, rnd, n) && !s.timed {
						time.Sleep(time.Duration(rnd.Int64N(int64(time.Second))))
						l.ReleaseN(n)
					}
				}
				asked.Store(g, sum)
			})
		}
		wg.Wait()
		var sum uint64
		asked.Range(func(_, n any) bool { sum += n.(uint64); return true })
		st := l.Statistics()
		require.Equal(t, sum, st.Acquired+st.Rejected+st.Cancelled)
		require.Zero(t, st.Queued)
		require.Zero(t, st.InUse)
		require.Zero(t, st.OverReleased)
		time.Sleep(2 * suitePer)
		require.EqualValues(t, suiteMax, l.Statistics().Available)
	})
}

// hammer asks for n in one way or another and reports whether it got them.
func hammer(t *testing.T, l limit.Weighted, rnd *rand.Rand, n int64) bool {
	d := time.Duration(rnd.Int64N(int64(2 * suitePer)))
	switch rnd.IntN(4) {
	case 0:
		return l.TryAcquireN(n)
	case 1:
		return l.AcquireTimeout(t.Context(), n, d) == nil
	case 2:
		ctx, cancel := context.WithTimeout(t.Context(), d)
		defer cancel()
		return l.AcquireN(ctx, n) == nil
	default:
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(d, cancel)
		defer stop.Stop()
		return l.AcquireN(ctx, n) == nil
	}
}
