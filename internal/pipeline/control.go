package pipeline

import (
	"errors"
	"maps"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// errExcluded is why a worker does not ask: its lease is older than the order.
var errExcluded = errors.New("the host is blocked by the operator")

// walked is how many hosts Discovery describes in one go: some tens of microseconds.
const walked = 128

// ask has Discovery do something between two of its turns; once it has ended the frontier is at rest,
// and it is done here. Before Run nothing is done.
func (p *Pipeline) ask(do func(*discovery)) {
	if !p.began.Load() {
		return
	}
	done := make(chan struct{})
	select {
	case p.asks <- func(d *discovery) { do(d); close(done) }:
		<-done
	case <-p.gone.c:
		do(p.discovery)
	}
}

// order is ask for what changes a crawl. It does nothing, and reports so, once no URLs are leased.
func (p *Pipeline) order(do func(*discovery)) (done bool) {
	p.ask(func(d *discovery) {
		if done = !d.stopping; done {
			do(d)
		}
	})
	return done
}

// Pause ends the leasing of URLs until Unpause; what is under way is finished. MaxTime runs on. It may be
// called at any time, from any goroutine but those that call a hook of the limiter or the log's handler,
// and waits for Discovery's next free moment. It reports whether the crawl was there to pause: not before
// Run, and not after the leasing has ended.
func (p *Pipeline) Pause() bool { return p.order(func(d *discovery) { d.paused = true }) }

// Unpause has a paused crawl go on; of any other it does nothing. See Pause.
func (p *Pipeline) Unpause() bool { return p.order(func(d *discovery) { d.paused = false }) }

// Paused reports whether the crawl is paused. See [Pipeline.Pause].
func (p *Pipeline) Paused() (paused bool) {
	p.order(func(d *discovery) { paused = d.paused })
	return paused
}

// AddSeed adds a seed to a crawl that runs. One that is known already changes nothing. See Pause.
func (p *Pipeline) AddSeed(s Seed) bool { return p.order(func(d *discovery) { d.seed(s) }) }

// SetBounds replaces MaxPages and MaxTime of a crawl that runs; zero means no bound. Pages that [Peers]
// count have the bound of these: for them it changes what is said alone. See Pause.
func (p *Pipeline) SetBounds(maxPages int, maxTime time.Duration) bool {
	return p.order(func(d *discovery) { d.bound(maxPages, maxTime) })
}

// Revise has Discovery ask the limiter anew when hosts may be asked, because its rules have changed. See Pause.
func (p *Pipeline) Revise() { p.order(func(d *discovery) { d.frontier.Revise(p.cfg.Clock.Now()) }) }

// Wake is Revise for one host.
func (p *Pipeline) Wake(host string) bool {
	return p.order(func(d *discovery) { d.frontier.Wake(p.cfg.Clock.Now(), host) })
}

// Block has nothing further asked of a host, known or not, until Unblock: no request of it begins after
// Block has returned, and what is under way is finished. Its URLs stay queued; when only such hosts are
// left the crawl ends with [EndBlocked] after MaxBlocked. It is not ok if the crawl was not there, as
// with [Pipeline.Pause], nor with the error, which is [frontier.ErrTooManyExcluded].
func (p *Pipeline) Block(host string) (ok bool, err error) {
	ok = p.order(func(d *discovery) { err = d.exclude(host) })
	return ok && err == nil, err
}

// Unblock has a host asked again. Of one that is not blocked it does nothing.
func (p *Pipeline) Unblock(host string) bool {
	return p.order(func(d *discovery) {
		if d.frontier.Include(p.cfg.Clock.Now(), host) {
			p.excluded.note(host, false)
		}
	})
}

func (d *discovery) exclude(host string) error {
	err := d.frontier.Exclude(d.p.cfg.Clock.Now(), host)
	if err == nil {
		d.p.excluded.note(host, true)
	}
	return err
}

// exclusions are the hosts that operators have blocked. Workers read them while Discovery writes, so it writes another
// map.
type exclusions struct {
	hosts atomic.Pointer[map[string]struct{}]
}

func (e *exclusions) has(host string) bool {
	if all := e.hosts.Load(); all != nil {
		_, has := (*all)[host]
		return has
	}
	return false
}

func (e *exclusions) note(host string, excluded bool) {
	all := make(map[string]struct{})
	if was := e.hosts.Load(); was != nil {
		maps.Copy(all, *was)
	}
	if host = ratelimit.Domain(host); excluded {
		all[host] = struct{}{}
	} else {
		delete(all, host)
	}
	e.hosts.Store(&all)
}

// SetScope replaces the patterns of the scope. Links are judged by the new ones from then on. A queued URL
// that they leave out is not asked for: when its turn comes it is recorded with the decision as its class
// of error. The error names the pattern that is wrong. See Pause.
func (p *Pipeline) SetScope(include, exclude []string) (ok bool, err error) {
	ok = p.order(func(d *discovery) {
		if err = p.cfg.Scope.SetPatterns(include, exclude); err == nil {
			d.frontier.Revise(p.cfg.Clock.Now())
		}
	})
	return ok && err == nil, err
}

// Leased is how many URLs are in the hands of workers. It is quick, and may be called at any time.
func (p *Pipeline) Leased() int { return int(p.discovery.frontier.Counts().Leased) }

// Host tells what the frontier knows of one host, by the name that snapshots show. It is not ok if
// nothing is; of a crawl with a state, also if its URLs are all on the disk. It may be called when
// [Pipeline.Snapshot] may be, and waits like it.
func (p *Pipeline) Host(name string) (h frontier.HostState, ok bool) {
	p.ask(func(d *discovery) { h, ok = d.frontier.Host(p.cfg.Clock.Now(), name) })
	return h, ok
}

// EachHost calls see for every host in memory, in no order, until it returns false. It may be called when
// [Pipeline.Snapshot] may be. Discovery is asked for a few hosts at a time and does its own work between,
// so that a walk past a hundred thousand keeps it from nothing; see is called outside of it.
func (p *Pipeline) EachHost(see func(frontier.HostState) bool) {
	var walk *frontier.Walk
	defer func() {
		if walk != nil {
			walk.Stop()
		}
	}()
	for {
		var some []frontier.HostState
		p.ask(func(d *discovery) {
			if walk == nil {
				walk = d.frontier.Walk()
			}
			some = walk.Next(p.cfg.Clock.Now(), walked)
		})
		for _, h := range some {
			if !see(h) {
				return
			}
		}
		if len(some) < walked {
			return
		}
	}
}

// Cut cancels what workers and handlers have under way in a crawl that was told to stop. See Pause.
func (p *Pipeline) Cut() {
	p.ask(func(d *discovery) {
		if d.hurried {
			d.deadline = time.Time{}
			d.cut()
		}
	})
}
