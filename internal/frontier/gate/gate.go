// Package gate decides whether a queued URL is requested when its turn comes: by the scope, which may have changed
// since the URL was accepted; by the robots.txt of its origin, whose request it triggers; and by what is known of traps
// by then.
package gate

import (
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/scope"
	"github.com/treadlight/crawl/internal/web/trap"
)

// The error classes of URLs that are refused, besides those of package outcome and of scope decisions.
const (
	ClassRobots = "robots" // robots.txt disallows the URL
	ClassTrap   = "trap"   // pages like it had no new text
)

// Gate is the [frontier.Gate] of a crawl.
type Gate struct {
	Scope   *scope.Scope
	Robots  *robots.Cache  // nil means that robots.txt is ignored
	Retries int            // failures after which the URLs of an origin are refused and no longer wait
	Traps   *trap.Detector // nil means that no URL is refused as a trap
	// SetCrawlDelay sets the Crawl-delay of a host. Nil means that it is ignored.
	SetCrawlDelay func(host string, d time.Duration)
	Log           *slog.Logger
}

// Check decides about one URL at now. If the scope leaves a URL out, its robots.txt is not requested either.
func (g *Gate) Check(it *frontier.Item, now time.Time) frontier.Verdict {
	if v := g.Scope.Recheck(it.URL, it.Depth == 0 || it.Kind == frontier.Sitemap || it.Request != "" && request.Decode(it.Request).Outside); !v.In {
		return refuse(v.Code.String(), v.Reason())
	}
	if g.Robots != nil {
		if v := g.rules(it, now); v.Pass != frontier.Go {
			return v
		}
	}
	if t := g.TrapsFor(it); t != nil {
		if why := t.CheckQueued(it.URL); why != trap.Follow {
			return refuse(ClassTrap, why.String()+": "+why.Why())
		}
	}
	return frontier.Verdict{}
}

// TrapsFor returns the detector if a URL may be found to be in a trap, and otherwise nil. Seeds and sitemaps are always
// followed.
func (g *Gate) TrapsFor(it *frontier.Item) *trap.Detector {
	if it.Seed || it.Kind != frontier.Page {
		return nil
	}
	return g.Traps
}

func (g *Gate) rules(it *frontier.Item, now time.Time) frontier.Verdict {
	e := g.Robots.Lookup(it.URL.Origin(), now)
	switch {
	case e.Due(now):
		return frontier.Verdict{Pass: frontier.Ask}
	case e.Rules != nil:
		if v := e.Rules.Check(it.URL.Path()); !v.Allowed {
			return refuse(ClassRobots, v.Reason)
		}
		return frontier.Verdict{}
	case e.State == robots.Unreachable && (e.Lasting || e.Attempts > g.Retries):
		return refuse(e.Class.String(), "robots.txt cannot be had: "+e.Reason)
	case e.State == robots.Pending:
		return frontier.Verdict{Pass: frontier.Wait, Reason: "robots.txt is being fetched"}
	}
	return frontier.Verdict{Pass: frontier.Wait, Until: e.RetryAt, Reason: "robots.txt cannot be had yet: " + e.Reason}
}

func refuse(class, reason string) frontier.Verdict {
	return frontier.Verdict{Pass: frontier.Refuse, Refusal: &frontier.Refusal{Class: class, Reason: reason}}
}

// GivenUp notes that the request for a robots.txt was given up before it was made, so that it is requested again later.
func (g *Gate) GivenUp(origin string, now time.Time) {
	g.Robots.Answer(origin, now, robots.Result{Kind: robots.NoAnswer, Reason: "its host is with another process"})
}

// Answer takes in the result of a request for an origin's robots.txt and returns what the cache has then. Deserted says
// that no server was reached at a host that has never responded.
func (g *Gate) Answer(origin string, res robots.Result, deserted bool, now time.Time) robots.Entry {
	if deserted && g.Robots.Lookup(origin, now).Attempts+1 >= attribution.MaxContacts {
		res.Lasting = true
	}
	e := g.Robots.Answer(origin, now, res)
	if e.Rules != nil {
		g.Obey(origin, g.Robots.Pause(origin, e, now))
	}
	if e.State != robots.Unreachable {
		return e
	}
	what := "robots.txt cannot be had"
	if deserted { // logged at the first attempt: a wrong port is more likely than an outage
		if what = "nobody listens there"; e.Class == outcome.Proxy {
			what = "the proxy cannot be used"
		}
	}
	//nolint:sloglint // one of three constants
	g.Log.Warn(what, slog.String("origin", origin), slog.String("reason", e.Reason), slog.Int("attempt", e.Attempts))
	return e
}

// Obey sets the Crawl-delay of an origin's host.
func (g *Gate) Obey(origin string, d time.Duration) {
	if g.SetCrawlDelay != nil {
		g.SetCrawlDelay(robots.HostOf(origin), d)
	}
}
