package pipeline

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// A big host beside many small ones, with the engine that really paces them and with none:
// the small ones are done as soon as their pace allows, the big one keeps its own, and no
// worker waits.
func TestBigHostBesideSmallOnes(t *testing.T) {
	const hosts, pages, big, rate, slots = 100, 10, 3000, 2, 16
	const service = 20 * time.Millisecond
	for _, paced := range []bool{true, false} {
		t.Run(fmt.Sprintf("paced %v", paced), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				serve := map[string]http.Handler{}
				host := func(n int) http.HandlerFunc {
					return func(rw http.ResponseWriter, r *http.Request) {
						time.Sleep(service)
						switch r.URL.Path {
						case "/robots.txt":
							rw.WriteHeader(http.StatusNotFound)
						case "/":
							html(rw, links(n-1))
						default:
							html(rw, "x")
						}
					}
				}
				serve["big.test"] = host(big)
				seeds := []string{"http://big.test/"}
				for i := range hosts {
					name := fmt.Sprintf("small%d.test", i)
					serve[name] = host(pages)
					seeds = append(seeds, "http://"+name+"/")
				}
				network := fetchtest.Serve(t, serve)
				w := newWorldOn(t, fetch.Config{DialContext: network.DialContext})
				w.Concurrency = slots
				w.limits.Enabled = paced
				w.limits.InitialRPS, w.limits.MinRPS, w.limits.MaxRPS = rate, rate, rate
				w.MaxTime = 20 * time.Second
				p, err := w.crawl(t, seeds...)
				require.NoError(t, err)

				var last time.Time
				var turns []time.Time
				done := map[string]int{}
				for _, r := range network.Requests() {
					if strings.HasPrefix(r.Host, "small") {
						last = r.At
						done[r.Host]++
						continue
					}
					turns = append(turns, r.At)
				}
				require.Len(t, done, hosts)
				for name, n := range done {
					require.Equal(t, pages+1, n, name)
				}
				// Half of the slots are always open to the small hosts: at worst they make all
				// their requests on those.
				const bound = hosts * (pages + 1) * service / (slots / 2)
				own := time.Duration(0)
				if paced {
					own = pages * time.Second / rate
				}
				t.Logf("small hosts done after %v, own pace %v", last.Sub(w.began), own)
				require.LessOrEqual(t, last.Sub(w.began), own+bound)
				gap := time.Duration(0)
				for i, at := range turns[1:] {
					gap = max(gap, at.Sub(turns[i]))
				}
				t.Logf("big host: %d requests, widest gap %v", len(turns), gap)
				if paced {
					require.LessOrEqual(t, gap, time.Second/rate+3*service)
					require.GreaterOrEqual(t, len(turns), rate*19)
				} else {
					require.LessOrEqual(t, gap, (hosts+slots)/slots*2*service)
				}
				requireQuietWorkers(t, p)
			})
		})
	}
}
