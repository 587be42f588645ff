package assembly

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/observe/traces"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/trap"
	"github.com/treadlight/crawl/limit"
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
	rc.RetryMaxAttempts = noneAsMinus(r.RetryMaxAttempts)
	rc.MaxRetryAfter, rc.MinDelay, rc.GlobalRPS = r.MaxRetryAfter, r.MinDelay, r.GlobalRPS
	rc.IPRPS, rc.SiteRPS = r.IPRPS, r.SiteRPS
	rc.GlobalConcurrency, rc.GlobalBytes = r.GlobalConcurrency, r.GlobalBytes
	rc.MaxCrawlDelay = s.Robots.MaxCrawlDelay
	rc.LatencySamples = r.LatencySamples
	rc.StatsWindow, rc.StatsBucket, rc.DomainStateTTL = r.StatsWindow, r.StatsBucket, r.DomainStateTTL
	rc.Shards = r.Shards
	spec := func(c config.Cap) limit.Spec {
		return limit.Spec{Kind: limit.Kind(c.Kind), Permits: c.Permits, Per: c.Per}
	}
	for _, h := range s.Hosts {
		rc.Hosts = append(rc.Hosts, ratelimit.HostRule{
			Match: h.Match, InitialRPS: h.InitialRPS, MinRPS: h.MinRPS, MaxRPS: h.MaxRPS, MinDelay: noneAsMinus(h.MinDelay),
			MaxInFlight: h.MaxInFlight, Cap: spec(h.Cap), Quota: spec(h.Quota),
		})
	}
	return rc
}

// noneAsMinus translates a setting whose zero is none for a package whose zero is the default.
func noneAsMinus[T ~int | ~int64](n T) T {
	if n == 0 {
		return -1
	}
	return n
}

func scopeConfig(s *Settings) (scope.Config, error) {
	sc := scope.Config{
		Include: s.Scope.Include, Exclude: s.Scope.Exclude,
		MaxDepth: s.Depth, MaxRedirects: s.Fetch.MaxRedirects, Resources: s.Scope.Resources,
	}
	return sc, sc.Mode.UnmarshalText([]byte(s.Scope.Mode))
}

func (c *Crawler) fetchConfig() fetch.Config {
	f := &c.cfg.Fetch
	fc := fetch.Config{
		UserAgent:      f.Agent(c.cfg.Version),
		ConnectTimeout: f.ConnectTimeout(), HeaderTimeout: f.HeaderTimeout(), BodyTimeout: f.BodyTimeout(),
		Timeout: f.Timeout, MaxBody: f.MaxBody, HTTP2: f.HTTP2, Insecure: f.Insecure,
		MaxConnsPerHost: c.cfg.PerHostMax, AllowPrivate: f.AllowPrivate, Openings: &c.named.addresses,
		Chain: c.policies.page, Repeating: c.policies.robots, DialContext: c.cfg.Dial,
		Trusted: c.named.trusts, Withheld: c.named.logWithheld(c.log),
	}
	c.id.apply(&fc)
	return fc
}

// pipelineConfig puts the settings and the parts into the pipeline's terms.
func (c *Crawler) pipelineConfig() (pipeline.Config, error) {
	s := &c.cfg.Settings
	pc := pipeline.Config{
		Limiter: c.limiter, Fetcher: c.client, Scope: c.scope, Sinks: c.cfg.Sinks, Archives: c.cfg.Archives,
		Extract: extract.Options{
			Text: s.Output.Has("text"), Resources: s.Scope.Resources, Forms: s.Scope.Forms, Feeds: s.Sitemaps.Feeds,
			Agent: strings.ToLower(config.Product),
		},
		Concurrency: s.Concurrency, MaxOut: maxInFlight(s.Concurrency, fetch.OpenFiles()), PerHost: s.PerHostMax,
		MaxPages: int(s.MaxPages), MaxPagesPerHost: int(s.MaxPagesPerHost),
		PageTime: s.Extract.MaxTime,
		MaxTime:  s.MaxTime, Grace: s.Grace, MaxBlocked: s.MaxBlocked, MaxRetryAfter: s.RateLimit.MaxRetryAfter,
		MaxURLs: s.Frontier.MaxURLs, MaxHosts: s.Frontier.MaxHosts(),
		Retries: s.RateLimit.RetryMaxAttempts,
		Backoff: backoff.Policy{Base: s.RateLimit.RetryBaseDelay, Max: s.RateLimit.RetryMaxDelay},
		Key:     rand.Uint64(), Clock: c.clk, Log: c.cfg.Log, Handle: c.cfg.OnPage, Meter: c.meter,
		OmitLinks: !s.Output.Has("links"), OmitDigest: !s.Output.Has("digest"), StoreBody: s.Output.Has("body"),
		IgnoreCrawlDelay: s.Robots.MaxCrawlDelay == 0, FollowNofollow: s.Robots.FollowNofollow, SkipNoindex: s.Output.SkipNoindex,
		Sitemaps: pipeline.Sitemaps{Enabled: s.Sitemaps.Enabled, Feeds: s.Sitemaps.Feeds},
	}
	c.policies.bound(&pc)
	if err := compileInto(&pc, s); err != nil {
		return pc, err
	}
	switch {
	case c.fleet != nil:
		c.fleet.join(&pc)
	case c.state != nil:
		if err := c.state.join(&pc, *s); err != nil {
			return pc, err
		}
	}
	setDuplicates(&pc, s)
	return pc, nil
}

