package pipeline

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit/control"
)

// forbidding is a site of n pages, with private ones spread among them. Of the others it
// forbids those that locked says.
func forbidding(n, private int, locked func(now time.Time) bool) *limitedSite {
	site := failing(n, private, "")
	site.status = http.StatusForbidden
	site.refuse = func(path string, _ int, now time.Time) http.Header {
		if strings.HasPrefix(path, "/login") || locked != nil && locked(now) {
			return http.Header{}
		}
		return nil
	}
	return site
}

// requireStatuses checks that each page was had, and each private one is recorded as that.
func requireStatuses(t *testing.T, w *world, pages, private int) {
	t.Helper()
	records := w.out.byURL(t)
	require.Len(t, records, pages+private)
	for u, rec := range records {
		want := http.StatusOK
		if strings.Contains(u, "login") {
			want = http.StatusForbidden
		}
		require.Equal(t, want, rec.Status, u)
	}
}

// What a host keeps private costs a handful of requests, however much it is.
func TestPrivatePagesAreFinal(t *testing.T) {
	for private, refused := range map[int]int{0: 0, 1: 2, 5: 10, 40: 50} {
		for _, strategy := range []string{control.NameSteer, control.NameAIMD} {
			t.Run(fmt.Sprintf("%s/%d", strategy, private), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					began := time.Now()
					site := forbidding(200, private, nil)
					w, p := site.crawl(t, strategy, nil)
					requireEnd(t, p, EndDone)
					requireStatuses(t, w, 201, private)
					require.LessOrEqual(t, site.refused, refused)
					t.Logf("%d private pages: %d times 403, %v", private, site.refused, time.Since(began).Round(time.Second))
				})
			})
		}
	}
}

// A host that forbids everything has said so with its first answer to each.
func TestHostThatForbidsAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		site := forbidding(200, 0, func(time.Time) bool { return true })
		w, p := site.crawl(t, control.NameSteer, nil)
		requireEnd(t, p, EndDone)
		require.Equal(t, 1, site.requests)
		require.Equal(t, http.StatusForbidden, w.out.byURL(t)["http://a.test/"].Status)
	})
}

// Who is locked out for a while, or told "later" with a 403, has every page in the end, and
// of private ones knows that they are.
func TestNoPageIsLostToA403(t *testing.T) {
	began := time.Time{}
	for name, tc := range map[string]struct {
		private, refused int
		locked           func() func(time.Time) bool
	}{
		"bucket": {0, 60, func() func(time.Time) bool {
			level, last := 20.0, began
			return func(now time.Time) bool {
				level, last = min(20, level+4*now.Sub(last).Seconds()), now
				if level < 1 {
					return true
				}
				level--
				return false
			}
		}},
		"lockout": {0, 12, func() func(time.Time) bool {
			return func(now time.Time) bool { at := now.Sub(began); return at > 10*time.Second && at < 40*time.Second }
		}},
		"renewed by each request": {2, 40, func() func(time.Time) bool {
			var second, until time.Time
			count := 0
			return func(now time.Time) bool {
				if s := now.Truncate(time.Second); s != second {
					second, count = s, 0
				}
				count++
				if count > 5 || now.Before(until) {
					until = now.Add(10 * time.Second)
					return true
				}
				return false
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began = time.Now()
				site := forbidding(400, tc.private, tc.locked())
				w, p := site.crawl(t, control.NameSteer, nil)
				requireEnd(t, p, EndDone)
				requireStatuses(t, w, 401, tc.private)
				require.LessOrEqual(t, site.refused, tc.refused)
				t.Logf("%d refused, %v", site.refused, time.Since(began).Round(time.Second))
			})
		})
	}
}
