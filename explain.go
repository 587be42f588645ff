package crawl

import (
	"context"

	"github.com/treadlight/crawl/internal/assembly"
)

// Explanation is what a crawl makes of a URL, and why: the reasons are the words that logs and records have. Input is
// what was asked about, and Steps are how it becomes the URL, also those that do nothing. Host is the name under which
// it is paced. Error is why the input is no URL to fetch; what follows it is empty then: Scope, Robots and Pace.
type Explanation = assembly.Explanation

// ExplainStep is a step of canonicalization: the Rule, what it makes of From and To, and Why.
type ExplainStep = assembly.ExplainStep

// ExplainScope is whether a link to the URL would be followed (In), and the Reason.
type ExplainScope = assembly.ExplainScope

// ExplainRobots is what the origin's robots.txt says. Verdict is "allowed", "refused", or "unknown" if nobody was asked
// or could say; Reason names the Line that decided, which counts from 1. CrawlDelayMS is the pause between two requests
// that it asks for, in milliseconds: that of Crawl-delay or of Request-rate, whichever is longer. ObeyedMS is how much
// of that the crawl obeys, and Unobeyed why that is less; empty if it is all of it. Sitemaps are as they are written.
type ExplainRobots = assembly.ExplainRobots

// ExplainPace is what the settings say of the host's pace; rates are requests per second. Rule is the rule for hosts
// that matches, as `hosts[2] "*.example.com"`; empty if none does, and the general settings hold: Strategy,
// InitialRPS, MinRPS, MaxRPS, MinDelayMS, MaxInFlight, Cap and Quota, the last two in words.
type ExplainPace = assembly.ExplainPace

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
	return assembly.Explain(ctx, assembly.ExplainConfig{
		Config: cfg.Config.inner(), Seeds: cfg.Seeds, Robots: cfg.Robots, Offline: cfg.Offline,
	}, inputs...)
}
