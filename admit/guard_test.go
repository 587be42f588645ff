package admit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/admit"
	"github.com/treadlight/crawl/internal/admission"
)

func TestGuard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		two := admit.Plan{Name: "two", Kind: "fixed-window", Capacity: 2, Window: time.Minute}
		a, err := admit.New(admit.Config{
			Plans: []admit.Plan{two, {Name: "bucket", Capacity: 1, TokensPerSecond: 0.1}}, Rules: []admit.Rule{},
		})
		require.NoError(t, err)
		defer func() { require.NoError(t, a.Close()) }()
		calls := 0
		failed := errors.New("failed")
		call := func(tokens int64, plans ...string) error {
			return a.Guard(t.Context(), "ann", plans, tokens, func(context.Context) error { calls++; return failed })
		}
		require.ErrorIs(t, call(1, "bucket"), failed)
		require.Equal(t, 1, calls)

		err = call(1, "bucket")
		var denied *admit.DeniedError
		require.ErrorAs(t, err, &denied)
		require.ErrorIs(t, err, admit.ErrDenied)
		require.Equal(t, 10*time.Second, denied.Result.Wait)
		require.EqualError(t, err, `denied by plan "bucket": LIMITED, try again in 10s`)
		require.EqualError(t, call(3, "two"), `denied by plan "two": TOO_LARGE`)
		require.ErrorIs(t, call(1, "none"), admission.ErrUnknownPlan)
		require.Equal(t, 1, calls, "of what is denied nothing is called")

		require.Panics(t, func() {
			_ = a.Guard(t.Context(), "ann", []string{"two"}, 2, func(context.Context) error { panic("fn") })
		})
		require.ErrorIs(t, call(1, "two"), admit.ErrDenied, "what panicked was paid for")
	})
}
