package assembly

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/assembly/polite"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/content"
	"github.com/treadlight/crawl/internal/web/extract"
	"github.com/treadlight/crawl/internal/web/fields"
	"github.com/treadlight/crawl/internal/web/maintext"
	"github.com/treadlight/crawl/internal/web/neardup"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/trap"
)

// LimiterConfig translates the settings of pace into the limiter's configuration. Most have the same names in both.
func LimiterConfig(s *Settings) ratelimit.Config {
	r := &s.RateLimit
	rc := ratelimit.DefaultConfig()
	strategy := rc.Strategy
	convert(reflect.ValueOf(&rc).Elem(), reflect.ValueOf(r).Elem())
	if rc.Enabled = r.Enabled(); !rc.Enabled {
		rc.Strategy = strategy
	}
	rc.MaxCrawlDelay = s.Robots.MaxCrawlDelay
	for i := range s.Hosts {
		rule := Convert[ratelimit.HostRule](&s.Hosts[i])
		if rule.MinDelay == 0 {
			rule.MinDelay = -1 // none; the limiter's zero is the delay of all hosts
		}
		rc.Hosts = append(rc.Hosts, rule)
	}
	return rc
}

// NewScope returns the scope of a crawl with these settings, without its seeds. URLs that match avoid are excluded too.
func NewScope(s *Settings, avoid ...string) (*scope.Scope, error) {
	sc := scope.Config{
		Include: s.Scope.Include, Exclude: slices.Concat(s.Scope.Exclude, avoid),
		MaxDepth: s.Depth, MaxRedirects: s.Fetch.MaxRedirects, Resources: s.Scope.Resources,
	}
	if err := sc.Mode.UnmarshalText([]byte(s.Scope.Mode)); err != nil {
		return nil, err
	}
	return scope.New(sc)
}

func fetchConfig(c *Crawler) fetch.Config {
	f, id := &c.cfg.Fetch, c.id
	return fetch.Config{
		UserAgent:      f.Agent(c.cfg.Version),
		ConnectTimeout: f.ConnectTimeout(), HeaderTimeout: f.HeaderTimeout(), BodyTimeout: f.BodyTimeout(),
		Timeout: f.Timeout, MaxBody: f.MaxBody, HTTP2: f.HTTP2, Insecure: f.Insecure,
		MaxConnsPerHost: c.cfg.PerHostMax, AllowPrivate: f.AllowPrivate, Openings: &c.named.addresses,
		Transport: c.cfg.Transport, OnRequest: c.cfg.OnRequest, OnResponse: c.cfg.OnResponse,
		Chain: c.policies.page, Repeating: c.policies.robots, DialContext: c.cfg.Dial,
		Trusted: c.named.trusts, Withheld: c.named.logWithheld(c.log),
		Header: id.header, Access: id.table, Cookies: id.jar, Resolver: id.resolver,
		RootCAs: id.roots, Certificate: id.certificate, Proxy: id.proxy, ProxyFor: id.proxyFor,
	}
}

// pipelineConfig translates the settings and the parts into the pipeline's configuration.
func (c *Crawler) pipelineConfig() (pipeline.Config, error) {
	s := &c.cfg.Settings
	pc := pipeline.Config{
		Limiter: c.limiter, Fetcher: c.client, Scope: c.scope, Sinks: c.cfg.Sinks, Archives: c.cfg.Archives,
		Options: content.Options{PageTime: s.Extract.MaxTime, OmitLinks: !s.Output.Has("links"), Extract: extract.Options{
			Text: s.Output.Has("text"), Resources: s.Scope.Resources, Forms: s.Scope.Forms, Named: s.Scope.Resources && s.Scope.Forms, Feeds: s.Sitemaps.Feeds,
			Agent: strings.ToLower(config.Product),
		}},
		Concurrency: s.Concurrency, MaxOut: maxInFlight(s.Concurrency, fetch.OpenFiles()), PerHost: s.PerHostMax,
		MaxPages: int(s.MaxPages), MaxPagesPerHost: int(s.MaxPagesPerHost),
		MaxTime: s.MaxTime, Grace: s.Grace, MaxBlocked: s.MaxBlocked, Unattended: c.cfg.Unattended, MaxRetryAfter: s.RateLimit.MaxRetryAfter,
		MaxURLs: s.Frontier.MaxURLs, MaxHosts: s.Frontier.MaxHosts(),
		Retries: s.RateLimit.RetryMaxAttempts,
		Backoff: backoff.Policy{Base: s.RateLimit.RetryBaseDelay, Max: s.RateLimit.RetryMaxDelay},
		Key:     rand.Uint64(), Clock: c.clk, Log: c.cfg.Log, Hooks: c.cfg.Hooks,
		OmitDigest: !s.Output.Has("digest"), StoreBody: s.Output.Has("body"),
		IgnoreCrawlDelay: s.Robots.MaxCrawlDelay == 0, FollowNofollow: s.Robots.FollowNofollow, SkipNoindex: s.Output.SkipNoindex,
		Sitemaps: pipeline.Sitemaps{Enabled: s.Sitemaps.Enabled, Feeds: s.Sitemaps.Feeds},
	}
	if c.meter != nil {
		pc.Meter = c.meter
	}
	if c.session != nil { // a nil *Session would make the interface non-nil
		pc.Session = c.session
	}
	var err error
	if c.renderer, err = openRenderer(c, &pc); err != nil {
		return pc, err
	}
	c.policies.bound(&pc)
	if err := compileInto(&pc, s); err != nil {
		return pc, err
	}
	switch {
	case c.fleet != nil:
		c.fleet.Join(&pc)
	case c.state != nil:
		if err := c.state.join(&pc, *s); err != nil {
			return pc, err
		}
	}
	if c.member != nil {
		pc.Limiter, pc.Patience = c.member, polite.MaxInLine
	}
	setDuplicates(&pc, s)
	return pc, nil
}

