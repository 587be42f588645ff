package ratelimit

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
)

func TestHostRules(t *testing.T) {
	r := newRig(t, func(c *Config) {
		c.Hosts = []HostRule{
			{Match: "Fast.Example.com", InitialRPS: 5, MaxRPS: 50},
			{Match: "*.example.com", MaxRPS: 0.5},
			{Match: "port.test:8080", MinDelay: 3 * time.Second},
			{Match: "*", InitialRPS: 2},
		}
	})
	for _, tc := range []struct {
		domain string
		want   float64
	}{
		{"fast.example.com", 5},
		{"fast.example.com:8080", 5},
		{"slow.example.com", 0.5},
		{"a.b.example.com", 0.5},
		{"example.com", 2},
		{"notexample.com", 2},
		{"port.test", 2},
		{"port.test:8080", 1},
		{"[::1]:9000", 2},
	} {
		if got := r.see(tc.domain).FillRate; got != tc.want {
			t.Errorf("%s starts at %v/s, want %v", tc.domain, got, tc.want)
		}
	}
}

func TestConfigDefaults(t *testing.T) {
	c := DefaultConfig()
	require.Equal(t, "steer", c.Strategy)
	require.Equal(t, []float64{1, 0.1, 10, 1, 0.1, 0.5, 2, 0.5}, []float64{
		c.InitialRPS, c.MinRPS, c.MaxRPS, c.TokenBucketCapacity, c.AIMDIncrease, c.AIMDDecrease, c.LatencyDegradeFactor, c.ErrorRateThreshold,
	})
	require.Equal(t, []int{10, 5, 2, 3, 64, 16, 100_000, 400_000}, []int{
		c.MinSamplesToTrip, c.ConsecutiveFailThreshold, c.HalfOpenProbes, c.RetryMaxAttempts, c.LatencySamples, c.Shards, c.MaxDomains, c.MaxTombstones,
	})
	require.Equal(t, []time.Duration{time.Second, 15 * time.Second, 200 * time.Millisecond, 30 * time.Second, 30 * time.Second, 2 * time.Second, 10 * time.Minute}, []time.Duration{
		c.LatencyTarget, c.OpenStateDuration, c.RetryBaseDelay, c.RetryMaxDelay, c.StatsWindow, c.StatsBucket, c.DomainStateTTL,
	})
	_, err := New(c)
	require.NoError(t, err)
	_, err = New(Config{})
	require.NoError(t, err, "the zero Config is a limiter that is off")
}

