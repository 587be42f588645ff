package steer

import (
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// block finds hosts that lock a client out for a while if it is too fast, by a run of 403.
type block struct {
	gap  time.Duration // silence before the trial that ended the last block; zero if the host never blocked
	run  uint8         // number of 403 in a row
	soft bool          // some URL was answered 403 and later was not: here a 403 may mean "later"
}

// blockRun is how many 403 in a row are a block. Pages that only some users may see are met singly.
const blockRun = 5

// blockWait is the time to the first trial of a block: such hosts block for ten seconds by default, and 50 ms are for
// the way.
const blockWait = 10050 * time.Millisecond

// observe counts 403s in a row, and reports whether there are enough to be a block. An admitted request ends the run.
func (b *block) observe(x *Sample) bool {
	if !x.Forbidden {
		b.run, b.soft = 0, b.soft || x.Lifted
		return false
	}
	b.run = (b.run + 1) % blockRun
	return b.run == 0
}

// estimate returns a rate just under the rate that was blocked, in requests per second: 95 % of it, or what the tally
// counted in the second of the block if that is near. It says nothing of a host that never blocked.
func (b *block) estimate(blocked float64, c *tally) Estimate {
	if b.gap == 0 {
		return Estimate{}
	}
	e := Estimate{Rate: .95 * blocked, Confidence: 1, Cause: control.CauseForbidden}
	if n := float64(c.most()); n >= e.Rate/2 && n <= 1.5*blocked+1 {
		e.Rate = n
	}
	return e
}
