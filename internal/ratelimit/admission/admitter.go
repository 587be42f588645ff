package admission

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// DefaultDeadline is how long a store may take. A request that waits for its permission
// is already served late; a store in the same data centre answers in a millisecond or
// two, so that fifty tell a store that is down from one that is busy.
const DefaultDeadline = 50 * time.Millisecond

// OnError is what is decided when the store does not answer and no fallback does, as
// files spell it.
type OnError string

// The answers to a store that is down.
const (
	FailOpen   OnError = "open"   // let in, with ReasonFailOpen
	FailClosed OnError = "closed" // keep out, with ReasonFailClosed
)

func (o OnError) valid() bool { return o == "" || o == FailOpen || o == FailClosed }

// failClosedWait is what a client is told who is kept out because the store is down: a
// breaker tries a store again about as often.
const failClosedWait = time.Second

// Config is what an Admitter needs.
type Config struct {
	Repository Repository // keeps what keys have used. Zero is an error.
	Registry   *Registry  // has the plans. Zero is an error.
	// OnError is what is decided when neither Repository nor Fallback answers. Zero
	// means FailOpen: a limiter that is down should not take the service with it.
	OnError OnError
	// Deadline is how long the Repository may take. Zero means DefaultDeadline, and
	// none for a repository with a method Immediate, which never waits.
	Deadline time.Duration
	// Fallback, if set, decides when Repository does not answer. While that does, what
	// it lets in is charged to the Fallback too, so that it is warm and nobody has a
	// full bucket when the store goes down. It should not wait. Zero means none.
	Fallback Repository
	// Share is this process's part of each plan at the Fallback, above 0 and up to 1: one
	// by the number of processes that share the Repository. Zero means 1.
	Share float64
	// OnDecision, if set, is told every decision, with no lock held, before it is
	// returned. Zero means nobody is.
	OnDecision func(Decision)
	// Log gets a warning when the store stops answering, and a note when it answers
	// again. Zero means no log.
	Log *slog.Logger
}

// Request is what an [Admitter] is asked.
type Request struct {
	Key   string   // who is counted; any string, the empty one too
	Plans []string // by which; of a name given twice the second is ignored. Zero means none: it is allowed.
	// Tokens is what is charged, 0 or more. Zero looks and charges nothing.
	Tokens int64
	Rule   string // the rule for which it is asked, for the Decision. Zero means none.
	// OnError is what is decided if nothing answers; what guards something, such as a
	// login, is better closed. Zero means what Config says.
	OnError OnError

	set   *planSet // in which the plans are looked up
	whole []Plan   // those that were found there, each once
}

// Decision is the record of a decision, as traces keep it.
type Decision struct {
	RateLimited bool     `json:"rateLimited"`    // it was denied
	Rule        string   `json:"rule,omitempty"` // the rule that asked
	Key         string   `json:"key"`            // who was counted, which may be personal data
	Plans       []string `json:"plans"`          // by which; must not be changed or kept
	Tokens      int64    `json:"tokens"`         // what was asked for
	Result      Result   `json:"result"`
	Err         error    `json:"-"` // why the store did not answer; nil if it did
}

// Statistics is what an Admitter has counted since it was made.
type Statistics struct {
	Allowed    uint64 `json:"allowed"`     // decisions, whoever decided
	Denied     uint64 `json:"denied"`      // decisions, whoever decided
	Failures   uint64 `json:"failures"`    // questions that the store did not answer
	Fallbacks  uint64 `json:"fallbacks"`   // of these, those that the fallback did
	FailedOpen uint64 `json:"failed_open"` // of these, those let in because nothing answered
	// FailedClosed is those kept out because nothing answered.
	FailedClosed uint64 `json:"failed_closed"`
	Down         bool   `json:"down"` // the store did not answer the last question
}

// Admitter looks plans up, asks the repository, and decides when that does not answer.
// It is safe for concurrent use.
type Admitter struct {
	cfg    Config // never changes after New
	combos combos

	down                                                 atomic.Bool
	allowed, denied, failures, fallbacks, opened, closed atomic.Uint64
}

