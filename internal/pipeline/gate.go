package pipeline

import (
	"log/slog"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/request"
	"github.com/treadlight/crawl/internal/web/robots"
	"github.com/treadlight/crawl/internal/web/trap"
)

// gate decides about a queued URL when its turn comes: by the scope, which may have changed since the URL was accepted;
// by the robots.txt of its origin, whose fetching it triggers; and by what is known of traps by then.
type gate struct {
	cfg *Config
}

// Check decides about one URL at now. If the scope leaves a URL out, its robots.txt is not requested either.
func (g *gate) Check(it *frontier.Item, now time.Time) frontier.Verdict {
	if v := g.cfg.Scope.Recheck(it.URL, it.Depth == 0 || it.Kind == frontier.Sitemap || it.Request != "" && request.Decode(it.Request).Outside); !v.In {
		return refuse(v.Code.String(), v.Reason())
	}
	if g.cfg.Robots != nil {
		if v := g.rules(it, now); v.Pass != frontier.Go {
			return v
		}
	}
	if t := g.cfg.trapsFor(it); t != nil {
		if why := t.CheckQueued(it.URL); why != trap.Follow {
			return refuse(classTrap, why.String()+": "+why.Why())
		}
	}
	return frontier.Verdict{}
}

func (g *gate) rules(it *frontier.Item, now time.Time) frontier.Verdict {
	e := g.cfg.Robots.Lookup(it.URL.Origin(), now)
	switch {
	case e.Due(now):
		return frontier.Verdict{Pass: frontier.Ask}
	case e.Rules != nil:
		if v := e.Rules.Check(it.URL.Path()); !v.Allowed {
			return refuse(classRobots, v.Reason)
		}
		return frontier.Verdict{}
	case e.State == robots.Unreachable && (e.Lasting || e.Attempts > g.cfg.Retries):
		return refuse(e.Class.String(), "robots.txt cannot be had: "+e.Reason)
	case e.State == robots.Pending:
		return frontier.Verdict{Pass: frontier.Wait, Reason: "robots.txt is being fetched"}
	}
	return frontier.Verdict{Pass: frontier.Wait, Until: e.RetryAt, Reason: "robots.txt cannot be had yet: " + e.Reason}
}

func refuse(class, reason string) frontier.Verdict {
	return frontier.Verdict{Pass: frontier.Refuse, Refusal: &frontier.Refusal{Class: class, Reason: reason}}
}

// robotsGivenUp notes that the request for a robots.txt was given up before it was made, so that it is requested again
// later.
func (g *gate) robotsGivenUp(origin string, now time.Time) {
	g.cfg.Robots.Answer(origin, now, robots.Result{Kind: robots.NoAnswer, Reason: "its host is with another process"})
}

// answer takes in the result of a request for an origin's robots.txt and returns what the cache has then. Both schemes
// of a host are paced as one, so the longer Crawl-delay of the two applies to both.
func (g *gate) answer(origin string, a *robotsAnswer, now time.Time) robots.Entry {
	res := a.result
	if a.deserted && g.cfg.Robots.Lookup(origin, now).Attempts+1 >= attribution.MaxContacts {
		res.Lasting = true
	}
	e := g.cfg.Robots.Answer(origin, now, res)
	if e.Rules != nil {
		g.obey(origin, max(e.Rules.Pause(), g.cfg.Robots.Lookup(robots.OtherOrigin(origin), now).Rules.Pause()))
	}
	if e.State != robots.Unreachable {
		return e
	}
	what := "robots.txt cannot be had"
	if a.deserted { // logged at the first attempt: a wrong port is more likely than an outage
		if what = "nobody listens there"; e.Class == outcome.Proxy {
			what = "the proxy cannot be used"
		}
	}
	//nolint:sloglint // one of three constants
	g.cfg.Log.Warn(what, slog.String("origin", origin), slog.String("reason", e.Reason), slog.Int("attempt", e.Attempts))
	return e
}

// obey sets the Crawl-delay of an origin's host.
func (g *gate) obey(origin string, d time.Duration) {
	if !g.cfg.IgnoreCrawlDelay {
		g.cfg.Limiter.SetCrawlDelay(hostOf(origin), d)
	}
}

// hostOf returns the host of an origin as [canonical.URL.Host] does.
func hostOf(origin string) string {
	_, host, _ := strings.Cut(origin, "://")
	return host
}

type robotsAnswer struct {
	result   robots.Result
	redirect *frontier.Item // nil unless the file has moved
	deserted bool           // no server was reached at a host that has never responded
}

// readRobots interprets a finished request for robots.txt. It leaves a Retry-After to the limiter, which bounds it as
// the user has set.
func (t *try) readRobots() *robotsAnswer {
	f, l := t.f, t.f.lease
	in := robots.Answer{Err: f.err, Hops: int(l.Hops)}
	if f.resp != nil {
		in.Status, in.Body, in.Location = f.resp.Status, f.resp.Body, f.resp.Location
	}
	o := outcomeOf(f, f.class)
	a := &robotsAnswer{result: robots.FromAnswer(in), deserted: l.Evidence.Deserted(&o)}
	if a.result.Kind != robots.Moved {
		return a
	}
	to, err := l.URL.Resolve(canonical.Location(a.result.Location))
	if err != nil {
		a.result = a.result.Astray(err)
		return a
	}
	a.redirect = &frontier.Item{
		URL: to, Origin: l.Origin, Found: frontier.Found{Depth: l.Depth, Hops: l.Hops + 1}, Wait: t.p.cfg.waitOfTarget(f.resp),
	}
	return a
}
