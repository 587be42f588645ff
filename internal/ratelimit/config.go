package ratelimit

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
	"github.com/treadlight/crawl/internal/ratelimit/control/steer"
	"github.com/treadlight/crawl/internal/ratelimit/estimate"
)

// Config configures an [AdaptiveRateLimiter]. Begin with [DefaultConfig]: the zero Config is off. Rates are requests
// per second and domain unless stated, to the millionth.
type Config struct {
	// Enabled turns the limiter on. False: Acquire grants at once and only counts, for one's own servers.
	Enabled bool
	// Strategy decides how the rate follows what a host does; see [control.Strategies]. Empty means the first of them.
	Strategy string
	// Tuning are the constants of the strategy steer, for experiments. Nil means [steer.DefaultTuning].
	Tuning *steer.Tuning

	InitialRPS          float64 // rate of a host nothing is known of; zero means 1
	MinRPS              float64 // floor of the learned rate; zero means 0.1
	MaxRPS              float64 // ceiling of the rate, up to 1e6; zero means 10
	TokenBucketCapacity float64 // requests an idle host may get at once, 1 to 1000; zero means 1: no bursts

	AIMDIncrease         float64       // added to the rate by a prompt success; zero means 0.1
	AIMDDecrease         float64       // factor of the rate at a sign of overload, in (0, 1); zero means 0.5
	LatencyTarget        time.Duration // expected latency, with which the target begins; it goes with the host, at most to twice its lowest sustained one; zero means 1s
	LatencyDegradeFactor float64       // times the target is a sign of overload, 1 or more; zero means 2

	ErrorRateThreshold       float64       // share of failures in StatsWindow that opens the breaker, in (0, 1]; zero means 0.5
	MinSamplesToTrip         int           // answers below which that share is not looked at; zero means 10
	ConsecutiveFailThreshold int           // failures in a row that open the breaker; zero means 5
	OpenStateDuration        time.Duration // how long it stays open, and how long a probe may be out; zero means 15s
	HalfOpenProbes           int           // successes that close it again, up to 65535; zero means 2

	LatencySamples int           // last answers whose average and p95 a Snapshot shows, 1 to 255; zero means 64
	StatsWindow    time.Duration // span of the error rate; zero means 30s
	StatsBucket    time.Duration // its resolution, a whole part of StatsWindow (up to 1024); zero means 2s
	DomainStateTTL time.Duration // idle time after which a state is evicted; zero means 10m
	Shards         int           // power of two, up to 65536; zero means 16
	MaxDomains     int           // states kept, rounded up to a multiple of Shards; zero means 100000
	MaxTombstones  int           // obligations of evicted domains kept; zero means 4*MaxDomains
	MaxWaiters     int           // Acquire calls that may wait for one domain; zero means 10000

	MaxRetryAfter time.Duration // longest Retry-After that is obeyed; zero means 1h
	MaxCrawlDelay time.Duration // longest Crawl-delay that is obeyed; zero means 60s, negative means any
	MinDelay      time.Duration // least time between two grants of a domain, burst or not; zero means none
	GlobalRPS     float64       // rate of all domains together, up to 1e6; zero means no such bound
	IPRPS         float64       // rate of all domains at one address (IPv6: one /64), up to 1e6; zero means no such bound
	SiteRPS       float64       // rate of all domains of one registrable domain, up to 1e6; zero means no such bound

	GlobalConcurrency int   // requests of all domains that are out at a time; zero means no such bound
	GlobalBytes       int64 // bytes per second of all answers, as told by ChargeBytes, up to 2^50; zero means no such bound

	// Fleet, if set, makes GlobalRPS, IPRPS, SiteRPS and GlobalBytes hold for all processes together, and
	// GlobalConcurrency in shares by [AdaptiveRateLimiter.ShareSlots]. Tokens are charged ahead while
	// [AdaptiveRateLimiter.Run] runs; without it nothing is granted. All processes need the same figures, of bytes a
	// billion a second at most.
	Fleet SharedTokens
	// FleetName is what those have in common who share the budgets: keys begin with it.
	FleetName string

	// Hosts are exceptions; the first that matches a domain is its rule. Nil means none.
	Hosts []HostRule

	ThrottledAfter time.Duration // wait from which an Acquire counts as throttled; zero means 10ms
	SnapshotTop    int           // domains shown by Snapshot; zero means 50, negative means none

	// OnEvent, if set, is called with each change of a domain, in order, by the goroutine that noticed or one about to
	// return, without a lock held. It must be quick: while it runs only the last 8 events are kept.
	OnEvent func(Event)
	// Clock tells the time and makes timers; nil means the system's.
	Clock clock.Clock
}

