package admission

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// ErrUndecided is wrapped by errors of a repository after which nobody knows whether the
// tokens were charged: the question was sent, and its answer was lost. A deadline that has
// passed means the same, unless ErrNotCharged is wrapped beside it.
var ErrUndecided = errors.New("the answer was lost, and the tokens may have been charged")

// ErrNotCharged is wrapped by errors of a repository that knows that it charged nothing.
var ErrNotCharged = errors.New("nothing was charged")

func undecided(err error) bool {
	return (errors.Is(err, ErrUndecided) || errors.Is(err, context.DeadlineExceeded)) && !errors.Is(err, ErrNotCharged)
}

const (
	// lostAfter is how many decisions in a row have to stay undecided, each asked for after
	// the one before had, until the store counts as out of reach. Those that were under way
	// together say the same thing once: a burst that is served late is no loss.
	lostAfter = 3

	// retryPause is the time between two questions whether the store is back.
	retryPause = 500 * time.Millisecond

	// maxOwed bounds the accounts that are kept to be charged to the store: some ten megabytes.
	maxOwed = 1 << 16

	// chargers is how many of them are charged at a time, so that a store that is far away
	// has thousands of them in seconds.
	chargers = 64

	// lastRound is how often all accounts are charged while decisions go on here, each time
	// those of the time before; then they wait, however many there are left.
	lastRound = 5
)

// standby is how the keys of one part of the store are decided while that part is out of
// reach: by the fallback. What it grants is kept as accounts of the whole plans, by the same
// functions by which the store counts, so that what is charged to the store when it is back
// is what of it counts then.
type standby struct {
	away atomic.Bool // set with mu held
	miss atomic.Int32

	mu      sync.Mutex // guards what follows
	missed  time.Time  // when the last of the undecided was
	owed    map[owedKey]owed
	since   time.Time
	decided int64 // since then, by the fallback
	granted int64
	lost    int64 // accounts for which there was no room
}

type owedKey struct{ key, plan string }

// owed is what of a plan was granted to a key by the fallback. What flows into a bucket is
// this process's part of it, since the others have accounts of theirs.
type owed struct {
	plan  Plan // the whole
	part  Plan // with its share of the rate
	state State
}

// used is how many of the tokens count at now.
func (o *owed) used(now Micros) int64 {
	_, r := o.part.Take(o.state, now, 0)
	return r.Limit - r.Remaining
}

// partOf is the standby of a key. A repository of several parts has a method Part.
func (a *Admitter) partOf(key string) *standby {
	if a.part == nil {
		return &a.standbys[0]
	}
	return &a.standbys[a.part(key)%len(a.standbys)]
}

// missedBy notes that a decision asked for at an instant stayed undecided, and reports
// whether the store is out of reach.
func (s *standby) missedBy(asked, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !asked.Before(s.missed) {
		s.missed = now
		s.miss.Add(1)
	}
	return s.miss.Load() >= lostAfter
}

// leave has the part decided here from now on, until the store has answered again and has
// been charged what was granted meanwhile.
func (a *Admitter) leave(ctx context.Context, s *standby, req *Request, cause error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away.Load() || a.life.Err() != nil {
		return
	}
	s.away.Store(true)
	s.since, s.decided, s.granted, s.lost, s.owed = a.cfg.Clock.Now(), 0, 0, 0, map[owedKey]owed{}
	a.cfg.Log.WarnContext(ctx, "admission store does not answer: this process decides by its share of each plan until it does", slog.Any("error", cause))
	key, plans := foldKey(req.Key), req.whole
	a.beside.Go(func() { a.comeBack(s, key, plans) })
}

// comeBack asks from time to time, for no tokens, whether the store is there.
func (a *Admitter) comeBack(s *standby, key string, plans []Plan) {
	for {
		if clock.Sleep(a.life, a.cfg.Clock, retryPause) != nil {
			return
		}
		if _, err := a.take(a.life, key, plans, 0); err == nil && a.settle(s) {
			return
		}
	}
}

