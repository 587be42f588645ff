package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// block finds hosts that lock out for a while who is too fast, by a run of 403.
type block struct {
	since clock.Instant // when the first of the run was sent
	gap   time.Duration // the silence that outlasted the last block; zero if it never blocked
	run   uint8         // 403s in a row
	soft  bool          // a 403 has meant later
	tally tally
}

// blockRun is how many 403s in a row are a block: pages that not everybody may see come singly.
const blockRun = 5

// observe counts 403s in a row, and reports whether they are a block.
func (b *block) observe(x *Sample) bool {
	if !x.Forbidden {
		if b.run > 0 && x.SentAt > b.since {
			b.run = 0
		}
		b.soft = b.soft || x.Lifted
		return false
	}
	if b.run++; b.run == 1 {
		b.since = x.SentAt
		b.tally.refuse(x.Second)
	}
	if b.run < blockRun {
		return false
	}
	b.run = 0
	return true
}

// estimate is just under a rate that was blocked: the request that was one too many if the host counts
// by seconds of its clock.
func (b *block) estimate(blocked float64) Estimate {
	if b.gap == 0 {
		return Estimate{}
	}
	e := Estimate{Rate: .95 * blocked, Confidence: 1, Cause: control.CauseForbidden}
	if n := float64(b.tally.most()); n >= e.Rate/2 && n <= 1.5*blocked+1 {
		e.Rate = n
	}
	return e
}