// New returns an Admitter. Its errors name the field and the fix. It does not close what
// it is given.
func New(cfg Config) (*Admitter, error) {
	switch {
	case cfg.Repository == nil:
		return nil, fieldError("Repository", "missing", "give the memory repository if there is no other")
	case cfg.Registry == nil:
		return nil, fieldError("Registry", "missing", "give one of NewRegistry")
	case !cfg.OnError.valid():
		return nil, fieldError("OnError", cfg.OnError, "set it to FailOpen or FailClosed")
	case cfg.Deadline < 0:
		return nil, fieldError("Deadline", cfg.Deadline, "set it to more than 0, or leave it out for the default")
	case !(cfg.Share >= 0 && cfg.Share <= 1): // true of no number too
		return nil, fieldError("Share", cfg.Share, "set it to more than 0 and at most 1, or leave it out for 1")
	}
	if _, ok := cfg.Repository.(interface{ Immediate() }); cfg.Deadline == 0 && !ok {
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
	return &Admitter{cfg: cfg, combos: combos{share: cfg.Share}}, nil
}

func fieldError(field string, value any, fix string) error {
	return fmt.Errorf("%s is %v: %s", field, value, fix)
}

// Allow asks for tokens for key under plans; see [Admitter.Decide].
func (a *Admitter) Allow(ctx context.Context, key string, plans []string, tokens int64) (Result, error) {
	return a.Decide(ctx, Request{Key: key, Plans: plans, Tokens: tokens})
}

// Decide charges what req asks for under all its plans, or, if one denies, under none. A
// store that does not answer is not an error but a Reason. Errors are for a plan that
// there is not ([ErrUnknownPlan]), for tokens below 0 and an OnError that there is not,
// and for a ctx that has ended, whose error they wrap; what they mean for the request is
// the caller's to say.
func (a *Admitter) Decide(ctx context.Context, req Request) (res Result, err error) {
	switch {
	case req.Tokens < 0:
		return Result{}, fieldError("Tokens", req.Tokens, "ask for 0 or more")
	case !req.OnError.valid():
		return Result{}, fieldError("OnError", req.OnError, "set it to FailOpen or FailClosed")
	}
	req.set = a.cfg.Registry.current()
	plans, err := a.combos.of(req.set, req.Plans)
	if err != nil {
		return Result{}, err
	}
	req.whole = plans.whole
	err = a.decide(ctx, &req, &res)
	return res, err
}

// decide is Decide for a request that is in order and whose plans were found, with room
// for the Result: that of each request to a server comes this way, and copying both from
// call to call would cost more than the decision. Its error is that of ctx.
func (a *Admitter) decide(ctx context.Context, req *Request, res *Result) (err error) {
	if len(req.whole) == 0 {
		*res = Result{Allowed: true}
	} else if err = a.ask(ctx, req, res); err == nil {
		a.answered(ctx, req, res)
	} else if over := ctx.Err(); over != nil {
		*res = Result{}
		return fmt.Errorf("admission: %w", over) // which says nothing about the store
	} else {
		*res = a.unanswered(ctx, req, err)
	}
	a.tell(req, res, err)
	return nil
}

// ask asks the repository within its deadline.
func (a *Admitter) ask(ctx context.Context, req *Request, res *Result) (err error) {
	if a.cfg.Deadline == 0 {
		*res, err = a.cfg.Repository.Take(ctx, foldKey(req.Key), req.whole, req.Tokens)
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, a.cfg.Deadline)
	defer cancel()
	*res, err = a.cfg.Repository.Take(ctx, foldKey(req.Key), req.whole, req.Tokens)
	return err
}

// Remove forgets what key has used under all plans of the registry, at the repository
// and at the fallback.
func (a *Admitter) Remove(ctx context.Context, key string) error {
	key = foldKey(key)
	plans := a.cfg.Registry.Plans()
	err := a.cfg.Repository.Remove(ctx, key, plans)
	if a.cfg.Fallback != nil {
		err = errors.Join(err, a.cfg.Fallback.Remove(ctx, key, plans))
	}
	return err
}

// Statistics is what was counted so far.
func (a *Admitter) Statistics() Statistics {
	return Statistics{
		Allowed: a.allowed.Load(), Denied: a.denied.Load(),
		Failures: a.failures.Load(), Fallbacks: a.fallbacks.Load(),
		FailedOpen: a.opened.Load(), FailedClosed: a.closed.Load(),
		Down: a.down.Load(),
	}
}

func (a *Admitter) tell(req *Request, res *Result, err error) {
	if res.Allowed {
		a.allowed.Add(1)
	} else {
		a.denied.Add(1)
	}
	if a.cfg.OnDecision == nil {
		return
	}
	a.cfg.OnDecision(Decision{
		RateLimited: !res.Allowed, Rule: req.Rule, Key: req.Key, Plans: req.Plans,
		Tokens: req.Tokens, Result: *res, Err: err,
	})
}
