package resilience

import (
	"context"
	"time"

	"github.com/treadlight/crawl/internal/fetch/resilience"
)

// The kinds of errors that policies make of their own.
var (
	ErrOpen             = resilience.ErrOpen
	ErrBulkheadFull     = resilience.ErrBulkheadFull
	ErrTimeout          = resilience.ErrTimeout
	ErrRetriesExhausted = resilience.ErrRetriesExhausted
	ErrHedgeFailed      = resilience.ErrHedgeFailed
	ErrClosed           = resilience.ErrClosed
)

// Bind ties the end of a policy's scope to the life of the value: it returns v, or what
// stands for it, and calls end exactly once when the life is over, with the error that
// ended it or nil.
type Bind[T any] = resilience.Bind[T]

// Breaker refuses calls to a callee that fails, until a probe has shown that it works
// again.
type Breaker = resilience.Breaker

// NewBreaker returns a closed breaker, or an error that names the field to mend.
func NewBreaker(cfg BreakerConfig) (*Breaker, error) {
	return resilience.NewBreaker(cfg)
}

// BreakerConfig says when a Breaker opens and closes.
type BreakerConfig = resilience.BreakerConfig

// BreakerCounts are totals since the breaker was made.
type BreakerCounts = resilience.BreakerCounts

// BreakerSnapshot is a breaker at one instant.
type BreakerSnapshot = resilience.BreakerSnapshot

// Breakers are breakers by name: whoever asks for a name shares the one breaker of that
// name.
type Breakers = resilience.Breakers

// NewBreakers returns an empty registry.
func NewBreakers(cfg BreakersConfig) (*Breakers, error) {
	return resilience.NewBreakers(cfg)
}

// BreakersConfig configures NewBreakers.
type BreakersConfig = resilience.BreakersConfig

// Budget bounds the calls that retries and hedges add to those that were asked for.
type Budget = resilience.Budget

// NewBudget returns a budget that nothing has been spent of.
func NewBudget(cfg BudgetConfig) (*Budget, error) {
	return resilience.NewBudget(cfg)
}

// BudgetConfig says how many calls may be made beyond those that were asked for.
type BudgetConfig = resilience.BudgetConfig

// Bulkhead bounds how many calls go on at a time, so that a callee that hangs takes so many
// callers with it and no more.
type Bulkhead = resilience.Bulkhead

// NewBulkhead returns an empty bulkhead, or an error that names the field to mend.
func NewBulkhead(cfg BulkheadConfig) (*Bulkhead, error) {
	return resilience.NewBulkhead(cfg)
}

// BulkheadConfig says how many calls may go on at the same time and how many may wait.
type BulkheadConfig = resilience.BulkheadConfig

// BulkheadError is a refusal by a bulkhead.
type BulkheadError = resilience.BulkheadError

// BulkheadEvent says that a bulkhead had no place for a call.
type BulkheadEvent = resilience.BulkheadEvent

// BulkheadPolicy is the Policy in front of a Bulkhead, which others may share.
type BulkheadPolicy[T any] = resilience.BulkheadPolicy[T]

// NewBulkheadPolicy returns the policy.
func NewBulkheadPolicy[T any](core *Bulkhead, cfg BulkheadPolicyConfig[T]) (*BulkheadPolicy[T], error) {
	return resilience.NewBulkheadPolicy[T](core, cfg)
}

// BulkheadPolicyConfig configures a BulkheadPolicy.
type BulkheadPolicyConfig[T any] = resilience.BulkheadPolicyConfig[T]

// BulkheadSnapshot is a bulkhead at one instant.
type BulkheadSnapshot = resilience.BulkheadSnapshot

// CircuitBreaker is the Policy in front of a Breaker, which others may share.
type CircuitBreaker[T any] = resilience.CircuitBreaker[T]

// NewCircuitBreaker returns the policy.
func NewCircuitBreaker[T any](core *Breaker, cfg CircuitBreakerConfig[T]) (*CircuitBreaker[T], error) {
	return resilience.NewCircuitBreaker[T](core, cfg)
}

