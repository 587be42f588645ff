package pipeline

import (
	"errors"
	"iter"
	"time"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/request"
)

// ErrNotRunning is the error of a call that came before the crawl began or after it had ended.
var ErrNotRunning = errors.New("the crawl does not run")

// walked is how many hosts Discovery describes at a time, which takes some tens of microseconds.
const walked = 128

// ask runs do in the goroutine of Discovery, between two of its turns. Once Discovery has ended, the frontier does not
// change any more and do runs in the caller's goroutine. Before Run it does nothing.
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

// order is ask for calls that change a crawl. It does nothing and returns false once no more URLs are leased.
func (p *Pipeline) order(do func(*discovery)) (done bool) {
	p.ask(func(d *discovery) {
		if done = !d.stopping; done {
			do(d)
		}
	})
	return done
}

// Pause stops the leasing of URLs until Unpause; what is in flight is finished. MaxTime continues to run. Pause may be
// called at any time, from any goroutine except those that call a hook of the limiter or the handler of the log, and
// waits until Discovery is free. It returns false if there is no crawl to pause: before Run, and after the leasing has
// ended.
func (p *Pipeline) Pause() bool { return p.order(func(d *discovery) { d.paused = true }) }

// Unpause continues a paused crawl. It does nothing to a crawl that is not paused. See Pause for when it may be called
// and what it returns.
func (p *Pipeline) Unpause() bool { return p.order(func(d *discovery) { d.paused = false }) }

// Paused reports whether the crawl is paused. See [Pipeline.Pause].
func (p *Pipeline) Paused() (paused bool) {
	p.order(func(d *discovery) { paused = d.paused })
	return paused
}

// CrawlPaused is the reason why hosts wait while the crawl is paused.
const CrawlPaused = "the crawl is paused"

// tellPause names the pause of the crawl as the reason why a host waits, unless it has one of its own.
func (d *discovery) tellPause(h *frontier.HostState) {
	if d.paused && h.Queued > 0 && !h.Blocked && !h.Excluded {
		h.Reason, h.Until = CrawlPaused, time.Time{}
	}
}

// AddSeed adds a seed to a running crawl. A seed that is known already changes nothing. See Pause for when it may be
// called and what it returns.
func (p *Pipeline) AddSeed(s request.Seed) bool { return p.order(func(d *discovery) { d.seed(s) }) }

// SetBounds replaces MaxPages and MaxTime of a running crawl; zero means no bound. If [Peers] count the pages, their
// bound applies, and maxPages only appears in messages. See Pause for when it may be called and what it returns.
func (p *Pipeline) SetBounds(maxPages int, maxTime time.Duration) bool {
	return p.order(func(d *discovery) { d.bound(maxPages, maxTime) })
}

// Revise makes Discovery ask the limiter again for every host when it may get a request, because the rules of the
// limiter have changed. See Pause for when it may be called.
func (p *Pipeline) Revise() { p.order(func(d *discovery) { d.frontier.Revise(p.cfg.Clock.Now()) }) }

// Wake is Revise for one host. See Pause for what it returns.
func (p *Pipeline) Wake(host string) bool {
	return p.order(func(d *discovery) { d.frontier.Wake(p.cfg.Clock.Now(), host) })
}

// Controls are what operators have changed while the crawl ran.
type Controls struct {
	Blocked  []string           `json:"blocked"`  // hosts, sorted
	Ceilings map[string]float64 `json:"ceilings"` // requests per second, by host
	Include  []string           `json:"include"`  // the patterns of the scope, changed or not
	Exclude  []string           `json:"exclude"`
}

// Block stops the requests to a host, known or not, until Unblock. No request to it begins after Block has returned;
// what is in flight is finished. The URLs of the host stay queued. When only such hosts are left, the crawl ends with
// [EndBlocked] after MaxBlocked. The result ok is false if there is no crawl, as with [Pipeline.Pause], and if there is
// an error, which is [frontier.ErrTooManyExcluded].
func (p *Pipeline) Block(host string) (ok bool, err error) {
	ok = p.order(func(d *discovery) {
		err = d.frontier.Exclude(p.cfg.Clock.Now(), host)
		d.attended = true
	})
	return ok && err == nil, err
}

// Unblock allows requests to a host again. It does nothing to a host that is not blocked.
func (p *Pipeline) Unblock(host string) bool {
	return p.order(func(d *discovery) {
		d.attended = true
		d.frontier.Include(p.cfg.Clock.Now(), host)
	})
}

// Blocked returns the hosts that are blocked, sorted; not nil. It may be called at any time.
func (p *Pipeline) Blocked() []string { return p.discovery.frontier.Excluded() }

// SetScope replaces the patterns of the scope. They apply to links that are found from then on. A queued URL that they
// leave out is not requested: when its turn comes, it is recorded with the scope's decision as its error class. The
// error names the invalid pattern. See Pause for when it may be called and what it returns.
func (p *Pipeline) SetScope(include, exclude []string) (ok bool, err error) {
	ok = p.order(func(d *discovery) {
		if err = p.cfg.Scope.SetPatterns(include, exclude); err == nil {
			d.frontier.Revise(p.cfg.Clock.Now())
		}
	})
	return ok && err == nil, err
}

// Leased returns how many URLs are leased to workers. It does not wait for Discovery and may be called at any time.
func (p *Pipeline) Leased() int { return int(p.discovery.frontier.Counts().Leased) }

// Host returns what the frontier knows about one host, by the name that snapshots show. The result ok is false if it
// knows nothing, or, in a crawl with a state, if all URLs of the host are on disk. It may be called whenever
// [Pipeline.Snapshot] may be, and waits like it.
func (p *Pipeline) Host(name string) (h frontier.HostState, ok bool) {
	p.ask(func(d *discovery) {
		h, ok = d.frontier.Host(p.cfg.Clock.Now(), name)
		d.tellPause(&h)
	})
	return h, ok
}

// EachHost calls see for every host in memory, in no particular order, until see returns false. It may be called
// whenever [Pipeline.Snapshot] may be. It gets a few hosts at a time from Discovery, which does its own work in
// between, so that a walk past a hundred thousand hosts does not hold up the crawl. See is called in the caller's
// goroutine.
func (p *Pipeline) EachHost(see func(frontier.HostState) bool) {
	var next func() (frontier.HostState, bool)
	stop := func() {}
	defer func() { stop() }()
	for {
		var some []frontier.HostState
		p.ask(func(d *discovery) {
			if next == nil {
				next, stop = iter.Pull(d.frontier.All(p.cfg.Clock.Now))
			}
			for h, ok := next(); ok; h, ok = next() {
				d.tellPause(&h)
				if some = append(some, h); len(some) == walked {
					return
				}
			}
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

// Cut cancels what workers and handlers have in progress, if the crawl has been told to stop. See Pause for when it may
// be called.
func (p *Pipeline) Cut() {
	p.ask(func(d *discovery) {
		if d.hurried {
			d.deadline = time.Time{}
			d.cut()
		}
	})
}
