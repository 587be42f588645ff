package resilience

import (
	"context"
	"errors"
	"fmt"
)

// FallbackConfig says which results are replaced, and by what.
type FallbackConfig[T any] struct {
	Name string // name of the policy in errors and events; may be empty
	// When reports whether a result is replaced. Nil means that every error is, and no value. It is not called after
	// the caller has given up.
	When func(v T, err error) bool
	// Action returns the replacement. It may read v but must not return it, because v is discarded afterwards; to make
	// another call that needs the resources of v, it must free them first. Nil is an error.
	Action  func(ctx context.Context, v T, err error) (T, error)
	Discard func(T) // frees a value that was replaced; nil means that nothing needs to be freed
	Hub     *Hub    // receives a [FallbackEvent] for each replacement; nil means no events
}

// Fallback is a [Policy] that replaces useless results, for example by a page from a cache.
type Fallback[T any] struct {
	gate
	cfg FallbackConfig[T]
}

// NewFallback returns the policy. An error names the missing field.
func NewFallback[T any](cfg FallbackConfig[T]) (*Fallback[T], error) {
	if cfg.Action == nil {
		return nil, errors.New("fallback: Action = nil: want a function that gives the replacement")
	}
	if cfg.When == nil {
		cfg.When = func(_ T, err error) bool { return err != nil }
	}
	return &Fallback[T]{cfg: cfg}, nil
}

// Execute runs fn and returns its result or the replacement. If Action fails, the error wraps Action's and the replaced
// one.
func (f *Fallback[T]) Execute(ctx context.Context, fn func(context.Context) (T, error)) (T, error) {
	if f.shut() {
		return refuse[T](ErrClosed)
	}
	v, err := fn(ctx)
	replaced := true // true until When says otherwise: if When panics, nobody else frees v
	defer func() {
		if replaced && err == nil && f.cfg.Discard != nil {
			f.cfg.Discard(v)
		}
	}()
	if ctx.Err() != nil || !f.cfg.When(v, err) {
		replaced = false
		return v, err
	}
	return f.replace(ctx, v, err)
}

func (f *Fallback[T]) replace(ctx context.Context, v T, err error) (T, error) {
	if f.cfg.Hub.Wants() {
		f.cfg.Hub.Emit(FallbackEvent{At: now(), Name: f.cfg.Name, Err: err})
	}
	other, failed := f.cfg.Action(ctx, v, err)
	if failed == nil {
		return other, nil
	}
	name := label(errFallback, f.cfg.Name)
	if err == nil || errors.Is(failed, err) {
		return refuse[T](fmt.Errorf("%s: %w", name, failed))
	}
	return refuse[T](fmt.Errorf("%s: %w; it was to replace: %w", name, failed, err))
}

var errFallback = errors.New("fallback")