// CircuitBreakerConfig configures a CircuitBreaker.
type CircuitBreakerConfig[T any] = resilience.CircuitBreakerConfig[T]

// CircuitEvent says that a breaker changed its state.
type CircuitEvent = resilience.CircuitEvent

// Classifier reads a verdict from a result.
type Classifier[T any] = resilience.Classifier[T]

// Event is something a policy did.
type Event = resilience.Event

// Fallback replaces results that are no use to the caller: a page from a cache for one that
// cannot be had.
type Fallback[T any] = resilience.Fallback[T]

// NewFallback returns a policy or an error that names the field that is missing.
func NewFallback[T any](cfg FallbackConfig[T]) (*Fallback[T], error) {
	return resilience.NewFallback[T](cfg)
}

// FallbackConfig says which results are replaced, and by what.
type FallbackConfig[T any] = resilience.FallbackConfig[T]

// FallbackEvent says that a result was replaced.
type FallbackEvent = resilience.FallbackEvent

// Hedge is a Policy against the slow tail: a call that takes long gets a second one beside
// it, and the first good result is the result.
type Hedge[T any] = resilience.Hedge[T]

// NewHedge returns the policy, or an error that names the field to mend.
func NewHedge[T any](cfg HedgeConfig[T]) (*Hedge[T], error) {
	return resilience.NewHedge[T](cfg)
}

// HedgeConfig configures a Hedge.
type HedgeConfig[T any] = resilience.HedgeConfig[T]

// HedgeError says that every call of a hedge failed.
type HedgeError = resilience.HedgeError

// HedgeEvent says that a further call was started beside those under way.
type HedgeEvent = resilience.HedgeEvent

// HedgeOutcomeEvent says which call of a hedge gave the result.
type HedgeOutcomeEvent = resilience.HedgeOutcomeEvent

// HedgeStatistics are totals, and what is going on now.
type HedgeStatistics = resilience.HedgeStatistics

// ErrEventDropped says that an event found a hub's queue full.
var ErrEventDropped = resilience.ErrEventDropped

// ListenerError says that a listener of a hub panicked, or ended its goroutine.
type ListenerError = resilience.ListenerError

// Hub carries events from policies to listeners.
type Hub = resilience.Hub

// Isolation is a Bulkhead for each key, so that one callee that hangs takes only those with
// it who call it.
type Isolation = resilience.Isolation

// NewIsolation returns an isolation without keys, or an error that names the field to mend.
func NewIsolation(cfg IsolationConfig) (*Isolation, error) {
	return resilience.NewIsolation(cfg)
}

// IsolationConfig says what each key of an Isolation may have, and how many keys there may
// be.
type IsolationConfig = resilience.IsolationConfig

// IsolationPolicy is the Policy in front of an Isolation, which others may share.
type IsolationPolicy[T any] = resilience.IsolationPolicy[T]

// NewIsolationPolicy returns the policy.
func NewIsolationPolicy[T any](core *Isolation, cfg IsolationPolicyConfig[T]) (*IsolationPolicy[T], error) {
	return resilience.NewIsolationPolicy[T](core, cfg)
}

// IsolationPolicyConfig configures an IsolationPolicy.
type IsolationPolicyConfig[T any] = resilience.IsolationPolicyConfig[T]

// IsolationSnapshot is an isolation at about one instant: each pool is of one, all of them
// are not.
type IsolationSnapshot = resilience.IsolationSnapshot

// KeyFunc says which pool a call belongs to, a host for example.
type KeyFunc = resilience.KeyFunc

// OpenError is a refusal by a circuit breaker.
type OpenError = resilience.OpenError

// Policy runs a call under some rule: it may repeat it, bound its time, refuse it or
// replace its result.
type Policy[T any] = resilience.Policy[T]

// Lookup is the policy under name.
func Lookup[T any](r *Registry, name string) (Policy[T], error) {
	return resilience.Lookup[T](r, name)
}

// Wrap makes one policy of several.
func Wrap[T any](outerToInner ...Policy[T]) Policy[T] {
	return resilience.Wrap[T](outerToInner...)
}

