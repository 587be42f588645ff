package pipeline

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// slowHosts is how many hosts are slow, and at what.
type slowHosts struct {
	n, pages int
	first    time.Duration             // from the request to the first byte of a page
	at       func(path string) bool    // which paths are slow; nil: all
	then     func(http.ResponseWriter) // instead of a page, after first; nil: a page
}

// healthyDone is how long 20 hosts of 200 pages at 20 ms take beside slow hosts, and how many
// requests of these were out at once at most.
func healthyDone(t *testing.T, slow slowHosts, slots, perHost int) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		const hosts, pages = 20, 200
		serve := map[string]http.Handler{}
		var seeds []string
		host := func(name string, n int, wait func(rw http.ResponseWriter, r *http.Request) bool) {
			seeds = append(seeds, "http://"+name+"/")
			serve[name] = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				switch {
				case wait(rw, r):
				case r.URL.Path == "/robots.txt":
					rw.WriteHeader(http.StatusNotFound)
				case r.URL.Path == "/":
					html(rw, links(n-1))
				default:
					html(rw, "x")
				}
			})
		}
		for i := range slow.n { // first, as is worst
			host(fmt.Sprintf("slow%d.test", i), slow.pages, func(rw http.ResponseWriter, r *http.Request) bool {
				if slow.at != nil && !slow.at(r.URL.Path) {
					time.Sleep(20 * time.Millisecond)
					return false
				}
				select {
				case <-time.After(slow.first):
				case <-r.Context().Done():
					return true
				}
				if slow.then == nil {
					return false
				}
				slow.then(rw)
				return true
			})
		}
		for i := range hosts {
			host(fmt.Sprintf("quick%d.test", i), pages, func(http.ResponseWriter, *http.Request) bool { time.Sleep(20 * time.Millisecond); return false })
		}
		network := fetchtest.Serve(t, serve)
		w := newWorldOn(t, fetch.Config{DialContext: network.DialContext})
		w.Concurrency, w.PerHost = slots, perHost
		w.limits.Enabled = false
		w.MaxTime, w.Grace = 5*time.Minute, time.Second
		p := w.build(t)
		var watch sync.WaitGroup
		watch.Go(func() { // what is left is of slow hosts
			for time.Sleep(time.Second); ; time.Sleep(100 * time.Millisecond) {
				n := 0
				for _, r := range network.Requests() {
					if strings.HasPrefix(r.Host, "quick") {
						n++
					}
				}
				if n >= hosts*(pages+1) {
					p.Stop()
				}
				if end, _ := p.End(); end != EndNone {
					return
				}
			}
		})
		require.NoError(t, w.run(t.Context(), t, p, seeds...))
		watch.Wait()
		var last time.Time
		n := 0
		for _, r := range network.Requests() {
			if strings.HasPrefix(r.Host, "quick") {
				last, n = r.At, n+1
			}
		}
		require.Equal(t, hosts*(pages+1), n)
		took = last.Sub(w.began)
	})
	return took
}

// Hosts that are slow to answer do not hold up others, whichever way they are slow.
func TestSlowHostsBesideHealthyOnes(t *testing.T) {
	slow := func(d time.Duration, n int) slowHosts { return slowHosts{n: n, pages: 200, first: d} }
	pagesOnly := slow(5*time.Second, 5)
	pagesOnly.at = func(path string) bool { return path != "/robots.txt" }
	hang := slow(time.Hour, 5)
	hang.then = func(http.ResponseWriter) {}
	for _, tc := range []struct {
		name  string
		slow  slowHosts
		slots int
		ratio float64
	}{
		{"5 at 5 s beside 16 slots", slow(5*time.Second, 5), 16, 1.1},
		{"5 at 5 s beside 64 slots", slow(5*time.Second, 5), 64, 1.05},
		{"5 at 5 s with a quick robots.txt beside 16 slots", pagesOnly, 16, 1.1},
		{"5 at 5 s with a quick robots.txt beside 64 slots", pagesOnly, 64, 1.05},
		{"5 that never answer beside 16 slots", hang, 16, 1.1},
		{"100 at 5 s beside 16 slots", slow(5*time.Second, 100), 16, 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			alone := healthyDone(t, slowHosts{}, tc.slots, 2)
			beside := healthyDone(t, tc.slow, tc.slots, 2)
			ratio := float64(beside) / float64(alone)
			t.Logf("%v alone, %v beside slow hosts: %.3f", alone, beside, ratio)
			require.LessOrEqual(t, ratio, tc.ratio)
		})
	}
}
