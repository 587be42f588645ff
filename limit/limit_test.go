package limit_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/limit"
)

var ctx = context.Background()

// A program that only has this package can hold every kind, and test it by the time of a
// bubble.
func TestEveryKindLimits(t *testing.T) {
	for _, kind := range limit.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spec := limit.Spec{Kind: kind, Permits: 1, Per: time.Minute}
				if kind == limit.KindConcurrency {
					spec.Per = 0
				}
				l, err := limit.New(spec)
				require.NoError(t, err)
				defer l.Close()

				release, err := limit.AcquireRelease(ctx, l)
				require.NoError(t, err)
				err = l.AcquireTimeout(ctx, 1, 0)
				require.ErrorIs(t, err, limit.ErrLimited)
				if kind == limit.KindConcurrency {
					release()
				}
				begin := time.Now()
				require.NoError(t, l.Acquire(ctx))
				if kind != limit.KindConcurrency {
					require.Positive(t, time.Since(begin))
					require.LessOrEqual(t, time.Since(begin), 2*time.Minute)
				}
				l.Release()
			})
		})
	}
}
