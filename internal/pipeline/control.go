package pipeline

import "github.com/treadlight/crawl/internal/pipeline/canonical"

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
