package ratelimit

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/breaker"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

func TestRetryAfter(t *testing.T) {
	r := newRig(t, func(c *Config) { c.MaxRetryAfter = time.Minute })
	r.Feedback(host, Feedback{StatusCode: 429, RetryAfter: 10 * time.Second})
	r.wantReady(host, 0, 10*time.Second, LimitRetryAfter)
	r.Feedback(host, Feedback{StatusCode: 429, RetryAfter: 5 * time.Second}) // the later wins
	r.wantReady(host, 0, 10*time.Second, LimitRetryAfter)
	r.to(8 * time.Second)
	r.Feedback(host, Feedback{StatusCode: 200, Latency: time.Second, RetryAfter: -time.Hour})
	r.wantReady(host, 0, 10*time.Second, LimitRetryAfter)
	r.Feedback(host, Feedback{Err: context.Canceled, RetryAfter: 4 * time.Second}) // given up, yet told
	r.wantReady(host, 0, 12*time.Second, LimitRetryAfter)
	_, granted := r.grant(host)
	require.False(t, granted)
	r.to(12*time.Second - 1)
	_, granted = r.grant(host)
	require.False(t, granted)
	r.to(12 * time.Second)
	_, granted = r.grant(host)
	require.True(t, granted)
	r.Feedback(host, Feedback{StatusCode: 503, RetryAfter: math.MaxInt64}) // capped
	r.wantReady(host, 0, 72*time.Second, LimitRetryAfter)
}

// Orders to wait never open the breaker, however many, and let its count be.
func TestRetryAfterDoesNotTrip(t *testing.T) {
	r := newRig(t, nil)
	for i := range 100 {
		r.to(time.Duration(i) * 2 * time.Second)
		r.Feedback(host, Feedback{StatusCode: 429, RetryAfter: time.Second})
	}
	d := r.see(host)
	require.Equal(t, breaker.Closed, d.State)
	require.Zero(t, d.ConsecutiveFails)
	require.Zero(t, d.ErrorRate)
}

func TestSpacing(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(c *Config)
		crawl  time.Duration
		space  time.Duration
		why    Limit
		rate   float64
	}{
		{"min delay against a burst", func(c *Config) { c.MinDelay = 3 * time.Second }, 0, 3 * time.Second, LimitRule, 0.333333},
		{"host rule", func(c *Config) { c.Hosts = []HostRule{{Match: host, MinDelay: 4 * time.Second}} }, 0, 4 * time.Second, LimitRule, 0.25},
		{"crawl delay", nil, 5 * time.Second, 5 * time.Second, LimitCrawlDelay, 0.2},
		{"crawl delay below the floor", nil, 50 * time.Second, 50 * time.Second, LimitCrawlDelay, 0.02},
		{"crawl delay capped", func(c *Config) { c.MaxCrawlDelay = 7 * time.Second }, time.Hour, 7 * time.Second, LimitCrawlDelay, 0.142857},
		{"crawl delay not capped", func(c *Config) { c.MaxCrawlDelay = -1 }, time.Hour, time.Hour, LimitCrawlDelay, 0.000277},
		{"the larger of two", func(c *Config) { c.MinDelay = 9 * time.Second }, 5 * time.Second, 9 * time.Second, LimitRule, 0.111111},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, func(c *Config) {
				c.TokenBucketCapacity = 10
				if tc.change != nil {
					tc.change(c)
				}
			})
			r.SetCrawlDelay(host, tc.crawl)
			require.Equal(t, tc.rate, r.see(host).FillRate)
			for i := range 4 {
				r.to(time.Duration(i) * tc.space)
				r.request(host, Feedback{})
				r.wantReady(host, 0, time.Duration(i+1)*tc.space, tc.why)
				r.to(time.Duration(i+1)*tc.space - 1)
				_, granted := r.grant(host)
				require.False(t, granted)
			}
		})
	}
}

// A refusal that is one URL's says nothing of the host; an order to wait that came with it holds like any other.
func TestRefusalOfURL(t *testing.T) {
	for _, strategy := range control.Names() {
		r := newRig(t, func(c *Config) { c.Strategy = strategy })
		r.request(host, ok(10*time.Millisecond))
		before := r.see(host)
		for range 20 {
			r.Feedback(host, Feedback{StatusCode: 429, Latency: 10 * time.Millisecond, OfURL: true})
		}
		after := r.see(host)
		require.Equal(t, before.FillRate, after.FillRate, strategy)
		require.Equal(t, before.State, after.State, strategy)
		require.Empty(t, after.Events, strategy)
		require.Zero(t, after.ErrorRate, strategy)
		require.Zero(t, after.ConsecutiveFails, strategy)
		r.Feedback(host, Feedback{StatusCode: 429, OfURL: true, RetryAfter: 10 * time.Second})
		r.wantReady(host, 0, 10*time.Second, LimitRetryAfter)
	}
}

// A refusal that was reported as the domain's turns out to be the URL's: the strategy begins
// anew, and an order to wait that is in force holds to its end all the same.
func TestRefusalThatWasOfTheURLToo(t *testing.T) {
	for _, s := range control.Strategies() {
		strategy := s.Name
		if !s.Learns {
			continue // a refusal changes nothing
		}
		r := newRig(t, func(c *Config) { c.Strategy = strategy })
		type plan struct {
			rate float64
			at   time.Time // of the tenth request from now
		}
		planned := func() plan {
			at, _ := r.ReadyAt(host, 9, 9)
			return plan{r.see(host).FillRate, at}
		}
		p, _ := r.grant(host)
		p.Release()
		r.to(30 * time.Second)
		before := planned()
		refused := Feedback{StatusCode: 429, Latency: 10 * time.Millisecond}
		r.Feedback(host, refused)
		require.NotEqual(t, before, planned(), strategy)
		refused.OfURL, refused.OfURLFirst = true, true
		r.Feedback(host, refused)
		require.Equal(t, before, planned(), strategy)

		r.Feedback(host, Feedback{StatusCode: 429, Latency: 10 * time.Millisecond, RetryAfter: 10 * time.Second})
		r.Feedback(host, refused)
		r.wantReady(host, 0, 40*time.Second, LimitRetryAfter)
	}
}

// TestHoldsWhatAHostSaysMayBeUnderWay: from the answer on that tells how many requests of a
// client may be under way at once, no more are, under each strategy.
func TestHoldsWhatAHostSaysMayBeUnderWay(t *testing.T) {
	for _, name := range control.Names() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l, err := New(Config{Enabled: true, Strategy: name, InitialRPS: 1000, MaxRPS: 1000})
				require.NoError(t, err)
				take := func() bool {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					_, err := l.Acquire(ctx, "example.com")
					return err == nil
				}
				require.True(t, take())
				l.Feedback("example.com", Feedback{StatusCode: 200, Latency: time.Millisecond, Quota: header.Quota{InFlight: 3}})
				require.True(t, take())
				require.True(t, take())
				require.False(t, take(), "three are under way")
			})
		})
	}
}