// RateLimitedEvent says that a limiter refused a call, or had it wait.
type RateLimitedEvent = resilience.RateLimitedEvent

// Registry holds policies by name, so that what configuration builds is found where it is
// used.
type Registry = resilience.Registry

// Retry makes a call again while it fails.
type Retry[T any] = resilience.Retry[T]

// NewRetry returns a policy or an error that names the field that is out of range.
func NewRetry[T any](cfg RetryConfig[T]) (*Retry[T], error) {
	return resilience.NewRetry[T](cfg)
}

// Attempt is a call that has ended, as a RetryConfig.When sees it.
type Attempt = resilience.Attempt

// RetryConfig says what is tried again, how often and when.
type RetryConfig[T any] = resilience.RetryConfig[T]

// RetryError says that a call failed and will not be tried again.
type RetryError = resilience.RetryError

// UnaskedError says that a further attempt was not let through, and how the last one failed.
type UnaskedError = resilience.UnaskedError

// RetryEvent says that a call failed and will be made again after a delay.
type RetryEvent = resilience.RetryEvent

// Slot is a place in a pool.
type Slot = resilience.Slot

// Ticket is one call that was let through.
type Ticket = resilience.Ticket

// Timeout bounds the time of a call, and of the use of its value.
type Timeout[T any] = resilience.Timeout[T]

// NewTimeout returns a policy or an error that names the field that is out of range.
func NewTimeout[T any](cfg TimeoutConfig[T]) (*Timeout[T], error) {
	return resilience.NewTimeout[T](cfg)
}

// TimeoutConfig says how long a call may take.
type TimeoutConfig[T any] = resilience.TimeoutConfig[T]

// TimeoutError says that a Timeout policy's own time was up, not the caller's.
type TimeoutError = resilience.TimeoutError

// TimeoutEvent says that the time for a call was up, or that for the use of its value.
type TimeoutEvent = resilience.TimeoutEvent

// Verdict is what a result says about the callee.
type Verdict = resilience.Verdict

// The verdicts.
const (
	Success = resilience.Success // the callee did its work
	Failure = resilience.Failure // it did not, and may do better another time
	Ignored = resilience.Ignored // nothing was learned about it: the caller gave up, or it was never asked
)

// DefaultClassifier knows nothing of values: every one is a Success, and every error a
// Failure except the ones that say nothing about the callee, which are Ignored: the
// refusals of our own policies and limiters, and a cancellation.
func DefaultClassifier[T any](v T, err error) Verdict {
	return resilience.DefaultClassifier[T](v, err)
}

// Window says which past calls a closed Breaker looks back on.
type Window = resilience.Window

// ConsecutiveWindow looks at the failures since the last success and at nothing else.
func ConsecutiveWindow() Window {
	return resilience.ConsecutiveWindow()
}

// CountWindow looks at the last n calls, from 1 to 65536.
func CountWindow(n int) Window {
	return resilience.CountWindow(n)
}

// TimeWindow looks at the calls of the last span, in buckets from 1 to 1024; zero buckets
// mean 10.
func TimeWindow(span time.Duration, buckets int) Window {
	return resilience.TimeWindow(span, buckets)
}

// AttemptFrom is which attempt a call with this context is, from 1: that of the nearest
// Retry around it, and 1 if there is none.
func AttemptFrom(ctx context.Context) int {
	return resilience.AttemptFrom(ctx)
}

// Put adds p under name or replaces the policy that is there, which it closes.
func Put[T any](r *Registry, name string, p Policy[T]) error {
	return resilience.Put[T](r, name, p)
}

// Replace puts p in the place of the policy under name, which it closes.
func Replace[T any](r *Registry, name string, p Policy[T]) error {
	return resilience.Replace[T](r, name, p)
}

// Register puts p under name.
func Register[T any](r *Registry, name string, p Policy[T]) error {
	return resilience.Register[T](r, name, p)
}

// Subscribe has fn called with every event of type E; of Event itself that is every event
// there is.
func Subscribe[E Event](h *Hub, fn func(E)) (off func()) {
	return resilience.Subscribe[E](h, fn)
}
