package redis

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/breaker"
)

// Repository is an [admission.Repository] in Redis. Make it by [New].
type Repository struct {
	cfg   Config // never changes after New
	begun time.Time
	now   func() admission.Micros // the time of decisions; only tests have another than the server's
	local *local                  // nil if nothing is remembered
	gates [gates]gate
	link  link
	stats stats
	name  string // what servers call the script

	flights flights
}

var _ admission.Repository = (*Repository)(nil)

// stats are the counters of [Statistics].
type stats struct {
	trips, reloads, failures, refused, probes, denials, leased atomic.Uint64
}

// Statistics is what a Repository has counted since it was made.
type Statistics struct {
	Trips    uint64 `json:"trips"`    // commands sent, those of probes and those sent again included
	Reloads  uint64 `json:"reloads"`  // of these, those sent again with their text, as the server did not know them
	Failures uint64 `json:"failures"` // questions that were not answered
	Refused  uint64 `json:"refused"`  // decisions for which Redis was not asked, with ErrOpen
	Probes   uint64 `json:"probes"`   // questions asked to learn whether Redis is back
	Denials  uint64 `json:"denials"`  // denials decided by what was remembered
	Leased   uint64 `json:"leased"`   // decisions charged to a lease
	// State is that of the breaker; of a cluster's, of the one that is open if any is.
	State breaker.State `json:"state"`
}

// New returns a Repository. It does not connect; [Repository.Connect] and [Repository.Ping]
// do, and the first decision. Its errors name the field and the fix.
func New(cfg Config) (*Repository, error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	r := &Repository{
		flights: flights{lines: map[string]*line{}},
		cfg:     cfg, begun: cfg.Clock.Now(), name: scriptName(), now: func() admission.Micros { return serverTime },
	}
	for i := range r.gates {
		places := inFlightEach
		if i == 0 {
			places = inFlight
		}
		if err := r.gates[i].init(&r.cfg.Breaker, places); err != nil {
			return nil, err
		}
	}
	if cfg.Keys > 0 {
		r.local = newLocal(&r.cfg)
	}
	r.link.init(cfg.Redis)
	return r, nil
}

// Immediate marks a repository that has a deadline of its own, and one that begins when there
// is a connection.
func (r *Repository) Immediate() {}

// Connect has a connection made in the background, so that the first decision need not
// wait for it.
func (r *Repository) Connect() { r.link.dialing() }

// Part is the part of a cluster a key is in, of so many that can be out of reach by
// themselves; without a cluster it is always the same.
func (r *Repository) Part(key string) (part, of int) {
	c := r.link.client.Load()
	if c == nil || !c.cluster {
		return 0, gates
	}
	return gateIndex(c, storeKey("", key)), gates
}

// instant is the local time, for all that is no part of a decision.
func (r *Repository) instant() clock.Instant {
	return clock.Instant(r.cfg.Clock.Since(r.begun))
}

// Take decides as [admission.Repository] says, within the deadline, once there is a connection:
// the first decision waits for that, for as long as connecting may take; no other does after
// that has failed once. A caller that gives up before may be let go only at the deadline. It
// fails with [ErrOpen] at once while Redis does not answer. An error after the question was
// sent wraps [admission.ErrUndecided] or context.DeadlineExceeded; it is not sent again.
func (r *Repository) Take(ctx context.Context, key string, plans []admission.Plan, tokens int64) (admission.Result, error) {
	if err := ctx.Err(); err != nil {
		return admission.Result{}, fmt.Errorf("redis: %w", err)
	}
	if r.link.closed.Load() {
		return admission.Result{}, admission.ErrClosed
	}
	if len(plans) == 0 {
		return admission.Result{Allowed: true}, nil
	}
	if r.local == nil {
		res, _, err := r.takeBeside(ctx, key, plans, tokens, tokens)
		return res, err
	}
	return r.takeHere(ctx, key, plans, tokens)
}

// takeHere decides by what is remembered if that is enough, and remembers what is told if not.
func (r *Repository) takeHere(ctx context.Context, key string, plans []admission.Plan, tokens int64) (admission.Result, error) {
	look := r.local.look(key, plans, r.instant(), tokens)
	if look.wait != nil {
		// The wait and a trip after it have one deadline.
		limited, cancel := context.WithTimeout(ctx, r.cfg.Deadline)
		defer cancel()
		ctx = limited
		var err error
		if look, err = r.await(ctx, look, key, plans, tokens); err != nil {
			return admission.Result{}, err
		}
	}
	if look.known {
		if look.res.Allowed {
			r.stats.leased.Add(1)
		} else {
			r.stats.denials.Add(1)
		}
		return look.res, nil
	}
	if look.fetching != nil {
		defer r.local.landed(key, look.fetching)
	}
	res, told, err := r.takeBeside(ctx, key, plans, tokens, look.most)
	if err == nil {
		r.local.learn(key, plans, tokens, look, told)
	}
	return res, err
}

