package steer

import "math"

// tally counts what a host admitted in the present second of its own clock. Who locks out
// for a while often counts by whole seconds of the clock, since that takes one number; and
// nearly everyone dates their answers. So where a lockout begins in a second in which no less was
// admitted than in the whole one before it, that is what the host admits in one: to the
// request, where the rate that was refused is as good as a third above or below.
//
// Where it counts in another way the number is no larger than what it admitted within some
// second, and a search that has come so far has not been asked for more for long.
type tally struct {
	dated uint8  // the second that is counted; zero for none yet
	now   uint16 // admitted in it; zero once something was refused in another
	last  uint16 // in the latest one before with an answer
}

// add counts an answer of that second.
func (c *tally) add(second uint8) {
	if second == 0 {
		return
	}
	count := &c.now
	switch {
	case second == c.dated:
	case c.dated > 0 && second%60+1 == c.dated:
		count = &c.last // it was longer on its way than the first of the present second
	default:
		c.dated, c.last, c.now = second, c.now, 0
	}
	if *count < math.MaxUint16 {
		*count++ // beyond is more than anybody locks out for
	}
}

// refuse takes in the first refusal of a run.
func (c *tally) refuse(second uint8) {
	if second == 0 || second != c.dated {
		c.now = 0
	}
}

// most is what the host admits in a second if what it refused last says that it counts by seconds; zero if it does not.
func (c *tally) most() uint16 {
	if c.now < c.last {
		return 0
	}
	return c.now
}
