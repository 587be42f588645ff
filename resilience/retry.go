package resilience

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
)

// RetryConfig says which calls are tried again, how often and when.
type RetryConfig[T any] struct {
	Name        string // name of the policy in errors and events; may be empty
	MaxAttempts int    // number of calls, including the first; zero means 4: three retries outlast a restart behind a load balancer
	Forever     bool   // retries until a call does not fail or its context ends; MaxAttempts must then be zero

	Backoff Schedule // delay before each retry; nil means full jitter below a ceiling that doubles from 200 ms to 30 s
	Random  Source   // random numbers for the backoff, safe for concurrent use; nil means the process-wide source
	Budget  *Budget  // bounds the retries of all policies that share it; nil means no bound

	Classify Classifier[T] // finds the failures, which are tried again; nil means [DefaultClassifier]
	// When, if set, replaces Classify: it reports whether a result is a failure, and also gets the number of the
	// attempt and the time so far. It is not called after the caller has given up. It must be safe for concurrent use
	// and must not consume the value.
	When func(v T, err error, a Attempt) bool

	// RetryAfter returns how long the callee asks to wait, or zero if it does not. The delay is the longer of that and
	// the backoff. Nil means that only the RetryAfter of an [*OpenError] counts.
	RetryAfter    func(v T, err error) time.Duration
	MaxRetryAfter time.Duration // bound of the time from RetryAfter, which is cut to it; zero means an hour

	// OnRetry, if set, is called before the delay, on the caller's goroutine. v is the failed value, valid only during
	// the call.
	OnRetry func(v T, e RetryEvent)
	// Describe returns an error that says why a value failed. It becomes part of the error if an inner policy then
	// refuses a further attempt. Nil means a general text.
	Describe func(v T) error
	Discard  func(T) // frees a value that failed, before the delay; nil means that nothing needs to be freed
	Hub      *Hub    // receives a [RetryEvent] for each retry; nil means no events
}

// Attempt describes an attempt that has ended, for [RetryConfig.When].
type Attempt struct {
	Number  int           // number of the attempt, from 1
	Elapsed time.Duration // time since the first attempt began, including delays
}

func (c *RetryConfig[T]) settle() error {
	switch {
	case c.When != nil && c.Classify != nil:
		return errors.New("retry: When and Classify are both set: want one of them")
	case c.MaxAttempts < 0:
		return fmt.Errorf("retry: MaxAttempts = %d: want 1 or more, or 0 for 4", c.MaxAttempts)
	case c.Forever && c.MaxAttempts != 0:
		return fmt.Errorf("retry: MaxAttempts = %d with Forever: want one of them", c.MaxAttempts)
	case c.MaxRetryAfter < 0:
		return fmt.Errorf("retry: MaxRetryAfter = %v: want a positive duration, or 0 for an hour", c.MaxRetryAfter)
	}
	c.MaxAttempts = cmp.Or(c.MaxAttempts, 4)
	c.MaxRetryAfter = cmp.Or(c.MaxRetryAfter, time.Hour)
	if c.Backoff == nil {
		c.Backoff = backoff.FullJitter(200*time.Millisecond, 30*time.Second)
	}
	if c.RetryAfter == nil {
		c.RetryAfter = openFor[T]
	}
	return nil
}

// openFor returns the time to wait in an OpenError, the only such time that is known without knowing the callee.
func openFor[T any](_ T, err error) time.Duration {
	if open, ok := errors.AsType[*OpenError](err); ok {
		return open.RetryAfter
	}
	return 0
}

// Retry is a [Policy] that makes a call again while it fails.
//
// It stops at the first result that is no [Failure], when attempts or budget are spent, when the caller's deadline
// comes before the next attempt, and when it is closed. Then it returns the last result: a value, not discarded, with a
// nil error, or an error wrapped in a [*RetryError]. If the caller's context ends during a delay, the error is its
// cause.
type Retry[T any] struct {
	gate
	cfg RetryConfig[T]
}

// NewRetry returns the policy. An error names the field that is out of range.
func NewRetry[T any](cfg RetryConfig[T]) (*Retry[T], error) {
	if err := cfg.settle(); err != nil {
		return nil, err
	}
	return &Retry[T]{cfg: cfg}, nil
}

