package admission

import (
	"cmp"
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

// DefaultDeadline is how long a decision of the store may take by default. A store in the same data centre answers in a
// millisecond or two, one across an ocean in 150; a request that waits longer than this for its decision is served
// late.
const DefaultDeadline = 250 * time.Millisecond

// OnError names the decision that is made when the store does not answer, as files spell it.
type OnError string

// The decisions about a store that is out of reach.
const (
	FailOpen   OnError = "open"   // the fallback decides; without one, the request is allowed, with ReasonFailOpen
	FailClosed OnError = "closed" // the request is denied, with ReasonFailClosed: status 503
)

func (o OnError) valid() bool { return o == "" || o == FailOpen || o == FailClosed }

// failClosedWait is the wait told to a client that is denied because the store is down. A breaker tries a store again
// about as often.
const failClosedWait = time.Second

// Config configures an [Admitter].
type Config struct {
	Repository Repository // keeps what keys have used. Nil is an error.
	Rules      *RuleSet   // has the plans, and for a middleware the rules. Nil is an error.
	OnError    OnError    // the decision while the Repository is out of reach. Empty means FailOpen.
	// Deadline is how long a decision of the Repository may take. Zero means DefaultDeadline, or no deadline for a
	// repository with a method Immediate, which never waits or has a deadline of its own.
	Deadline time.Duration
	// Fallback, if set, decides while Repository is out of reach, unless OnError is FailClosed. What it granted is
	// charged to Repository before Repository decides again. While Repository decides, requests that it allows are
	// charged to the Fallback too, so that no key has a full bucket when the store goes down. It should not wait.
	Fallback Repository
	// Share is this process's part of each plan at the Fallback, above 0 and up to 1: one divided by the number of
	// processes that share the Repository. Zero means 1. Process is the number of this process among them, from 0: if a
	// plan is so small that each process's part is less than one token, they take turns by their numbers.
	Share   float64
	Process int64
	// Clock measures for how long the Repository is out of reach, and gives the time for the Fallback's turns;
	// deadlines always use the system clock. Nil means the system clock.
	Clock clock.Clock
	Log   *slog.Logger // logs when the store goes out of reach and when it answers again. Nil means no log.
}

// request is what an Admitter decides about.
type request struct {
	key     string // as stores keep it (see foldKey)
	plans   []Plan // to charge, each once. Empty means that the request is allowed.
	tokens  int64  // 0 or more
	onError OnError
}

// RuleStatistics counts the requests that a rule has decided, since the start or since a rule has this name. A request
// to which several rules apply is counted by each rule that decided it.
type RuleStatistics struct {
	Rule     string `json:"rule"`     // name of the rule
	Allowed  uint64 `json:"allowed"`  // requests allowed
	Denied   uint64 `json:"denied"`   // requests denied
	Shadowed uint64 `json:"shadowed"` // requests allowed that a rule which only observes (Shadow) would have denied
}

// Statistics has the counts of an [Admitter] since it was made.
type Statistics struct {
	Allowed      uint64 `json:"allowed"`       // decisions to allow, of the store, the fallback or neither
	Denied       uint64 `json:"denied"`        // decisions to deny, of the store, the fallback or neither
	Failures     uint64 `json:"failures"`      // attempts to have the store decide that it did not answer
	Fallbacks    uint64 `json:"fallbacks"`     // decisions made by the fallback
	Timeouts     uint64 `json:"timeouts"`      // denials because the answer of the store was late or lost, so that it may have charged
	FailedOpen   uint64 `json:"failed_open"`   // requests allowed because nothing answered
	FailedClosed uint64 `json:"failed_closed"` // requests denied because nothing answered
	Exempt       uint64 `json:"exempt"`        // requests that match a rule and were not limited, by Exempt or a bypass token
	Down         bool   `json:"down"`          // whether the store, or a part of it, is out of reach
	// Rules has the present rules in their order, with the requests that each has decided.
	Rules []RuleStatistics `json:"rules,omitempty"`
}

// Admitter looks up plans, has the repository decide, and decides itself if that does not answer. It is safe for
// concurrent use. While the repository is out of reach, it runs a goroutine, which Close ends.
type Admitter struct {
	cfg      Config               // never changes after New
	part     func(key string) int // of a key, if the repository has several parts; nil if it has one
	standbys []standby            // one for each part
	remote   bool                 // whether the repository may be out of reach
	maxOwed  int                  // the constant, or less in tests
	life     context.Context      // canceled by Close
	end      context.CancelFunc
	beside   sync.WaitGroup

	allowed, denied, failures, fallbacks, timeouts, opened, closed, exempt atomic.Uint64
}

// New returns an Admitter. Its errors name the field and the fix. The Admitter does not close the repositories that it
// is given.
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
	case !(cfg.Share >= 0 && cfg.Share <= 1): // true of NaN too
		return nil, fieldError("Share", cfg.Share, "set it to more than 0 and at most 1, or leave it out for 1")
	}
	_, immediate := cfg.Repository.(interface{ Immediate() })
	if cfg.Deadline == 0 && !immediate {
		cfg.Deadline = DefaultDeadline
	}
	cfg.Share = cmp.Or(cfg.Share, 1)
	cfg.OnError = cmp.Or(cfg.OnError, FailOpen)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	cfg.Clock = cmp.Or(cfg.Clock, clock.System())
	a := &Admitter{cfg: cfg, standbys: make([]standby, 1), remote: !immediate || cfg.Fallback != nil, maxOwed: maxOwed}
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

