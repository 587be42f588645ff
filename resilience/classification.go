package resilience

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/limit"
)

// Classification is what a result says about the callee. The zero Classification is [Success].
type Classification uint8

// The classifications.
const (
	Success Classification = iota // the callee did its work
	Failure                       // it did not, and may do better another time
	Ignored                       // nothing was learned about it: the caller gave up, or it was never asked
)

var classificationNames = [...]string{"success", "failure", "ignored"}

// String is the name that logs and snapshots carry.
func (v Classification) String() string {
	if int(v) < len(classificationNames) {
		return classificationNames[v]
	}
	return fmt.Sprintf("classification(%d)", uint8(v))
}

// Classifier classifies a result. Retry repeats a [Failure], the breaker counts
// it, the hedge goes on to its next call. A nil Classifier is [DefaultClassifier]. It
// must be safe for concurrent use and must not consume the value. Errors of calls whose
// caller has given up never reach it: they are Ignored.
type Classifier[T any] func(v T, err error) Classification

// DefaultClassifier knows nothing of values: every one is a [Success], and every error a
// [Failure] except the ones that say nothing about the callee, which are Ignored: the
// refusals of our own policies and limiters, and a cancellation. A timeout of ours that
// cancelled the call is a Failure.
func DefaultClassifier[T any](_ T, err error) Classification {
	switch {
	case err == nil:
		return Success
	case unasked(err):
		return Ignored
	case errors.Is(err, ErrTimeout), errors.Is(err, ErrRetriesExhausted), errors.Is(err, ErrHedgeFailed):
		return Failure
	case errors.Is(err, context.Canceled):
		return Ignored
	}
	return Failure
}

// unasked reports whether err is a refusal by a policy or a limiter of ours, so that the
// callee never saw the call. A hedge was refused if each of its calls was.
func unasked(err error) bool {
	if hedge, ok := errors.AsType[*HedgeError](err); ok {
		return !slices.ContainsFunc(hedge.Errs, func(err error) bool { return !unasked(err) })
	}
	for _, refusal := range [...]error{
		ErrOpen, ErrBulkheadFull, ErrClosed,
		limit.ErrLimited, limit.ErrClosed, limit.ErrExceedsCapacity, limit.ErrInvalidWeight,
		ratelimit.ErrCircuitOpen, ratelimit.ErrTooManyWaiters,
	} {
		if errors.Is(err, refusal) {
			return true
		}
	}
	_, early := errors.AsType[*ratelimit.WaitError](err) // the time is too short for its turn
	return early
}

// judge is the classification of the result of a call under ctx, the context which the policy was
// given and not the one it made. An error after that has ended is the caller's doing,
// unless it ended by the timeout of a policy further out: then the callee was slow.
func (c Classifier[T]) judge(ctx context.Context, v T, err error) Classification {
	if err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrTimeout) {
		return Ignored
	}
	if c == nil {
		return DefaultClassifier(v, err)
	}
	return c(v, err)
}
