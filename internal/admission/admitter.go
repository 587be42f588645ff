package admission

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// DefaultDeadline is how long a store may take. One in the same data centre answers in a millisecond or two, one
// across an ocean in 150; a request that waits longer than this for its permission is served late.
const DefaultDeadline = 250 * time.Millisecond

// OnError is what is decided when the store does not answer, as files spell it.
type OnError string

// The answers to a store that is out of reach.
const (
	FailOpen   OnError = "open"   // the fallback decides, or, without one, lets in with ReasonFailOpen
	FailClosed OnError = "closed" // keeps out, with ReasonFailClosed: status 503
)

func (o OnError) valid() bool { return o == "" || o == FailOpen || o == FailClosed }

// failClosedWait is what a client is told who is kept out because the store is down: a breaker
// tries a store again about as often.
const failClosedWait = time.Second

// Config is what an Admitter needs.
type Config struct {
	Repository Repository // keeps what keys have used. Zero is an error.
	Rules      *RuleSet   // has the plans, and for a middleware the rules. Zero is an error.
	OnError    OnError    // what is decided when the Repository is out of reach. Zero means FailOpen.
	// Deadline is how long the Repository may take. Zero means DefaultDeadline, and none for a repository with a
	// method Immediate, which never waits or has a deadline of its own.
	Deadline time.Duration
	// Fallback, if set, decides while Repository is out of reach, unless OnError is closed, and Repository is
	// charged what it granted before it decides again. While Repository decides, what it lets in is charged to
	// the Fallback too, so that nobody has a full bucket when the store goes down. It should not wait.
	Fallback Repository
	// Share is this process's part of each plan at the Fallback, above 0 and up to 1: one by the number of
	// processes that share the Repository. Zero means 1. Process is which of them this is, from 0 on, for plans
	// of less than a token for each: they take turns by it.
	Share   float64
	Process int64
	// Clock is for how long the Repository is out of reach and what the Fallback grants meanwhile; deadlines are
	// the system's. Zero means the system's.
	Clock clock.Clock
	Log   *slog.Logger // when the store goes out of reach, and answers again. Zero means no log.
}

// Request is what an [Admitter] is asked.
type Request struct {
	Key     string   // who is counted; any string, the empty one too
	Plans   []string // by which; of a name given twice the second is ignored. Zero means none: it is allowed.
	Tokens  int64    // what is charged, 0 or more. Zero looks and charges nothing.
	OnError OnError  // what is decided if nothing answers. Zero means what Config says.

	set   *planSet // in which the plans are looked up
	whole []Plan   // those that were found there, each once
}

// RuleStatistics is what a rule has decided of requests, since the start or since there is a rule of that name. A
// request that several rules are for is counted by each that was asked.
type RuleStatistics struct {
	Rule     string `json:"rule"`     // its name
	Allowed  uint64 `json:"allowed"`  // requests let in
	Denied   uint64 `json:"denied"`   // requests denied
	Shadowed uint64 `json:"shadowed"` // requests let in that would have been denied: the rule only looks on
}

// Statistics is what an Admitter has counted since it was made.
type Statistics struct {
	Allowed      uint64 `json:"allowed"`       // decisions, whoever decided
	Denied       uint64 `json:"denied"`        // decisions, whoever decided
	Failures     uint64 `json:"failures"`      // questions that the store did not answer
	Fallbacks    uint64 `json:"fallbacks"`     // decisions of the fallback
	Timeouts     uint64 `json:"timeouts"`      // decisions to keep out since the store may have charged
	FailedOpen   uint64 `json:"failed_open"`   // decisions to let in because nothing answered
	FailedClosed uint64 `json:"failed_closed"` // those kept out because nothing answered
	Exempt       uint64 `json:"exempt"`        // requests that a rule is for, and that were not limited: Exempt or a bypass token
	Down         bool   `json:"down"`          // the store, or a part of it, is out of reach
	// Rules are the present rules in their order, and what each of them has decided of requests.
	Rules []RuleStatistics `json:"rules,omitempty"`
}

// Admitter looks plans up, asks the repository, and decides when that does not answer. It is safe for concurrent use.
// While the repository is out of reach it has a goroutine, which Close ends.
type Admitter struct {
	cfg      Config // never changes after New
	combos   combos
	part     func(key string) int // of the repository; nil if it has one
	standbys []standby            // of each part
	remote   bool                 // the repository may be out of reach
	life     context.Context      // ends with Close
	end      context.CancelFunc
	beside   sync.WaitGroup

	allowed, denied, failures, fallbacks, timeouts, opened, closed, exempt atomic.Uint64
}

