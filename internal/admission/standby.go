package admission

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/treadlight/crawl/internal/clock"
)

const (
	// lostAfter is how many decisions in a row must stay undecided until the store counts as out of reach, each begun
	// after the one before was known to be undecided. Decisions in flight together count once: a burst that is answered
	// late is no outage.
	lostAfter = 3

	// retryPause is the time between two attempts to find out whether the store answers again.
	retryPause = 500 * time.Millisecond

	// chargers is how many accounts are charged at the same time, so that thousands of them reach a store that is far
	// away within seconds.
	chargers = 64

	// maxCombos is how many combinations of plans are cached. They come from rules, of which there are fewer; further
	// ones are made anew for each decision.
	maxCombos = 1024
)

// standby has the fallback decide for the keys of one part of the store while that part is out of reach. The fallback
// also keeps an account of what it granted, under plans made for this (see [Plan.owed]), so that when the store is back
// it is charged what still counts of that.
type standby struct {
	away atomic.Bool // set with mu held
	miss atomic.Int32

	mu      sync.Mutex // guards what follows
	missed  time.Time  // when the last undecided decision became known
	since   time.Time
	decided int64 // decisions of the fallback since then
	granted int64
}

// partOf returns the standby of a key. A repository of several parts has a method Part.
func (a *Admitter) partOf(key string) *standby {
	if a.part == nil {
		return &a.standbys[0]
	}
	return &a.standbys[a.part(key)%len(a.standbys)]
}

// undecided reports whether the store may have charged the tokens despite the error.
func undecided(err error) bool {
	return (errors.Is(err, ErrUndecided) || errors.Is(err, context.DeadlineExceeded)) && !errors.Is(err, ErrNotCharged)
}

// answered notes that the store answers, and charges the fallback too, to keep it warm. Whether the fallback would deny
// does not matter.
func (a *Admitter) answered(ctx context.Context, s *standby, req *Request, res *Result) {
	if s.miss.Load() != 0 {
		s.miss.Store(0)
	}
	if a.cfg.Fallback == nil || !res.Allowed || req.Tokens == 0 {
		return
	}
	if plans, err := a.combos.of(req.set, req.Plans); err == nil { // err is nil: the plans were found before
		_, _ = a.fallBack(ctx, req, &plans)
	}
}

// unanswered decides a request for which the store, called at the time asked, returned err. If nothing was charged, the
// store is out of reach. If it is not known whether something was charged, the store is out of reach only when that
// happens several times in a row. Until then, if there is a fallback, the request is denied: a grant of the fallback
// would come on top of what the store may have granted.
func (a *Admitter) unanswered(ctx context.Context, s *standby, req *Request, res *Result, asked time.Time, err error) {
	a.failures.Add(1)
	if !errors.Is(err, ErrNoVerdict) && (!undecided(err) || s.missedBy(asked, a.cfg.Clock.Now())) {
		a.leave(ctx, s, req, err)
	}
	switch {
	case s.away.Load() && a.without(ctx, s, req, res):
	case a.cfg.Fallback == nil || a.onError(req) == FailClosed || !undecided(err):
		*res = a.fail(&req.whole[0], req.OnError)
	default:
		a.timeouts.Add(1)
		*res = keptOut(&req.whole[0], ReasonTimeout)
	}
}

// without decides while the store is out of reach. It returns false if the store is in reach again.
func (a *Admitter) without(ctx context.Context, s *standby, req *Request, res *Result) (ok bool) {
	if a.cfg.Fallback != nil && a.onError(req) != FailClosed && a.decideHere(ctx, s, req, res) {
		return true
	}
	if ok = s.away.Load(); ok {
		*res = a.fail(&req.whole[0], req.OnError)
	}
	return ok
}

func (a *Admitter) onError(req *Request) OnError {
	if req.OnError == "" {
		return a.cfg.OnError
	}
	return req.OnError
}

// keptOut returns a denial for want of an answer.
func keptOut(p *Plan, why Reason) Result {
	return Result{Limit: p.Capacity, Plan: p.Name, Reason: why, Wait: failClosedWait}
}

// fail decides when neither store nor fallback answers. If it allows, the Result has no remaining tokens, because their
// number is not known.
func (a *Admitter) fail(p *Plan, how OnError) Result {
	if how == FailClosed || how == "" && a.cfg.OnError == FailClosed {
		a.closed.Add(1)
		return keptOut(p, ReasonFailClosed)
	}
	a.opened.Add(1)
	return Result{Limit: p.Capacity, Plan: p.Name, Allowed: true, Reason: ReasonFailOpen}
}

// missedBy notes that a decision begun at the time asked stayed undecided, and reports whether the store now counts as
// out of reach.
func (s *standby) missedBy(asked, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !asked.Before(s.missed) {
		s.missed = now
		s.miss.Add(1)
	}
	return s.miss.Load() >= lostAfter
}