// await waits for leases that others fetch until one has something left for this caller
// too. After half the deadline it is to ask for itself.
func (r *Repository) await(ctx context.Context, l look, key string, plans []admission.Plan, tokens int64) (look, error) {
	limit := r.cfg.Clock.NewTimer(r.cfg.Deadline / 2)
	defer limit.Stop()
	for l.wait != nil {
		select {
		case <-l.wait:
			l = r.local.look(key, plans, r.instant(), tokens)
		case <-limit.C():
			return l, nil
		case <-ctx.Done():
			return l, fmt.Errorf("redis: %w", ctx.Err())
		}
	}
	return l, nil
}

// takeBeside is takeThere, together with others who ask for the same if that may be: those
// who have leases wait for these.
func (r *Repository) takeBeside(ctx context.Context, key string, plans []admission.Plan, tokens, most int64) (admission.Result, told, error) {
	if tokens == 1 && most == 1 && (r.local == nil || r.local.largest(plans) < 2) {
		return r.takeOne(ctx, key, plans)
	}
	return r.takeThere(ctx, key, plans, tokens, most)
}

// told is what a trip has brought.
type told struct {
	answer
	sent, received clock.Instant // the server decided in between
}

// takeThere asks the server for tokens, and for more if they are there, up to most.
func (r *Repository) takeThere(ctx context.Context, key string, plans []admission.Plan, tokens, most int64) (admission.Result, told, error) {
	t := told{sent: r.instant()}
	var err error
	if t.answer, err = r.exchange(ctx, ask(r.now(), key, plans, tokens, most)); err != nil {
		return admission.Result{}, t, err
	}
	t.received = r.instant()
	states := append(make([]admission.State, 0, len(plans)), t.states...)
	res := admission.TakeAll(states, plans, t.answer.now, tokens)
	if res.Allowed != (t.taken != denied) {
		return admission.Result{}, t, fmt.Errorf("redis: %s took %d of %d tokens, and should not have decided so", plans[0].Name, t.taken, tokens)
	}
	return res, t, nil
}

// Remove forgets what key has used under plans, here and in Redis. It asks whether the
// breaker is open or not.
func (r *Repository) Remove(ctx context.Context, key string, plans []admission.Plan) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	if r.link.closed.Load() {
		return admission.ErrClosed
	}
	if len(plans) == 0 {
		return nil
	}
	err := r.remove(ctx, key, plans)
	if r.local != nil {
		r.local.forget(key) // after it is gone there, lest it be learned again
	}
	return err
}

// Keys scans all servers of a cluster. It asks whether the breaker is open or not, and takes
// as long as ctx allows.
func (r *Repository) Keys(ctx context.Context, plans []admission.Plan, yield func(key string) bool) error {
	if r.link.closed.Load() {
		return admission.ErrClosed
	}
	c, err := r.link.connected(ctx, true)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	asked := make(map[string]bool, len(plans))
	for i := range plans {
		asked[plans[i].Name] = true
	}
	for _, node := range c.Nodes() {
		for cursor, more := uint64(0), true; more; more = cursor != 0 {
			step, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(storePrefix+"*").Count(scanStep).Build()).AsScanEntry()
			if err != nil {
				return fmt.Errorf("redis: scan: %w", err)
			}
			for _, name := range step.Elements {
				if plan, key, ok := keyOf(name); ok && asked[plan] && !yield(key) {
					return nil
				}
			}
			cursor = step.Cursor
		}
	}
	return nil
}

// scanStep is how many keys a server looks at in a step of a scan: some tenths of a
// millisecond, for which decisions wait.
const scanStep = 1000

// Ping connects, and asks the server a question that charges nothing and is the script's,
// so that a server is refused that cannot run it. It asks whether the breaker is open or
// not, and waits as long as ctx allows; that ctx was cancelled may be seen a second later.
func (r *Repository) Ping(ctx context.Context) error {
	if r.link.closed.Load() {
		return admission.ErrClosed
	}
	plan := admission.Plan{Name: "ping", Kind: admission.KindTokenBucket, Capacity: 1, TokensPerSecond: 1}
	c, err := r.link.connected(ctx, true)
	if err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	if _, err := r.run(ctx, c, &r.gates[0], ask(serverTime, "", []admission.Plan{plan}, 0, 0)); err != nil {
		return fmt.Errorf("redis: %w", err)
	}
	return nil
}

// Statistics is what was counted so far.
func (r *Repository) Statistics() Statistics {
	s := Statistics{
		Trips: r.stats.trips.Load(), Reloads: r.stats.reloads.Load(), Failures: r.stats.failures.Load(),
		Refused: r.stats.refused.Load(), Probes: r.stats.probes.Load(),
		Denials: r.stats.denials.Load(), Leased: r.stats.leased.Load(),
	}
	now := r.instant()
	for i := range r.gates {
		if state := r.gates[i].state(now); s.State == breaker.Closed || state == breaker.Open {
			s.State = state
		}
	}
	return s
}

// Close gives the connections back and waits for what is under way, which fails: some
// deadlines, or the time limit of connecting if that is it. Leases are lost.
func (r *Repository) Close() error {
	r.link.close()
	return nil
}
