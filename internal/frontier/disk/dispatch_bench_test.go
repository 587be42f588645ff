//go:build linux

package disk

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/frontier/attribution"
	"github.com/treadlight/crawl/internal/ratelimit"
)

// paces has every host wait a second after each request.
type paces map[string]time.Time

func (p paces) ReadyAt(host string, ahead, _ int) (time.Time, ratelimit.Limit) {
	return p[host].Add(time.Duration(ahead) * time.Second), ratelimit.LimitLearned
}

const (
	dispatchHosts = 100_000
	dispatchURLs  = 8 // of each, of which it may have four in memory
)

// BenchmarkDispatch visits all URLs of 100,000 hosts, half of them from the disk. Next is
// the lease alone; all is what the frontier, the store and its writer do for a visit.
func BenchmarkDispatch(b *testing.B) {
	for b.Loop() {
		s := openState(b, b.TempDir(), Config{})
		p := make(paces)
		f, err := frontier.New(frontier.Config{Pacer: p, Store: s, Key: s.Key(), Resident: 1})
		require.NoError(b, err)
		now := time.UnixMilli(1_760_000_000_000)
		for i := range dispatchHosts * dispatchURLs {
			it := testItem(b, 0, fmt.Sprintf("http://host%d.test/some/page-%d.html", i%dispatchHosts, i))
			f.Add(now, *it, f.Fingerprint(it))
			if i%1000 == 0 {
				flush(b, s)
			}
		}
		flush(b, s)
		dispatchAll(b, f, s, p, now)
		require.NoError(b, s.Close())
	}
	b.ReportMetric(0, "ns/op")
}

// ownCPU is the time of all cores that this thread has used, which other work of the machine
// does not lengthen.
func ownCPU() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano())
}

func dispatchAll(b *testing.B, f *frontier.Frontier, s *Store, p paces, now time.Time) {
	b.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var next time.Duration
	leases := 0
	before := cpu()
	for f.Counts().Queued > 0 {
		begun := ownCPU()
		l, wake := f.Next(now)
		next += ownCPU() - begun
		if l == nil {
			now = wake
			if wake.IsZero() { // all wait for the disk
				require.NoError(b, f.Take(now, answer(b, s)))
			}
			continue
		}
		leases++
		p[l.Host()] = now.Add(time.Second)
		l.Started()
		f.Release(now, l, time.Millisecond, attribution.Outcome{})
		f.End(now, l, frontier.Done(&frontier.Visit{At: now, Status: 200, Bytes: 1000}))
		s.Commit(nil)
		takeAll(b, f, s, now)
	}
	flush(b, s)
	require.Equal(b, dispatchHosts*dispatchURLs, leases)
	b.ReportMetric(float64(next.Nanoseconds())/1e3/float64(leases), "next-cpu-µs")
	b.ReportMetric(float64((cpu()-before).Nanoseconds())/1e3/float64(leases), "all-cpu-µs")
}

// takeAll takes the answers that are there, and waits for one while the writer has too
// much to do.
func takeAll(b *testing.B, f *frontier.Frontier, s *Store, now time.Time) {
	b.Helper()
	for {
		select {
		case a := <-s.Answers():
			require.NoError(b, f.Take(now, a))
		default:
			if s.Ready() {
				return
			}
			<-s.Room()
		}
	}
}
