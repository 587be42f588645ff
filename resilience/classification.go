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

// Classifier classifies a result. Retry repeats a [Failure], the breaker counts it, the hedge makes its next call. Nil
// is [DefaultClassifier]. It must be safe for concurrent use and must not consume the value. Errors after the caller
// has given up are Ignored without it.
type Classifier[T any] func(v T, err error) Classification

// DefaultClassifier takes every value for a [Success] and every error for a [Failure], timeouts of ours included.
// Ignored are refusals of our own policies and limiters, and a cancellation.
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

// judge classifies the result of a call under ctx, the context that the policy was given. An error after its end is
// the caller's doing, unless the timeout of an outer policy ended it: then the callee was slow.
func (c Classifier[T]) judge(ctx context.Context, v T, err error) Classification {
	if err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrTimeout) {
		return Ignored
	}
	if c == nil {
		return DefaultClassifier(v, err)
	}
	return c(v, err)
}
