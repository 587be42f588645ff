package steer

import "math"

// tally counts the requests that a host admitted in the present second of the host's own clock, which the Date header
// tells. A host that blocks clients often counts requests per whole second of its clock, since one number is enough for
// that, and nearly every host dates its responses. If a block begins in a second in which at least as many requests
// were admitted as in the whole second before, the tally takes that count for what the host admits in one second. The
// count is exact, while the rate that was refused may be a third too high or too low.
//
// If the host counts in another way, the count is still no more than what it admitted within some second, and close
// below the refused rate, since the search had not sent at a higher rate for long.
type tally struct {
	dated uint8  // second of the minute that is counted, from 1 to 61; zero before the first
	now   uint16 // requests admitted in it
	last  uint16 // requests admitted in the latest second before it that had a response
}

// add counts an admitted request whose response is dated in that second; zero, an unknown second, is not counted.
func (c *tally) add(second uint8) {
	if second == 0 {
		return
	}
	count := &c.now
	switch {
	case second == c.dated:
	case second%60+1 == c.dated:
		count = &c.last // it took longer to arrive than the first response of the present second
	default:
		c.dated, c.last, c.now = second, c.now, 0
	}
	if *count < math.MaxUint16 {
		*count++ // the maximum is more than a host admits in a second before it blocks
	}
}

// most returns how many requests the host admits in a second, if its last block began as one does that counts by
// seconds; otherwise zero.
func (c *tally) most() uint16 {
	if c.now < c.last {
		return 0
	}
	return c.now
}
