package admission

import (
	"math"
	"math/bits"
)

// Window is the state of a key under a plan of KindFixedWindow or KindSlidingWindow. It
// is a value: its methods change nothing and depend on nothing but what they are given.
//
// Windows follow each other from the Unix epoch on, the same for all keys, so that a
// store may forget a key whose window is over and another process agrees with it. The
// fixed window admits twice its capacity around the border of two. The sliding one
// supposes that what was taken in the window before was spread evenly over it. It admits
// a token while the estimate before it, previous·(1−elapsed/length) + current, is below
// the capacity, and n as if they were asked for one after another, so that a client that
// asks as often as the plan allows, evenly, is never denied. The estimate is of the window
// that ends with the present microsecond: elapsed includes it.
type Window struct {
	Start    Micros // of the current window
	Current  int64  // tokens taken in it
	Previous int64  // tokens taken in the window before; 0 for a fixed one
}

// NewWindow is the window of now, in which nothing was taken.
func NewWindow(now Micros, p Plan) Window { return Window{Start: startOf(now, p.micros())} }

// micros is the length of a window.
func (p *Plan) micros() Micros { return Micros(p.Window.Microseconds()) }

// startOf is the last multiple of length that is not after now.
func startOf(now, length Micros) Micros {
	over := now % length
	if over < 0 { // before 1970
		over += length
	}
	return now - over
}

// Advance is w at now, moved on by whole windows. When the clock goes back, the time
// stands still until it has caught up; a window that begins more than a length in the
// future was written by a clock that was wrong, and is taken for a new one.
func (w Window) Advance(now Micros, p Plan) Window { return w.advance(now, &p) }

func (w Window) advance(now Micros, p *Plan) Window {
	length := p.micros()
	start := startOf(now, length)
	switch passed := start - w.Start; {
	case now < w.Start-length:
		return Window{Start: start}
	case passed <= 0:
		return w
	case passed <= length && p.Kind == KindSlidingWindow:
		return Window{Start: start, Previous: w.Current}
	}
	return Window{Start: start}
}

// Take asks for n tokens at now. If they are there it is the window with them; if not it
// is w as it was. Zero tokens are a question only: they are always there.
func (w Window) Take(now Micros, p Plan, n int64) (Window, Result) {
	var r Result
	return w.take(now, &p, n, &r), r
}

func (w Window) take(now Micros, p *Plan, n int64, r *Result) Window {
	at := w.advance(now, p)
	elapsed := max(0, now-at.Start)
	behind := max(0, at.Start-now)
	*r = Result{Limit: p.Capacity, Plan: p.Name}
	switch {
	case n > p.Capacity:
		r.Reason, r.Wait = ReasonTooLarge, Never
	case n == 0:
		r.Allowed = true
	case at.fits(elapsed, p, n):
		r.Allowed = true
		at.Current += n
		w = at
	default:
		r.Reason, r.Wait = ReasonLimited, (at.until(elapsed, p, n) + behind).duration()
	}
	r.Remaining = at.remaining(elapsed, p)
	r.Reset = (at.reset(elapsed, p) + behind).duration()
	if r.Allowed && r.Remaining == 0 && p.Kind == KindSlidingWindow {
		r.next = (at.until(elapsed, p, 1) + behind).duration()
	}
	return w
}

// fits is the rule of admission, multiplied out: while the products stay below 2⁵³, as
// those of a hundred thousand a day do, a double makes no error in it.
func (w Window) fits(elapsed Micros, p *Plan, n int64) bool {
	return fades(w.Previous, p.Capacity-w.Current-(n-1), elapsed, p.micros())
}

// fades reports whether less than room counts of the previous at elapsed. Of a room that
// is not above zero that is never so.
func fades(previous, room int64, elapsed, length Micros) bool {
	return float64(previous)*float64(length-elapsed-1) < float64(room)*float64(length)
}

// until solves the rule for elapsed. In this window what is left of the previous must
// find room beside current and n; if current alone is too much, the next window begins
// with it as previous, and the question there is the same. The end is that of the window
// of the present length around Start, which may have begun as one of a plan with shorter
// ones.
func (w Window) until(elapsed Micros, p *Plan, n int64) Micros {
	length := p.micros()
	end := startOf(w.Start, length) + length - w.Start
	if room := p.Capacity - w.Current - (n - 1); room > 0 {
		if at := fadesAt(w.Previous, room, length); at < end {
			return max(0, at-elapsed)
		}
	}
	if p.Kind == KindFixedWindow {
		return end - elapsed
	}
	return end - elapsed + fadesAt(w.Current, p.Capacity-(n-1), length)
}

// fadesAt is the first microsecond of a window at which [fades] is true of room, which
// is above zero. It is found with whole numbers; where doubles round, it moves.
func fadesAt(previous, room int64, length Micros) Micros {
	if previous <= room {
		return 0
	}
	hi, lo := bits.Mul64(uint64(room), uint64(length))
	q, rest := bits.Div64(hi, lo, uint64(previous)) // below length, as room is below previous
	if rest > 0 {
		q++
	}
	at := length - Micros(q)
	for at < length && !fades(previous, room, at, length) {
		at++
	}
	for at > 0 && fades(previous, room, at-1, length) {
		at--
	}
	return at
}

// remaining is what Take would give at elapsed.
func (w Window) remaining(elapsed Micros, p *Plan) int64 {
	length := float64(p.micros())
	fading := math.Floor(float64(w.Previous) * (length - float64(elapsed) - 1) / length)
	return max(0, p.Capacity-w.Current-int64(fading))
}

// reset is when neither window counts any more.
func (w Window) reset(elapsed Micros, p *Plan) Micros {
	length := p.micros()
	switch {
	case w.Current > 0 && p.Kind == KindSlidingWindow:
		return 2*length - elapsed
	case w.Current > 0 || w.Previous > 0:
		return length - elapsed
	}
	return 0
}
