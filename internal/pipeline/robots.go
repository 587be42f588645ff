package pipeline

import (
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/robots"
)

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

// robots takes in the result of a robots.txt request and wakes the host that waits for it. A redirect becomes a request
// of its own, at the head of the queue of its host.
func (d *discovery) robots(l *frontier.Lease, a *robotsAnswer, now time.Time) {
	if a.redirect != nil {
		if d.frontier.AddRobots(now, *a.redirect) {
			d.frontier.End(now, l, frontier.GiveUp())
			return
		}
		a.result = robots.Result{Kind: robots.Failed, Reason: "it has moved to a host for which the frontier has no room"}
	}
	e := d.p.gate.Answer(l.Origin, a.result, a.deserted, now)
	d.frontier.End(now, l, frontier.GiveUp())
	d.announced(l, e, now)
	d.frontier.Wake(now, robots.HostOf(l.Origin))
}
