package resilience

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kinds of errors of policies. Each error struct below matches its kind under [errors.Is]; [ErrClosed] has no struct.
var (
	ErrOpen             = errors.New("circuit open")
	ErrBulkheadFull     = errors.New("bulkhead full")
	ErrTimeout          = errors.New("timeout")
	ErrRetriesExhausted = errors.New("retries exhausted")
	ErrHedgeFailed      = errors.New("every hedged call failed")
	ErrClosed           = errors.New("policy closed")
)

// OpenError is a refusal by a circuit breaker: the call was not made. It matches [ErrOpen].
type OpenError struct {
	Name       string        // name of the breaker; may be empty
	RetryAfter time.Duration // time until a call may be let through; zero means that it is not known
}

// Error describes the refusal.
func (e *OpenError) Error() string {
	return fmt.Sprintf("%s: next try in %v", label(ErrOpen, e.Name), e.RetryAfter)
}

// Is reports whether target is ErrOpen.
func (e *OpenError) Is(target error) bool { return target == ErrOpen }

// BulkheadError is a refusal by a bulkhead: the call was not made. It matches [ErrBulkheadFull] and its cause.
type BulkheadError struct {
	Name string // name of the bulkhead; may be empty
	Key  string // key within an isolation; empty for a plain bulkhead
	Err  error  // why there was no place: a full queue, or a wait that took too long
}

// Error describes the refusal.
func (e *BulkheadError) Error() string {
	text := label(ErrBulkheadFull, e.Name)
	if e.Key != "" {
		text += fmt.Sprintf(" for %q", e.Key)
	}
	return withCause(text, e.Err)
}

// Is reports whether target is ErrBulkheadFull.
func (e *BulkheadError) Is(target error) bool { return target == ErrBulkheadFull }

// Unwrap returns Err.
func (e *BulkheadError) Unwrap() error { return e.Err }

// TimeoutError says that the time of a Timeout policy was up. It matches [ErrTimeout], [context.DeadlineExceeded] and
// its cause, and is a net.Error.
type TimeoutError struct {
	Name  string        // name of the policy; may be empty
	After time.Duration // the time that the policy allows
	Err   error         // what the call returned; nil if the error is the cause of a context
}

// Error describes the timeout.
func (e *TimeoutError) Error() string {
	text := fmt.Sprintf("%s after %v", label(ErrTimeout, e.Name), e.After)
	if e.Err == context.DeadlineExceeded { //nolint:errorlint // only the bare one adds nothing to the text
		return text
	}
	return withCause(text, e.Err)
}

// Is reports whether target is ErrTimeout or context.DeadlineExceeded.
func (e *TimeoutError) Is(target error) bool {
	return target == ErrTimeout || target == context.DeadlineExceeded
}

// Unwrap returns Err.
func (e *TimeoutError) Unwrap() error { return e.Err }

// Timeout returns true.
func (e *TimeoutError) Timeout() bool { return true }

// Temporary returns true: the call may be fast enough when the callee is less busy.
func (e *TimeoutError) Temporary() bool { return true }

// RetryError says that a failed call is not tried again. It matches [ErrRetriesExhausted] and the last error.
type RetryError struct {
	Name     string // name of the policy; may be empty
	Attempts int    // how often the call was made, at least 1
	Err      error  // error of the last attempt
}

// Error describes the failure.
func (e *RetryError) Error() string {
	times := "1 attempt"
	if e.Attempts != 1 {
		times = fmt.Sprintf("%d attempts", e.Attempts)
	}
	return withCause(fmt.Sprintf("%s after %s", label(ErrRetriesExhausted, e.Name), times), e.Err)
}

// Is reports whether target is ErrRetriesExhausted.
func (e *RetryError) Is(target error) bool { return target == ErrRetriesExhausted }

// Unwrap returns Err.
func (e *RetryError) Unwrap() error { return e.Err }

// HedgeError says that every call of a hedge failed. It matches [ErrHedgeFailed] and each error of a call.
type HedgeError struct {
	Name string  // name of the policy; may be empty
	Errs []error // the errors in the order in which the calls ended, none of them nil
}

// Error describes the failure.
func (e *HedgeError) Error() string {
	return withCause(label(ErrHedgeFailed, e.Name), errors.Join(e.Errs...))
}

// Is reports whether target is ErrHedgeFailed.
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
