package pipeline

import "github.com/treadlight/crawl/internal/frontier"

// walked is how many hosts Discovery describes in one go: some tens of microseconds.
const walked = 128

// EachHost calls see for every host in memory, in no order, until it returns false. It may
// be called when [Pipeline.Snapshot] may be. Discovery is asked for a few hosts at a time and
// does its own work between, so that a walk past a hundred thousand keeps it from nothing;
// see is called outside of it.
func (p *Pipeline) EachHost(see func(frontier.HostState) bool) {
	if !p.began.Load() {
		return
	}
	var walk *frontier.Walk
	defer func() {
		if walk != nil {
			walk.Stop()
		}
	}()
	for {
		var some []frontier.HostState
		now := p.cfg.Clock.Now()
		p.atFrontier(func(f *frontier.Frontier) {
			if walk == nil {
				walk = f.Walk()
			}
			some = walk.Next(now, walked)
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

// atFrontier has Discovery do something with the frontier; once it has ended the frontier is
// nobody's and at rest.
func (p *Pipeline) atFrontier(do func(*frontier.Frontier)) {
	done := make(chan struct{})
	select {
	case p.asks <- func(d *discovery) {
		do(d.frontier)
		close(done)
	}:
		<-done
	case <-p.gone:
		do(p.frontier)
	}
}