// leave has the fallback decide for the part from now on, until the store answers again and has been charged what was
// granted meanwhile.
func (a *Admitter) leave(ctx context.Context, s *standby, req *Request, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away.Load() || a.life.Err() != nil {
		return
	}
	s.away.Store(true)
	s.since, s.decided, s.granted = a.cfg.Clock.Now(), 0, 0
	a.cfg.Log.WarnContext(ctx, "admission store does not answer", slog.Any("error", cause))
	key, plans := req.Key, req.whole
	a.beside.Go(func() {
		for clock.Sleep(a.life, a.cfg.Clock, retryPause) == nil {
			if _, err := a.take(a.life, key, plans, 0); err == nil && a.settle(s) {
				return
			}
		}
	})
}

// settle charges the store what the fallback granted, and then has the store decide again. It returns false if the
// store went out of reach meanwhile. Decisions of the fallback go on during the first charging; only while the rest is
// charged, which was granted during the first, do they wait.
func (a *Admitter) settle(s *standby) (ok bool) {
	s.mu.Lock()
	debts := a.debtsLocked(s)
	s.mu.Unlock()
	if !a.chargeAll(debts) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !a.chargeAll(a.debtsLocked(s)) {
		return false
	}
	s.away.Store(false)
	s.miss.Store(0)
	a.cfg.Log.Info("admission store answers again",
		slog.Duration("after", a.cfg.Clock.Since(s.since)), slog.Int64("decided_here", s.decided), slog.Int64("granted_here", s.granted))
	return true
}

// debt is a number of tokens of a plan that the fallback granted to a key and that the store has not been charged yet.
type debt struct {
	key  string
	plan Plan
	n    int64
}

// owed returns the plan under which the fallback keeps what it granted of p. A bucket refills at this process's share
// of the rate, since each process has an account of its own. No plan has such a name, because names contain no slash.
func (p Plan) owed(share float64) Plan {
	p.Name = "owed/" + p.Name
	p.TokensPerSecond *= share
	return p
}

// debtsLocked removes what was granted from the fallback's accounts and returns it.
func (a *Admitter) debtsLocked(s *standby) (debts []debt) {
	plans, local := a.cfg.Rules.Plans(), a.cfg.Fallback
	if local == nil {
		return nil
	}
	owed := a.owedOf(plans)
	_ = local.Keys(a.life, owed, func(key string) bool { // if the fallback fails, no debts are known
		for i := range plans {
			if a.partOf(key) != s {
				return true
			}
			res, err := local.Take(a.life, key, owed[i:i+1], 0)
			if n := res.Limit - res.Remaining; err == nil && n > 0 {
				debts = append(debts, debt{key, plans[i], n})
				_ = local.Remove(a.life, key, owed[i:i+1])
			}
		}
		return true
	})
	return debts
}

func (a *Admitter) owedOf(plans []Plan) []Plan {
	owed := make([]Plan, len(plans))
	for i, p := range plans {
		owed[i] = p.owed(a.cfg.Share)
	}
	return owed
}

// owe notes that n tokens were granted, or as many as the account holds.
func (a *Admitter) owe(key string, owed []Plan, n int64) {
	for n > 0 {
		res, err := a.cfg.Fallback.Take(a.life, key, owed, n)
		if err != nil || res.Allowed {
			return
		}
		n = min(n-1, res.Remaining)
	}
}

// chargeAll charges debts, and notes again those that the store did not take.
func (a *Admitter) chargeAll(debts []debt) (ok bool) {
	var failed atomic.Bool
	var all errgroup.Group
	all.SetLimit(chargers)
	for _, d := range debts {
		all.Go(func() error {
			if failed.Load() || !a.chargeOne(d) {
				failed.Store(true)
				a.owe(d.key, []Plan{d.plan.owed(a.cfg.Share)}, d.n)
			}
			return nil
		})
	}
	_ = all.Wait() // the error is always nil
	return !failed.Load()
}

// chargeOne charges a debt, or as much of it as the store has left. A charge whose answer was lost is not repeated and
// counts as done: the store answered just before.
func (a *Admitter) chargeOne(d debt) bool {
	for d.n > 0 {
		res, err := a.take(a.life, d.key, []Plan{d.plan}, d.n)
		if err != nil {
			return undecided(err) && a.life.Err() == nil
		}
		if res.Allowed || res.Remaining >= d.n {
			return true
		}
		d.n = res.Remaining
	}
	return true
}

func (a *Admitter) now() Micros { return MicrosOf(a.cfg.Clock.Now()) }

// decideHere has the fallback decide while the part is out of reach. It returns false if the part is in reach again, or
// if the fallback fails.
func (a *Admitter) decideHere(ctx context.Context, s *standby, req *Request, res *Result) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away.Load() {
		return false
	}
	plans, err := a.combos.of(req.set, req.Plans)
	if err != nil { // cannot happen: the plans were found before
		return false
	}
	r := a.inTurn(&plans, req.Tokens)
	if r.Allowed {
		if r, err = a.fallBack(ctx, req, &plans); err != nil {
			return false
		}
	}
	a.fallbacks.Add(1)
	s.decided++
	if r.Allowed && req.Tokens > 0 {
		s.granted += req.Tokens
		for i := range plans.owed {
			a.owe(req.Key, plans.owed[i:i+1], req.Tokens)
		}
	}
	*res = r
	return true
}

