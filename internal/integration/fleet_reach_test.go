package integration_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

// That no seed answers is so of all processes of a job or of none, whichever of them has asked
// for those that do.
func TestFleetIsUnreachableAsAWhole(t *testing.T) {
	server := redistest.Redis.Start(t)
	begin := func(job string, net *fetchtest.Net, seed string) <-chan error {
		cfg := assembly.DefaultConfig()
		cfg.RateLimit.Strategy, cfg.RateLimit.RetryMaxAttempts, cfg.Sitemaps.Enabled = "off", 0, false
		cfg.Fleet.Redis, cfg.Fleet.Job, cfg.Scope.Mode = "redis://"+server.Addr, job, "any"
		c, err := newOver(cfg, net.DialContext)
		require.NoError(t, err)
		ended := make(chan error, 1)
		go func() { ended <- c.Run(t.Context(), seed) }()
		return ended
	}
	done := func(job string) int { return doneOf(t, server, job) }
	nobody := fetchtest.Serve(t, nil)
	require.ErrorIs(t, <-begin("none", nobody, "http://gone.test/"), crawl.ErrUnreachable)
	require.ErrorIs(t, <-begin("none", nobody, "http://lost.test/"), crawl.ErrUnreachable, "though another has been here")

	asked, hold := make(chan struct{}), make(chan struct{})
	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			close(asked)
			<-hold
		}
	})})
	first := begin("some", net, "http://a.test/")
	<-asked
	second := begin("some", net, "http://gone.test/")
	require.Eventually(t, func() bool { return done("some") == 1 }, redistest.Patience, 10*time.Millisecond)
	close(hold)
	require.NoError(t, <-second, "another has reached one")
	require.NoError(t, <-first)
	require.NoError(t, <-begin("some", net, "http://lost.test/"), "one was reached before")
}
