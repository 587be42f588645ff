package service

import (
	"context"
	"errors"
	"fmt"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/resilience"
)

// Subscribe has fn called with every denial, beside the requests, until off.
func (a *Service) Subscribe(fn func(admission.Denial)) (off func()) {
	return resilience.Subscribe(&a.hub, func(e resilience.RateLimitedEvent) {
		if r, ok := e.Err.(*refusal); ok { //nolint:errorlint // nobody else emits to this hub, and nothing is wrapped
			fn(r.Denial)
		}
	})
}

// Dropped is how many denials found no place on their way to those who subscribed.
func (a *Service) Dropped() uint64 { return a.hub.Dropped() }

// refusal carries a Denial through the event hub, as the error of its event. Its text, which
// who prints events will print, does not have the key.
type refusal struct{ admission.Denial }

func (r *refusal) Error() string {
	return fmt.Sprintf("rule %q: %s by plan %q", r.Rule, r.Result.Reason, r.Result.Plan)
}

// told is where denials go: to the program's hook, by the goroutine of the request, and
// to the hub. The admission room knows nothing of hubs.
func (a *Service) told(hook func(admission.Denial)) func(admission.Denial) {
	return func(d admission.Denial) {
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

// Guard calls fn if key may be charged tokens under plans.
func (a *Service) Guard(ctx context.Context, key string, plans []string, tokens int64, fn func(context.Context) error) error {
	called := false
	err := a.admitter.Guard(ctx, key, plans, tokens, func(ctx context.Context) error {
		called = true
		return fn(ctx)
	})
	if denied, ok := errors.AsType[*admission.DeniedError](err); ok && !called { // fn may have been denied by another guard
		record := admission.Denial{RateLimited: true, Status: denied.Result.Status(), Key: key, Result: denied.Result}
		a.onDenied(record)
		a.calls.Denied(ctx, a.log, clock.System(), "call", record)
	} else if called {
		a.calls.Allowed(ctx, a.log, clock.System(), "call", "")
	}
	return err
}
