package ratelimit

// order keeps a shard's states by their use, the longest unused first, roughly: see shard.
// Its links are in the states, since a list and a map beside them would cost each domain a
// hundred bytes more. The shard's lock guards it, the links included.
type order struct {
	oldest *state // nil while there is none; the newest is the one before it, in a ring
	n      int
}

// add makes s, which is in no order, the newest.
func (o *order) add(s *state) {
	o.n++
	if o.oldest == nil {
		o.oldest, s.newer, s.older = s, s, s
		return
	}
	newest := o.oldest.older
	s.older, s.newer = newest, o.oldest
	newest.newer, o.oldest.older = s, s
}

// renew makes the oldest the newest. There must be one.
func (o *order) renew() { o.oldest = o.oldest.newer }

// remove takes s out, which is in this order.
func (o *order) remove(s *state) {
	if o.n--; o.n == 0 {
		o.oldest, s.newer, s.older = nil, nil, nil
		return
	}
	if o.oldest == s {
		o.oldest = s.newer
	}
	s.older.newer, s.newer.older = s.newer, s.older
	s.newer, s.older = nil, nil
}

// list is all of them, the oldest first.
func (o *order) list() []*state {
	all := make([]*state, 0, o.n)
	for s := o.oldest; len(all) < o.n; s = s.newer {
		all = append(all, s)
	}
	return all
}
