package assembly

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"strconv"
	"strings"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
)

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
		ConnectTimeout: f.ConnectTimeout, HeaderTimeout: f.HeaderTimeout, BodyTimeout: f.BodyTimeout,
		Timeout: f.Timeout, MaxBody: f.MaxBody, HTTP2: f.HTTP2, Insecure: f.Insecure,
		MaxConnsPerHost: c.cfg.PerHostMax, AllowPrivate: f.AllowPrivate, Openings: &c.openings,
		Chain: c.chain.page, Repeating: c.chain.robots, DialContext: c.cfg.Dial,
		Trusted: c.trust.trusts, Withheld: c.trust.withheld(c.cfg.Log),
	}
	c.id.apply(&fc)
	fc.MaxRatio = f.MaxRatio
	if f.MaxRatio == 0 {
		fc.MaxRatio = math.MaxInt64
	}
	return fc
}

// pipelineConfig puts the settings and the parts into the pipeline's terms.
func (c *Crawler) pipelineConfig() (pipeline.Config, error) {
	s := &c.cfg.Settings
	pc := pipeline.Config{
		Limiter: c.limiter, Fetcher: c.client, Scope: c.scope, Sinks: c.cfg.Sinks, Archives: c.cfg.Archives,
		Extract: extract.Options{
			Text: s.Output.Text, Resources: s.Scope.Resources, Forms: s.Scope.Forms, Feeds: s.Sitemaps.Feeds,
			MaxLinks: s.Scope.MaxLinks, Agent: strings.ToLower(config.Product),
		},
		Concurrency: s.Concurrency, MaxOut: mostOut(s.Concurrency, openFiles()), PerHost: s.PerHostMax,
		MaxPages: int(s.MaxPages), MaxPagesPerHost: int(s.MaxPagesPerHost),
		PageTime: s.Extract.MaxTime,
		MaxTime:  s.MaxTime, Grace: s.Grace, MaxBlocked: s.MaxBlocked, MaxRetryAfter: s.RateLimit.MaxRetryAfter,
		MaxURLs: s.Frontier.MaxURLs, MaxHosts: s.Frontier.MaxHosts, Resident: s.Frontier.Resident,
		Retries: s.RateLimit.RetryMaxAttempts,
		Backoff: backoff.Policy{Base: s.RateLimit.RetryBaseDelay, Max: s.RateLimit.RetryMaxDelay},
		Key:     rand.Uint64(), Clock: c.clk, Log: c.cfg.Log, Handle: c.cfg.OnPage, Meter: c.meter,
		OmitLinks: !s.Output.Links, OmitDigest: !s.Output.Digest || s.Output.Body == "omit", StoreBody: s.Output.Body == "store",
		IgnoreCrawlDelay: s.Robots.MaxCrawlDelay == 0, FollowNofollow: s.Robots.FollowNofollow, SkipNoindex: s.Output.SkipNoindex,
		Sitemaps: pipeline.Sitemaps(s.Sitemaps),
	}
	c.chain.shape(&pc)
	if c.fleet != nil {
		c.fleet.join(&pc)
	}
	if c.state != nil {
		if err := c.state.join(&pc, *s); err != nil {
			return pc, err
		}
	}
	if err := compileInto(&pc, s); err != nil {
		return pc, err
	}
	if c.fleet != nil {
		pc.Budgets = nil // the job counts for them
	}
	return pc, nil
}

// mostOut is how many requests may be under way in all, those that wait long for an answer
// included, where so many files may be open; zero files are no bound.
func mostOut(concurrency, files int) int {
	most := 4 * concurrency
	if files > 0 {
		most = min(most, files/2)
	}
	return max(most, concurrency)
}

// compileInto makes of texts in the settings what the pipeline works by. The error names
// the setting.
func compileInto(pc *pipeline.Config, s *Settings) (err error) {
	if pc.Rules, err = canonical.NewRules(s.Scope.Canonical, s.Scope.DropParams); err != nil {
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
	if err = findTraps(s, pc); err != nil {
		return err
	}
	pc.Budgets, err = budgets(s)
	return err
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

// robotsConfig has room for the rules of every host the frontier may know, under both
// schemes: a cache that forgets while hosts take turns would ask for robots.txt at each
// turn and for little else.
func robotsConfig(s *Settings) robots.Config {
	const perHost = 1 << 10 // bytes; most files come to less
	return robots.Config{
		Agent: config.Product, MaxOrigins: 2 * s.Frontier.MaxHosts, MaxBytes: max(64<<20, perHost*s.Frontier.MaxHosts),
	}
}
