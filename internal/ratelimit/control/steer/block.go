package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// block is what a run of 403 says.
type block struct {
	forbidAt  clock.Instant // when the first of the run was sent
	gap       time.Duration // the pause that outlasted the last block
	blocks    uint8
	forbidden uint8 // 403s in a row
	forbidIn  uint8 // the second of the host's clock in which the run began
	blocked   bool
	soft      bool // a 403 has meant later
	tally     tally
}

const blockWait = 10050 * time.Millisecond

func (s *Steer) forbid(now clock.Instant, o *control.Observation) {
	if s.forbidden++; s.forbidden == 1 {
		s.forbidAt, s.forbidIn = o.SentAt, o.Second
	}
	run := uint8(5)
	if s.soft && s.gap > 0 {
		run = 2
	}
	if s.forbidden < run {
		if s.soft {
			s.health.fail(s, now, o)
		}
		return
	}
	s.forbidden = 0
	s.hit(now, o, control.CauseForbidden)
	s.sentAt = s.forbidAt
}

// endBlock stays under the rate that was blocked.
func (s *Steer) endBlock(took time.Duration) {
	s.gap = s.wait
	s.blocks = min(s.blocks+1, 200)
	x := .95 * s.failRate
	if n := float64(s.tally.most(s.forbidIn)); n >= x/2 && n <= 1.5*s.failRate+1 {
		x = n
	}
	s.lo = s.bounded(x)
	if s.from == Probe {
		s.lo = min(s.lo, s.probe.from)
	}
	s.run = 0
	s.hi = max(s.lo*(1+s.tune.Near/2), x)
	s.cost = max(s.cost, float32(took.Seconds()))
}