// DefaultConfig returns a limiter's configuration with every default written out.
func DefaultConfig() Config {
	c := Config{Enabled: true}
	c.setDefaults()
	return c
}

func (c *Config) setDefaults() {
	c.Strategy = cmp.Or(c.Strategy, control.Names()[0])
	c.InitialRPS, c.MinRPS, c.MaxRPS = cmp.Or(c.InitialRPS, 1), cmp.Or(c.MinRPS, 0.1), cmp.Or(c.MaxRPS, 10)
	c.TokenBucketCapacity = cmp.Or(c.TokenBucketCapacity, 1)
	c.AIMDIncrease, c.AIMDDecrease = cmp.Or(c.AIMDIncrease, 0.1), cmp.Or(c.AIMDDecrease, 0.5)
	c.LatencyTarget, c.LatencyDegradeFactor = cmp.Or(c.LatencyTarget, time.Second), cmp.Or(c.LatencyDegradeFactor, 2)
	c.ErrorRateThreshold, c.MinSamplesToTrip = cmp.Or(c.ErrorRateThreshold, 0.5), cmp.Or(c.MinSamplesToTrip, 10)
	c.ConsecutiveFailThreshold = cmp.Or(c.ConsecutiveFailThreshold, 5)
	c.OpenStateDuration, c.HalfOpenProbes = cmp.Or(c.OpenStateDuration, 15*time.Second), cmp.Or(c.HalfOpenProbes, 2)
	c.LatencySamples = cmp.Or(c.LatencySamples, estimate.Samples)
	c.StatsWindow, c.StatsBucket = cmp.Or(c.StatsWindow, 30*time.Second), cmp.Or(c.StatsBucket, 2*time.Second)
	c.DomainStateTTL, c.Shards = cmp.Or(c.DomainStateTTL, 10*time.Minute), cmp.Or(c.Shards, 16)
	c.MaxDomains = cmp.Or(c.MaxDomains, 100_000)
	c.MaxTombstones, c.MaxWaiters = cmp.Or(c.MaxTombstones, 4*c.MaxDomains), cmp.Or(c.MaxWaiters, 10_000)
	c.MaxRetryAfter, c.MaxCrawlDelay = cmp.Or(c.MaxRetryAfter, time.Hour), cmp.Or(c.MaxCrawlDelay, time.Minute)
	c.ThrottledAfter, c.SnapshotTop = cmp.Or(c.ThrottledAfter, 10*time.Millisecond), cmp.Or(c.SnapshotTop, 50)
	c.Clock = cmp.Or(c.Clock, clock.System())
}

const (
	// minRPS is one request in eleven days, the least a millionth can express.
	minRPS = 1e-6
	// maxRPS keeps a nanosecond's worth of tokens within one token.
	maxRPS = 1e6
	// maxBytes per second are a petabyte: the sizes that are expected of that many answers stay exact.
	maxBytes = min(1<<50, math.MaxInt)
	// maxCapacity keeps a full bucket of 1e15 units per token within an int64.
	maxCapacity = 1000
	// longest is far beyond any sensible duration and keeps sums of them representable.
	longest = 100 * 365 * 24 * time.Hour
)

type check struct {
	name  string
	value any
	ok    bool
	want  string
}

func countIn(name string, n, least, most int) check {
	return check{name, n, n >= least && n <= most, fmt.Sprintf("%d to %d", least, most)}
}

func spanFrom(name string, d, least time.Duration) check {
	return check{name, d, d >= least && d <= longest, fmt.Sprintf("a duration from %v to a century", least)}
}

