package redis

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

// BenchmarkStore is the work of processes of their own on one server: URLs of 60 bytes that are found, of which each is
// new, and their way through a process: their host is acquired, they are loaded, done, and the host given back.
func BenchmarkStore(b *testing.B) {
	for _, processes := range []int{1, 4} {
		b.Run(fmt.Sprintf("processes=%d", processes), func(b *testing.B) {
			server := redistest.Redis.Start(b)
			r := realTime(rigOn(b, server.Addr))
			r.cfg.partitions = 64
			const hosts, each = 500, 200
			var stores []*Store
			for range processes {
				stores = append(stores, r.open())
			}
			before := memoryOf(b, server)
			all := func(name string, f func(i int, s *Store)) {
				b.Run(name, func(b *testing.B) {
					for b.Loop() {
						b.StopTimer()
						if name == "add" { // anew each time
							server.Do(b, "FLUSHALL")
							for _, s := range stores {
								_ = s.Close()
							}
							stores = stores[:0]
							for range processes {
								stores = append(stores, r.open())
							}
							before = memoryOf(b, server)
						}
						b.StartTimer()
						var group sync.WaitGroup
						for i, s := range stores {
							group.Go(func() { f(i, s) })
						}
						group.Wait()
					}
					b.ReportMetric(float64(b.N)*hosts*each/b.Elapsed().Seconds(), "URLs/s")
					if name == "add" {
						b.ReportMetric(float64(memoryOf(b, server)-before)/(hosts*each), "B/URL")
					}
				})
			}
			all("add", func(i int, s *Store) {
				for n := range each {
					for h := i; h < hosts; h += processes {
						host := fmt.Sprintf("host-%03d.example.test", h)
						it := item(b, fmt.Sprintf("https://%s/some/path/of/usual/length/%d", host, n))
						it.Referrer = "https://" + host + "/some/path/of/usual/length/0"
						s.Put(host, it, it.URL.Fingerprint(7), true)
					}
				}
				flush(b, s)
			})
			all("complete", func(_ int, s *Store) {
				for {
					a := rouse(b, s, 64)
					if len(a.Hosts) == 0 {
						return
					}
					for range each / 50 {
						for _, h := range a.Hosts {
							s.Load(h.Name, frontier.Place{}, 50)
						}
						for range a.Hosts {
							got, _ := next(b, s)
							for i := range got.Items {
								s.Done(got.Items[i].URL.Host(), &got.Items[i], frontier.Visit{})
							}
						}
					}
					for _, h := range a.Hosts {
						s.Deactivate(h.Name, time.Time{})
					}
				}
			})
			l := &stores[0].link
			b.Logf("%d scripts in %d trips, %d bytes", l.commands.Load(), l.trips.Load(), l.bytes.Load())
			left := float64(memoryOf(b, server)-before) / (hosts * each)
			b.Logf("%.1f bytes for each URL that is done", left)
		})
	}
}

func memoryOf(b *testing.B, server *redistest.Server) int64 {
	b.Helper()
	c := redistest.Client(b, server.Addr)
	defer c.Close()
	info, err := c.Do(context.Background(), c.B().Info().Section("memory").Build()).ToString()
	require.NoError(b, err)
	var used int64
	for line := range strings.Lines(info) {
		if _, err := fmt.Sscanf(line, "used_memory:%d", &used); err == nil {
			return used
		}
	}
	return 0
}
