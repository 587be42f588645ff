package pipeline

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// A Retry-After delays the host with 420, 429 and 5xx, the target alone with a redirect, and
// nothing with any other status.
func TestRetryAfterDelaysByStatus(t *testing.T) {
	const wait = 40 * time.Second
	for status, want := range map[int]struct{ others, target bool }{
		200: {}, 204: {}, 304: {}, 401: {}, 403: {}, 404: {}, 410: {}, 451: {},
		301: {target: true}, 302: {target: true}, 307: {target: true}, 308: {target: true},
		420: {others: true}, 429: {others: true},
		500: {others: true}, 502: {others: true}, 503: {others: true}, 504: {others: true}, 599: {others: true},
	} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ordered, target time.Time
				var soonest time.Duration = -1 // from the order to the next request for another page
				site := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
					now := time.Now()
					switch r.URL.Path {
					case "/robots.txt":
						rw.WriteHeader(http.StatusNotFound)
					case "/asks":
						if ordered.IsZero() {
							ordered = now
							rw.Header().Set("Retry-After", strconv.Itoa(int(wait.Seconds())))
							rw.Header().Set("Location", "/target")
							rw.WriteHeader(status)
							return
						}
						html(rw, "x")
					case "/target":
						target = now
						html(rw, "x")
					case "/":
						html(rw, "<a href=/asks>x</a>"+links(10))
					default:
						if !ordered.IsZero() && soonest < 0 {
							soonest = now.Sub(ordered)
						}
						html(rw, "x")
					}
				})
				net := fetchtest.Serve(t, map[string]http.Handler{"a.test": site})
				w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
				w.Concurrency = 1
				p, err := w.crawl(t, "http://a.test/")
				require.NoError(t, err)
				requireEnd(t, p, EndDone)
				require.Equal(t, want.others, soonest >= wait, "the others after %v", soonest)
				if want.target {
					require.GreaterOrEqual(t, target.Sub(ordered), wait)
				} else {
					require.Zero(t, target)
				}
			})
		})
	}
}

// The Retry-After of a 403 delays the host while that blocks the client.
func TestRetryAfterOfABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var last time.Time
		inside, blocked := 0, 0
		site := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				rw.WriteHeader(http.StatusNotFound)
				return
			}
			now := time.Now()
			if at := now.Sub(began); at > 10*time.Second && at < 5*time.Minute {
				if blocked++; blocked > 6 && now.Before(last.Add(100*time.Second)) {
					inside++
				}
				last = now
				rw.Header().Set("Retry-After", "100")
				rw.WriteHeader(http.StatusForbidden)
				return
			}
			if r.URL.Path == "/" {
				html(rw, links(200))
				return
			}
			html(rw, "x")
		})
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": site})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.Concurrency, w.MaxBlocked = 1, time.Hour
		p, err := w.crawl(t, "http://a.test/")
		require.NoError(t, err)
		requireEnd(t, p, EndDone)
		require.Greater(t, blocked, 6)
		require.Zero(t, inside, "requests inside the Retry-After of a block")
		for u, rec := range w.out.byURL(t) {
			require.Equal(t, http.StatusOK, rec.Status, u)
		}
	})
}

// The robots.txt and the sitemap that a redirect leads to wait too, and nothing else does.
func TestRetryAfterOfRedirectedFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		at := map[string]time.Time{}
		site := http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			at[r.URL.Path] = time.Now()
			switch r.URL.Path {
			case "/robots.txt", "/sitemap.xml":
				rw.Header().Set("Retry-After", "30")
				rw.Header().Set("Location", "/moved"+r.URL.Path)
				rw.WriteHeader(http.StatusFound)
			case "/moved/robots.txt":
				fmt.Fprint(rw, "User-agent: *\nDisallow: /private\n")
			case "/moved/sitemap.xml":
				fmt.Fprint(rw, "<urlset><url><loc>http://a.test/listed</loc></url></urlset>")
			default:
				html(rw, strings.Repeat("<a href=/p>x</a>", 1))
			}
		})
		net := fetchtest.Serve(t, map[string]http.Handler{"a.test": site})
		w := newWorldOn(t, fetch.Config{DialContext: net.DialContext})
		w.Sitemaps.Enabled = true
		p, err := w.crawl(t, "http://a.test/")
		require.NoError(t, err)
		requireEnd(t, p, EndDone)
		for _, path := range []string{"/robots.txt", "/sitemap.xml"} {
			require.GreaterOrEqual(t, at["/moved"+path].Sub(at[path]), 30*time.Second, path)
		}
		require.Less(t, at["/p"].Sub(at["/sitemap.xml"]), 30*time.Second)
		require.Contains(t, at, "/listed")
	})
}