// inTurn denies if the process's share of a plan is less than one token per window and it is not the process's turn.
// The Result has the time until the next turn.
func (a *Admitter) inTurn(plans *combo, n int64) (res Result) {
	res.Allowed = true
	for i, cycle := range plans.cycles {
		if cycle == 1 || n == 0 {
			continue
		}
		if wait := a.turn(&plans.shares[i], cycle); wait > res.Wait {
			res = Result{Limit: 1, Plan: plans.whole[i].Name, Reason: ReasonLimited, Wait: wait, Reset: wait}
		}
	}
	return res
}

// turn returns how long it is until the process's next turn at a plan of which it has one window in cycle. Processes
// with successive numbers have successive turns, so that together they grant no more in a window than the whole plan
// does.
func (a *Admitter) turn(part *Plan, cycle int64) time.Duration {
	length, now := part.micros(), a.now()
	start := startOf(now, length)
	windows := Micros(0)
	for ; (int64(start/length+windows)+a.cfg.Process)%cycle != 0; windows++ {
	}
	return max(0, (start + windows*length - now).duration())
}

// fallBack has the fallback decide by this process's share of the plans. A request for more tokens than the share can
// hold, but not more than the plan, is charged the whole share: the store would have allowed it.
func (a *Admitter) fallBack(ctx context.Context, req *Request, plans *combo) (Result, error) {
	tokens := req.Tokens
	for i, p := range plans.whole {
		if tokens <= p.Capacity {
			tokens = min(tokens, plans.shares[i].Capacity)
		}
	}
	res, err := a.cfg.Fallback.Take(ctx, req.Key, plans.shares, tokens)
	if res.Allowed {
		res.Reason = ReasonFallback
	}
	return res, err
}

// combo has the plans of a decision. It never changes, so that a store may keep the slices after the decision.
type combo struct {
	whole  []Plan
	shares []Plan  // this process's shares of them
	cycles []int64 // the process has one turn in this many windows; 1 means that its share counts in each
	owed   []Plan  // the plans under which the fallback keeps what it granted
}

// combos caches combinations of plans, so that a decision allocates nothing.
type combos struct {
	share float64                  // zero without a fallback
	known atomic.Pointer[comboSet] // nil means none
}

// comboSet has the combinations of one set of plans, by their names. It never changes.
type comboSet struct {
	set     *planSet
	byNames map[string]combo
}

// of returns the plans of these names in set, each once. Its error wraps ErrUnknownPlan.
func (c *combos) of(set *planSet, names []string) (made combo, err error) {
	if len(names) == 1 && c.share == 0 {
		i, ok := set.index[names[0]]
		if !ok {
			return made, unknown(names[0])
		}
		return combo{whole: set.plans[i : i+1 : i+1]}, nil
	}
	var room [256]byte
	key := append(room[:0], byte(len(names)))
	for _, name := range names {
		key = append(append(key, name...), ' ') // no plan's name contains a space
	}
	known := c.known.Load()
	if known == nil || known.set != set {
		known = &comboSet{set: set}
	}
	if have, ok := known.byNames[string(key)]; ok {
		return have, nil
	}
	for at, name := range names {
		p, ok := set.plan(name)
		if !ok {
			return combo{}, unknown(name)
		}
		if !slices.Contains(names[:at], name) {
			made.whole = append(made.whole, p)
			if c.share > 0 {
				part, cycle := p.shareOf(c.share)
				made.shares, made.cycles, made.owed = append(made.shares, part), append(made.cycles, cycle), append(made.owed, p.owed(c.share))
			}
		}
	}
	if len(known.byNames) < maxCombos { // of two added at the same time one may be lost, and is made again later
		next := &comboSet{set, maps.Clone(known.byNames)}
		if next.byNames == nil {
			next.byNames = map[string]combo{}
		}
		next.byNames[string(key)] = made
		c.known.Store(next)
	}
	return made, nil
}

// shareOf returns the given share of a plan: it grants no more than that share in each window, or in the time in which
// a bucket fills. If the share is less than one token, the part grants one token in such a window, and the process has
// a turn in only one of cycle windows.
func (p Plan) shareOf(share float64) (part Plan, cycle int64) {
	tokens := float64(p.Capacity) * share
	if whole := math.Floor(tokens * (1 + 1e-9)); whole >= 1 { // rounding must not lose a token: 100 × (1/3) × 3 is 100
		p.Capacity = int64(whole)
		if p.TokensPerSecond > 0 {
			p.TokensPerSecond = max(minRate, p.TokensPerSecond*share)
		}
		return p, 1
	}
	_, window := p.PerWindow()
	window = min(max(window, minWindow), maxWindow)
	return Plan{Name: p.Name, Kind: KindFixedWindow, Capacity: 1, Window: window}, int64(math.Ceil(1/tokens - 1e-9))
}
