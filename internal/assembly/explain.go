package assembly

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/config"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/robots"
)

// Explanation is what a crawl makes of a URL, and why: the reasons are the words that logs
// and records have.
type Explanation struct {
	Input string        `json:"input"`
	Steps []ExplainStep `json:"steps"` // from the input to the URL, also those that do nothing
	URL   string        `json:"url,omitempty"`
	Host  string        `json:"host,omitempty"` // under which it is paced
	// Error is why the input is no URL to fetch; what follows is empty then.
	Error  string        `json:"error,omitempty"`
	Scope  ExplainScope  `json:"scope,omitzero"`
	Robots ExplainRobots `json:"robots,omitzero"`
	Pace   ExplainPace   `json:"pace,omitzero"`
}

// ExplainStep is a step of canonicalization.
type ExplainStep struct {
	Rule string `json:"rule"`
	From string `json:"from"`
	To   string `json:"to"`
	Why  string `json:"why"`
}

// ExplainScope is whether a link to the URL would be followed.
type ExplainScope struct {
	In     bool   `json:"in"`
	Reason string `json:"reason"`
}

// ExplainRobots is what the origin's robots.txt says.
type ExplainRobots struct {
	// Verdict is "allowed", "refused", or "unknown" if nobody was asked or could say.
	Verdict string `json:"verdict"`
	// Reason names the line that decided, as "robots.txt line 12: Disallow: /private".
	Reason string `json:"reason"`
	Line   int    `json:"line,omitempty"` // from 1
	// CrawlDelayMS is the pause between two requests that it asks for, in milliseconds: that of
	// Crawl-delay or of Request-rate, whichever is longer.
	CrawlDelayMS float64 `json:"crawl_delay_ms,omitempty"`
	// ObeyedMS is how much of CrawlDelayMS the crawl obeys, and Unobeyed why that is less; empty if
	// it is all of it.
	ObeyedMS float64  `json:"obeyed_ms,omitempty"`
	Unobeyed string   `json:"unobeyed,omitempty"`
	Sitemaps []string `json:"sitemaps,omitempty"` // as they are written
}

// ExplainPace is what the settings say of the host's pace. Rates are requests per second.
type ExplainPace struct {
	// Rule is the rule for hosts that matches, as `hosts[2] "*.example.com"`; empty if none
	// does, and the general settings hold.
	Rule        string  `json:"rule,omitempty"`
	Strategy    string  `json:"strategy"`
	InitialRPS  float64 `json:"initial_rps"`
	MinRPS      float64 `json:"min_rps"`
	MaxRPS      float64 `json:"max_rps"`
	MinDelayMS  float64 `json:"min_delay_ms,omitempty"`
	MaxInFlight int     `json:"max_in_flight"`
	Cap         string  `json:"cap,omitempty"`
	Quota       string  `json:"quota,omitempty"`
}

// ExplainConfig says what to explain, and by what.
type ExplainConfig struct {
	// Config is that of the crawl; nothing is written, and no state is opened.
	Config
	// Seeds are those of the crawl. None: the URL itself is taken for one.
	Seeds []string
	// Robots, if set, is the content of a robots.txt to judge by.
	Robots []byte
	// Offline asks no host for its robots.txt. False asks for it, at the pace of the settings.
	Offline bool
}

