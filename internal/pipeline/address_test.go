package pipeline

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// located is a connection to a host at an address of our choice.
type located struct{ net.Conn }

func (located) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 80} }

// Fifty hosts at one address share its rate to the full, one page each in turn, and no
// worker waits for it: whose turn moves because another host took the token waits in
// the frontier.
func TestHostsOfOneAddressShareItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hosts, pages, rate = 50, 6, 20
		handlers := map[string]http.Handler{}
		var seeds []string
		for i := range hosts {
			name := fmt.Sprintf("h%d.test", i)
			handlers[name] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					http.NotFound(rw, r)
					return
				}
				time.Sleep(30 * time.Millisecond)
			})
			for k := range pages {
				seeds = append(seeds, fmt.Sprintf("http://%s/%d", name, k))
			}
		}
		network := fetchtest.Serve(t, handlers)
		w := newWorldOn(t, fetch.Config{DialContext: func(ctx context.Context, n, addr string) (net.Conn, error) {
			c, err := network.DialContext(ctx, n, addr)
			if err != nil {
				return nil, err
			}
			return located{c}, nil
		}})
		w.limits.IPRPS = rate
		p, err := w.crawl(t, seeds...)
		require.NoError(t, err)
		require.Len(t, w.out.byURL(t), hosts*pages)

		took := time.Since(w.began)
		require.GreaterOrEqual(t, took, time.Duration(hosts*pages-1)*time.Second/rate)
		// Ten per cent more: the start, when addresses are not known, and the last page.
		require.Less(t, took, time.Duration(hosts*pages)*time.Second/rate*11/10)
		busy, waited := p.stats.workerBusy.Load(), p.stats.workerWait.Load()
		require.Less(t, waited, busy/100)
		require.Less(t, p.stats.returned.Load(), int64(hosts), "leases that came to nothing")
	})
}
