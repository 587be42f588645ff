// Package admission is the server's side of politeness: it decides whether a request may come in, and tells the client
// when to come again.
//
// A [Plan] is a limit: a token bucket, or a fixed or sliding window. A key is who is counted: an address, a user, an API
// key. A [Repository] keeps what each key has used of each plan, in memory, in SQLite or in Redis (the packages below
// this one), and decides over several plans at once: all are charged, or none. It decides by pure functions of a [State]
// and a time, [Plan.Take] and [TakeAll], or does the same operations in the same order, as the Redis script does; the
// suite in admissiontest compares every step.
//
// A [RuleSet] has plans by name and the rules that name them, all in force together: a request is judged by the limits
// of the moment it came, to its end. What is refused, or cannot be saved, was never in force. An [Admitter] is the
// service over both: it looks plans up, sets the store a deadline, and when that does not answer lets in ([FailOpen]) or
// keeps out ([FailClosed]), or asks a local repository that was kept warm, and says so in the [Reason] of the [Result].
// On top of it stand key functions, the net/http middleware and the guard of single functions.
//
// Time is in microseconds of the repository's one clock. A clock that goes back a little stops the refill until it has
// caught up and grants nothing twice. A state from further in the future than its plan reaches was written by a wrong
// clock, and counts as none. Every store forgets a key once nothing it used counts any more ([Plan.Period]): then a new
// state decides the same, so that forgetting is no way round a limit.
//
// Everything here is safe for concurrent use unless it says otherwise.
package admission

import (
	"context"
	"errors"
	"time"

	"github.com/treadlight/crawl/internal/backend"
)

// What errors of a repository may be.
var (
	// ErrClosed is the error of a repository that was closed.
	ErrClosed = errors.New("admission: repository is closed")
	// ErrUndecided is wrapped when nobody knows whether the tokens were charged: the question was sent, and its answer
	// was lost. A deadline that has passed means the same, unless ErrNotCharged is wrapped beside it.
	ErrUndecided = errors.New("the answer was lost, and the tokens may have been charged")
	// ErrNotCharged is wrapped when it is known that nothing was charged.
	ErrNotCharged = errors.New("nothing was charged")
	// ErrNoVerdict is wrapped when an error is about one question and says nothing of the store.
	ErrNoVerdict = errors.New("the store may be there")
)

// Repository keeps what keys have used of plans and decides. All its methods are safe for
// concurrent use. Package admissiontest has the suite that each must pass.
type Repository interface {
	// Take charges tokens to key under all plans, or, if one of them denies, under none, and returns the Result of the
	// tightest plan. A denial is not an error: an error means that nothing is known and, as far as the repository can
	// tell, nothing charged. Plans are settled and of different names; tokens are 0 or more, and 0 only looks: it
	// charges nothing and remembers nothing. A key is any string, the empty one too. The slice is not changed by
	// either side, and may be kept. It returns when ctx ends, with an error that wraps ctx's.
	Take(ctx context.Context, key string, plans []Plan, tokens int64) (Result, error)
	// Remove forgets what key has used under plans. Not to know it is no error.
	Remove(ctx context.Context, key string, plans []Plan) error
	// Keys calls yield with each key that has used something of one of plans, in any order and perhaps more than once,
	// until that returns false. Keys that come or go meanwhile may be missed.
	Keys(ctx context.Context, plans []Plan, yield func(key string) bool) error
	// Close gives back what the repository holds. Later calls of the other methods fail with
	// ErrClosed. It may be called again.
	Close() error
}

// Redis opens a Repository in Redis or Valkey and begins to connect: package redis registers it. No error has the URL.
var Redis = backend.New[func(RedisConfig) (Repository, error)]("a store in Redis", "redis")

// RedisConfig is what a program says of a Redis; the rest is as package redis has it by default.
type RedisConfig struct {
	URL       string
	Deadline  time.Duration // of a decision; zero means DefaultDeadline
	Lease     time.Duration // zero means none
	Instances int           // processes that share the plans; zero means 1
}
