package pipeline

import (
	"log/slog"
	"time"

	"github.com/treadlight/crawl/internal/pipeline/frontier"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// urlPause is the least time between the first two refusals of a URL that the host refuses
// by itself; it doubles with each that follows. With three retries such a URL is given up
// half a minute after its host is known to serve everything else.
const urlPause = 2 * time.Second

// suspicion is a refusal of which it is not known yet whether it was the URL's or the
// host's. The limiter is told when it is: of the host's as what it was, so that the host
// is paced as if there had been no doubt, one request later; of the URL's as nothing that
// says anything of the host.
type suspicion struct {
	lease     *frontier.Lease
	notBefore time.Time
	feedback  *ratelimit.Feedback
}

// suspect takes in the refusal of a suspect.
func (d *discovery) suspect(ev event, now time.Time) {
	s := &suspicion{ev.lease, ev.notBefore, ev.withheld}
	d.suspects[ev.lease.Host()] = s
	d.judge(s, now)
}

// judge ends a suspicion if it can be ended.
func (d *discovery) judge(s *suspicion, now time.Time) {
	switch d.frontier.Blame(s.lease) {
	case frontier.BlameHost:
		d.blameHost(s, now)
	case frontier.BlameURL:
		delete(d.suspects, s.lease.Host())
		d.tell(s.lease, d.p.alone(s.lease, s.feedback))
		pause := urlPause << min(s.lease.Strikes, 16) // nine hours: beyond any number of retries that is waited for
		d.frontier.Refused(now, s.lease, maxTime(s.notBefore, now.Add(pause)))
	case frontier.BlameOpen:
	}
}

func (d *discovery) blameHost(s *suspicion, now time.Time) {
	delete(d.suspects, s.lease.Host())
	d.tell(s.lease, *s.feedback)
	d.frontier.NotNow(now, s.lease, s.notBefore)
}

// judgeAll looks at the suspicions when nothing can be leased: whom they wait for may not
// come.
func (d *discovery) judgeAll(now time.Time) {
	for _, s := range d.suspects {
		d.judge(s, now)
	}
}

// tell gives the limiter feedback, and answers meanwhile: a hook of the limiter may ask
// for a Snapshot, and must not wait for ever for the one who waits for it.
func (d *discovery) tell(l *frontier.Lease, fb ratelimit.Feedback) {
	told := make(chan struct{})
	go func() {
		defer close(told)
		d.p.cfg.Limiter.Feedback(l.Host(), fb)
	}()
	for {
		select {
		case ask := <-d.p.asks:
			ask(d)
		case <-told:
			return
		}
	}
}

// alone counts a refusal that was the URL's alone, and marks it for the limiter.
func (p *Pipeline) alone(l *frontier.Lease, fb *ratelimit.Feedback) ratelimit.Feedback {
	fb.OfURL = true
	p.stats.ofURL.Add(1)
	p.cfg.Log.Debug("a URL is refused while others of its host are served",
		slog.String("url", l.URL.String()), slog.Int("times", int(l.Strikes)+1))
	return *fb
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