// maxInFlight returns how many requests may be in flight in all, including those that wait long for a response, if that
// many files may be open. Zero files means no bound.
func maxInFlight(concurrency, files int) int {
	most := 4 * concurrency
	if files > 0 {
		most = min(most, files/2)
	}
	return max(most, concurrency)
}

// compileInto compiles texts of the settings into what the pipeline uses. The error names the setting.
func compileInto(pc *pipeline.Config, s *Settings) (err error) {
	if pc.Rules, err = canonical.NewRules(s.Scope.Canonical); err != nil {
		return fmt.Errorf("scope.canonical: %w", err)
	}
	if pc.Filter, err = fetch.NewFilter(s.Fetch.AcceptTypes, s.Fetch.SkipLarger); err != nil {
		return fmt.Errorf("fetch.accept_types: %w", err)
	}
	pc.Tree = content.Tree{
		Metadata: s.Output.Has("metadata"), MainText: s.Output.Has("main-text"), Markdown: s.Output.Has("markdown"), MaxElements: s.Extract.MaxElements,
	}
	if pc.Tree.MainText || pc.Tree.Markdown {
		if pc.Tree.Reader, err = maintext.Readers.Get(); err != nil {
			return err
		}
	}
	rules, err := s.Extract.Rules()
	if err == nil && len(rules.Page) > 0 {
		pc.Tree.Fields, err = fields.New(rules.Page)
	}
	if err == nil && len(rules.Kinds)+len(rules.Nexts) > 0 {
		pc.Tree.Items = rules
		_, err = rules.Extractor()
	}
	if err != nil {
		return fmt.Errorf("extract.fields: %w", err)
	}
	if len(rules.Nexts) > 0 { // the rules say which links are followed
		pc.Sitemaps = pipeline.Sitemaps{}
		pc.Extract.Feeds = false
	}
	scores, err := parseEach("scope.scores", s.Scope.Scores, config.ParseScore)
	if err != nil {
		return err
	}
	pc.Rank = scope.NewRank(s.Frontier.Order, scores)
	budgets, err := Budgets(s)
	pc.Budgets = scope.NewBudgets(budgets)
	return err
}

// parseEach parses the items of a list. The error names the item that is wrong.
func parseEach[T any](path string, list []string, parse func(string) (T, error)) ([]T, error) {
	all := make([]T, len(list))
	for i, text := range list {
		var err error
		if all[i], err = parse(text); err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", path, i, err)
		}
	}
	return all, nil
}

// Budgets returns the budgets of the settings: how many URLs are accepted of those that match a pattern.
func Budgets(s *Settings) ([]scope.Budget, error) {
	return parseEach("scope.budgets", s.Scope.Budgets, config.ParseBudget)
}

// maxBits is in how many of 64 bits the fingerprints of near-duplicates differ at most.
const maxBits = 3

// setDuplicates configures the search for traps and for pages that repeat others. It needs the Key of the crawl in pc.
func setDuplicates(pc *pipeline.Config, s *Settings) {
	if t := &s.Traps; t.Enabled || t.Report {
		pc.Traps = trap.New(trap.Config{After: t.After, Key: pc.Key, Report: t.Report, Log: pc.Log})
	}
	switch s.Duplicates.Find {
	case "exact":
		pc.Duplicates = neardup.NewIndex(0)
	case "near":
		pc.Duplicates = neardup.NewIndex(maxBits)
	}
}

// robotsConfig returns a configuration with room for the rules of every host that the frontier may know, under both
// schemes. A smaller cache would forget rules while hosts take turns, and the crawl would request little but
// robots.txt.
func robotsConfig(s *Settings) robots.Config {
	const perHost = 1 << 10 // bytes; most files take less
	return robots.Config{
		Agent: config.Product, MaxOrigins: 2 * s.Frontier.MaxHosts(), MaxBytes: max(64<<20, perHost*s.Frontier.MaxHosts()),
	}
}

// newTracer makes the tracer; it returns nil if the settings name no collector or sample no URL.
func newTracer(cfg *Config, clk clock.Clock) (Tracer, error) {
	s := &cfg.Traces
	if s.Endpoint == "" || s.Sample == 0 {
		return nil, nil //nolint:nilnil // nobody is told
	}
	trace, err := Tracing.Get()
	if err != nil {
		return nil, err
	}
	h := make(http.Header)
	r := identityReader{cfg: cfg, lookup: os.LookupEnv}
	if r.headers("traces.headers", s.Headers, h); len(r.errs) > 0 {
		return nil, errors.Join(r.errs...)
	}
	return trace(TraceConfig{
		Endpoint: s.Endpoint, Header: h, Sample: s.Sample, Propagate: s.Propagate,
		Version: cfg.Version, Clock: clk, Log: cfg.Log,
	})
}
