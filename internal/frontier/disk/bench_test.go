//go:build unix

package disk

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/web/canonical"
)

const benchHosts = 20_000

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func wchar() (n int64) {
	text, _ := os.ReadFile("/proc/self/io")
	_, _ = fmt.Sscanf(string(text), "rchar: %d\nwchar: %d", new(int64), &n)
	return n
}

// benchItem is the i-th of URLs of 85 bytes of 20,000 hosts. Of neighbours, as of the links
// of a page, four in five are of one host.
func benchItem(b *testing.B, i int) *frontier.Item {
	host := i / 50 * 7919 % benchHosts
	if i%5 == 0 {
		host = i * 104729 % benchHosts
	}
	u, err := canonical.Parse(fmt.Sprintf("https://host%05d.example.test/some/where/in/the/documentation/page-%09d.html", host, i))
	require.NoError(b, err)
	return &frontier.Item{URL: u, ID: int64(i + 1), Queued: time.UnixMilli(1_760_000_000_000 + int64(i)), Found: frontier.Found{Depth: 3, FoundOn: int64(i/50 + 1)}}
}

// benchStep measures a part of a benchmark, and waits meanwhile when the store says so.
func benchStep(b *testing.B, s *Store, name string, n int, f func(i int)) {
	b.Helper()
	before, begun := cpu(), time.Now()
	written := wchar()
	for i := range n {
		for !s.Ready() {
			select {
			case <-s.Room():
			case <-s.Failed():
				require.NoError(b, s.Err())
			}
		}
		f(i)
		if i%50 == 49 {
			s.Commit(nil)
		}
	}
	flush(b, s)
	b.ReportMetric(float64(wchar()-written)/float64(n), name+"-write-B")
	b.ReportMetric(float64((cpu()-before).Microseconds())/float64(n), name+"-cpu-µs")
	b.ReportMetric(float64(n)/time.Since(begun).Seconds()/1000, name+"-k/s")
}

// benchActive is how many hosts have their heads in memory.
const benchActive = 1000

func loadHeads(b *testing.B, s *Store, first int) (heads [][]frontier.Item) {
	b.Helper()
	for i := range benchActive {
		s.Load(fmt.Sprintf("host%05d.example.test", (first+i)*7919%benchHosts), frontier.Place{Rank: -1 << 31}, 64)
		s.Commit(nil)
		if i%250 == 249 {
			for range 250 {
				heads = append(heads, answer(b, s).Items)
			}
		}
	}
	return heads
}

// bareVisit is of a page of a server that says nothing of versions, in a crawl that does
// not look for changes; fullVisit is of one that says all there is to say.
func bareVisit(it *frontier.Item) frontier.Visit {
	return frontier.Visit{At: it.Queued, Status: 200, Bytes: 12345}
}

func fullVisit(it *frontier.Item) frontier.Visit {
	v := bareVisit(it)
	v.ETag = fmt.Sprintf(`"%x-%x"`, it.Queued.Unix(), it.ID*7919)
	v.LastModified, v.Digest = it.Queued, sha256.Sum256([]byte(v.ETag))
	return v
}

func visitInTurn(b *testing.B, s *Store, heads [][]frontier.Item, visit func(*frontier.Item) frontier.Visit) (n int) {
	b.Helper()
	for i := range 64 {
		for _, head := range heads {
			if i < len(head) {
				n++
				s.Done(head[i].URL.Host(), &head[i], visit(&head[i]))
				s.Commit(nil)
			}
		}
	}
	flush(b, s)
	return n
}

// BenchmarkStore puts b.N URLs, loads them in heads of 64, and finishes them a thousand
// hosts at a time.
func BenchmarkStore(b *testing.B) {
	b.Run("bare", func(b *testing.B) { benchStore(b, bareVisit) })
	b.Run("full", func(b *testing.B) { benchStore(b, fullVisit) })
}

func benchStore(b *testing.B, visit func(*frontier.Item) frontier.Visit) {
	b.Helper()
	dir := b.TempDir()
	s := openState(b, dir, Config{})
	items := make([]*frontier.Item, b.N)
	fps := make([]uint64, b.N)
	for i := range items {
		items[i] = benchItem(b, i)
		fps[i] = items[i].URL.Fingerprint(s.Key())
	}
	benchStep(b, s, "put", b.N, func(i int) {
		if !s.Known(fps[i]) {
			s.Put(items[i].URL.Host(), items[i], fps[i], false)
		}
	})
	reportSize(b, dir)
	var load, done time.Duration
	finished := 0
	var doneW int64
	for first := 0; first < benchHosts; first += benchActive {
		before := cpu()
		heads := loadHeads(b, s, first)
		load += cpu() - before
		before = cpu()
		w := wchar()
		finished += visitInTurn(b, s, heads, visit)
		done += cpu() - before
		doneW += wchar() - w
	}
	b.ReportMetric(float64(load.Nanoseconds())/1e3/float64(finished), "load-cpu-µs")
	b.ReportMetric(float64(done.Nanoseconds())/1e3/float64(finished), "done-cpu-µs")
	b.ReportMetric(float64(doneW)/float64(finished), "done-write-B")
	reportSize(b, dir)
	b.ReportMetric(0, "ns/op")
}

func reportSize(b *testing.B, dir string) {
	b.Helper()
	for _, name := range []string{"state.db", "state.db-wal", "seen"} {
		var size int64
		require.NoError(b, filepath.Walk(filepath.Join(dir, name), func(_ string, info os.FileInfo, err error) error {
			if err == nil && !info.IsDir() {
				size += info.Size()
			}
			return err
		}))
		b.ReportMetric(float64(size)/float64(b.N), name+"-B")
	}
}
