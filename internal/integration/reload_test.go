package integration_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/testsite"
)

// A host that waits for an hour by the old rules is asked when the new ones let it.
func TestReloadEndsALongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.MinDelay = time.Hour
		s, c, _ := inMemory(t, testsite.Config{Hosts: []testsite.Host{{Name: "a", Pages: 10}}}, cfg)
		begun := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context(), s.URLs()...) }()
		time.Sleep(time.Minute)
		wish := cfg.Settings
		wish.RateLimit.MinDelay = 0
		_, _, err := c.Reload(&wish)
		require.NoError(t, err)
		require.NoError(t, <-ended)
		require.EqualValues(t, 10, c.Snapshot().Pages)
		require.Less(t, time.Since(begun), 2*time.Minute)
		_, _, err = c.Reload(&cfg.Settings)
		require.NoError(t, err, "after the end too")
	})
}

// A crawl at one page in ten seconds is let go faster while it runs; what cannot change
// stays and is named; what is wrong changes nothing.
func TestReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.MinDelay = 10 * time.Second
		s, c, _ := inMemory(t, testsite.Config{Hosts: []testsite.Host{{Name: "a", Pages: 100}}}, cfg)
		begun := time.Now()
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context(), s.URLs()...) }()
		time.Sleep(time.Minute)
		require.LessOrEqual(t, c.Snapshot().Pages, int64(7))

		bad := cfg.Settings
		bad.RateLimit.MaxRPS = -1
		_, _, err := c.Reload(&bad)
		require.ErrorContains(t, err, "ratelimit.max_rps")

		wish := cfg.Settings
		wish.RateLimit.MinDelay, wish.Concurrency = 0, 5
		applied, refused, err := c.Reload(&wish)
		require.NoError(t, err)
		require.Len(t, applied, 1)
		require.Equal(t, "ratelimit.min_delay: 10s → 0", applied[0].String())
		require.Len(t, refused, 1)
		require.Equal(t, "concurrency", refused[0].Path)

		applied, refused, err = c.Reload(&wish)
		require.NoError(t, err)
		require.Empty(t, applied)
		require.Len(t, refused, 1)

		require.NoError(t, <-ended)
		require.EqualValues(t, 100, c.Snapshot().Pages)
		require.Less(t, time.Since(begun), 3*time.Minute)
	})
}
