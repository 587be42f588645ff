package pipeline

import "github.com/treadlight/crawl/internal/frontier"

// Host tells what the frontier knows of one host, by the name that snapshots show. It is
// not ok if nothing is; of a crawl with a state, also if its URLs are all on the disk. It
// may be called when [Pipeline.Snapshot] may be, and waits like it.
func (p *Pipeline) Host(name string) (h frontier.HostState, ok bool) {
	if !p.began.Load() {
		return h, false
	}
	now := p.cfg.Clock.Now()
	done := make(chan struct{})
	select {
	case p.asks <- func(d *discovery) {
		h, ok = d.frontier.Host(now, name)
		close(done)
	}:
		<-done
	case <-p.gone: // see hosts
		h, ok = p.frontier.Host(now, name)
	}
	return h, ok
}

// Paused reports whether the crawl is paused. See [Pipeline.Pause].
func (p *Pipeline) Paused() (paused bool) {
	p.order(func(d *discovery) { paused = d.paused })
	return paused
}