// validate rejects what is out of range, defaults having been set. NaN is in no range.
func (c *Config) validate() error {
	const rates, bound = "1e-6 to 1e6 requests per second", "0 for no bound, or 1e-6 to 1e6 requests per second"
	for _, f := range []check{
		{"MaxRPS", c.MaxRPS, c.MaxRPS >= minRPS && c.MaxRPS <= maxRPS, rates},
		{"MinRPS", c.MinRPS, c.MinRPS >= minRPS && c.MinRPS <= c.MaxRPS, "1e-6 to MaxRPS requests per second"},
		{"InitialRPS", c.InitialRPS, c.InitialRPS >= c.MinRPS && c.InitialRPS <= c.MaxRPS, "a rate from MinRPS to MaxRPS"},
		{"TokenBucketCapacity", c.TokenBucketCapacity, c.TokenBucketCapacity >= 1 && c.TokenBucketCapacity <= maxCapacity, "1 to 1000 requests; 1 means no bursts"},
		{"AIMDIncrease", c.AIMDIncrease, c.AIMDIncrease >= minRPS && c.AIMDIncrease <= maxRPS, rates},
		{"AIMDDecrease", c.AIMDDecrease, c.AIMDDecrease > 0 && c.AIMDDecrease < 1, "a factor above 0 and below 1"},
		{"LatencyDegradeFactor", c.LatencyDegradeFactor, c.LatencyDegradeFactor >= 1 && c.LatencyDegradeFactor <= math.MaxFloat32, "a factor of 1 or more"},
		{"ErrorRateThreshold", c.ErrorRateThreshold, c.ErrorRateThreshold > 0 && c.ErrorRateThreshold <= 1, "a share above 0, up to 1"},
		{"GlobalRPS", c.GlobalRPS, isRate(c.GlobalRPS, maxRPS), bound},
		{"IPRPS", c.IPRPS, isRate(c.IPRPS, maxRPS), bound},
		{"SiteRPS", c.SiteRPS, isRate(c.SiteRPS, maxRPS), bound},
		countIn("MinSamplesToTrip", c.MinSamplesToTrip, 1, math.MaxInt32),
		countIn("ConsecutiveFailThreshold", c.ConsecutiveFailThreshold, 1, math.MaxInt32),
		countIn("HalfOpenProbes", c.HalfOpenProbes, 1, math.MaxUint16),
		countIn("LatencySamples", c.LatencySamples, 1, estimate.MaxSamples),
		countIn("Shards", c.Shards, 1, 1<<16),
		{"Shards", c.Shards, c.Shards&(c.Shards-1) == 0, "a power of two, such as 16"},
		countIn("MaxDomains", c.MaxDomains, 1, math.MaxInt32),
		countIn("MaxTombstones", c.MaxTombstones, 1, math.MaxInt),
		countIn("MaxWaiters", c.MaxWaiters, 1, math.MaxInt32),
		countIn("GlobalConcurrency", c.GlobalConcurrency, 0, math.MaxInt32),
		countIn("GlobalBytes", int(min(c.GlobalBytes, math.MaxInt)), 0, maxBytes),
		spanFrom("LatencyTarget", c.LatencyTarget, 1),
		spanFrom("OpenStateDuration", c.OpenStateDuration, 1),
		spanFrom("DomainStateTTL", c.DomainStateTTL, 2),
		spanFrom("MaxRetryAfter", c.MaxRetryAfter, 1),
		spanFrom("MaxCrawlDelay", c.MaxCrawlDelay, math.MinInt64),
		spanFrom("MinDelay", c.MinDelay, 0),
		spanFrom("ThrottledAfter", c.ThrottledAfter, 1),
	} {
		if !f.ok {
			return fmt.Errorf("ratelimit: %s = %v: want %s", f.name, f.value, f.want)
		}
	}
	if _, err := estimate.NewWindow(c.StatsWindow, c.StatsBucket); err != nil {
		return fmt.Errorf("ratelimit: StatsWindow = %v, StatsBucket = %v: %w", c.StatsWindow, c.StatsBucket, err)
	}
	return c.validateHosts()
}
