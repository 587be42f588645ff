package redis

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
)

// flightParts is how many departures fit into a deadline: while a question about a key is
// under way, those who come for one token of it go together, when that has landed, or
// after this part of the deadline. So nobody waits much longer than a trip takes, and a
// burst is some questions in place of hundreds.
const flightParts = 16

// flights are the questions under way that others may join, by key.
type flights struct {
	mu    sync.Mutex // guards what follows
	lines map[string]*line
}

// line is those who ask for one token of the same plans of a key.
type line struct {
	plans   []admission.Plan
	flying  int     // questions under way
	waiting []*seat // in the order in which they came
	driven  bool    // somebody sees to it that they depart
	landed  chan struct{}
}

// seat is a caller who waits.
type seat struct {
	gone bool // guarded by flights.mu until it departs
	done chan struct{}
	out  outcome
}

// outcome is what a trip has brought for one caller.
type outcome struct {
	res   admission.Result
	told  told
	err   error
	alone bool // it has to ask again, by itself
}

// takeOne is takeThere for one token, together with others who ask for the same.
func (r *Repository) takeOne(ctx context.Context, key string, plans []admission.Plan) (admission.Result, told, error) {
	f := &r.flights
	f.mu.Lock()
	l := f.lines[key]
	if l == nil {
		l = &line{plans: plans, flying: 1, landed: make(chan struct{}, 1)}
		f.lines[key] = l
		f.mu.Unlock()
		defer r.land(key, l)
		return r.takeThere(ctx, key, plans, 1, 1)
	}
	if !slices.Equal(l.plans, plans) {
		f.mu.Unlock()
		return r.takeThere(ctx, key, plans, 1, 1)
	}
	s := &seat{done: make(chan struct{})}
	l.waiting = append(l.waiting, s)
	if !l.driven {
		l.driven = r.link.begin(func(ctx context.Context) { r.drive(ctx, key, l) })
	}
	driven := l.driven
	f.mu.Unlock()
	if !driven {
		return admission.Result{}, told{}, admission.ErrClosed
	}
	return r.sit(ctx, key, l, s)
}

// sit waits for the answer. Who leaves before the departure is not asked for.
func (r *Repository) sit(ctx context.Context, key string, l *line, s *seat) (admission.Result, told, error) {
	// A connection may have to be made first, which is no part of the deadline.
	limit := clock.System().NewTimer(r.link.patience() + r.cfg.Deadline + r.cfg.Deadline/flightParts)
	defer limit.Stop()
	err := context.DeadlineExceeded
	select {
	case <-s.done:
		if s.out.alone {
			return r.takeThere(ctx, key, l.plans, 1, 1)
		}
		return s.out.res, s.out.told, s.out.err
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C():
	}
	r.flights.mu.Lock()
	s.gone = true
	r.flights.mu.Unlock()
	return admission.Result{}, told{}, fmt.Errorf("redis: within %v: %w", r.cfg.Deadline, err)
}

// land notes that a question about a key is over.
func (r *Repository) land(key string, l *line) {
	f := &r.flights
	f.mu.Lock()
	defer f.mu.Unlock()
	l.flying--
	select {
	case l.landed <- struct{}{}:
	default:
	}
	if l.flying == 0 && !l.driven {
		delete(f.lines, key)
	}
}

// drive has those who wait depart, until nobody does.
func (r *Repository) drive(ctx context.Context, key string, l *line) {
	f := &r.flights
	for {
		next := clock.System().NewTimer(r.cfg.Deadline / flightParts) // deadlines are the system's
		select {
		case <-l.landed:
		case <-next.C():
		case <-ctx.Done():
		}
		next.Stop()
		f.mu.Lock()
		seats := slices.DeleteFunc(l.waiting, func(s *seat) bool { return s.gone })
		l.waiting = nil
		if len(seats) == 0 {
			l.driven = false
			if l.flying == 0 {
				delete(f.lines, key)
			}
			f.mu.Unlock()
			return
		}
		l.flying++
		f.mu.Unlock()
		if !r.link.begin(func(ctx context.Context) { r.depart(ctx, key, l, seats) }) {
			r.share(l, seats, told{}, admission.ErrClosed)
			r.land(key, l)
		}
	}
}

// depart asks for a token for each of the seats, and gives out as many as there were.
func (r *Repository) depart(ctx context.Context, key string, l *line, seats []*seat) {
	defer r.land(key, l)
	t := told{sent: r.instant()}
	var err error
	t.answer, err = r.exchange(ctx, ask(r.now(), key, l.plans, 1, int64(len(seats))))
	t.received = r.instant()
	r.share(l, seats, t, err)
}

// share gives the tokens taken to the first of the seats, as if they had asked one after the
// other. Rounding may have the script take fewer than there are; then the others ask again.
func (r *Repository) share(l *line, seats []*seat, t told, err error) {
	states := slices.Clone(t.states)
	for i, s := range seats {
		s.out = outcome{told: t, err: err}
		if err == nil {
			s.out.res = admission.TakeAll(states, l.plans, t.answer.now, 1)
			took := int64(i) < t.taken
			s.out.alone = s.out.res.Allowed && !took
			if took && !s.out.res.Allowed {
				s.out.err = fmt.Errorf("redis: %s took %d of %d tokens, and should not have decided so", l.plans[0].Name, t.taken, len(seats))
			}
		}
		close(s.done)
	}
}