func TestConfigRejects(t *testing.T) {
	for _, tc := range []struct {
		want   string
		change func(c *Config)
	}{
		{"InitialRPS = 11: want a rate from MinRPS to MaxRPS", func(c *Config) { c.InitialRPS = 11 }},
		{"InitialRPS = NaN", func(c *Config) { c.InitialRPS = math.NaN() }},
		{"MinRPS = -1", func(c *Config) { c.MinRPS = -1 }},
		{"MaxRPS = +Inf", func(c *Config) { c.MaxRPS = math.Inf(1) }},
		{"TokenBucketCapacity = 0.5", func(c *Config) { c.TokenBucketCapacity = 0.5 }},
		{"TokenBucketCapacity = 1001", func(c *Config) { c.TokenBucketCapacity = 1001 }},
		{"AIMDIncrease = -1", func(c *Config) { c.AIMDIncrease = -1 }},
		{"AIMDDecrease = 1: want a factor above 0 and below 1", func(c *Config) { c.AIMDDecrease = 1 }},
		{"LatencyTarget = -1s", func(c *Config) { c.LatencyTarget = -time.Second }},
		{"LatencyDegradeFactor = 0.5", func(c *Config) { c.LatencyDegradeFactor = 0.5 }},
		{"ErrorRateThreshold = 2", func(c *Config) { c.ErrorRateThreshold = 2 }},
		{"MinSamplesToTrip = -1", func(c *Config) { c.MinSamplesToTrip = -1 }},
		{"ConsecutiveFailThreshold = -1", func(c *Config) { c.ConsecutiveFailThreshold = -1 }},
		{"OpenStateDuration = -1s", func(c *Config) { c.OpenStateDuration = -time.Second }},
		{"HalfOpenProbes = 65536: want 1 to 65535", func(c *Config) { c.HalfOpenProbes = 65536 }},
		{"RetryBaseDelay = -1ns", func(c *Config) { c.RetryBaseDelay = -1 }},
		{"RetryMaxDelay = 1ms: want a duration from 200ms", func(c *Config) { c.RetryMaxDelay = time.Millisecond }},
		{"LatencySamples = 256: want 1 to 255", func(c *Config) { c.LatencySamples = 256 }},
		{"LatencySamples = -1", func(c *Config) { c.LatencySamples = -1 }},
		{"StatsWindow = 30s, StatsBucket = 7s", func(c *Config) { c.StatsBucket = 7 * time.Second }},
		{"DomainStateTTL = -1ns", func(c *Config) { c.DomainStateTTL = -1 }},
		{"Shards = 12: want a power of two", func(c *Config) { c.Shards = 12 }},
		{"Shards = -16", func(c *Config) { c.Shards = -16 }},
		{"MaxDomains = -1", func(c *Config) { c.MaxDomains = -1 }},
		{"MaxTombstones = -1", func(c *Config) { c.MaxTombstones = -1 }},
		{"MaxWaiters = -1", func(c *Config) { c.MaxWaiters = -1 }},
		{"MaxRetryAfter = -1ns", func(c *Config) { c.MaxRetryAfter = -1 }},
		{"MinDelay = -1ns", func(c *Config) { c.MinDelay = -1 }},
		{"GlobalRPS = -1", func(c *Config) { c.GlobalRPS = -1 }},
		{"ThrottledAfter = -1ns", func(c *Config) { c.ThrottledAfter = -1 }},
		{`Strategy = "guess": want one of ` + strings.Join(control.Names(), ", "), func(c *Config) { c.Strategy = "guess" }},
		{"Hosts[0].Match = : want a host", func(c *Config) { c.Hosts = []HostRule{{}} }},
		{"Hosts[0].Match = a*.test", func(c *Config) { c.Hosts = []HostRule{{Match: "a*.test"}} }},
		{"Hosts[1].MaxRPS = -1", func(c *Config) { c.Hosts = []HostRule{{Match: "*"}, {Match: host, MaxRPS: -1}} }},
		{"Hosts[0].MinRPS = 2", func(c *Config) { c.Hosts = []HostRule{{Match: host, MinRPS: 2, MaxRPS: 1}} }},
		{"Hosts[0].InitialRPS = 2", func(c *Config) { c.Hosts = []HostRule{{Match: host, InitialRPS: 2, MaxRPS: 1}} }},
		{"Hosts[0].MinDelay = 2562047h", func(c *Config) { c.Hosts = []HostRule{{Match: host, MinDelay: math.MaxInt64}} }},
	} {
		c := DefaultConfig()
		tc.change(&c)
		_, err := New(c)
		if err == nil || !strings.HasPrefix(err.Error(), "ratelimit: "+tc.want) {
			t.Errorf("New = %v, want ratelimit: %s …", err, tc.want)
		}
	}
}

func TestRetryDelay(t *testing.T) {
	var c Config // the helpers need no filled one
	for attempt, ceiling := range []time.Duration{0, 200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond} {
		rnd := rand.New(rand.NewPCG(1, uint64(attempt)))
		for range 100 {
			d, again := c.RetryDelay(attempt, rnd)
			if d < 0 || d > ceiling || again != (attempt > 0) {
				t.Fatalf("RetryDelay(%d) = %v, %v, want up to %v", attempt, d, again, ceiling)
			}
		}
	}
	_, again := c.RetryDelay(4, nil)
	require.False(t, again, "three retries are the default")
	c.RetryMaxAttempts = -1
	_, again = c.RetryDelay(1, nil)
	require.False(t, again, "a negative number means none")
	c.RetryMaxAttempts = 9
	d, _ := c.RetryDelay(9, top{})
	require.Equal(t, 30*time.Second, d)
}

// top is a source that always gives the largest number.
type top struct{}

func (top) Int64N(n int64) int64 { return n - 1 }

func TestGlobalCapacityIsTenMilliseconds(t *testing.T) {
	for _, tc := range []struct {
		rps  float64
		want int64
	}{
		{1e-6, token}, {100, token}, {200, 2 * token}, {1e5, 1000 * token}, {1e6, 1000 * token},
	} {
		if got := newRig(t, func(c *Config) { c.GlobalRPS = tc.rps }).shared.global.capacity; got != tc.want {
			t.Errorf("capacity at %v/s = %d, want %d", tc.rps, got, tc.want)
		}
	}
}