// Explain tells what a crawl makes of some URLs, and why. An input that is no URL is an
// Explanation with an Error. The error is about the settings or the seeds, or that of ctx.
func Explain(ctx context.Context, cfg ExplainConfig, inputs ...string) ([]Explanation, error) {
	cfg.State.Dir, cfg.Kept, cfg.Sinks, cfg.RateLimit.Remember = "", nil, nil, ""
	cfg.Fleet = config.Default().Fleet // to explain is not to join
	c, err := New(cfg.Config)
	if err != nil {
		return nil, err
	}
	defer c.client.Close()
	defer c.policies.close()
	defer c.id.resolver.Close()
	seeds, err := parseSeeds(cfg.Seeds)
	if err != nil {
		return nil, err
	}
	rules, err := canonical.NewRules(cfg.Scope.Canonical)
	if err != nil {
		return nil, err
	}
	x := explainer{crawler: c, cfg: &cfg, rules: rules, seeds: make(map[canonical.URL]bool)}
	for _, u := range seeds {
		x.seeds[rules.Apply(u)] = true
		c.scope.AddSeed(u)
	}
	all := make([]Explanation, len(inputs))
	for i, input := range inputs {
		if all[i], err = x.explain(ctx, input); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// explainer explains with the parts of a crawler that is never run.
type explainer struct {
	crawler *Crawler
	cfg     *ExplainConfig
	rules   *canonical.Rules
	seeds   map[canonical.URL]bool
}

func (x *explainer) explain(ctx context.Context, input string) (Explanation, error) {
	e := Explanation{Input: input}
	steps, u, err := canonical.Steps(canonical.Typed(input), x.rules)
	for _, s := range steps {
		e.Steps = append(e.Steps, ExplainStep(s))
	}
	if err != nil {
		e.Error = err.Error()
		return e, nil
	}
	e.URL, e.Host = u.String(), ratelimit.Domain(u.Host())
	if len(x.seeds) == 0 {
		x.crawler.scope.AddSeed(u)
	}
	e.Scope = x.scope(u)
	e.Pace = x.pace(e.Host)
	e.Robots, err = x.robots(ctx, u)
	return e, err
}

// scope is the verdict on a link to u from a seed, or on u as a seed.
func (x *explainer) scope(u canonical.URL) ExplainScope {
	depth := 1
	if len(x.seeds) == 0 || x.seeds[u] {
		depth = 0
	}
	v := x.crawler.scope.Check(u, depth, 0, false)
	reason := v.Reason()
	if v.In && depth == 0 {
		reason = "it is a seed"
	} else if v.In {
		reason = "a link from a seed is followed"
	}
	return ExplainScope{In: v.In, Reason: reason}
}

// pace is what the settings say of a host.
func (x *explainer) pace(host string) ExplainPace {
	s := &x.cfg.Settings
	r := &s.RateLimit
	p := ExplainPace{
		Strategy: r.Strategy, InitialRPS: r.InitialRPS, MinRPS: r.MinRPS, MaxRPS: r.MaxRPS,
		MinDelayMS: milliseconds(r.MinDelay), MaxInFlight: s.PerHostMax,
	}
	lc := limiterConfig(s)
	i := lc.RuleFor(host)
	if i < 0 {
		return p
	}
	h := &s.Hosts[i]
	p.Rule = fmt.Sprintf("hosts[%d] %q", i, h.Match)
	p.InitialRPS, p.MinRPS, p.MaxRPS, p.MinDelayMS = h.InitialRPS, h.MinRPS, h.MaxRPS, milliseconds(h.MinDelay)
	p.MaxInFlight = min(cmp.Or(h.MaxInFlight, p.MaxInFlight), p.MaxInFlight)
	p.Cap, p.Quota = capText(h.Cap.Kind, h.Cap.Permits, h.Cap.Per), capText(h.Quota.Kind, h.Quota.Permits, h.Quota.Per)
	return p
}

// capText is a cap in words; empty if there is none.
func capText(kind string, permits int64, per time.Duration) string {
	switch {
	case permits == 0:
		return ""
	case per == 0:
		return fmt.Sprintf("%d at a time", permits)
	}
	return fmt.Sprintf("%d in %v (%s)", permits, per, cmp.Or(kind, "fixed-window"))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// robots judges by the robots.txt of the origin.
func (x *explainer) robots(ctx context.Context, u canonical.URL) (ExplainRobots, error) {
	switch {
	case x.cfg.Robots != nil:
		return x.obey(judge(robots.Result{Kind: robots.Found, File: robots.Parse(x.cfg.Robots)}, u)), nil
	case !x.cfg.Settings.Robots.Enabled:
		return ExplainRobots{Verdict: "allowed", Reason: "robots.txt is not asked for, as robots.enabled is false"}, nil
	case x.cfg.Offline:
		return ExplainRobots{Verdict: "unknown", Reason: "robots.txt was not asked for"}, nil
	}
	res, err := x.askRobots(ctx, u)
	return x.obey(judge(res, u)), err
}

// obey fills in what the settings make of a Crawl-delay.
func (x *explainer) obey(r ExplainRobots) ExplainRobots {
	s := &x.cfg.Settings
	longest := s.Robots.MaxCrawlDelay
	switch {
	case r.CrawlDelayMS == 0:
	case !s.RateLimit.Enabled():
		r.Unobeyed = "ratelimit.strategy is off"
	case longest == 0:
		r.Unobeyed = "robots.max_crawl_delay is 0"
	case r.CrawlDelayMS > milliseconds(longest):
		r.ObeyedMS, r.Unobeyed = milliseconds(longest), fmt.Sprintf("robots.max_crawl_delay is %v", longest)
	default:
		r.ObeyedMS = r.CrawlDelayMS
	}
	return r
}

// askRobots asks for the robots.txt of a URL's origin and follows where that has moved.
func (x *explainer) askRobots(ctx context.Context, u canonical.URL) (robots.Result, error) {
	x.crawler.named.add(ctx, u)
	at, err := u.Resolve("/robots.txt")
	if err != nil {
		return robots.Result{}, err
	}
	for hops := 0; ; hops++ {
		res, err := x.askRobotsAt(ctx, at, hops)
		if err != nil || res.Kind != robots.Moved {
			return res, err
		}
		if at, err = at.Resolve(res.Location); err != nil {
			return robots.Result{Kind: robots.Absent, Reason: "moved to " + res.Location + ": " + err.Error()}, nil
		}
	}
}

// askRobotsAt makes one request, with a permit. The error is that of ctx.
func (x *explainer) askRobotsAt(ctx context.Context, at canonical.URL, hops int) (robots.Result, error) {
	permit, err := x.crawler.limiter.Acquire(ctx, at.Host())
	if err != nil {
		return robots.Result{}, err
	}
	defer permit.Release()
	resp, err := x.crawler.client.Fetch(ctx, fetch.Request{URL: at.String()})
	defer resp.Release()
	answer := robots.Answer{Err: err, Hops: hops}
	if resp != nil {
		answer.Status, answer.Body, answer.Location = resp.Status, resp.Body, resp.Location
	}
	return robots.FromAnswer(answer), ctx.Err()
}

// judge puts what came of asking into words.
func judge(res robots.Result, u canonical.URL) ExplainRobots {
	switch res.Kind {
	case robots.Found:
		rules := res.File.Agent(config.Product)
		v := rules.Check(u.Path())
		x := ExplainRobots{Verdict: "refused", Reason: v.Reason, Line: v.Line, CrawlDelayMS: milliseconds(rules.Pause()), Sitemaps: res.File.Sitemaps()}
		if v.Allowed {
			x.Verdict = "allowed"
		}
		return x
	case robots.Absent:
		return ExplainRobots{Verdict: "allowed", Reason: "there is no robots.txt: " + res.Reason}
	case robots.Failed:
		return ExplainRobots{Verdict: "refused", Reason: "robots.txt cannot be had: " + res.Reason}
	}
	return ExplainRobots{Verdict: "unknown", Reason: "robots.txt cannot be had yet: " + cmp.Or(res.Reason, "no answer came")}
}
