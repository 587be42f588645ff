// Package admission is the server's side of politeness: it decides whether a request may come in, and tells the client
// when to come again.
//
// A [Plan] is a limit: a token bucket, or a fixed or sliding window. A key names who is counted: an address, a user, an
// API key. A [Repository] keeps what each key has used of each plan, in memory, in SQLite or in Redis (the packages
// below this one), and decides over several plans at once: it charges all of them or none. It decides by pure functions
// of a [State] and a time, [Plan.Take] and [TakeAll], or, as the Redis script, by the same operations in the same
// order; the suite in admissiontest compares every step.
//
// A [RuleSet] has plans by name and the rules that name them. All of them are replaced together: a request is decided
// to its end by the set that was in force when it arrived. A set that is refused or cannot be saved was never in force.
// An [Admitter] combines both: it looks up the plans and gives the store a deadline. If the store does not answer, it
// allows ([FailOpen]) or denies ([FailClosed]), or has a local repository decide that was charged all along; the
// [Reason] of the [Result] says so. On top of it stand key functions, the net/http middleware and the guard of single
// functions.
//
// Time is in microseconds of the repository's one clock. A clock that goes back a little stops the refill until it has
// caught up, and grants nothing twice. A state that is further in the future than its plan reaches was written by a
// wrong clock, and is ignored. Every store forgets a key once nothing it used counts any longer ([Plan.Period]): then a
// new state decides the same, so that forgetting does not weaken a limit.
//
// Everything here is safe for concurrent use unless it says otherwise.
package admission

import (
	"context"
	"errors"
	"time"

	"github.com/treadlight/crawl/internal/backend"
)

// What errors of a repository may wrap.
var (
	// ErrClosed is the error of a repository that was closed.
	ErrClosed = errors.New("admission: repository is closed")
	// ErrUndecided is wrapped if it is not known whether the tokens were charged: the request was sent to the store,
	// and the answer was lost. A deadline that has passed means the same, unless ErrNotCharged is wrapped too.
	ErrUndecided = errors.New("the answer was lost, and the tokens may have been charged")
	// ErrNotCharged is wrapped if it is known that nothing was charged.
	ErrNotCharged = errors.New("nothing was charged")
	// ErrNoVerdict is wrapped if an error concerns one decision only and does not tell whether the store is in reach.
	ErrNoVerdict = errors.New("the store may be there")
)

// Repository keeps what keys have used of plans, and decides. All its methods are safe for concurrent use. Package
// admissiontest has the suite that each Repository must pass.
type Repository interface {
	// Take charges tokens to key under all plans or, if one of them denies, under none, and returns the Result of the
	// tightest plan. A denial is not an error. An error means that there is no decision and, as far as the repository
	// can tell, that nothing was charged. Plans must be settled and have different names. Tokens must be 0 or more;
	// with 0 Take only looks: it charges nothing and remembers nothing. A key is any string, also the empty one.
	// Neither side changes the slice, and both may keep it. When ctx ends, Take returns with an error that wraps ctx's.
	Take(ctx context.Context, key string, plans []Plan, tokens int64) (Result, error)
	// Remove forgets what key has used under plans. An unknown key is no error.
	Remove(ctx context.Context, key string, plans []Plan) error
	// Keys calls yield with each key that has used something of one of plans, in any order and perhaps more than once,
	// until yield returns false. Keys that are added or removed meanwhile may be missed.
	Keys(ctx context.Context, plans []Plan, yield func(key string) bool) error
	// Close releases the resources of the repository. Later calls of the other methods fail with ErrClosed. It may be
	// called again.
	Close() error
}

// Redis opens a Repository in Redis or Valkey and begins to connect; package redis registers it. Its errors never
// contain the URL.
var Redis = backend.New[func(RedisConfig) (Repository, error)]("a store in Redis", "redis")

// RedisConfig has the settings of a Redis that a program may choose; all others have the defaults of package redis.
type RedisConfig struct {
	URL       string
	Deadline  time.Duration // how long a decision may take; zero means DefaultDeadline
	Lease     time.Duration // how long tokens may be held ahead of use; zero means no leases
	Instances int           // number of processes that share the plans; zero means 1
}
