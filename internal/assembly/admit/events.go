package admit

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch/resilience"
)

// Subscribe has fn called with every denial, and with what a rule that only looks on would
// have denied. It is for traces, counters and dashboards: fn may be slow and may block,
// because it is called beside the requests, on one goroutine, in the order of the denials.
// A thousand of them wait for it; what comes beyond that is left out and counted by
// [Admission.Dropped]. A panic of fn ends that call only.
//
// After off has returned fn is not called again, though a call may still be running. fn may
// subscribe and unsubscribe; it must not call [Admission.Close], which waits for it.
func (a *Admission) Subscribe(fn func(Denial)) (off func()) {
	return resilience.Subscribe(&a.hub, func(e resilience.RateLimitedEvent) {
		if r, ok := e.Err.(*refusal); ok { //nolint:errorlint // nobody else emits to this hub, and nothing is wrapped
			fn(r.Denial)
		}
	})
}

// Dropped is how many denials found no place on their way to those who subscribed.
func (a *Admission) Dropped() uint64 { return a.hub.Dropped() }

// refusal carries a Denial through the event hub, as the error of its event. Its text, which
// who prints events will print, does not have the key.
type refusal struct{ Denial }

func (r *refusal) Error() string {
	return fmt.Sprintf("rule %q: %s by plan %q", r.Rule, r.Result.Reason, r.Result.Plan)
}

// told is where denials go: to the program's hook, by the goroutine of the request, and
// to the hub. The room of limits knows nothing of hubs, so this room joins them.
func (a *Admission) told(hook func(Denial)) func(Denial) {
	return func(d Denial) {
		if hook != nil {
			hook(d)
		}
		if a.hub.Wants() {
			a.hub.Emit(resilience.RateLimitedEvent{
				At: clock.System().Now(), Name: d.Rule, Wait: d.Result.Wait, Err: &refusal{d},
			})
		}
	}
}

// Guard calls fn if key may be charged tokens under plans, all of them or none, and
// returns its error; otherwise it returns a [*DeniedError] at once. It is for what is not
// a request: a mail sent, a job begun. Its denials are told as those of requests are, with
// no rule, method or path.
func (a *Admission) Guard(ctx context.Context, key string, plans []string, tokens int64, fn func(context.Context) error) error {
	called := false
	err := a.admitter.Guard(ctx, key, plans, tokens, func(ctx context.Context) error {
		called = true
		return fn(ctx)
	})
	if denied, ok := errors.AsType[*DeniedError](err); ok && !called { // fn may have been denied by another guard
		record := Denial{RateLimited: true, Status: denied.Result.Status(), Key: key, Result: denied.Result}
		a.onDenied(record)
		a.calls.Denied(ctx, a.log, clock.System(), "call", record)
	} else if called {
		a.calls.Allowed(ctx, a.log, clock.System(), "call", "")
	}
	return err
}
