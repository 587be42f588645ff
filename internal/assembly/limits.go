package assembly

import (
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/classic"
)

// limiterConfig puts the settings of pace into the engine's terms.
func limiterConfig(s *Settings) ratelimit.Config {
	r := &s.RateLimit
	rc := ratelimit.DefaultConfig()
	rc.Enabled = r.Enabled()
	if rc.Enabled {
		rc.Strategy = r.Strategy
	}
	rc.InitialRPS, rc.MinRPS, rc.MaxRPS = r.InitialRPS, r.MinRPS, r.MaxRPS
	rc.TokenBucketCapacity = r.TokenBucketCapacity
	rc.AIMDIncrease, rc.AIMDDecrease = r.AIMDIncrease, r.AIMDDecrease
	rc.LatencyTarget, rc.LatencyDegradeFactor = r.LatencyTarget, r.LatencyDegradeFactor
	rc.ErrorRateThreshold, rc.MinSamplesToTrip = r.ErrorRateThreshold, r.MinSamplesToTrip
	rc.ConsecutiveFailThreshold = r.ConsecutiveFailThreshold
	rc.OpenStateDuration, rc.HalfOpenProbes = r.OpenStateDuration, r.HalfOpenProbes
	rc.RetryBaseDelay, rc.RetryMaxDelay = r.RetryBaseDelay, r.RetryMaxDelay
	if rc.RetryMaxAttempts = r.RetryMaxAttempts; r.RetryMaxAttempts == 0 {
		rc.RetryMaxAttempts = -1 // where zero would mean the default
	}
	rc.MaxRetryAfter, rc.MinDelay, rc.GlobalRPS = r.MaxRetryAfter, r.MinDelay, r.GlobalRPS
	rc.IPRPS, rc.SiteRPS = r.IPRPS, r.SiteRPS
	rc.GlobalConcurrency, rc.GlobalBytes = r.GlobalConcurrency, r.GlobalBytes
	rc.MaxCrawlDelay = s.Robots.MaxCrawlDelay
	rc.LatencySamples = r.LatencySamples
	rc.StatsWindow, rc.StatsBucket, rc.DomainStateTTL = r.StatsWindow, r.StatsBucket, r.DomainStateTTL
	rc.Shards, rc.MaxDomains = r.Shards, r.MaxDomains
	for _, h := range s.Hosts {
		rule := ratelimit.HostRule{
			Match: h.Match, InitialRPS: h.InitialRPS, MinRPS: h.MinRPS, MaxRPS: h.MaxRPS, MinDelay: h.MinDelay,
			MaxInFlight: h.MaxInFlight, Cap: specOf(h.Cap), Quota: specOf(h.Quota),
		}
		if h.MinDelay == 0 {
			rule.MinDelay = -1 // where zero would inherit
		}
		rc.Hosts = append(rc.Hosts, rule)
	}
	return rc
}

// specOf is a cap in the engine's terms; none is none in both.
func specOf(c config.Cap) classic.Spec {
	return classic.Spec{Kind: classic.Kind(c.Kind), Permits: c.Permits, Per: c.Per}
}
