package admission

import (
	"math"
	"math/bits"
	"time"

	"github.com/treadlight/crawl/limit"
)

const second = 1e6

// Micros is an instant in microseconds since the Unix epoch, the unit of the stores. A double, which is all that a Lua
// script has, holds it exactly until the year 2255.
type Micros int64

// MicrosOf returns the instant t, rounded down.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Never is the wait if waiting alone does not help, or if it is longer than a Duration can hold.
const Never = limit.Never

func (m Micros) duration() time.Duration {
	if m > Micros(Never/time.Microsecond) {
		return Never
	}
	return time.Duration(m) * time.Microsecond
}

// State is what a repository keeps of a key under one plan, of any kind. Decisions depend on nothing else.
type State struct {
	At                Micros  // the instant for which Tokens was computed, or the beginning of the current window
	Tokens            float64 // of a bucket: tokens left, 0 to the capacity
	Current, Previous int64   // of a window: tokens taken in it, and in the one before, which is 0 for a fixed window
}

// Fresh returns the state at now of a key that has used nothing of p, or of which nothing counts any longer.
func (p *Plan) Fresh(now Micros) State {
	if p.Window == 0 {
		return State{At: now, Tokens: float64(p.Capacity)}
	}
	return State{At: startOf(now, p.micros())}
}

// Take takes n ≥ 0 tokens from s at now. If that is denied, or n is 0, it returns s unchanged. The plan must be
// settled.
func (p *Plan) Take(s State, now Micros, n int64) (State, Result) {
	var r Result
	p.Charge(&s, now, n, &r)
	return s, r
}

// Charge is Take in place: it sets r and, if the decision is to allow and n is more than 0, s. It is for repositories:
// without copies a decision takes half the time.
func (p *Plan) Charge(s *State, now Micros, n int64, r *Result) {
	*r = Result{Limit: p.Capacity, Plan: p.Name}
	if p.Window == 0 {
		p.chargeBucket(s, now, n, r)
	} else {
		p.chargeWindow(s, now, n, r)
	}
}

// TakeAll decides over several plans: it takes n tokens from each of them, or from none. states[i] belongs to plans[i];
// both slices must have the same length, and the plans different names. If the decision is to allow, the states are
// charged in place; otherwise they stay unchanged. The Result is that of the tightest plan; without plans it allows.
func TakeAll(states []State, plans []Plan, now Micros, n int64) Result {
	tightest := Result{Allowed: true}
	for i := range plans {
		if _, r := plans[i].Take(states[i], now, n); i == 0 || r.Tighter(&tightest) {
			tightest = r
		}
	}
	if tightest.Allowed {
		for i := range plans {
			states[i], _ = plans[i].Take(states[i], now, n)
		}
	}
	return tightest
}

// chargeBucket is Charge for a token bucket. It computes with doubles, as the script for Redis does, by the same
// operations in the same order, so that the results of both are equal to the last bit.
func (p *Plan) chargeBucket(s *State, now Micros, n int64, r *Result) {
	tokens, at := p.refill(s, now)
	before, since := s.Tokens, s.At // locals, because reading them back from s would slow a decision down
	full, want := float64(p.Capacity), float64(n)
	switch {
	case want <= tokens:
		r.Allowed = true
		if n > 0 {
			tokens -= want
			before, since = tokens, at
			s.Tokens, s.At = tokens, at
		}
	case n > p.Capacity:
		r.Reason, r.Wait = ReasonTooLarge, Never
	default:
		r.Reason, r.Wait = ReasonLimited, (p.when(s, want) - now).duration()
	}
	r.Remaining = int64(tokens)
	if tokens < full {
		r.Reset = (since + p.estimate(full-before) - now).duration()
	}
}

// refill returns the content of the bucket at now, and the instant for which that is right. When the clock goes back,
// no tokens are added until it has caught up. A state that is further in the future than the time that a bucket takes
// to fill was written by a wrong clock; the bucket is then treated as new.
func (p *Plan) refill(s *State, now Micros) (tokens float64, at Micros) {
	full := float64(p.Capacity)
	gain := float64(now-s.At) * p.TokensPerSecond / second
	if gain < 0 {
		if gain < -full {
			return full, now
		}
		now, gain = s.At, 0
	}
	if tokens = s.Tokens + gain; !(tokens <= full) { // true of NaN too, which a damaged store may hold
		tokens = full
	}
	return tokens, now
}

// estimate returns the microseconds in which the missing tokens are added, rounded up. It may be off by some, because
// refill rounds too.
func (p *Plan) estimate(missing float64) Micros {
	wait := math.Ceil(missing / p.TokensPerSecond * second)
	if wait >= float64(Never/4) {
		return Micros(Never / 4)
	}
	return Micros(wait)
}