// Allow charges tokens, 0 or more, to key under all of the named plans or, if one denies, under none. Zero tokens only look
// and charge nothing; a repeated name is ignored; no names mean that it is allowed. A store that does not answer is not
// an error; Result.Reason then says how the decision was made. Errors are returned for an unknown plan
// ([ErrUnknownPlan]), for negative tokens, and for a ctx that has ended, whose error they wrap. The caller decides what
// an error means.
func (a *Admitter) Allow(ctx context.Context, key string, plans []string, tokens int64) (res Result, err error) {
	if tokens < 0 {
		return Result{}, fieldError("Tokens", tokens, "ask for 0 or more")
	}
	req := request{key: foldKey(key), tokens: tokens}
	if req.plans, err = a.cfg.Rules.planSet().list(plans); err == nil {
		err = a.decide(ctx, &req, &res)
	}
	return res, err
}

// decide decides a request. The caller gives the memory for the Result: copying both from call to call would cost more
// than the decision. Its error is that of ctx.
func (a *Admitter) decide(ctx context.Context, req *request, res *Result) (err error) {
	s := a.partOf(req.key)
	switch {
	case len(req.plans) == 0:
		*res = Result{Allowed: true}
	case s.away.Load() && a.without(ctx, s, req, res):
	default:
		var asked time.Time
		if a.remote {
			asked = a.cfg.Clock.Now()
		}
		if *res, err = a.take(ctx, req.key, req.plans, req.tokens); err == nil {
			a.answered(ctx, s, req, res)
		} else if over := ctx.Err(); over != nil {
			*res = Result{}
			return fmt.Errorf("admission: %w", over) // this says nothing about the store
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

// Remove forgets what key has used under all plans, at the repository and at the fallback.
func (a *Admitter) Remove(ctx context.Context, key string) error {
	return a.remove(ctx, foldKey(key), a.cfg.Rules.Plans())
}

// RemoveWhere removes, as [Admitter.Remove] does, all keys of the repository and the fallback for which match returns
// true. It returns how many it removed, also with an error. Of a key longer than 256 bytes only the digest is known,
// "sha256:…". Keys that are added meanwhile may be missed. It looks at every key: it is for operators, not for
// requests.
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

// remove is Remove for a key in the form that stores keep (see foldKey).
func (a *Admitter) remove(ctx context.Context, key string, plans []Plan) error {
	err := a.cfg.Repository.Remove(ctx, key, plans)
	if a.cfg.Fallback == nil {
		return err
	}
	a.forgive(key)
	return errors.Join(err, a.cfg.Fallback.Remove(ctx, key, plans))
}

// Statistics returns the counts so far.
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

// Close ends the goroutines of the Admitter. What was granted while the store was out of reach, and is not charged to
// it yet, is lost. It may be called again.
func (a *Admitter) Close() error {
	a.end()
	a.beside.Wait()
	return nil
}

const (
	// maxKey is the longest key, in bytes, that is kept as it is. Keys come from headers, which may be a megabyte long,
	// and a store needs memory for each of them.
	maxKey = 256

	// foldedPrefix begins the digest of a key.
	foldedPrefix = "sha256:"
)

// foldKey returns a key in the form that stores keep: unchanged, or its digest if it is long. A key that looks like a
// digest is replaced by its digest too, so that two keys never become one.
func foldKey(key string) string {
	if len(key) <= maxKey && !strings.HasPrefix(key, foldedPrefix) {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return foldedPrefix + hex.EncodeToString(sum[:])
}
