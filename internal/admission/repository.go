package admission

import (
	"context"
	"errors"
)

// ErrClosed is the error of a repository that was closed.
var ErrClosed = errors.New("admission: repository is closed")

// Repository keeps what keys have used of plans and decides. All its methods are safe
// for concurrent use. Package admissiontest has the suite that each must pass.
type Repository interface {
	// Take charges tokens to key under all plans, or, if one of them denies, under none,
	// and returns the Result of the tightest plan. A denial is not an error: an error
	// means that nothing is known and, as far as the repository can tell, nothing
	// charged. Plans are settled and of different names; tokens are 0 or more, and 0
	// only looks: it charges nothing and remembers nothing. A key is any string, the
	// empty one too. The slice is not changed by either side, and may be kept. It
	// returns when ctx ends, with an error that wraps ctx's.
	Take(ctx context.Context, key string, plans []Plan, tokens int64) (Result, error)
	// Remove forgets what key has used under plans. Not to know it is no error.
	Remove(ctx context.Context, key string, plans []Plan) error
	// Keys calls yield with each key that has used something of one of plans, in any order
	// and perhaps more than once, until that returns false. Keys that come or go meanwhile
	// may be missed.
	Keys(ctx context.Context, plans []Plan, yield func(key string) bool) error
	// Close gives back what the repository holds. Later calls of the other methods
	// fail with ErrClosed. It may be called again.
	Close() error
}
