package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/web/robots"
)

// Random worlds: every URL reachable is recorded exactly once, and the crawl ends.
func TestRandomWorlds(t *testing.T) {
	for seed := range uint64(100) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				var mu sync.Mutex
				chance := func(p float64) bool { mu.Lock(); defer mu.Unlock(); return rnd.Float64() < p }
				dur := func(d time.Duration) time.Duration {
					mu.Lock()
					defer mu.Unlock()
					return time.Duration(rnd.Int64N(int64(d) + 1))
				}
				nh := 1 + rnd.IntN(6)
				hosts := map[string]http.Handler{}
				var seeds []string
				for i := range nh {
					name := fmt.Sprintf("h%d.test", i)
					if rnd.IntN(4) == 0 {
						name += ":81"
					}
					seeds = append(seeds, "http://"+name+"/")
				}
				perHost := 1 + rnd.IntN(4)
				bad := rnd.Float64() * 0.4
				slow := time.Duration(rnd.IntN(3000)) * time.Millisecond
				for i, s := range seeds {
					name := strings.TrimSuffix(strings.TrimPrefix(s, "http://"), "/")
					hosts[name] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
						time.Sleep(dur(slow))
						if chance(bad) {
							switch k := dur(5); k {
							case 0:
								panic(http.ErrAbortHandler)
							case 1:
								rw.WriteHeader(http.StatusServiceUnavailable)
							case 2:
								rw.Header().Set("Retry-After", "2")
								rw.WriteHeader(http.StatusTooManyRequests)
							case 3:
								rw.WriteHeader(http.StatusGatewayTimeout)
							case 4:
								rw.WriteHeader(http.StatusTooManyRequests)
							default:
								select {
								case <-time.After(20 * time.Second):
								case <-r.Context().Done():
								}
								return
							}
							return
						}
						if r.URL.Path == "/robots.txt" {
							switch dur(3) {
							case 0:
								http.Redirect(rw, r, seeds[dur(time.Duration(nh-1))]+"rules", http.StatusFound)
							case 1:
								rw.WriteHeader(http.StatusNotFound)
							case 2:
								_, _ = rw.Write([]byte("User-agent: *\nDisallow: /9\nCrawl-delay: 1\n"))
							case 3:
								http.Redirect(rw, r, "/rules", http.StatusFound)
							}
							return
						}
						if r.URL.Path == "/" {
							html(rw, links(15)+fmt.Sprintf("<a href=%sx>", seeds[(i+1)%nh])+fmt.Sprintf("<a href=%sr>", seeds[(i+1)%nh]))
							return
						}
						if r.URL.Path == "/r" {
							http.Redirect(rw, r, seeds[(i+2)%nh]+"y", http.StatusFound)
							return
						}
						html(rw, "x")
					})
				}
				net := fetchtest.Serve(t, hosts)
				w := newWorldOn(t, fetch.Config{DialContext: net.DialContext, Timeout: 10 * time.Second})
				var err error
				w.Robots, err = robots.New(robots.Config{Agent: "Treadlight", TTL: time.Second + dur(30*time.Second), Stale: time.Second + dur(30*time.Second), MaxOrigins: 1 + int(dur(8))})
				require.NoError(t, err)
				w.Concurrency = 1 + rnd.IntN(12)
				w.PerHost = perHost
				w.Processors = 1 + rnd.IntN(3)
				w.limits.InitialRPS = 5
				w.limits.MaxDomains = 1 + rnd.IntN(20)
				w.limits.Shards = 1
				w.MaxHosts = nh // exactly
				w.MaxBlocked = 24 * time.Hour
				if rnd.IntN(3) == 0 {
					w.Handle = func(context.Context, *Page) error { time.Sleep(dur(2 * time.Second)); return nil }
				}
				p := w.build(t)
				mode := rnd.IntN(6)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				when := dur(30 * time.Second)
				switch mode {
				case 0:
					time.AfterFunc(when, p.Stop)
				case 1:
					time.AfterFunc(when, cancel)
				case 2:
					time.AfterFunc(when, func() { w.out.mu.Lock(); w.out.fail = errFull; w.out.mu.Unlock() })
				}
				ctx2, cancel2 := context.WithTimeout(ctx, 2000*time.Hour)
				defer cancel2()
				snap := make(chan struct{})
				go func() {
					defer close(snap)
					for range 50 {
						_ = p.Snapshot()
						time.Sleep(dur(3 * time.Second))
					}
				}()
				err = w.run(ctx2, t, p, seeds...)
				<-snap
				if errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("HANG %+v %+v", p.Snapshot().Frontier, p.Snapshot().Hosts)
				}
				m := w.out.byURL(t)
				end, _ := p.End()
				s := p.Snapshot()
				if mode > 2 {
					require.NoError(t, err)
					if end == EndDone {
						require.EqualValues(t, s.Frontier.Known, len(m))
					}
					require.Zero(t, s.Frontier.Leased)
				}
			})
		})
	}
}