// when returns the first microsecond at which refill returns at least want tokens; there must be fewer now. It is
// computed from the stored state and not from now, so that a client that asks again meanwhile gets the same instant.
// The estimate comes close to it; the rest is found by calling refill itself.
func (p *Plan) when(s *State, want float64) Micros {
	enough := func(w Micros) bool { return s.Tokens+float64(w)*p.TokensPerSecond/second >= want }
	late := p.estimate(want - s.Tokens)
	early := late - 1
	if late >= Micros(Never/4) {
		return late
	}
	for step := Micros(1); !enough(late); step *= 2 {
		early, late = late, late+step
	}
	for step := Micros(1); early > 0 && enough(early); step *= 2 {
		early, late = max(0, early-step), early
	}
	for late-early > 1 {
		if mid := early + (late-early)/2; enough(mid) {
			late = mid
		} else {
			early = mid
		}
	}
	return s.At + late
}

// chargeWindow is Charge for a window. Windows follow each other from the Unix epoch on and are the same for all keys,
// so that a store may forget a key whose window is over, and all processes agree. A sliding window admits a token while
// the estimate before it, previous·(1−elapsed/length) + current, is below the capacity; n tokens are admitted as if
// they were taken one after another. The estimate is for the window that ends with the present microsecond: elapsed
// includes it.
func (p *Plan) chargeWindow(s *State, now Micros, n int64, r *Result) {
	length, sliding := p.micros(), p.Kind == KindSlidingWindow
	start, current, previous := s.advance(now, length, sliding)
	elapsed, behind := max(0, now-start), max(0, start-now)
	switch {
	case n > p.Capacity:
		r.Reason, r.Wait = ReasonTooLarge, Never
	case n == 0:
		r.Allowed = true
	case fades(previous, p.Capacity-current-(n-1), elapsed, length):
		r.Allowed = true
		current += n
		s.At, s.Current, s.Previous = start, current, previous
	default:
		w := window{p, start, elapsed, length, current, previous}
		r.Reason, r.Wait = ReasonLimited, (w.until(n) + behind).duration()
	}
	r.Remaining = p.Capacity - current
	if previous > 0 {
		r.Remaining -= int64(math.Floor(float64(previous) * (float64(length) - float64(elapsed) - 1) / float64(length)))
	}
	r.Remaining = max(0, r.Remaining)
	reset := behind
	if current > 0 || previous > 0 {
		if reset += length - elapsed; current > 0 && sliding {
			reset += length
		}
	}
	r.Reset = reset.duration()
	if r.Remaining == 0 && sliding && r.Allowed {
		w := window{p, start, elapsed, length, current, previous}
		r.next = (w.until(1) + behind).duration()
	}
}

func (p *Plan) micros() Micros { return Micros(p.Window.Microseconds()) }

func startOf(now, length Micros) Micros {
	over := now % length
	if over < 0 { // the instant is before 1970
		over += length
	}
	return now - over
}

// advance returns s moved on to now by whole windows. When the clock goes back, time stands still until it has caught
// up. A window that begins more than its length in the future was written by a wrong clock, and is treated as new.
func (s *State) advance(now, length Micros, sliding bool) (start Micros, current, previous int64) {
	start = startOf(now, length)
	switch passed := start - s.At; {
	case now < s.At-length:
		return start, 0, 0
	case passed <= 0:
		return s.At, s.Current, s.Previous
	case passed <= length && sliding:
		return start, 0, s.Current
	}
	return start, 0, 0
}

// fades reports whether, at elapsed, less than room of the previous window still counts. It is false if room is not
// above zero. While the products stay below 2⁵³, doubles compute the same without error.
func fades(previous, room int64, elapsed, length Micros) bool {
	return float64(previous)*float64(length-elapsed-1) < float64(room)*float64(length)
}

type window struct {
	plan                   *Plan
	start, elapsed, length Micros
	current, previous      int64
}

// until returns how long it is until n tokens would be admitted. It solves the rule of chargeWindow for elapsed. In the
// current window, what still counts of the previous one must fit beside current and n. If current alone is too much,
// the next window is examined, in which current is the previous one. The window ends by the plan's present length,
// counted from its start, even if it began when the plan had shorter windows.
func (w *window) until(n int64) Micros {
	end := startOf(w.start, w.length) + w.length - w.start
	if room := w.plan.Capacity - w.current - (n - 1); room > 0 {
		if at := w.fadesAt(w.previous, room); at < end {
			return max(0, at-w.elapsed)
		}
	}
	if w.plan.Kind == KindFixedWindow {
		return end - w.elapsed
	}
	return end - w.elapsed + w.fadesAt(w.current, w.plan.Capacity-(n-1))
}

// fadesAt returns the first microsecond of a window at which fades is true of room, which must be above zero. It
// computes with whole numbers, because the rounding of doubles would shift the result.
func (w *window) fadesAt(previous, room int64) Micros {
	if previous <= room {
		return 0
	}
	hi, lo := bits.Mul64(uint64(room), uint64(w.length))
	q, rest := bits.Div64(hi, lo, uint64(previous)) // below length, because room is below previous
	if rest > 0 {
		q++
	}
	at := w.length - Micros(q)
	for at < w.length && !fades(previous, room, at, w.length) {
		at++
	}
	for at > 0 && fades(previous, room, at-1, w.length) {
		at--
	}
	return at
}
