package sqlite

import "context"

// What tests need of the constants.
const (
	CleanupStep = cleanupStep
	TurnPause   = turnPause
)

// Exec runs SQL in a transaction of the repository.
func (r *Repository) Exec(ctx context.Context, script string) error {
	return r.submit(ctx, func(f *file) error { return f.db.Exec(script) })
}

// Ask runs a query of one value in a transaction of the repository.
func (r *Repository) Ask(ctx context.Context, query string) (value string, err error) {
	err = r.submit(ctx, func(f *file) (err error) {
		value, err = f.db.QueryText(query)
		return err
	})
	return value, err
}

// Waiting is how many callers wait.
func Waiting(r *Repository) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.queue)
}

// Working reports whether there is a worker.
func Working(r *Repository) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.working
}
