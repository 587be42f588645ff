package main

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/treadlight/crawl/limit"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

// groups is what the table shows. The goals are this project's own.
func groups() []group {
	return []group{
		{"try", "TryAcquire of one limiter that has permits, by all processors at once", append([]candidate{
			{name: "x/time Allow", run: xtimeAllow},
			{name: "uber Take", run: uberTake},
			{name: "sethvargo Take", run: sethvargoTake},
			{name: "failsafe bursty Try", run: failsafeBursty},
			{name: "failsafe smooth Try", run: failsafeSmooth},
			{name: "failsafe bulkhead Try+Release", run: failsafeBulkhead},
		}, ourTries()...)},
		{"acquire", "Acquire(ctx) that need not wait", []candidate{
			{name: "x/time Wait", run: xtimeWait},
			{name: "ours token-bucket Acquire", ours: true, run: tokenAcquire},
		}},
		{"keys", "TryAcquire of one of 100,000 keys, in turn", []candidate{
			{name: "x/time in a map with a mutex", run: xtimeKeyed},
			{name: "x/time Allow, one limiter", run: xtimeAllow},
			{name: "sethvargo Take", run: sethvargoKeyed},
			{name: "ours Keyed TryAcquire", ours: true, goal: 0.85, run: tokenKeyed},
		}},
		{"breaker", "a call that succeeds behind a closed breaker; the yardstick is a limiter", []candidate{
			{name: "x/time Allow", run: xtimeAllow},
			{name: "gobreaker two-step", run: gobreakerTwoStep},
			{name: "gobreaker Execute", run: gobreakerExecute},
			{name: "failsafe Try+Record", run: failsafeBreaker},
			{name: "ours Allow+Done", ours: true, goal: 0.6, run: breakerCall},
		}},
		{"chain", "a round trip over a transport that answers at once", []candidate{
			{name: "no chain", run: bareTrip},
			{name: "retryablehttp", run: retryableTrip},
			{name: "failsafe: retry, breaker, timeout", run: failsafeTrip},
			{name: "ours: retry, breaker, timeout", ours: true, run: threeTrip},
			{name: "ours: seven policies", ours: true, run: sevenTrip},
		}},
	}
}

// ourTries is a candidate for each of the six.
func ourTries() []candidate {
	var all []candidate
	for _, kind := range limit.Kinds() {
		c := candidate{name: "ours " + string(kind), ours: true, run: func(b *testing.B) { try(b, kind) }}
		if kind == limit.KindTokenBucket {
			c.goal = 0.55
		}
		all = append(all, c)
	}
	return all
}

// spec never runs out within a benchmark. The log keeps an instant per permit, so its
// bound is what a window of it costs at full speed; and a leaky bucket grants once per
// interval, so that of its calls most are refused.
func spec(kind limit.Kind) limit.Spec {
	switch kind {
	case limit.KindSlidingWindowLog:
		return limit.Spec{Kind: kind, Permits: 1 << 16, Per: 100 * time.Microsecond}
	case limit.KindConcurrency:
		return limit.Spec{Kind: kind, Permits: 1000}
	case limit.KindTokenBucket, limit.KindFixedWindow, limit.KindSlidingWindow, limit.KindLeakyBucket:
	}
	return limit.Spec{Kind: kind, Permits: endless, Per: time.Second}
}

func try(b *testing.B, kind limit.Kind) {
	l, err := limit.New(spec(kind))
	must(err)
	parallel(b, func() {
		if l.TryAcquire() {
			l.Release() // a no-op but for concurrency
		}
	})
}

func tokenAcquire(b *testing.B) {
	l, err := limit.New(spec(limit.KindTokenBucket))
	must(err)
	ctx := context.Background()
	parallel(b, func() { must(l.Acquire(ctx)) })
}

func tokenKeyed(b *testing.B) {
	k, err := limit.NewKeyed(limit.KeyedConfig[string]{Limit: spec(limit.KindTokenBucket), MaxKeys: 2 * manyKeys})
	must(err)
	perKey(b, func(key string) { k.TryAcquire(key) })
}

func breakerCall(b *testing.B) {
	br, err := resilience.NewBreaker(resilience.BreakerConfig{})
	must(err)
	parallel(b, func() {
		t, err := br.Allow()
		must(err)
		t.Done(resilience.Success)
	})
}

type response = *http.Response

func get[T any](v T, err error) T {
	must(err)
	return v
}

func threeTrip(b *testing.B) {
	trips(b, transport.Layers{
		Retry:          get(transport.NewRetry(resilience.RetryConfig[response]{})),
		Breaker:        get(transport.NewBreaker(get(resilience.NewBreaker(resilience.BreakerConfig{})), resilience.CircuitBreakerConfig[response]{})),
		AttemptTimeout: get(transport.NewTimeout(resilience.TimeoutConfig[response]{After: time.Minute})),
	}.Chain(nowhere{}))
}

func sevenTrip(b *testing.B) {
	trips(b, transport.Layers{
		Fallback: get(transport.NewFallback(resilience.FallbackConfig[response]{
			When: func(res response, err error) bool {
				return err != nil || res.StatusCode == http.StatusServiceUnavailable
			},
			Action: func(ctx context.Context, _ response, _ error) (response, error) {
				return transport.NewResponse(transport.RequestFrom(ctx), http.StatusOK, nil, nil), nil
			},
		})),
		TotalTimeout:   get(transport.NewTimeout(resilience.TimeoutConfig[response]{After: time.Minute})),
		Retry:          get(transport.NewRetry(resilience.RetryConfig[response]{})),
		Breaker:        get(transport.NewBreaker(get(resilience.NewBreaker(resilience.BreakerConfig{})), resilience.CircuitBreakerConfig[response]{})),
		Bulkhead:       get(transport.NewBulkhead(get(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 100})))),
		RateLimit:      get(transport.RateLimit(transport.Policy{Limiter: get(limit.New(spec(limit.KindTokenBucket)))})),
		AttemptTimeout: get(transport.NewTimeout(resilience.TimeoutConfig[response]{After: 10 * time.Second})),
	}.Chain(nowhere{}))
}