// settle charges the store what was granted here, and then has it decide again. It is not
// ok if the store went away meanwhile. Decisions go on here while it charges; only for the
// last few do they wait.
func (a *Admitter) settle(s *standby) (ok bool) {
	for round := 0; ; round++ {
		s.mu.Lock()
		if len(s.owed) <= chargers || round == lastRound {
			left := a.chargeAll(s.owed)
			if s.owed = left; len(left) == 0 {
				a.backLocked(s)
			}
			s.mu.Unlock()
			return len(left) == 0
		}
		list := s.owed
		s.owed = map[owedKey]owed{}
		s.mu.Unlock()
		if left := a.chargeAll(list); len(left) > 0 {
			s.mu.Lock()
			for k, o := range left {
				a.oweLocked(s, k, &o.plan, o.used(a.now()))
			}
			s.mu.Unlock()
			return false
		}
	}
}

func (a *Admitter) backLocked(s *standby) {
	s.away.Store(false)
	s.miss.Store(0)
	a.cfg.Log.Info("admission store answers again: it has been charged what was granted here",
		slog.Duration("after", a.cfg.Clock.Since(s.since)), slog.Int64("decided_here", s.decided),
		slog.Int64("granted_here", s.granted), slog.Int64("accounts_not_charged", s.lost))
}

// chargeAll charges accounts, and is those that the store did not take.
func (a *Admitter) chargeAll(list map[owedKey]owed) map[owedKey]owed {
	left := map[owedKey]owed{}
	var mu sync.Mutex
	var failed atomic.Bool
	places := make(chan struct{}, chargers)
	var all sync.WaitGroup
	for k, o := range list {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if failed.Load() || !a.chargeOne(k.key, &o) {
				failed.Store(true)
				mu.Lock()
				left[k] = o
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return left
}

// chargeOne charges an account, or as much of it as the store has left. A charge whose answer
// was lost is not repeated: the store was there just before it.
func (a *Admitter) chargeOne(key string, o *owed) bool {
	plans := []Plan{o.plan}
	for n := o.used(a.now()); n > 0; {
		res, err := a.take(a.life, key, plans, n)
		if err != nil {
			return undecided(err) && a.life.Err() == nil
		}
		if res.Allowed || res.Remaining >= n {
			return true
		}
		n = res.Remaining
	}
	return true
}

// oweLocked adds tokens to an account.
func (a *Admitter) oweLocked(s *standby, k owedKey, p *Plan, n int64) {
	o, known := s.owed[k]
	if !known && len(s.owed) >= maxOwed {
		s.lost++
		return
	}
	now := a.now()
	if !known || o.plan != *p {
		n += o.used(now) // of a plan that was replaced
		o = owed{*p, *p, p.Fresh(now)}
		o.part.TokensPerSecond *= a.cfg.Share
	}
	var r Result
	o.part.Charge(&o.state, now, min(n, p.Capacity), &r)
	s.owed[k] = o
}

func (a *Admitter) now() Micros { return MicrosOf(a.cfg.Clock.Now()) }

// decideHere decides by the fallback, while the part is out of reach. It is not ok if it is
// not, or if the fallback fails.
func (a *Admitter) decideHere(ctx context.Context, s *standby, req *Request, res *Result) (ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.away.Load() {
		return false
	}
	r, err := a.inTurn(ctx, req)
	if err != nil {
		return false
	}
	a.fallbacks.Add(1)
	s.decided++
	if r.Allowed && req.Tokens > 0 {
		s.granted += req.Tokens
		for i := range req.whole {
			a.oweLocked(s, owedKey{foldKey(req.Key), req.whole[i].Name}, &req.whole[i], req.Tokens)
		}
	}
	*res = r
	return true
}

// Close ends what runs beside the decisions. What was granted while the store was out of
// reach and not charged to it yet is lost. It may be called again.
func (a *Admitter) Close() error {
	a.end()
	a.beside.Wait()
	return nil
}
