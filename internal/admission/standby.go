package admission

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"math"
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

	// maxOwed is how many accounts of a part of the store may owe something at the same time: some megabytes. What the
	// fallback grants to further ones is not charged.
	maxOwed = 1 << 16

	// sweepPause is the time between two searches for accounts that owe nothing any longer: a search among maxOwed takes
	// milliseconds, during which the decisions of the part wait.
	sweepPause = time.Second
)

// standby has the fallback decide for the keys of one part of the store while that part is out of reach. When the part
// is back, it is charged what still counts of what the fallback granted.
type standby struct {
	away atomic.Bool // set with mu held
	miss atomic.Int32

	mu      sync.Mutex // guards what follows
	missed  time.Time  // when the last undecided decision became known
	since   time.Time
	decided int64 // decisions of the fallback since then
	granted int64
	owed    map[account]State // what the fallback granted and the store was not charged, as states of the account's plan; at most Admitter.maxOwed
	swept   time.Time         // when owed was last searched for accounts that owe nothing any longer
}

// account is what a key has used of a plan.
type account struct {
	key  string
	plan Plan
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
func (a *Admitter) answered(ctx context.Context, s *standby, req *request, res *Result) {
	if s.miss.Load() != 0 {
		s.miss.Store(0)
	}
	if a.cfg.Fallback != nil && res.Allowed && req.tokens > 0 {
		shares, tokens, _ := a.shares(req)
		_, _ = a.cfg.Fallback.Take(ctx, req.key, shares, tokens)
	}
}

// unanswered decides a request for which the store, called at the time asked, returned err. If nothing was charged, the
// store is out of reach. If it is not known whether something was charged, the store is out of reach only when that
// happens several times in a row. Until then, if there is a fallback, the request is denied: a grant of the fallback
// would come on top of what the store may have granted.
func (a *Admitter) unanswered(ctx context.Context, s *standby, req *request, res *Result, asked time.Time, err error) {
	a.failures.Add(1)
	if !errors.Is(err, ErrNoVerdict) && (!undecided(err) || s.missedBy(asked, a.cfg.Clock.Now())) {
		a.leave(ctx, s, req, err)
	}
	switch {
	case s.away.Load() && a.without(ctx, s, req, res):
	case a.cfg.Fallback == nil || a.onError(req.onError) == FailClosed || !undecided(err):
		*res = a.fail(&req.plans[0], req.onError)
	default:
		a.timeouts.Add(1)
		*res = keptOut(&req.plans[0], ReasonTimeout)
	}
}

// without decides while the store is out of reach. It returns false if the store is in reach again.
func (a *Admitter) without(ctx context.Context, s *standby, req *request, res *Result) (ok bool) {
	if a.cfg.Fallback != nil && a.onError(req.onError) != FailClosed && a.decideHere(ctx, s, req, res) {
		return true
	}
	if ok = s.away.Load(); ok {
		*res = a.fail(&req.plans[0], req.onError)
	}
	return ok
}

func (a *Admitter) onError(how OnError) OnError { return cmp.Or(how, a.cfg.OnError) }

// keptOut returns a denial for want of an answer.
func keptOut(p *Plan, why Reason) Result {
	return Result{Limit: p.Capacity, Plan: p.Name, Reason: why, Wait: failClosedWait}
}

// fail decides when neither store nor fallback answers. If it allows, the Result has no remaining tokens, because their
// number is not known.
func (a *Admitter) fail(p *Plan, how OnError) Result {
	if a.onError(how) == FailClosed {
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
func (a *Admitter) leave(ctx context.Context, s *standby, req *request, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away.Load() || a.life.Err() != nil {
		return
	}
	s.away.Store(true)
	s.since, s.decided, s.granted = a.cfg.Clock.Now(), 0, 0
	a.cfg.Log.WarnContext(ctx, "admission store does not answer", slog.Any("error", cause))
	key, plans := req.key, req.plans
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
	debts = a.charge(debts)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(debts) == 0 {
		debts = a.charge(a.debtsLocked(s))
	}
	for _, d := range debts {
		a.oweLocked(s, d.account, d.n)
	}
	if len(debts) > 0 {
		return false
	}
	s.away.Store(false)
	s.miss.Store(0)
	a.cfg.Log.Info("admission store answers again",
		slog.Duration("after", a.cfg.Clock.Since(s.since)), slog.Int64("decided_here", s.decided), slog.Int64("granted_here", s.granted))
	return true
}

// debt is a number of tokens that the fallback granted and that the store has not been charged yet.
type debt struct {
	account
	n int64
}

// owes returns the plan of an account of what is owed. A bucket refills at this process's share of the rate, since each
// process has an account of its own.
func (a *Admitter) owes(p Plan) *Plan {
	p.TokensPerSecond *= a.cfg.Share
	return &p
}

// owesAt returns how many of the tokens granted to an account still count.
func (a *Admitter) owesAt(now Micros, of account, state State) int64 {
	_, r := a.owes(of.plan).Take(state, now, 0)
	return r.Limit - r.Remaining
}

// roomLocked reports whether another account may be noted. When there are too many, it forgets those that owe nothing
// any longer.
func (a *Admitter) roomLocked(s *standby) bool {
	if now := a.cfg.Clock.Now(); len(s.owed) >= a.maxOwed && now.Sub(s.swept) >= sweepPause {
		s.swept = now
		maps.DeleteFunc(s.owed, func(of account, state State) bool { return a.owesAt(MicrosOf(now), of, state) == 0 })
	}
	return len(s.owed) < a.maxOwed
}

// oweLocked notes that n tokens were granted, or as many as the account holds.
func (a *Admitter) oweLocked(s *standby, of account, n int64) {
	p, now := a.owes(of.plan), a.now()
	state, known := s.owed[of]
	switch {
	case !known && !a.roomLocked(s):
		return
	case !known:
		state = p.Fresh(now)
	}
	_, before := p.Take(state, now, 0)
	state, _ = p.Take(state, now, min(n, before.Remaining))
	if s.owed == nil {
		s.owed = map[account]State{}
	}
	s.owed[of] = state
}

// debtsLocked removes what is owed and returns what still counts of it.
func (a *Admitter) debtsLocked(s *standby) (debts []debt) {
	for of, state := range s.owed {
		if n := a.owesAt(a.now(), of, state); n > 0 {
			debts = append(debts, debt{of, n})
		}
	}
	s.owed = nil
	return debts
}

// forgive forgets what is owed for a key.
func (a *Admitter) forgive(key string) {
	s := a.partOf(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.owed, func(of account, _ State) bool { return of.key == key })
}

// charge charges debts until the store does not take one, and returns those that are left.
func (a *Admitter) charge(debts []debt) (left []debt) {
	paid := make([]bool, len(debts))
	var failed atomic.Bool
	var all errgroup.Group
	all.SetLimit(chargers)
	for i, d := range debts {
		all.Go(func() error {
			if paid[i] = !failed.Load() && a.chargeOne(d); !paid[i] {
				failed.Store(true)
			}
			return nil
		})
	}
	_ = all.Wait() // the error is always nil
	for i, d := range debts {
		if !paid[i] {
			left = append(left, d)
		}
	}
	return left
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
func (a *Admitter) decideHere(ctx context.Context, s *standby, req *request, res *Result) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away.Load() {
		return false
	}
	shares, tokens, r := a.shares(req)
	if r.Allowed {
		var err error
		if r, err = a.cfg.Fallback.Take(ctx, req.key, shares, tokens); err != nil {
			return false
		}
	}
	a.fallbacks.Add(1)
	s.decided++
	if r.Allowed {
		r.Reason = ReasonFallback
	}
	if r.Allowed && req.tokens > 0 {
		s.granted += req.tokens
		for _, p := range req.plans {
			a.oweLocked(s, account{req.key, p}, req.tokens)
		}
	}
	*res = r
	return true
}

// shares returns this process's shares of the plans of a request, and the tokens to charge to them. A request for more
// tokens than a share can hold, but not more than the plan, is charged the whole share: the store would have allowed
// it. If it is another process's turn at a plan, turn is a denial with the time until the next turn.
func (a *Admitter) shares(req *request) (shares []Plan, tokens int64, turn Result) {
	shares, tokens, turn.Allowed = make([]Plan, len(req.plans)), req.tokens, true
	for i, p := range req.plans {
		var cycle int64
		if shares[i], cycle = p.shareOf(a.cfg.Share); tokens <= p.Capacity {
			tokens = min(tokens, shares[i].Capacity)
		}
		if cycle == 1 || req.tokens == 0 {
			continue
		}
		if wait := a.turn(&shares[i], cycle); wait > turn.Wait {
			turn = Result{Limit: 1, Plan: p.Name, Reason: ReasonLimited, Wait: wait, Reset: wait}
		}
	}
	return shares, tokens, turn
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