// New returns an Admitter. Its errors name the field and the fix. It does not close what it is given.
func New(cfg Config) (*Admitter, error) {
	switch {
	case cfg.Repository == nil:
		return nil, fieldError("Repository", "missing", "give the memory repository if there is no other")
	case cfg.Rules == nil:
		return nil, fieldError("Rules", "missing", "give one of NewRuleSet")
	case !cfg.OnError.valid():
		return nil, fieldError("OnError", cfg.OnError, "set it to FailOpen or FailClosed")
	case cfg.Deadline < 0:
		return nil, fieldError("Deadline", cfg.Deadline, "set it to more than 0, or leave it out for the default")
	case !(cfg.Share >= 0 && cfg.Share <= 1): // true of no number too
		return nil, fieldError("Share", cfg.Share, "set it to more than 0 and at most 1, or leave it out for 1")
	}
	_, immediate := cfg.Repository.(interface{ Immediate() })
	if cfg.Deadline == 0 && !immediate {
		cfg.Deadline = DefaultDeadline
	}
	if cfg.Share == 0 {
		cfg.Share = 1
	}
	if cfg.OnError == "" {
		cfg.OnError = FailOpen
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	a := &Admitter{cfg: cfg, standbys: make([]standby, 1), remote: !immediate || cfg.Fallback != nil}
	if cfg.Fallback != nil {
		a.combos.share = cfg.Share
	}
	if r, ok := cfg.Repository.(interface {
		Part(key string) (part, of int)
	}); ok {
		_, of := r.Part("")
		a.standbys, a.remote = make([]standby, of), true
		a.part = func(key string) int { part, _ := r.Part(key); return part }
	}
	a.life, a.end = context.WithCancel(context.Background())
	return a, nil
}

func fieldError(field string, value any, fix string) error {
	return fmt.Errorf("%s is %v: %s", field, value, fix)
}

// Allow asks for tokens for key under plans; see [Admitter.Decide].
func (a *Admitter) Allow(ctx context.Context, key string, plans []string, tokens int64) (Result, error) {
	return a.Decide(ctx, Request{Key: key, Plans: plans, Tokens: tokens})
}

// Decide charges what req asks for under all its plans, or, if one denies, under none. A store
// that does not answer is not an error but a Reason. Errors are for a plan that there is not
// ([ErrUnknownPlan]), for tokens below 0 and an OnError that there is not, and for a ctx that has
// ended, whose error they wrap; what they mean for the request is the caller's to say.
func (a *Admitter) Decide(ctx context.Context, req Request) (res Result, err error) {
	switch {
	case req.Tokens < 0:
		return Result{}, fieldError("Tokens", req.Tokens, "ask for 0 or more")
	case !req.OnError.valid():
		return Result{}, fieldError("OnError", req.OnError, "set it to FailOpen or FailClosed")
	}
	req.Key, req.set = foldKey(req.Key), a.cfg.Rules.planSet()
	plans, err := a.combos.of(req.set, req.Plans)
	if err != nil {
		return Result{}, err
	}
	req.whole = plans.whole
	err = a.decide(ctx, &req, &res)
	return res, err
}

// decide is Decide for a request that is in order, whose key is folded and whose plans were found, with room for the
// Result: copying both from call to call would cost more than the decision. Its error is that of ctx.
func (a *Admitter) decide(ctx context.Context, req *Request, res *Result) (err error) {
	s := a.partOf(req.Key)
	switch {
	case len(req.whole) == 0:
		*res = Result{Allowed: true}
	case s.away.Load() && a.without(ctx, s, req, res):
	default:
		var asked time.Time
		if a.remote {
			asked = a.cfg.Clock.Now()
		}
		if *res, err = a.take(ctx, req.Key, req.whole, req.Tokens); err == nil {
			a.answered(ctx, s, req, res)
		} else if over := ctx.Err(); over != nil {
			*res = Result{}
			return fmt.Errorf("admission: %w", over) // which says nothing about the store
		} else {
			a.unanswered(ctx, s, req, res, asked, err)
		}
	}
	a.count(res)
	return nil
}

func (a *Admitter) take(ctx context.Context, key string, plans []Plan, n int64) (Result, error) {
	if a.cfg.Deadline == 0 {
		return a.cfg.Repository.Take(ctx, key, plans, n)
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Deadline)
	defer cancel()
	return a.cfg.Repository.Take(ctx, key, plans, n)
}

func (a *Admitter) count(res *Result) {
	if res.Allowed {
		a.allowed.Add(1)
	} else {
		a.denied.Add(1)
	}
}

// ErrDenied is what the errors of denied calls are.
var ErrDenied = errors.New("denied by a limit")

// DeniedError is a denial with its Result. It is an [ErrDenied].
type DeniedError struct {
	Result Result
}

func (e *DeniedError) Error() string {
	r := &e.Result
	if r.Wait == Never || r.Wait == 0 {
		return fmt.Sprintf("denied by plan %q: %s", r.Plan, r.Reason)
	}
	return fmt.Sprintf("denied by plan %q: %s, try again in %v", r.Plan, r.Reason, r.Wait)
}

// Is reports whether target is ErrDenied.
func (e *DeniedError) Is(target error) bool { return target == ErrDenied }

// Guard calls fn if key may be charged tokens under plans, and returns its error. If it may not, fn is not called and
// the error is a [*DeniedError]. The errors of [Admitter.Allow] come as they are, without fn being called either. What
// fn does is paid for, whether it succeeds, fails or panics.
func (a *Admitter) Guard(ctx context.Context, key string, plans []string, tokens int64, fn func(context.Context) error) error {
	res, err := a.Allow(ctx, key, plans, tokens)
	switch {
	case err != nil:
		return err
	case !res.Allowed:
		return &DeniedError{res}
	}
	return fn(ctx)
}

// Remove forgets what key has used under all plans, at the repository and at the fallback.
func (a *Admitter) Remove(ctx context.Context, key string) error {
	return a.remove(ctx, foldKey(key), a.cfg.Rules.Plans())
}

// RemoveWhere removes, as [Admitter.Remove] does, all keys that the repository or the fallback knows and of which
// match is true, and says how many, also with an error. A key longer than 256 bytes is known by its digest only,
// "sha256:…". Keys that come meanwhile may be missed. It looks at every key: it is for operators, not for requests.
func (a *Admitter) RemoveWhere(ctx context.Context, match func(key string) bool) (removed int, err error) {
	plans := a.cfg.Rules.Plans()
	matching := map[string]bool{}
	collect := func(key string) bool {
		if !matching[key] && match(key) {
			matching[key] = true
		}
		return true
	}
	err = a.cfg.Repository.Keys(ctx, plans, collect)
	if a.cfg.Fallback != nil {
		err = errors.Join(err, a.cfg.Fallback.Keys(ctx, plans, collect))
	}
	for key := range matching {
		if one := a.remove(ctx, key, plans); one != nil {
			return removed, errors.Join(err, one)
		}
		removed++
	}
	return removed, err
}

// remove is Remove of a key as stores keep it.
func (a *Admitter) remove(ctx context.Context, key string, plans []Plan) error {
	err := a.cfg.Repository.Remove(ctx, key, plans)
	if a.cfg.Fallback == nil {
		return err
	}
	return errors.Join(err, a.cfg.Fallback.Remove(ctx, key, append(plans, a.owedOf(plans)...)))
}

// Statistics is what was counted so far.
func (a *Admitter) Statistics() Statistics {
	s := Statistics{
		Allowed: a.allowed.Load(), Denied: a.denied.Load(),
		Failures: a.failures.Load(), Fallbacks: a.fallbacks.Load(), Timeouts: a.timeouts.Load(),
		FailedOpen: a.opened.Load(), FailedClosed: a.closed.Load(), Exempt: a.exempt.Load(),
	}
	for _, r := range a.cfg.Rules.table.Load().rules {
		s.Rules = append(s.Rules, RuleStatistics{
			Rule: r.Name, Allowed: r.counts.allowed.Load(), Denied: r.counts.denied.Load(), Shadowed: r.counts.shadowed.Load(),
		})
	}
	for i := range a.standbys {
		s.Down = s.Down || a.standbys[i].away.Load()
	}
	return s
}

// Close ends what runs beside the decisions. What was granted while the store was out of reach and
// not charged to it yet is lost. It may be called again.
func (a *Admitter) Close() error {
	a.end()
	a.beside.Wait()
	return nil
}

const (
	// maxKey is what of a key is kept as it is. Keys come from headers, which may be a megabyte
	// long; times the number of keys that is a store's memory.
	maxKey = 256

	// foldedPrefix marks the digest of a key.
	foldedPrefix = "sha256:"
)

// foldKey is the key as stores keep it: itself, or its digest if it is long. One that looks like a
// digest is digested too, so that no two keys become one.
func foldKey(key string) string {
	if len(key) <= maxKey && !strings.HasPrefix(key, foldedPrefix) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return foldedPrefix + hex.EncodeToString(sum[:])
}
