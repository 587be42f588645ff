//go:build unix

package redis_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/memory"
	"github.com/treadlight/crawl/internal/admission/redis"
)

// short is a deadline that a server which is there keeps easily but for a computer
// that stands still, and that tests can wait for a few times.
const short = 250 * time.Millisecond

// While many ask, the server forgets its scripts again and again: nobody sees it.
func TestScriptFlush(t *testing.T) { onEach(t, testScriptFlush) }

func testScriptFlush(t *testing.T, program program) {
	s := program.Shared(t)
	r := open(t, redis.Config{Keys: -1}, s.Addr)
	p := bucket("p", 100, 0.001)
	var granted, asked atomic.Int64
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range 16 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, err := r.Take(context.Background(), "ann", []admission.Plan{p}, 1)
				if err != nil {
					t.Error(err)
					return
				}
				asked.Add(1)
				if res.Allowed {
					granted.Add(1)
				}
			}
		})
	}
	for i := range int64(20) {
		for asked.Load() < 50*i && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
		s.Do(t, "SCRIPT", "FLUSH")
	}
	for asked.Load() < 1000 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	close(stop)
	group.Wait()
	require.Equal(t, int64(100), granted.Load())
	st := r.Statistics()
	require.NotZero(t, st.Reloads)
	require.Zero(t, st.Failures)
	require.LessOrEqual(t, st.Trips, uint64(asked.Load())+st.Reloads, "some went together")
}

// down makes a server that does not answer, in two ways.
var down = []struct {
	name string
	do   func(testing.TB, *server)
	undo func(testing.TB, *server)

	silent bool // it is not even known that it does not answer
}{
	{
		"stopped", func(t testing.TB, s *server) { s.Signal(t, syscall.SIGSTOP) },
		func(t testing.TB, s *server) { s.Signal(t, syscall.SIGCONT) }, true,
	},
	{"killed", func(_ testing.TB, s *server) { s.Stop() }, func(t testing.TB, s *server) { s.Restart(t) }, false},
}

// A decision fails within its own deadline, and when the server is back, so is the count.
func TestServerDown(t *testing.T) { onEach(t, testServerDown) }

func testServerDown(t *testing.T, program program) {
	for _, tc := range down {
		t.Run(tc.name, func(t *testing.T) {
			s := program.Start(t)
			r := open(t, redis.Config{Deadline: short, Keys: -1}, s.Addr)
			p := bucket("p", 1000, 0.001)
			plans := []admission.Plan{p}
			require.True(t, take(t, r, "ann", 1, p).Allowed)
			tc.do(t, s)
			for i := range uint64(3) {
				_, err := r.Take(context.Background(), "ann", plans, 1)
				require.ErrorContains(t, err, "redis: within 250ms: ", "decision %d", i)
				require.Equal(t, tc.silent, errors.Is(err, context.DeadlineExceeded), "decision %d: %v", i, err)
				require.Equal(t, i+1, r.Statistics().Failures)
			}
			tc.undo(t, s)
			require.Eventually(t, func() bool {
				_, err := r.Take(context.Background(), "ann", plans, 0)
				return err == nil
			}, patience, 10*time.Millisecond)
			require.True(t, take(t, r, "ann", 1, p).Allowed)
		})
	}
}

// More callers than any queue of the client holds, and none is later than its deadline by
// more than what a busy computer takes to run them all.
func TestManyCallersOfAStoppedServer(t *testing.T) {
	s := startServer(t)
	r := open(t, redis.Config{Deadline: short}, s.Addr)
	plans := []admission.Plan{bucket("p", 1000, 0.001)}
	take(t, r, "ann", 1, plans...)
	s.Signal(t, syscall.SIGSTOP)
	var answered atomic.Int64
	var group sync.WaitGroup
	for range 6000 {
		group.Go(func() {
			if _, err := r.Take(context.Background(), "ann", plans, 1); err != nil {
				answered.Add(1)
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("callers still wait long after their deadline")
	}
	require.Equal(t, int64(6000), answered.Load())
	require.Less(t, r.Statistics().Trips, uint64(1024), "more would block the client")
}

// A server that is not there when the service starts is a server that is down.
func TestServerComesLater(t *testing.T) {
	s := startServer(t)
	s.Stop()
	r := open(t, redis.Config{Deadline: short}, s.Addr)
	p := bucket("p", 10, 1)
	require.Error(t, r.Ping(context.Background()))
	_, err := r.Take(context.Background(), "ann", []admission.Plan{p}, 1)
	require.ErrorIs(t, err, admission.ErrNotCharged)
	s.Restart(t)
	require.NoError(t, r.Ping(context.Background()))
	require.EqualValues(t, 9, take(t, r, "ann", 1, p).Remaining)
}

// A caller that gives up says nothing about the server.
func TestCallerGivesUp(t *testing.T) {
	s := startServer(t)
	r := open(t, redis.Config{}, s.Addr)
	p := bucket("p", 10, 1)
	take(t, r, "ann", 1, p)
	s.Signal(t, syscall.SIGSTOP)
	for range 20 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		_, err := r.Take(ctx, "ann", []admission.Plan{p}, 1)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		cancel()
	}
	s.Signal(t, syscall.SIGCONT)
	require.Zero(t, r.Statistics().Failures)
}

// The service over it: what Redis let in warmed the fallback, which goes on from there at
// this process's share, and says so.
func TestAdmitterFallsBack(t *testing.T) {
	s := startServer(t)
	r := open(t, redis.Config{}, s.Addr)
	local := must(memory.New(memory.Config{}))
	plans := must(admission.NewRuleSet(admission.RuleSetConfig{}, []admission.Plan{bucket("p", 20, 0.001)}, []admission.Rule{}, nil))
	a := must(admission.New(admission.Config{
		Repository: r, Rules: plans, Fallback: local, Share: 0.5, Deadline: patience,
	}))
	defer func(a *admission.Admitter) { require.NoError(t, a.Close()) }(a)
	allow := func() admission.Result {
		return must(a.Allow(context.Background(), "ann", []string{"p"}, 1))
	}
	for range 4 {
		require.Equal(t, admission.ReasonOK, allow().Reason)
	}
	s.Stop()
	granted := 0
	for range 20 {
		if res := allow(); res.Allowed {
			require.Equal(t, admission.ReasonFallback, res.Reason)
			granted++
		}
	}
	require.Equal(t, 10-4, granted)
	require.True(t, a.Statistics().Down)

	for reason, onError := range map[admission.Reason]admission.OnError{
		admission.ReasonFailOpen: admission.FailOpen, admission.ReasonFailClosed: admission.FailClosed,
	} {
		a = must(admission.New(admission.Config{Repository: r, Rules: plans, OnError: onError}))
		require.Equal(t, reason, allow().Reason)
		require.NoError(t, a.Close())
	}
}

func TestClose(t *testing.T) {
	s := startServer(t)
	r := open(t, redis.Config{Deadline: short}, s.Addr)
	plans := []admission.Plan{bucket("p", 10, 1)}
	take(t, r, "ann", 1, plans...)
	s.Signal(t, syscall.SIGSTOP)
	errs := make(chan error)
	for range 50 {
		go func() {
			_, err := r.Take(context.Background(), "ann", plans, 1)
			errs <- err
		}()
	}
	require.NoError(t, r.Close())
	for range 50 {
		require.Error(t, <-errs)
	}
	_, err := r.Take(context.Background(), "ann", plans, 1)
	require.ErrorIs(t, err, admission.ErrClosed)
	require.ErrorIs(t, r.Ping(context.Background()), admission.ErrClosed)
}
