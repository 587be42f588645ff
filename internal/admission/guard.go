package admission

import (
	"context"
	"errors"
	"fmt"
)

// ErrDenied is what the errors of denied calls are.
var ErrDenied = errors.New("denied by a limit")

// DeniedError is a denial with its Result. It is an [ErrDenied].
type DeniedError struct {
	Result Result
}

// Error says which plan denied, why, and for how long.
func (e *DeniedError) Error() string {
	r := &e.Result
	if r.Wait == Never || r.Wait == 0 {
		return fmt.Sprintf("denied by plan %q: %s", r.Plan, r.Reason)
	}
	return fmt.Sprintf("denied by plan %q: %s, try again in %v", r.Plan, r.Reason, r.Wait)
}

// Is reports whether target is ErrDenied.
func (e *DeniedError) Is(target error) bool { return target == ErrDenied }

// Guard calls fn if key may be charged tokens under plans, and returns its error. If it
// may not, fn is not called and the error is a [*DeniedError]. The errors of
// [Admitter.Allow] come as they are, without fn being called either. What fn does is paid
// for, whether it succeeds, fails or panics.
func (a *Admitter) Guard(ctx context.Context, key string, plans []string, tokens int64, fn func(context.Context) error) error {
	res, err := a.Allow(ctx, key, plans, tokens)
	switch {
	case err != nil:
		return err
	case !res.Allowed:
		return &DeniedError{res}
	}
	return fn(ctx)
}