// maxInFlight is how many requests may be under way in all, those that wait long for an answer
// included, where so many files may be open; zero files are no bound.
func maxInFlight(concurrency, files int) int {
	most := 4 * concurrency
	if files > 0 {
		most = min(most, files/2)
	}
	return max(most, concurrency)
}

// compileInto makes of texts in the settings what the pipeline works by. The error names
// the setting.
func compileInto(pc *pipeline.Config, s *Settings) (err error) {
	if pc.Rules, err = canonical.NewRules(s.Scope.Canonical); err != nil {
		return fmt.Errorf("scope.canonical: %w", err)
	}
	if pc.Filter, err = fetch.NewFilter(s.Fetch.AcceptTypes, s.Fetch.SkipLarger); err != nil {
		return fmt.Errorf("fetch.accept_types: %w", err)
	}
	if pc.Tree, err = tree(s); err != nil {
		return err
	}
	if pc.Rank, err = rank(s); err != nil {
		return err
	}
	pc.Budgets, err = budgets(s)
	return err
}

// tree is what is read out of pages by way of their trees.
func tree(s *Settings) (pipeline.Tree, error) {
	e := &s.Extract
	t := pipeline.Tree{Metadata: s.Output.Has("metadata"), MainText: s.Output.Has("main-text"), MaxElements: s.Extract.MaxElements}
	rules := make([]fields.Rule, len(e.Fields))
	for i, text := range e.Fields {
		var err error
		if rules[i], err = config.ParseField(text); err != nil {
			return t, fmt.Errorf("extract.fields[%d]: %w", i, err)
		}
	}
	if len(rules) == 0 {
		return t, nil
	}
	var err error
	if t.Fields, err = fields.New(rules); err != nil {
		return t, fmt.Errorf("extract.fields: %w", err)
	}
	return t, nil
}

// rank is which URLs of a host go first.
func rank(s *Settings) (pipeline.Rank, error) {
	var order pipeline.Order
	if err := order.UnmarshalText([]byte(s.Frontier.Order)); err != nil {
		return nil, err
	}
	scores := make([]pipeline.Score, len(s.Scope.Scores))
	for i, text := range s.Scope.Scores {
		points, pattern, _ := strings.Cut(text, " ") // config has checked the form
		n, errPoints := strconv.Atoi(points)
		re, err := regexp.Compile(pattern)
		if err = errors.Join(errPoints, err); err != nil {
			return nil, fmt.Errorf("scope.scores[%d]: %w", i, err)
		}
		scores[i] = pipeline.Score{Match: re, Points: n}
	}
	return pipeline.NewRank(order, scores)
}

// budgets is how many URLs are taken of those that match patterns.
func budgets(s *Settings) ([]pipeline.Budget, error) {
	list := make([]pipeline.Budget, len(s.Scope.Budgets))
	for i, text := range s.Scope.Budgets {
		b, err := config.ParseBudget(text)
		if err != nil {
			return nil, fmt.Errorf("scope.budgets[%d]: %w", i, err)
		}
		list[i] = pipeline.Budget(b)
	}
	return list, nil
}

// maxBits is in how many of 64 bits the fingerprints of near pages differ at most.
const maxBits = 3

// setDuplicates has the pipeline find traps, and pages that repeat others. It comes when the Key
// of the crawl is there.
func setDuplicates(pc *pipeline.Config, s *Settings) {
	if t := &s.Traps; t.Enabled || t.Report {
		pc.Traps.Report = t.Report
		pc.Traps.Detector = trap.New(trap.Config{After: t.After, Key: pc.Key})
	}
	switch s.Duplicates.Find {
	case "exact":
		pc.Duplicates = neardup.NewIndex(0)
	case "near":
		pc.Duplicates = neardup.NewIndex(maxBits)
	}
}

// robotsConfig has room for the rules of every host the frontier may know, under both
// schemes: a cache that forgets while hosts take turns would ask for robots.txt at each
// turn and for little else.
func robotsConfig(s *Settings) robots.Config {
	const perHost = 1 << 10 // bytes; most files come to less
	return robots.Config{
		Agent: config.Product, MaxOrigins: 2 * s.Frontier.MaxHosts(), MaxBytes: max(64<<20, perHost*s.Frontier.MaxHosts()),
	}
}

// newTracer is what tells a collector of URLs; nil if the settings name none, or no URL is
// to be told of.
func newTracer(cfg *Config, clk clock.Clock) (*traces.Exporter, error) {
	s := &cfg.Traces
	if s.Endpoint == "" || s.Sample == 0 {
		return nil, nil //nolint:nilnil // a nil Exporter tells nobody
	}
	h := make(http.Header)
	r := identityReader{cfg: cfg, lookup: os.LookupEnv}
	if r.headers("traces.headers", s.Headers, h); len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return traces.New(traces.Config{
		Endpoint: s.Endpoint, Header: h, Sample: s.Sample, Propagate: s.Propagate,
		Version: cfg.Version, Clock: clk, Log: cfg.Log,
	})
}
