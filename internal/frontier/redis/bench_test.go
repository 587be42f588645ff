//go:build unix

package redis

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

const benchHosts, benchEach = 500, 200

// BenchmarkStore is the work of processes of their own on one server: URLs of 60 bytes that are found, of which each
// is new, and their way through a process: their host is acquired, they are loaded, done, and the host given back.
func BenchmarkStore(b *testing.B) {
	for _, processes := range []int{1, 4} {
		server := redistest.Redis.Start(b)
		r := realTime(rigOn(b, server.Addr))
		r.cfg.partitions = defaultPartitions
		var stores []*Store
		all := func(name string, prepare func(), do func(i int, s *Store)) {
			b.Run(fmt.Sprintf("processes=%d/%s", processes, name), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					prepare()
					before := memoryOf(b, server)
					b.StartTimer()
					var group sync.WaitGroup
					for i, s := range stores {
						group.Go(func() { do(i, s) })
					}
					group.Wait()
					b.ReportMetric(float64(memoryOf(b, server)-before)/(benchHosts*benchEach), "B/URL")
				}
				b.ReportMetric(float64(b.N)*benchHosts*benchEach/b.Elapsed().Seconds(), "URLs/s")
			})
		}
		anew := func() {
			server.Do(b, "FLUSHALL")
			for _, s := range stores {
				_ = s.Close()
			}
			stores = nil
			for range processes {
				stores = append(stores, r.open())
			}
		}
		all("add", anew, func(i int, s *Store) {
			for n := range benchEach {
				for h := i; h < benchHosts; h += processes {
					host := fmt.Sprintf("host-%03d.example.test", h)
					it := item(b, fmt.Sprintf("https://%s/some/path/of/usual/length/%d", host, n))
					it.Referrer = "https://" + host + "/some/path/of/usual/length/0"
					s.Put(host, it, it.URL.Fingerprint(7), true)
				}
			}
			flush(b, s)
		})
		all("complete", func() {}, func(_ int, s *Store) { completeAll(b, s) })
	}
}

func completeAll(b *testing.B, s *Store) {
	for {
		a := activate(b, s, 64)
		if len(a.Hosts) == 0 {
			return
		}
		for range benchEach / 50 {
			for _, h := range a.Hosts {
				s.Load(h.Name, frontier.Place{}, 50)
			}
			for range a.Hosts {
				got, _ := next(b, s)
				for i := range got.Items {
					visit(s, &got.Items[i])
				}
			}
		}
		for _, h := range a.Hosts {
			s.Deactivate(h.Name, time.Time{})
		}
	}
}

func memoryOf(b *testing.B, server *redistest.Server) int64 {
	b.Helper()
	info, err := server.Do(b, "INFO", "memory").ToString()
	require.NoError(b, err)
	return parse(infoOf(info)["used_memory"])
}
