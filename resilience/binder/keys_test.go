package binder

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/resilience"
)

// A caller with more hosts than usual says so.
func TestKeysOfIsolation(t *testing.T) {
	type key struct{}
	p, err := Bind(&Model{BulkheadIsolation: &BulkheadIsolation{MaxConcurrency: 1}}, Options[int]{
		Deps: Deps{Keys: 2}, Key: func(ctx context.Context) string { return ctx.Value(key{}).(string) },
	})
	require.NoError(t, err)
	defer func() { require.NoError(t, p.Close()) }()
	nest := func(names ...string) (err error) {
		run := func(context.Context) (int, error) { return 0, nil }
		for _, name := range names {
			inner := run
			run = func(ctx context.Context) (int, error) {
				return p.Execute(context.WithValue(ctx, key{}, name), inner)
			}
		}
		_, err = run(t.Context())
		return err
	}
	require.NoError(t, nest("a", "b"))
	require.ErrorIs(t, nest("a", "b", "c"), resilience.ErrBulkheadFull)
}
