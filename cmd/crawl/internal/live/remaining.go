package live

import (
	"time"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/pipeline"
)

const (
	// drainTime is for how long a queue must have become shorter before its end is foretold.
	drainTime = 20 * time.Second
	// drainLeast is the share of the queue that must have gone in that time: at less, its end
	// is hours off, and a link to one more section moves it by as much.
	drainLeast = 0.02
	// farthest is the latest end that is told.
	farthest = 7 * 24 * time.Hour
)

// remaining foretells the end of a crawl, if that can be done: the queue has become shorter
// over the first and the second half of the last two minutes, or of as much as is known, no
// host keeps its URLs waiting by a refusal, and nobody has paused the crawl. Then it is the
// queue by the rate at which it became shorter; or, if that is later, the queue of the host
// that takes longest by the rate at which that host may be asked. A queue that grows, as it
// does while a site is discovered, says nothing about the end, and nothing is told.
func (p *history) remaining(s *crawl.Snapshot, paused bool) (left time.Duration, known bool) {
	n := len(p.moments)
	if paused || s.State != pipeline.EndNone || n < 3 {
		return 0, false
	}
	first, last := &p.moments[0], &p.moments[n-1]
	span := last.at.Sub(first.at)
	if last.left <= 0 || span < drainTime {
		return 0, false
	}
	half := first
	for i := range p.moments {
		if m := &p.moments[i]; m.at.Sub(first.at) <= span/2 {
			half = m
		}
	}
	gone := first.left - last.left
	if half.left >= first.left || last.left >= half.left || float64(gone) < drainLeast*float64(last.left) {
		return 0, false
	}
	seconds := float64(last.left) / float64(gone) * span.Seconds()
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if h.Queued == 0 {
			continue
		}
		if h.Blocked || h.Excluded {
			return 0, false
		}
		if d := limitOf(s, h.Host); d != nil && d.FillRate > 0 {
			seconds = max(seconds, float64(h.Queued)/d.FillRate)
		}
	}
	if seconds > farthest.Seconds() {
		return 0, false
	}
	return time.Duration(seconds * float64(time.Second)), true
}
