package resilience

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/limit"
)

// Classification says what a result tells about the callee. The zero Classification is [Success].
type Classification uint8

// The classifications.
const (
	Success Classification = iota // the callee did its work
	Failure                       // the callee did not do its work, and may do it another time
	Ignored                       // the result tells nothing about the callee: the caller gave up, or no call was made
)

var classificationNames = [...]string{"success", "failure", "ignored"}

// String returns the name used in logs and snapshots.
func (v Classification) String() string {
	if int(v) < len(classificationNames) {
		return classificationNames[v]
	}
	return fmt.Sprintf("classification(%d)", uint8(v))
}

// Classifier classifies a result. A retry repeats a [Failure], a breaker counts it, and a hedge starts its next call.
// Nil means [DefaultClassifier]. It must be safe for concurrent use and must not consume the value. It is not called
// for errors after the caller has given up: they are Ignored.
type Classifier[T any] func(v T, err error) Classification

// DefaultClassifier returns [Success] for every value and [Failure] for errors, including those of timeout policies.
// Refusals by policies and limiters of this module, and cancellations, are [Ignored].
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
	_, early := errors.AsType[*ratelimit.WaitError](err) // there is too little time until the caller's turn
	return early
}

// judge classifies the result of a call under ctx, the context that the policy was given. An error after the end of ctx
// is the caller's doing, unless the timeout of an outer policy ended it: then the callee was slow.
func (c Classifier[T]) judge(ctx context.Context, v T, err error) Classification {
	if err != nil && ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrTimeout) {
		return Ignored
	}
	if c == nil {
		return DefaultClassifier(v, err)
	}
	return c(v, err)
}
