package limit

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What a caller may branch on.
var (
	// ErrLimited means not now: there was no room, or there will be none in the time the
	// caller has. Asking again after Error.RetryAfter is worth it.
	ErrLimited = errors.New("rate limited")
	// ErrQueueFull means that as many callers wait as may. It is also ErrLimited.
	ErrQueueFull = errors.New("queue full")
	// ErrTooManyKeys means that a [Keyed] has no place for one more key. It is also ErrLimited.
	ErrTooManyKeys = errors.New("too many keys")
	// ErrClosed means that the limiter has been closed.
	ErrClosed = errors.New("limiter closed")
	// ErrExceedsCapacity means a weight for which there is never room.
	ErrExceedsCapacity = errors.New("weight exceeds the capacity")
	// ErrInvalidWeight means a weight below 1.
	ErrInvalidWeight = errors.New("weight must be at least 1")
)

// Error is a refusal for now. It is [ErrLimited] and, where there is a more
// particular reason, that too: [ErrQueueFull], [ErrTooManyKeys], or
// [context.DeadlineExceeded] when the caller's deadline comes before the permits do.
type Error struct {
	Name      string // of the limiter; in a composition, of the member that is waited for longest
	Algorithm string // its Kind
	// RetryAfter is the exact time until the same call could succeed without a wait, as
	// things stood. Zero means that it is not known: it depends on a Release.
	RetryAfter time.Duration
	Err        error // the particular reason; nil means there is none
}

// Error says who refused, why, and when to come again.
func (e *Error) Error() string {
	text := "acquire " + e.Name
	if e.Algorithm != "" && e.Algorithm != e.Name {
		text += " (" + e.Algorithm + ")"
	}
	text += ": " + ErrLimited.Error()
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	switch e.RetryAfter {
	case 0:
		return text
	case Never:
		return text + ", for good"
	default:
		return fmt.Sprintf("%s, retry after %v", text, e.RetryAfter)
	}
}

// Unwrap makes the error an ErrLimited and what Err is.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrLimited}
	}
	return []error{ErrLimited, e.Err}
}

func (e *Error) because(err error) *Error {
	e.Err = err
	return e
}

// endedError is the end of a caller's context. A deadline that passed in the line is
// the limiter's doing, as is one that was seen to be too early.
func endedError(ctx context.Context, name string, limited func() *Error) error {
	err := ctx.Err()
	if errors.Is(err, context.DeadlineExceeded) {
		refusal := limited()
		refusal.Err = err
		return refusal
	}
	return fmt.Errorf("acquire %s: %w", name, err)
}

// fieldError names a field of a configuration and says what to do about it.
func fieldError(field string, value any, fix string) error {
	return fmt.Errorf("%s is %v: %s", field, value, fix)
}
