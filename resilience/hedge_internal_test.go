package resilience

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

type hedgeKey struct{}

// The lazy context shows what one of package context does, whatever is asked first.
func TestHedgeContextIsAContext(t *testing.T) {
	cause := fmt.Errorf("cause")
	ask := map[string]func(context.Context){
		"nothing": func(context.Context) {},
		"done":    func(c context.Context) { c.Done() },
		"err":     func(c context.Context) { _ = c.Err() },
		"cause":   func(c context.Context) { _ = context.Cause(c) },
		"child":   func(c context.Context) { _, cancel := context.WithCancel(c); cancel() },
	}
	type scope struct {
		context.Context
		cancel func(error)
		end    func()
	}
	ends := map[string]func(s scope, parent context.CancelCauseFunc){
		"lost":   func(s scope, _ context.CancelCauseFunc) { s.cancel(cause) },
		"over":   func(s scope, _ context.CancelCauseFunc) { s.end() },
		"parent": func(_ scope, parent context.CancelCauseFunc) { parent(cause) },
		"twice":  func(s scope, _ context.CancelCauseFunc) { s.end(); s.cancel(cause); s.end() },
	}
	see := func(make func(context.Context) scope, first func(context.Context), end func(scope, context.CancelCauseFunc)) (seen []string) {
		parent, cancel := context.WithCancelCause(context.WithValue(context.Background(), hedgeKey{}, "v"))
		defer cancel(nil)
		c := make(parent)
		defer c.end()
		first(c)
		child, stop := context.WithCancel(c)
		defer stop()
		var mu sync.Mutex
		ran := false
		context.AfterFunc(c, func() {
			mu.Lock()
			defer mu.Unlock()
			ran = true
		})
		look := func() {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, fmt.Sprint(c.Err(), context.Cause(c), child.Err(), context.Cause(child), c.Value(hedgeKey{}), ran))
		}
		look()
		end(c, cancel)
		look()
		select {
		case <-c.Done():
			seen = append(seen, "done")
		default:
		}
		return seen
	}
	over := endedContext()
	for asked, first := range ask {
		for ended, end := range ends {
			synctest.Test(t, func(t *testing.T) {
				lazy := see(func(parent context.Context) scope {
					c := &scopeContext{Context: parent, over: over}
					return scope{c, c.cancel, c.end}
				}, first, end)
				plain := see(func(parent context.Context) scope {
					c, cancel := context.WithCancelCause(parent)
					return scope{c, cancel, func() { cancel(nil) }}
				}, first, end)
				require.Equal(t, plain, lazy, "asked %s, ended by %s", asked, ended)
			})
		}
	}
}

func TestPaceAtExactSamples(t *testing.T) {
	var p hedgePace
	p.delay.Store(int64(2 * time.Second))
	for i := 1; i < paceSamples; i++ {
		p.add(time.Duration(i)*time.Millisecond, 0.9)
		require.Equal(t, 2*time.Second, p.current(), "after %d samples", i)
	}
	p.add(20*time.Millisecond, 0.9)
	require.InEpsilon(t, 18*time.Millisecond, p.current(), 0.036, "the 18th of 20")
	for range paceEvery - 1 {
		p.add(time.Second, 0.9)
		require.InEpsilon(t, 18*time.Millisecond, p.current(), 0.036, "not found anew")
	}
	p.add(time.Second, 0.9)
	require.InEpsilon(t, time.Second, p.current(), 0.036, "the 26th of 28")
}

func TestPaceIsNeverZero(t *testing.T) {
	var p hedgePace
	for range paceSamples {
		p.add(0, 0.5)
	}
	require.Equal(t, time.Duration(1), p.current())
}

// A quantile of 0.9 hedges one call in ten, also after the hedges have made the slow
// calls disappear from what callers see: the cut ones count for what they were.
func TestQuantileDoesNotSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := NewHedge(HedgeConfig[int]{Delay: time.Minute, Quantile: 0.9})
		require.NoError(t, err)
		rnd := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex
		const calls = 4000
		for range calls {
			_, err := h.Execute(t.Context(), func(ctx context.Context) (int, error) {
				mu.Lock()
				latency := time.Duration(rnd.ExpFloat64() * float64(100*time.Millisecond))
				mu.Unlock()
				select {
				case <-time.After(latency):
					return 0, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			})
			require.NoError(t, err)
		}
		share := float64(h.Statistics().Hedges) / calls
		t.Logf("%.3f of the calls hedged, delay %v", share, h.Statistics().Delay)
		require.InDelta(t, 0.1, share, 0.03)
		require.NoError(t, h.Close())
	})
}

// A first call that failed says nothing of how long good ones take.
func TestPaceOfFirstCallsThatFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, err := NewHedge(HedgeConfig[int]{Delay: time.Minute, Quantile: 0.5})
		require.NoError(t, err)
		for range 2 * paceSamples {
			calls := 0
			_, err := h.Execute(t.Context(), func(context.Context) (int, error) {
				if calls++; calls == 1 {
					return 0, errFailedValue
				}
				time.Sleep(time.Second)
				return 0, nil
			})
			require.NoError(t, err)
		}
		require.Equal(t, time.Minute, h.Statistics().Delay)
		require.NoError(t, h.Close())
	})
}
