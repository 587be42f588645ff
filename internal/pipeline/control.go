package pipeline

import (
	"time"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// Pause ends the leasing of URLs until Unpause; what is under way is finished. MaxTime runs
// on. It may be called at any time, from any goroutine but those that call a hook of the
// limiter or the log's handler, and waits for Discovery's next free moment. It reports
// whether the crawl was there to pause: not before Run, and not after the leasing has ended.
func (p *Pipeline) Pause() bool { return p.order(func(d *discovery) { d.paused = true }) }

// Unpause has a paused crawl go on; of any other it does nothing. See Pause.
func (p *Pipeline) Unpause() bool { return p.order(func(d *discovery) { d.paused = false }) }

// AddSeed adds a seed to a crawl that runs. One that is known already changes nothing.
func (p *Pipeline) AddSeed(u canonical.URL) bool { return p.order(func(d *discovery) { d.seed(u) }) }

// order has Discovery do something, unless it has ended or leases no more.
func (p *Pipeline) order(do func(*discovery)) (done bool) {
	if !p.began.Load() {
		return false
	}
	answered := make(chan bool, 1)
	select {
	case p.asks <- func(d *discovery) {
		if !d.stopping {
			do(d)
		}
		answered <- !d.stopping
	}:
		return <-answered
	case <-p.gone:
		return false
	}
}

// SetBounds replaces MaxPages and MaxTime of a crawl that runs; zero means no bound. Of pages
// that [Peers] count it changes what is said alone, as that has them. See Pause.
func (p *Pipeline) SetBounds(maxPages int, maxTime time.Duration) bool {
	return p.order(func(d *discovery) { d.bound(maxPages, maxTime) })
}

// bound has the crawl end after so many pages, or so long; zero means that it does not.
func (d *discovery) bound(maxPages int, maxTime time.Duration) {
	d.maxPages, d.maxTime = maxPages, maxTime
	if d.hurried { // the deadline is that of what is under way
		return
	}
	d.deadline = time.Time{}
	if maxTime > 0 {
		d.deadline = d.began.Add(maxTime)
	}
}

// Leased is how many URLs are in the hands of workers. It is quick, and may be called at any time.
func (p *Pipeline) Leased() int { return int(p.frontier.Counts().Leased) }
