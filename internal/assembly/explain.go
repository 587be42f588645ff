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

// Explanation says how a crawl treats a URL, and why. Package crawl documents the fields.
type Explanation struct {
	Input  string        `json:"input"`
	Steps  []ExplainStep `json:"steps"`
	URL    string        `json:"url,omitempty"`
	Host   string        `json:"host,omitempty"`
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

// ExplainScope says whether a link to the URL would be followed.
type ExplainScope struct {
	In     bool   `json:"in"`
	Reason string `json:"reason"`
}

// ExplainRobots says what the origin's robots.txt says about the URL.
type ExplainRobots struct {
	Verdict      string   `json:"verdict"`
	Reason       string   `json:"reason"`
	Line         int      `json:"line,omitempty"`
	CrawlDelayMS float64  `json:"crawl_delay_ms,omitempty"`
	ObeyedMS     float64  `json:"obeyed_ms,omitempty"`
	Unobeyed     string   `json:"unobeyed,omitempty"`
	Sitemaps     []string `json:"sitemaps,omitempty"`
}

// ExplainPace says what the settings say about the host's pace.
type ExplainPace struct {
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

// ExplainConfig says what to explain, and by which settings. Package crawl documents the fields.
type ExplainConfig struct {
	Config
	Seeds   []string
	Robots  []byte
	Offline bool
}

// Explain says how a crawl treats URLs, and why. For an input that is no URL it returns an Explanation with an Error.
// The error is about the settings or the seeds, or is that of ctx.
func Explain(ctx context.Context, cfg ExplainConfig, inputs ...string) ([]Explanation, error) {
	cfg.State.Dir, cfg.Kept, cfg.Sinks, cfg.RateLimit.Remember = "", nil, nil, ""
	cfg.Fleet = config.Default().Fleet // explaining must not join the job
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
	x := explainer{Crawler: c, cfg: &cfg, rules: rules, seeds: make(map[canonical.URL]bool)}
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

// explainer explains with the parts of a crawler that never runs.
type explainer struct {
	*Crawler
	cfg   *ExplainConfig
	rules *canonical.Rules
	seeds map[canonical.URL]bool
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
		x.scope.AddSeed(u)
	}
	e.Scope = x.reach(u)
	e.Pace = x.pace(e.Host)
	e.Robots, err = x.robots(ctx, u)
	return e, err
}

// reach returns the scope decision about a link to u from a seed, or about u as a seed.
func (x *explainer) reach(u canonical.URL) ExplainScope {
	depth, reason := 1, "a link from a seed is followed"
	if len(x.seeds) == 0 || x.seeds[u] {
		depth, reason = 0, "it is a seed"
	}
	v := x.scope.Check(u, depth, 0, false)
	if !v.In {
		reason = v.Reason()
	}
	return ExplainScope{In: v.In, Reason: reason}
}

func (x *explainer) pace(host string) ExplainPace {
	s := &x.cfg.Settings
	r := &s.RateLimit
	p := ExplainPace{
		Strategy: r.Strategy, InitialRPS: r.InitialRPS, MinRPS: r.MinRPS, MaxRPS: r.MaxRPS,
		MinDelayMS: milliseconds(r.MinDelay), MaxInFlight: s.PerHostMax,
	}
	lc := LimiterConfig(s)
	i := lc.RuleFor(host)
	if i < 0 {
		return p
	}
	h := &s.Hosts[i]
	p.Rule = fmt.Sprintf("hosts[%d] %q", i, h.Match)
	p.InitialRPS, p.MinRPS, p.MaxRPS, p.MinDelayMS = h.InitialRPS, h.MinRPS, h.MaxRPS, milliseconds(h.MinDelay)
	p.MaxInFlight = min(cmp.Or(h.MaxInFlight, p.MaxInFlight), p.MaxInFlight)
	p.Cap, p.Quota = capText(h.Cap), capText(h.Quota)
	return p
}

// capText returns a cap in words; empty if there is none.
func capText(c config.Cap) string {
	switch {
	case c.Permits == 0:
		return ""
	case c.Per == 0:
		return fmt.Sprintf("%d at a time", c.Permits)
	}
	return fmt.Sprintf("%d in %v (%s)", c.Permits, c.Per, cmp.Or(c.Kind, "fixed-window"))
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// robots decides by the robots.txt of the origin.
func (x *explainer) robots(ctx context.Context, u canonical.URL) (ExplainRobots, error) {
	switch {
	case x.cfg.Robots != nil:
		return x.judge(robots.Result{Kind: robots.Found, File: robots.Parse(x.cfg.Robots)}, u), nil
	case !x.cfg.Settings.Robots.Enabled:
		return ExplainRobots{Verdict: "allowed", Reason: "robots.txt is not asked for, as robots.enabled is false"}, nil
	case x.cfg.Offline:
		return ExplainRobots{Verdict: "unknown", Reason: "robots.txt was not asked for"}, nil
	}
	res, err := x.askRobots(ctx, u)
	return x.judge(res, u), err
}

// judge puts the result of requesting robots.txt into words, and says how the settings treat its Crawl-delay.
func (x *explainer) judge(res robots.Result, u canonical.URL) ExplainRobots {
	switch res.Kind {
	case robots.Found:
	case robots.Absent:
		return ExplainRobots{Verdict: "allowed", Reason: "there is no robots.txt: " + res.Reason}
	case robots.Failed:
		return ExplainRobots{Verdict: "refused", Reason: "robots.txt cannot be had: " + res.Reason}
	default:
		return ExplainRobots{Verdict: "unknown", Reason: "robots.txt cannot be had yet: " + cmp.Or(res.Reason, "no answer came")}
	}
	rules := res.File.Agent(config.Product)
	v := rules.Check(u.Path())
	r := ExplainRobots{
		Verdict: "refused", Reason: v.Reason, Line: v.Line, CrawlDelayMS: milliseconds(rules.Pause()), Sitemaps: res.File.Sitemaps(),
	}
	if v.Allowed {
		r.Verdict = "allowed"
	}
	longest := x.cfg.Settings.Robots.MaxCrawlDelay
	switch {
	case r.CrawlDelayMS == 0:
	case !x.cfg.RateLimit.Enabled():
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

// askRobots requests the robots.txt of a URL's origin, with a permit for each request. The error is that of ctx.
func (x *explainer) askRobots(ctx context.Context, u canonical.URL) (robots.Result, error) {
	x.named.add(ctx, u)
	res := robots.Follow(u.Origin(), func(at canonical.URL) robots.Answer {
		permit, err := x.limiter.Acquire(ctx, at.Host())
		if err != nil {
			return robots.Answer{Err: err}
		}
		defer permit.Release()
		return robots.AnswerOf(x.client.Fetch(ctx, fetch.Request{URL: at.String()}))
	})
	return res, ctx.Err()
}
