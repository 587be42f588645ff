package lifetime_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/clock/lifetime"
)

func TestEndWaitsForTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lifetime.New()
		require.True(t, l.Begin())
		done := false
		go func() {
			l.End()
			done = true
		}()
		synctest.Wait()
		require.True(t, l.Over())
		require.Error(t, l.Context().Err())
		require.False(t, l.Begin())
		require.False(t, done)
		l.Done()
		synctest.Wait()
		require.True(t, done)
		l.End()
	})
}
