package frontiertest

import (
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/treadlight/crawl/internal/frontier"
)

// run is a frontier under random steps, with or without a store.
type run struct {
	*rapid.T
	f      *frontier.Frontier
	pacer  *pacer
	store  Backend // nil for none
	shared bool
	cfg    frontier.Config
	now    time.Time
	out    []*frontier.Lease
}

// begin makes the frontier, or makes it anew of what the store has.
func (r *run) begin() {
	if r.store != nil {
		r.cfg.Left = r.store.Reopen()
	}
	f, err := frontier.New(r.cfg)
	require.NoError(r, err)
	r.f, r.out = f, nil
}

// answer has the frontier take the oldest answer of the store, if there is one.
func (r *run) answer() bool {
	if r.store == nil {
		return false
	}
	a, ok := r.store.Answer()
	if ok {
		require.NoError(r, r.f.Take(r.now, a))
	}
	return ok
}

// mostTurns is more than it takes to visit all that is queued.
const mostTurns = 3000

// drain visits all that is queued: end ends one of the leases that are out, and leased takes one in hand.
func (r *run) drain(end func(), leased func(*frontier.Lease)) {
	for i := 0; ; i++ {
		for len(r.out) > 0 {
			end()
		}
		if r.f.Over() {
			return
		}
		if i > mostTurns {
			r.Fatalf("the frontier does not drain: %+v, waits %+v", r.f.Counts(), r.f.Hosts(r.now, 9))
		}
		l, wake := r.f.Next(r.now)
		switch {
		case l != nil:
			leased(l)
		case r.answer():
		case wake.After(r.now):
			r.now = wake
		}
	}
}
