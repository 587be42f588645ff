package pipeline

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/records/sink"
)

// A link to where a sitemap was looked for in vain is followed once, whichever of both was known
// when the crawl was cut off, and wherever that was.
func TestLinkToNoSitemapAfterAResume(t *testing.T) {
	for name, site := range map[string]struct {
		files
		slow bool // the sitemap is promised for later
	}{
		"the link first": {files{"/": "<a href=/sitemap.xml>", "/1": "x"}, true},
		"the link last":  {files{"/": "<a href=/1>", "/1": "<a href=/2>", "/2": "<a href=/3>", "/3": "<a href=/sitemap.xml>"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			for instant := range 15 {
				synctest.Test(t, func(t *testing.T) {
					linkAfterAResume(t, site.files, site.slow, time.Duration(instant)*100*time.Millisecond)
				})
			}
		})
	}
}

func linkAfterAResume(t *testing.T, site files, slow bool, after time.Duration) {
	begun := time.Now()
	net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if slow && r.URL.Path == "/sitemap.xml" && time.Since(begun) < time.Second {
			rw.Header().Set("Retry-After", "1")
			rw.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		site.ServeHTTP(rw, r)
	})})
	out, state := &durableSink{}, newJournal(1)
	state.slow = time.Millisecond
	crawl := func(limit time.Duration) error {
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.Sitemaps = Sitemaps{Enabled: true}
		w.limits.InitialRPS, w.limits.MaxRPS = 10, 10
		w.State, w.Sinks = state.state(), []sink.Sink{out}
		p := w.build(t)
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		err := w.run(ctx, t, p, "http://a.test/")
		w.client.Close()
		synctest.Wait()
		return err
	}
	if err := crawl(after); err != nil {
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	var kept int64
	state, kept = state.reopen()
	state.slow, out.records = time.Millisecond, out.records[:kept]
	require.NoError(t, crawl(time.Hour))
	var got []string
	for _, line := range out.kinds() {
		if line == "page 404 /sitemap.xml" {
			got = append(got, line)
		}
	}
	require.Len(t, got, 1, "cut off after %v: %v", after, slices.Sorted(slices.Values(out.kinds())))
}
