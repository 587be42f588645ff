package resilience_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/treadlight/crawl/resilience"
)

type fallbackConfig = resilience.FallbackConfig[string]

func TestFallback(t *testing.T) {
	errWorse := errors.New("worse")
	isBad := func(v string, err error) bool { return v == "bad" || err != nil }
	for _, tc := range []struct {
		name     string
		when     func(string, error) bool
		r        result
		action   result
		v, text  string // what comes out; no text means no error
		errs     []error
		discards []string
		events   int
	}{
		{name: "success", r: result{v: "good"}, v: "good"},
		{name: "an error", r: result{err: errDown}, action: result{v: "spare"}, v: "spare", events: 1},
		{name: "a value, which counts as good by default", r: result{v: "bad"}, v: "bad"},
		{
			name: "a value", when: isBad, r: result{v: "bad"}, action: result{v: "spare"},
			v: "spare", discards: []string{"bad"}, events: 1,
		},
		{
			name: "another error is left", when: func(_ string, err error) bool { return errors.Is(err, resilience.ErrOpen) },
			r: result{err: errDown}, text: "down", errs: []error{errDown},
		},
		{
			name: "no replacement", r: result{err: errDown}, action: result{v: "none", err: errWorse},
			text: "fallback (f): worse; it was to replace: down", errs: []error{errDown, errWorse}, events: 1,
		},
		{
			name: "no replacement for a value", when: isBad, r: result{v: "bad"}, action: result{err: errWorse},
			text: "fallback (f): worse", errs: []error{errWorse}, discards: []string{"bad"}, events: 1,
		},
		{
			name: "the error comes back", r: result{err: errDown}, action: result{err: errDown},
			text: "fallback (f): down", errs: []error{errDown}, events: 1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hub resilience.Hub
				var heard []resilience.FallbackEvent
				resilience.Subscribe(&hub, func(e resilience.FallbackEvent) { heard = append(heard, e) })
				c := newCallee(tc.r)
				f := must[*resilience.Fallback[string]](t)(resilience.NewFallback(fallbackConfig{
					Name: "f", When: tc.when, Discard: c.discard, Hub: &hub,
					Action: func(_ context.Context, v string, err error) (string, error) {
						if v != tc.r.v || !errors.Is(err, tc.r.err) {
							t.Errorf("Action(%q, %v), want %q, %v", v, err, tc.r.v, tc.r.err)
						}
						if len(c.discards) > 0 {
							t.Error("the value was discarded before Action had read it")
						}
						return tc.action.v, tc.action.err
					},
				}))
				v, err := f.Execute(t.Context(), c.call)
				hub.Close()
				if v != tc.v || (err != nil) != (tc.text != "") || err != nil && err.Error() != tc.text {
					t.Errorf("Execute = %q, %v, want %q, %s", v, err, tc.v, tc.text)
				}
				for _, want := range tc.errs {
					if !errors.Is(err, want) {
						t.Errorf("%v is not %v", err, want)
					}
				}
				wantEqual(t, "discarded", c.discards, tc.discards)
				if len(heard) != tc.events {
					t.Errorf("events %v, want %d", heard, tc.events)
				}
			})
		})
	}
}

// Nobody waits for the replacement when the caller has given up.
func TestFallbackCallerGaveUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	f := must[*resilience.Fallback[string]](t)(resilience.NewFallback(fallbackConfig{
		Action: func(context.Context, string, error) (string, error) {
			t.Error("Action was called")
			return "", nil
		},
	}))
	if _, err := f.Execute(ctx, func(ctx context.Context) (string, error) {
		cancel()
		return "", ctx.Err()
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("Execute = %v, want the caller's cancellation", err)
	}
}

func TestFallbackDiscardsWhenActionPanics(t *testing.T) {
	c := newCallee(result{v: "bad"})
	f := must[*resilience.Fallback[string]](t)(resilience.NewFallback(fallbackConfig{
		When:    func(string, error) bool { return true },
		Action:  func(context.Context, string, error) (string, error) { panic("action") },
		Discard: c.discard,
	}))
	if !panics(func() { f.Execute(t.Context(), c.call) }) {
		t.Error("the panic of Action was lost")
	}
	wantEqual(t, "discarded", c.discards, []string{"bad"})
}

func TestFallbackConfigIsChecked(t *testing.T) {
	if _, err := resilience.NewFallback(fallbackConfig{}); err == nil {
		t.Error("NewFallback without an Action = nil error")
	}
}
