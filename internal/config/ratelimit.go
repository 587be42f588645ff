package config

import "time"

// off is the strategy that paces nothing.
const off = "off"

// RateLimit sets up the engine that learns how fast each host may be asked. Rates are
// in requests per second and per host unless said otherwise.
type RateLimit struct {
	// Strategy is how a rate moves: one of [control.Strategies], or off, which paces nothing
	// (default steer).
	// Empty is refused. It is also the switch: see [RateLimit.Enabled].
	Strategy string `yaml:"strategy"`
	// InitialRPS is the rate a new host starts with (default 1). Zero is refused.
	InitialRPS float64 `yaml:"initial_rps"`
	// MinRPS is the rate no host goes below (default 0.1). Zero is refused.
	MinRPS float64 `yaml:"min_rps"`
	// MaxRPS is the rate no host goes above (default 10). Zero is refused.
	MaxRPS float64 `yaml:"max_rps"`
	// TokenBucketCapacity is the burst a rested host accepts, in requests, 1 to 1000
	// (default 1). Zero is refused.
	TokenBucketCapacity float64 `yaml:"token_bucket_capacity"`
	// AIMDIncrease is added to the rate by a fast success (default 0.1). Zero is
	// refused.
	AIMDIncrease float64 `yaml:"aimd_increase"`
	// AIMDDecrease multiplies the rate at a refusal, 0.01 to 0.99 (default 0.5). Zero
	// is refused.
	AIMDDecrease float64 `yaml:"aimd_decrease"`
	// LatencyTarget is the expected time to an answer; faster ones raise the rate
	// (default 1s). Zero is refused.
	LatencyTarget time.Duration `yaml:"latency_target"`
	// LatencyDegradeFactor times the target is slow enough to lower the rate
	// (default 2). Zero is refused.
	LatencyDegradeFactor float64 `yaml:"latency_degrade_factor"`
	// ErrorRateThreshold is the share of failures that opens the breaker, 0.01 to 1
	// (default 0.5). Zero is refused.
	ErrorRateThreshold float64 `yaml:"error_rate_threshold"`
	// MinSamplesToTrip is how many answers that share needs (default 10). Zero is
	// refused.
	MinSamplesToTrip int `yaml:"min_samples_to_trip"`
	// ConsecutiveFailThreshold is how many failures in a row open the breaker
	// (default 5). Zero is refused.
	ConsecutiveFailThreshold int `yaml:"consecutive_fail_threshold"`
	// OpenStateDuration is how long an open breaker lets nothing through
	// (default 15s). Zero is refused.
	OpenStateDuration time.Duration `yaml:"open_state_duration"`
	// HalfOpenProbes is how many successes close it again (default 2). Zero is
	// refused.
	HalfOpenProbes int `yaml:"half_open_probes"`
	// RetryBaseDelay bounds the wait before the first retry, doubled for each one
	// after it (default 200ms). Zero is refused.
	RetryBaseDelay time.Duration `yaml:"retry_base_delay"`
	// RetryMaxDelay bounds the wait before any retry (default 30s). Zero is refused.
	RetryMaxDelay time.Duration `yaml:"retry_max_delay"`
	// RetryMaxAttempts is how many retries follow a first try that failed
	// (default 3). Zero: none.
	RetryMaxAttempts int `yaml:"retry_max_attempts"`
	// MaxRetryAfter is the longest Retry-After believed, longer ones count as this
	// long (default 1h). Zero is refused.
	MaxRetryAfter time.Duration `yaml:"max_retry_after"`
	// MinDelay is the shortest time between two requests to a host; it wins over the
	// rates (default 0). Zero: none.
	MinDelay time.Duration `yaml:"min_delay"`
	// GlobalRPS bounds the requests per second over all hosts (default 0). Zero: no
	// limit.
	GlobalRPS float64 `yaml:"global_rps"`
	// IPRPS bounds the requests per second over all hosts at one IP address, of IPv6 in
	// one /64 (default 0). Zero: no limit.
	IPRPS float64 `yaml:"ip_rps"`
	// SiteRPS bounds the requests per second over all hosts of one registrable domain,
	// such as example.co.uk (default 0). Zero: no limit.
	SiteRPS float64 `yaml:"site_rps"`
	// GlobalConcurrency bounds the requests in flight over all hosts, robots.txt included
	// (default 0). Zero: no limit.
	GlobalConcurrency int `yaml:"global_concurrency"`
	// GlobalBytes bounds the bytes per second that the bodies of answers take on the wire,
	// over all hosts (default 0). Zero: no limit.
	GlobalBytes int64 `yaml:"global_bytes"`
	// Remember is the file in which what is learned of hosts is kept for the next crawl
	// (default ""). Empty: none.
	Remember string `yaml:"remember"`
	// LatencySamples is how many of a host's last answers its average and p95 latency are of, 1 to
	// 255 (default 64). Zero is refused.
	LatencySamples int `yaml:"latency_samples"`
	// StatsWindow is the time over which failures are counted (default 30s). Zero is
	// refused.
	StatsWindow time.Duration `yaml:"stats_window"`
	// StatsBucket is the step in which the window moves; the window is a whole number
	// of it (default 2s). Zero is refused.
	StatsBucket time.Duration `yaml:"stats_bucket"`
	// DomainStateTTL is how long what was learned of an idle host is kept
	// (default 10m). Zero is refused.
	DomainStateTTL time.Duration `yaml:"domain_state_ttl"`
	// Shards is the number of locks over the hosts, a power of two up to 4096
	// (default 16). Zero is refused.
	Shards int `yaml:"shards"`
}

// Enabled reports whether hosts are paced at all: the strategy is not off.
func (r RateLimit) Enabled() bool { return r.Strategy != off }
