package admission

import (
	"math"
	"math/bits"
	"time"

	"github.com/treadlight/crawl/limit"
)

const second = 1e6

// Micros is an instant, in microseconds since the Unix epoch: the unit of the stores, which a
// double, all that a Lua script has, holds exactly until the year 2255.
type Micros int64

// MicrosOf is the instant t, rounded down.
func MicrosOf(t time.Time) Micros { return Micros(t.UnixMicro()) }

// Never is the wait for what time alone does not bring, and for what takes longer than a Duration can say.
const Never = limit.Never

func (m Micros) duration() time.Duration {
	if m > Micros(Never/time.Microsecond) {
		return Never
	}
	return time.Duration(m) * time.Microsecond
}

// State is what a repository keeps of a key under one plan, whatever its kind. It is a value:
// what decides by it depends on nothing else.
type State struct {
	At                Micros  // when Tokens was right, or when the current window began
	Tokens            float64 // of a bucket: 0 to the capacity
	Current, Previous int64   // of a window: taken in it, and in the one before, 0 for a fixed one
}

// Fresh is the state of a key that p has not seen yet, or of which nothing counts any more.
func (p *Plan) Fresh(now Micros) State {
	if p.Window == 0 {
		return State{At: now, Tokens: float64(p.Capacity)}
	}
	return State{At: startOf(now, p.micros())}
}

// Take asks for n ≥ 0 tokens of s at now. Denied, or asked for none, it returns s itself. The plan must be settled.
func (p *Plan) Take(s State, now Micros, n int64) (State, Result) {
	var r Result
	p.Charge(&s, now, n, &r)
	return s, r
}

// Charge is Take in place: it sets r, and s if it is allowed and n is more than 0. It is for
// repositories, whose decisions it makes half as long.
func (p *Plan) Charge(s *State, now Micros, n int64, r *Result) {
	*r = Result{Limit: p.Capacity, Plan: p.Name}
	if p.Window == 0 {
		p.chargeBucket(s, now, n, r)
	} else {
		p.chargeWindow(s, now, n, r)
	}
}

// TakeAll is the decision over several plans: n tokens of each of them, or of none. states[i] is of plans[i], which
// must be as many and of different names. If it is allowed the states are charged in place, and otherwise left as they
// are. The Result is that of the tightest plan; without plans it is allowed.
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

// chargeBucket is Charge of a token bucket. Its numbers are those of the Redis form, and it computes with doubles, the
// same operations in the same order as the script does there, so that both come to the same bits.
func (p *Plan) chargeBucket(s *State, now Micros, n int64, r *Result) {
	tokens, at := p.refill(s, now)
	before, since := s.Tokens, s.At // not read back from s: a decision would wait for that
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

// refill is the bucket at now. When the clock goes back, nothing flows in until it has caught up.
// But a bucket that says it was refilled further in the future than it takes to fill one was
// written by a clock that was wrong; it is taken for a new one.
func (p *Plan) refill(s *State, now Micros) (tokens float64, at Micros) {
	full := float64(p.Capacity)
	gain := float64(now-s.At) * p.TokensPerSecond / second
	if gain < 0 {
		if gain < -full {
			return full, now
		}
		now, gain = s.At, 0
	}
	if tokens = s.Tokens + gain; !(tokens <= full) { // true of no number too, which a damaged store may hold
		tokens = full
	}
	return tokens, now
}

// estimate is in how many microseconds so many tokens flow in, by a quotient that is rounded up. It
// may be off by some, because refill rounds too.
func (p *Plan) estimate(missing float64) Micros {
	wait := math.Ceil(missing / p.TokensPerSecond * second)
	if wait >= float64(Never/4) {
		return Micros(Never / 4)
	}
	return Micros(wait)
}

// when is the first microsecond for which refill finds want tokens, of which there are fewer yet.
// It is counted from what is stored, and not from now, so that whoever asks again meanwhile is
// told the same instant. The estimate comes close to it; the last step is to ask refill's own sum.
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

// chargeWindow is Charge of a window. Windows follow each other from the Unix epoch on, the same for all keys, so that
// a store may forget a key whose window is over and another process agrees with it. The sliding one admits a token
// while the estimate before it, previous·(1−elapsed/length) + current, is below the capacity, and n as if they were
// asked for one after another. The estimate is of the window that ends with the present microsecond: elapsed includes
// it.
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
	if over < 0 { // before 1970
		over += length
	}
	return now - over
}

// advance is s at now, moved on by whole windows. When the clock goes back, the time stands still
// until it has caught up; a window that begins more than a length in the future was written by a
// clock that was wrong, and is taken for a new one.
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

// fades reports whether less than room counts of the previous window at elapsed. Of a room that is not
// above zero that is never so. While the products stay below 2⁵³ a double makes no error in it.
func fades(previous, room int64, elapsed, length Micros) bool {
	return float64(previous)*float64(length-elapsed-1) < float64(room)*float64(length)
}

type window struct {
	plan                   *Plan
	start, elapsed, length Micros
	current, previous      int64
}

// until solves the rule for elapsed. In this window what is left of the previous must find room
// beside current and n; if current alone is too much, the next window begins with it as previous, and
// the question there is the same. The end is that of the window of the present length around its
// start, which may have begun as one of a plan with shorter ones.
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

// fadesAt is the first microsecond of a window at which fades is true of room, which is above
// zero. It is found with whole numbers; where doubles round, it moves.
func (w *window) fadesAt(previous, room int64) Micros {
	if previous <= room {
		return 0
	}
	hi, lo := bits.Mul64(uint64(room), uint64(w.length))
	q, rest := bits.Div64(hi, lo, uint64(previous)) // below length, as room is below previous
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
