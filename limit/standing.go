package limit

import "time"

// Standing is how a client stands with a limit at the moment of an answer, exactly.
// [Standing.Told] is what headers, which have whole seconds, tell of it.
type Standing struct {
	Limit  int64         // so many
	Window time.Duration // in so long a time; zero if they come back and not with the time: as many at once
	Left   int64         // what can be taken at once
	// Next is how long until one can be taken, if none is left; of a refusal, until what was
	// refused could be.
	Next time.Duration
	// Lasts is for how long what is left should last: who takes it evenly meanwhile uses what
	// the limit grants, and finds one more after it. Zero means that all is there.
	Lasts   time.Duration
	Refused bool // the answer is a refusal
	Even    bool // one can be taken at a time, and what is not taken when it comes is lost
}

// PerWindow is the limit as headers tell it. That of a window shorter than a second, which
// cannot be told, is what it comes to in a second or more.
func (s Standing) PerWindow() (limit int64, window time.Duration) {
	if s.Limit <= 0 || s.Window <= 0 || s.Window >= time.Second && !s.Even {
		return s.Limit, s.Window
	}
	each := (s.Window-1)/time.Duration(s.Limit) + 1
	if each >= time.Microsecond {
		return evenly(each)
	}
	return int64(float64(s.Limit) * float64(time.Second) / float64(s.Window)), time.Second
}

// Told is what remains, and the reset, as clients are told. Both are for a client that spreads
// the one over the other: it uses what the limit grants, and finds something left each time.
//
// What remains is what can be taken at once, and the reset is for how long it should last. The
// time until all is back, which is longer for whatever slides or flows, would have an obedient
// client use half of that. Where that is less than a second, which cannot be told, it is so many
// in so many seconds, one after the other. If nothing is left, the reset is when there is one
// more; of a refusal it is what Retry-After says.
//
// The time for which what is left should last is rounded down, as that may be taken at once;
// what is to be waited for is rounded up where it is written. The one makes good for what is
// lost by the other, but for a limit where that is lost: there the two are such that their
// quotient is right.
func (s Standing) Told() (remaining int64, reset time.Duration) {
	switch {
	case s.Refused:
		return s.Left, s.Next
	case s.Left == 0:
		return s.toldNone()
	case s.Lasts <= 0 || s.Lasts == Never:
		return s.Left, s.Lasts
	}
	limit, _ := s.PerWindow()
	each := max(1, s.Lasts/time.Duration(s.Left))
	if s.Lasts >= time.Second {
		return s.Left, s.Lasts.Truncate(time.Second)
	}
	best := time.Duration(0) // the longest that is not longer than each
	first := max(s.Left, int64((time.Second+each-1)/each))
	for n := first; n <= min(limit, first+mostTried); n++ {
		over := (time.Duration(n) * each).Truncate(time.Second)
		if one := over / time.Duration(n); one > best {
			best, remaining, reset = one, n, over
		}
		if each-best <= each/closeTo+1 {
			break
		}
	}
	if best == 0 { // so many are never left
		return limit, time.Second
	}
	return max(s.Left, remaining), reset
}

// toldNone is Told if nothing is left.
func (s Standing) toldNone() (remaining int64, reset time.Duration) {
	switch {
	case s.Even:
		if remaining, reset = evenly(s.Next); remaining == 1 {
			remaining = 0 // there is one after the reset, and none now
		}
		return remaining, reset
	case s.Next <= 0 || s.Next >= time.Second:
		return 0, s.Next
	}
	limit, _ := s.PerWindow()
	remaining, reset = evenly(s.Next)
	if s.Window/time.Duration(s.Limit) < time.Second && remaining > 1 && remaining <= limit {
		return remaining, reset
	}
	if remaining = min(limit, int64(time.Second/s.Next)); remaining > 1 {
		return remaining, time.Second
	}
	return 0, s.Next
}

const (
	closeTo   = 50  // an interval is told to a fiftieth
	mostTried = 100 // is more than that needs
)

// evenly is how many in how many whole seconds are an interval not shorter than the given one,
// and hardly longer. Who spreads them rounds up to a nanosecond, as the interval is.
func evenly(each time.Duration) (n int64, over time.Duration) {
	if each <= 1 || each > Never/(2*mostTried) {
		return 0, each
	}
	best := Never
	first := max(1, int64((time.Second-1)/(each-1)))
	for m := first; m < first+mostTried; m++ {
		whole := (time.Duration(m)*(each-1) + time.Second).Truncate(time.Second)
		if one := whole / time.Duration(m); one < best {
			best, n, over = one, m, whole
		}
		if best-each <= each/closeTo+1 {
			break
		}
	}
	return n, over
}
