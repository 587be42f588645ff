package resilience

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kinds of errors of policies. Each struct error matches its kind under [errors.Is]; [ErrClosed] has none.
var (
	ErrOpen             = errors.New("circuit open")
	ErrBulkheadFull     = errors.New("bulkhead full")
	ErrTimeout          = errors.New("timeout")
	ErrRetriesExhausted = errors.New("retries exhausted")
	ErrHedgeFailed      = errors.New("every hedged call failed")
	ErrClosed           = errors.New("policy closed")
)

// OpenError is a refusal by a circuit breaker. It is [ErrOpen]. The call was not made.
type OpenError struct {
	Name       string        // of the breaker; may be empty
	RetryAfter time.Duration // until a call may be let through; zero means it is not known
}

// Error says what happened.
func (e *OpenError) Error() string {
	return fmt.Sprintf("%s: next try in %v", label(ErrOpen, e.Name), e.RetryAfter)
}

// Is matches ErrOpen.
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// BulkheadError is a refusal by a bulkhead: the call was not made. It is [ErrBulkheadFull], and its cause.
type BulkheadError struct {
	Name string // of the bulkhead; may be empty
	Key  string // of the pool within an isolation; empty for a plain bulkhead
	Err  error  // why there was no place: a full queue, or a wait that took too long
}

// Error says what happened.
func (e *BulkheadError) Error() string {
	text := label(ErrBulkheadFull, e.Name)
	if e.Key != "" {
		text += fmt.Sprintf(" for %q", e.Key)
	}
	return withCause(text, e.Err)
}

// Is matches ErrBulkheadFull.
func (e *BulkheadError) Is(target error) bool { return target == ErrBulkheadFull }

// Unwrap returns Err.
func (e *BulkheadError) Unwrap() error { return e.Err }

// TimeoutError says that a Timeout policy's own time was up. It is [ErrTimeout], [context.DeadlineExceeded] and its
// cause, and a net.Error.
type TimeoutError struct {
	Name  string        // of the policy; may be empty
	After time.Duration // the time there was
	Err   error         // what the call returned; nil where it is the cause of a context
}

// Error says what happened.
func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("%s after %v", label(ErrTimeout, e.Name), e.After)
	if e.Err == context.DeadlineExceeded { //nolint:errorlint // only the bare one adds nothing to the text
		return text
	}
	return withCause(text, e.Err)
}

// Is matches ErrTimeout and context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Unwrap returns Err.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout is true.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary is true: there may be time enough when the callee is less busy.
func (e *TimeoutError) Temporary() bool { return true }

// RetryError says that a failed call is not tried again. It is [ErrRetriesExhausted], and the last error.
type RetryError struct {
	Name     string // of the policy; may be empty
	Attempts int    // how often the call was made, at least 1
	Err      error  // of the last one
}

// Error says what happened.
func (e *RetryError) Error() string {
	times := "1 attempt"
	if e.Attempts != 1 {
		times = fmt.Sprintf("%d attempts", e.Attempts)
	}
	return withCause(fmt.Sprintf("%s after %s", label(ErrRetriesExhausted, e.Name), times), e.Err)
}

// Is matches ErrRetriesExhausted.
func (e *RetryError) Is(target error) bool { return target == ErrRetriesExhausted }

// Unwrap returns Err.
func (e *RetryError) Unwrap() error { return e.Err }

// HedgeError says that every call of a hedge failed. It is [ErrHedgeFailed], and each of its errors.
type HedgeError struct {
	Name string  // of the policy; may be empty
	Errs []error // in the order in which the calls ended, none of them nil
}

// Error says what happened.
func (e *HedgeError) Error() string {
	return withCause(label(ErrHedgeFailed, e.Name), errors.Join(e.Errs...))
}

// Is matches ErrHedgeFailed.
func (e *HedgeError) Is(target error) bool { return target == ErrHedgeFailed }

// Unwrap returns Errs.
func (e *HedgeError) Unwrap() []error { return e.Errs }

func label(kind error, name string) string {
	if name == "" {
		return kind.Error()
	}
	return fmt.Sprintf("%v (%s)", kind, name)
}

func withCause(text string, err error) string {
	if err == nil {
		return text
	}
	return text + ": " + err.Error()
}
