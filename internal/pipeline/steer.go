package pipeline

import (
	"errors"
	"maps"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/web/scope"
)

// errExcluded is why a worker does not ask: its lease is older than the order.
var errExcluded = errors.New("the host is blocked by the operator")

// Block has nothing further asked of a host, whether it is known or not, until Unblock: no
// request of it begins after Block has returned, and what is under way is finished. Its URLs
// stay queued; when only such hosts are left the crawl ends with [EndBlocked] after
// MaxBlocked. It is not ok if the crawl was not there, as with [Pipeline.Pause], nor with the
// error, which is [frontier.ErrTooManyExcluded].
func (p *Pipeline) Block(host string) (ok bool, err error) {
	ok = p.order(func(d *discovery) { err = d.exclude(host) })
	return ok && err == nil, err
}

// Unblock has a host asked again. Of one that is not blocked it does nothing.
func (p *Pipeline) Unblock(host string) bool {
	return p.order(func(d *discovery) {
		if d.frontier.Include(d.p.cfg.Clock.Now(), host) {
			d.p.noteExcluded(host, false)
		}
	})
}

func (d *discovery) exclude(host string) error {
	err := d.frontier.Exclude(d.p.cfg.Clock.Now(), host)
	if err == nil {
		d.p.noteExcluded(host, true)
	}
	return err
}

// excludeAll blocks hosts before the crawl begins.
func (p *Pipeline) excludeAll(hosts []string) error {
	for _, h := range hosts {
		if err := p.frontier.Exclude(p.cfg.Clock.Now(), h); err != nil {
			return err
		}
		p.noteExcluded(h, true)
	}
	return nil
}

// noteExcluded tells the workers. They read while it writes, so it writes another map.
func (p *Pipeline) noteExcluded(host string, excluded bool) {
	all := make(map[string]struct{})
	if old := p.excluded.Load(); old != nil {
		all = maps.Clone(*old)
	}
	if excluded {
		all[ratelimit.Domain(host)] = struct{}{}
	} else {
		delete(all, ratelimit.Domain(host))
	}
	p.excluded.Store(&all)
}

func (p *Pipeline) isExcluded(host string) bool {
	all := p.excluded.Load()
	if all == nil {
		return false
	}
	_, excluded := (*all)[host]
	return excluded
}

// Wake has Discovery ask the limiter anew when a host may be asked, because what holds for
// it has changed. See Revise.
func (p *Pipeline) Wake(host string) bool {
	return p.order(func(d *discovery) { d.frontier.Wake(d.p.cfg.Clock.Now(), host) })
}

// SetScope replaces the patterns of the scope. Links are judged by the new ones from then on.
// URLs that are queued and that the new ones leave out are not asked for: when their turn
// comes each is recorded with the verdict as its class of error, as one is that robots.txt
// refuses, and is done with. The error names the pattern that is wrong.
func (p *Pipeline) SetScope(include, exclude []string) (ok bool, err error) {
	ok = p.order(func(d *discovery) {
		if err = p.cfg.Scope.SetPatterns(include, exclude); err == nil {
			d.frontier.Revise(p.cfg.Clock.Now())
		}
	})
	return ok && err == nil, err
}

// scopeGate keeps URLs back that the scope leaves out: seeds, and what was accepted by
// another scope. It comes before all other gates: whoever is left out is not asked for a
// robots.txt either.
type scopeGate struct {
	frontier.Gate // nil lets every URL pass
	scope         *scope.Scope
}

// Check is the verdict on one URL at now.
func (g *scopeGate) Check(it *frontier.Item, now time.Time) frontier.Verdict {
	if v := g.scope.Recheck(it.URL, it.Depth == 0 || it.Kind == frontier.Sitemap); !v.In {
		return refuse(v.Code.String(), v.Reason())
	}
	if g.Gate == nil {
		return frontier.Verdict{}
	}
	return g.Gate.Check(it, now)
}

var _ frontier.Gate = (*scopeGate)(nil)
