package admission

// State is what a repository keeps of a key under one plan, whatever its kind: the
// fields of a [TokenBucket] or of a [Window]. At is Refilled or Start.
type State struct {
	At                Micros
	Tokens            float64 // of a bucket
	Current, Previous int64   // of a window
}

// Fresh is the state of a key that p has not seen yet, or of which nothing counts any more.
func (p *Plan) Fresh(now Micros) State {
	if p.Window == 0 {
		return State{At: now, Tokens: float64(p.Capacity)}
	}
	return State{At: startOf(now, p.micros())}
}

// Take asks for n ≥ 0 tokens of s at now: [TokenBucket.Take] or [Window.Take]. Denied, or
// asked for none, it returns s itself. It changes nothing. The plan must be settled.
func (p *Plan) Take(s State, now Micros, n int64) (State, Result) {
	var r Result
	p.Charge(&s, now, n, &r)
	return s, r
}

// Charge is Take in place: it sets r, and s if it is allowed and n is more than 0. It is
// for repositories, whose decisions it makes half as long.
func (p *Plan) Charge(s *State, now Micros, n int64, r *Result) {
	if p.Window == 0 {
		b := TokenBucket{s.Tokens, s.At}.take(now, p, n, r)
		s.Tokens, s.At = b.Tokens, b.Refilled
		return
	}
	w := Window{s.At, s.Current, s.Previous}.take(now, p, n, r)
	s.At, s.Current, s.Previous = w.Start, w.Current, w.Previous
}

// TakeAll is the decision over several plans: n tokens of each of them, or of none.
// states[i] is of plans[i], which must be as many and of different names. If it is
// allowed the states are charged in place, and otherwise left as they are. The Result is
// that of the tightest plan; without plans it is allowed.
func TakeAll(states []State, plans []Plan, now Micros, n int64) Result {
	tightest := Result{Allowed: true}
	for i := range plans {
		_, r := plans[i].Take(states[i], now, n)
		if i == 0 || r.Tighter(&tightest) {
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
