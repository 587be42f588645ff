package resilience_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/classic"
	"github.com/treadlight/crawl/resilience"
)

func TestDefaultClassifier(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want resilience.Verdict
	}{
		{nil, resilience.Success},
		{errDown, resilience.Failure},
		{&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}, resilience.Failure},
		{context.DeadlineExceeded, resilience.Failure}, // the caller's own never comes here
		{&resilience.TimeoutError{Err: context.Canceled}, resilience.Failure},
		{&resilience.RetryError{Attempts: 2, Err: errDown}, resilience.Failure},
		{&resilience.HedgeError{Errs: []error{&resilience.OpenError{}, errDown}}, resilience.Failure},
		{&resilience.HedgeError{Errs: []error{context.Canceled}}, resilience.Failure},
		{&resilience.HedgeError{Errs: []error{&resilience.OpenError{}, resilience.ErrBulkheadFull}}, resilience.Ignored},
		{context.Canceled, resilience.Ignored},
		{fmt.Errorf("get: %w", context.Canceled), resilience.Ignored},
		{&resilience.OpenError{}, resilience.Ignored},
		{&resilience.BulkheadError{Err: context.DeadlineExceeded}, resilience.Ignored},
		{resilience.ErrClosed, resilience.Ignored},
		{&resilience.TimeoutError{Err: &classic.LimitError{}}, resilience.Ignored},
		{&classic.LimitError{Err: context.DeadlineExceeded}, resilience.Ignored},
		{classic.ErrExceedsCapacity, resilience.Ignored},
		{&ratelimit.CircuitOpenError{}, resilience.Ignored},
		{ratelimit.ErrTooManyWaiters, resilience.Ignored},
		{&ratelimit.WaitError{}, resilience.Ignored},
	} {
		if got := resilience.DefaultClassifier("v", tc.err); got != tc.want {
			t.Errorf("verdict on %T %v = %v, want %v", tc.err, tc.err, got, tc.want)
		}
	}
}

// A classifier is not asked about errors of a caller who has given up. One whose time was
// up by a policy further out was not served in that time.
func TestVerdictOnTheCallersEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		cause error
		asked bool
	}{
		"the caller left": {errDown, false}, "a policy's time was up": {&resilience.TimeoutError{}, true},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		asked := false
		r := must[*resilience.Retry[string]](t)(resilience.NewRetry(retryConfig{Classify: func(string, error) resilience.Verdict {
			asked = true
			return resilience.Failure
		}}))
		_, err := r.Execute(ctx, func(context.Context) (string, error) {
			cancel(tc.cause)
			return "", errDown
		})
		if asked != tc.asked || err != errDown { //nolint:errorlint // as it is, not wrapped
			t.Errorf("%s: classifier asked = %v and error %v, want %v and what the call said", name, asked, err, tc.asked)
		}
	}
}

func TestVerdictNames(t *testing.T) {
	wantEqual(t, "names", []string{resilience.Success.String(), resilience.Failure.String(), resilience.Ignored.String(), resilience.Verdict(9).String()},
		[]string{"success", "failure", "ignored", "verdict(9)"})
}

func TestErrors(t *testing.T) {
	errQueue := errors.New("queue full")
	for _, tc := range []struct {
		err  error
		text string
		is   []error
		not  error
	}{
		{
			&resilience.OpenError{Name: "b", RetryAfter: sec}, "circuit open (b): next try in 1s",
			[]error{resilience.ErrOpen},
			resilience.ErrClosed,
		},
		{&resilience.OpenError{}, "circuit open: next try in 0s", []error{resilience.ErrOpen}, resilience.ErrTimeout},
		{
			&resilience.BulkheadError{Name: "h", Key: "a.test", Err: errQueue}, `bulkhead full (h) for "a.test": queue full`,
			[]error{resilience.ErrBulkheadFull, errQueue},
			resilience.ErrOpen,
		},
		{&resilience.BulkheadError{}, "bulkhead full", []error{resilience.ErrBulkheadFull}, errQueue},
		{
			&resilience.TimeoutError{Name: "t", After: sec, Err: errDown}, "timeout (t) after 1s: down",
			[]error{resilience.ErrTimeout, context.DeadlineExceeded, errDown},
			context.Canceled,
		},
		{
			&resilience.TimeoutError{After: sec, Err: context.DeadlineExceeded}, "timeout after 1s",
			[]error{resilience.ErrTimeout, context.DeadlineExceeded},
			os.ErrDeadlineExceeded,
		},
		{
			&resilience.RetryError{Name: "r", Attempts: 3, Err: errDown}, "retries exhausted (r) after 3 attempts: down",
			[]error{resilience.ErrRetriesExhausted, errDown},
			resilience.ErrTimeout,
		},
		{&resilience.RetryError{Attempts: 1, Err: errDown}, "retries exhausted after 1 attempt: down", []error{errDown}, errQueue},
		{
			&resilience.HedgeError{Name: "h", Errs: []error{errDown, errQueue}}, "every hedged call failed (h): down\nqueue full",
			[]error{resilience.ErrHedgeFailed, errDown, errQueue},
			resilience.ErrRetriesExhausted,
		},
	} {
		if got := tc.err.Error(); got != tc.text {
			t.Errorf("%T says %q, want %q", tc.err, got, tc.text)
		}
		for _, is := range tc.is {
			if !errors.Is(fmt.Errorf("wrapped: %w", tc.err), is) {
				t.Errorf("%v is not %v", tc.err, is)
			}
		}
		if errors.Is(tc.err, tc.not) {
			t.Errorf("%v is %v", tc.err, tc.not)
		}
	}
	var timeout net.Error = &resilience.TimeoutError{After: time.Second}
	if !timeout.Timeout() || !timeout.Temporary() { //nolint:staticcheck // it is what old callers ask
		t.Error("a TimeoutError is no timeout, or is there to stay")
	}
}
