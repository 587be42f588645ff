package pipeline

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/web/trap"
)

// What a page has too many of is counted, and said once with what to change, rather than lost
// without a word.
func TestPagesWithTooManyLinks(t *testing.T) {
	for _, tc := range []struct {
		max, pages int
		dropped    int64
	}{{4, 5, 5 * 3}, {7, 8, 0}} { // each page has seven
		synctest.Test(t, func(t *testing.T) {
			net := fetchtest.Serve(t, map[string]http.Handler{
				"a.test": http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { html(rw, links(7)) }),
			})
			w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
			w.Extract.MaxLinks = tc.max
			var log bytes.Buffer
			w.Log = slog.New(slog.NewTextHandler(&log, nil))
			p, err := w.crawl(t, "http://a.test/")
			require.NoError(t, err)
			requireEnd(t, p, EndDone)
			require.Len(t, w.out.byURL(t), tc.pages)
			require.Equal(t, tc.dropped, p.Snapshot().Dropped["page_links"])
			said := strings.Count(log.String(), `msg="links are being dropped" reason=page_links first=http://a.test/ fix="none: a page has at most 10,000 links that are followed"`)
			require.Equal(t, tc.dropped > 0, said == 1, log.String())
		})
	}
}

// A link that no URL is long enough for is counted beside those that only the settings forbid, and
// whatever these are.
func TestLinksLongerThanAnyURL(t *testing.T) {
	for name, tc := range map[string]struct {
		traps, report bool
		pages         int
		dropped       int64
	}{
		"without traps": {pages: 2, dropped: 2},
		"reported":      {traps: true, report: true, pages: 2, dropped: 2},
		"left":          {traps: true, pages: 1, dropped: 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				page := "<a href=/" + strings.Repeat("a", 9000) + "><a href=/" + strings.Repeat("b", 9000) + "><a href=/" + strings.Repeat("c", 8100) + ">"
				net := fetchtest.Serve(t, map[string]http.Handler{
					"a.test": http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/" {
							html(rw, page)
						}
					}),
				})
				w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
				if w.Traps.Report = tc.report; tc.traps {
					w.Traps.Detector = trap.New(trap.Config{After: 1000})
				}
				var log bytes.Buffer
				w.Log = slog.New(slog.NewTextHandler(&log, nil))
				p, err := w.crawl(t, "http://a.test/")
				require.NoError(t, err)
				require.Len(t, w.out.byURL(t), tc.pages)
				require.Equal(t, tc.dropped, p.Snapshot().Dropped["url_length"])
				require.Equal(t, tc.report, p.Snapshot().Suspected["url_length"] == 1)
				require.Contains(t, log.String(), `msg="links are being dropped" reason=url_length first=http://a.test/ fix="none: `)
			})
		})
	}
}