// Execute runs fn until a result is final. Within fn, [AttemptFrom] returns the number of the attempt.
func (r *Retry[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (v T, err error) {
	if err := r.enter(ctx); err != nil {
		return refuse[T](err)
	}
	r.cfg.Budget.Note()
	held := false // true while v must be discarded if a hook panics
	defer func() {
		if held && r.cfg.Discard != nil {
			r.cfg.Discard(v)
		}
	}()
	begun := now()
	var last time.Duration // the previous delay of the backoff
	var cause error        // failure of the last attempt that was made
	for attempt := 1; ; attempt++ {
		v, err = fn(withAttempt(ctx, attempt))
		if cause != nil && unasked(err) {
			err = fmt.Errorf("%w; the attempt before failed: %v", err, cause) //nolint:errorlint // it is not what the error is
		}
		held = err == nil
		a := Attempt{attempt, since(begun)}
		if !r.failed(ctx, v, err, a) {
			held = false
			return v, err
		}
		last = r.cfg.Backoff(attempt, last, r.cfg.Random)
		delay := max(last, min(r.cfg.RetryAfter(v, err), r.cfg.MaxRetryAfter))
		if !r.again(ctx, attempt, delay, err) {
			held = false
			if err != nil && ctx.Err() == nil { // if the caller's context has ended, its error stays as it is
				err = &RetryError{Name: r.cfg.Name, Attempts: attempt, Err: err}
			}
			return v, err
		}
		if !unasked(err) {
			cause = r.causeOf(v, err)
		}
		r.tell(a, delay, v, err)
		if held && r.cfg.Discard != nil {
			held = false
			r.cfg.Discard(v)
		}
		if clock.Sleep(ctx, clock.System(), delay) != nil {
			held = false
			return refuse[T](callerErr(ctx))
		}
	}
}

func (r *Retry[T]) causeOf(v T, err error) error {
	switch {
	case err != nil:
		return err
	case r.cfg.Describe != nil:
		return r.cfg.Describe(v)
	}
	return errors.New("its result was a failure")
}

func (r *Retry[T]) failed(ctx context.Context, v T, err error, a Attempt) bool {
	classify := r.cfg.Classify
	if r.cfg.When != nil {
		classify = func(v T, err error) Classification {
			if r.cfg.When(v, err, a) {
				return Failure
			}
			return Success
		}
	}
	return classify.judge(ctx, v, err) == Failure
}

// again reports whether there is another attempt after delay. It takes that from the budget, and therefore checks
// everything else first.
func (r *Retry[T]) again(ctx context.Context, attempt int, delay time.Duration, err error) bool {
	if !r.cfg.Forever && attempt >= r.cfg.MaxAttempts {
		return false
	}
	// An inner policy that is closed will refuse every further attempt too.
	if ctx.Err() != nil || r.shut() || errors.Is(err, ErrClosed) {
		return false
	}
	if end, ok := ctx.Deadline(); ok && since(end) >= -delay {
		return false
	}
	return r.cfg.Budget.Spend()
}

func (r *Retry[T]) tell(a Attempt, delay time.Duration, v T, err error) {
	wanted := r.cfg.Hub.Wants()
	if r.cfg.OnRetry == nil && !wanted {
		return
	}
	e := RetryEvent{
		At: now(), Name: r.cfg.Name, Attempt: a.Number, Elapsed: a.Elapsed, Delay: delay, Err: err,
		Last: !r.cfg.Forever && a.Number+1 == r.cfg.MaxAttempts,
	}
	if wanted {
		r.cfg.Hub.Emit(e)
	}
	if r.cfg.OnRetry != nil {
		r.cfg.OnRetry(v, e)
	}
}

type attemptKey struct{}

// AttemptFrom returns the number of the attempt, from 1, of the innermost [Retry] around a call with this context, or 1
// if there is none.
func AttemptFrom(ctx context.Context) int {
	if n, ok := ctx.Value(attemptKey{}).(int); ok {
		return n
	}
	return 1
}

// withAttempt returns a context with the number of the attempt. For a first attempt that is ctx itself, unless ctx is
// within a later attempt of an outer policy.
func withAttempt(ctx context.Context, attempt int) context.Context {
	if AttemptFrom(ctx) == attempt {
		return ctx
	}
	return context.WithValue(ctx, attemptKey{}, attempt)
}
