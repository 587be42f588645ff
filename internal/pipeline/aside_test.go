package pipeline

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/records/sink"
)

// Archives have what other sinks have, with the bytes of each exchange, and robots.txt with
// its redirects beside that. Without archives nobody keeps bytes.
func TestArchives(t *testing.T) {
	for name, archived := range map[string]bool{"archived": true, "not archived": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				mux := http.NewServeMux()
				mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/rules", http.StatusFound) })
				mux.HandleFunc("/rules", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "User-agent: *\nDisallow: /no\n") })
				mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { html(w, "<a href=/no>no</a><a href=/gone>gone</a>") })
				net := fetchtest.Serve(t, map[string]http.Handler{"h.test": mux})
				w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
				archive := &memorySink{}
				if archived {
					w.Archives = []sink.Sink{archive}
				}
				p, err := w.crawl(t, "http://h.test/")
				require.NoError(t, err)
				records := w.out.byURL(t)
				require.Len(t, records, 3, "no robots.txt")
				require.EqualValues(t, 3, p.Snapshot().Records)
				for u, rec := range records {
					require.Equal(t, archived && rec.Status != 0, rec.Exchange != nil, u)
				}
				if !archived {
					require.Empty(t, archive.records)
					return
				}
				all := archive.byURL(t)
				require.Len(t, all, 5)
				for u, begins := range map[string]string{
					"http://h.test/": "HTTP/1.1 200 OK", "http://h.test/gone": "HTTP/1.1 404", "http://h.test/robots.txt": "HTTP/1.1 302", "http://h.test/rules": "HTTP/1.1 200 OK",
				} {
					require.True(t, strings.HasPrefix(string(all[u].Exchange.Response), begins), "%s: %s", u, all[u].Exchange.Response)
					require.True(t, strings.HasPrefix(string(all[u].Exchange.Request), "GET /"), u)
				}
				rules := all["http://h.test/rules"]
				require.Equal(t, "robots", rules.Kind)
				require.Equal(t, "User-agent: *\nDisallow: /no\n", string(rules.Exchange.Payload))
				require.Equal(t, 200, rules.Status)
				require.False(t, rules.FetchedAt.IsZero())
				require.Nil(t, all["http://h.test/no"].Exchange, "it was not asked for")
			})
		})
	}
}

// An archive that takes no more ends the crawl.
func TestArchiveFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := fetchtest.Serve(t, map[string]http.Handler{"h.test": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			html(w, links(3))
		})})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.Archives = []sink.Sink{&memorySink{fail: errFull}}
		p, err := w.crawl(t, "http://h.test/")
		require.ErrorIs(t, err, errFull)
		require.ErrorContains(t, err, "write archive")
		requireEnd(t, p, EndFailed)
	})
}
