package integration_test

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// hostile is the class of error with which each behaviour ends in the record; empty is
// none. What is transient has been tried again and again before it is written.
var hostile = map[fetchtest.Behavior]string{
	fetchtest.Hang:           "timeout",
	fetchtest.HangInHeader:   "timeout",
	fetchtest.HangInBody:     "timeout",
	fetchtest.SlowHeader:     "timeout",
	fetchtest.SlowBody:       "timeout",
	fetchtest.EndlessHeader:  "too_large",
	fetchtest.HugeHeader:     "too_large",
	fetchtest.Flood1xx:       "too_large",
	fetchtest.EndlessBody:    "too_large",
	fetchtest.EndlessChunks:  "too_large",
	fetchtest.CloseMidBody:   "network",
	fetchtest.LongBody:       "",
	fetchtest.BadChunk:       "protocol",
	fetchtest.CutChunk:       "network",
	fetchtest.LongExtension:  "protocol",
	fetchtest.ManyExtensions: "protocol",
	fetchtest.EndlessTrailer: "protocol",
	fetchtest.ResetMidBody:   "network",
	fetchtest.GzipName:       "decode",
	fetchtest.Headless:       "protocol",
	fetchtest.RedirectLoop:   "",
	fetchtest.GzipGarbage:    "decode",
	fetchtest.GzipCut:        "decode",
	fetchtest.GzipBomb:       "too_large",
	fetchtest.BrotliBomb:     "too_large",
	fetchtest.ZstdBomb:       "too_large",
	fetchtest.DeflateBomb:    "too_large",
	fetchtest.EmptyMembers:   "too_large",
	fetchtest.UnknownCoding:  "",
	fetchtest.ManyCodings:    "decode",
	fetchtest.BadStatusLine:  "protocol",
	fetchtest.NotHTTP:        "protocol",
	fetchtest.NegativeLength: "protocol",
	fetchtest.TwoLengths:     "protocol",
	fetchtest.Reset:          "network",
	fetchtest.CloseSilently:  "network",
	fetchtest.LowStatus:      "server_error",
	fetchtest.Upgrade:        "protocol",
	fetchtest.SecondTime:     "",
}

// retried are the classes of which a URL is asked for again.
var retried = map[string]bool{"timeout": true, "network": true}

// hostileLinks are links to every behaviour of a server.
func hostileLinks(t *testing.T, h *fetchtest.HostileServer) []string {
	t.Helper()
	var refs []string
	for _, b := range fetchtest.Behaviors() {
		require.Contains(t, hostile, b, "no class for a behaviour")
		refs = append(refs, hostileURL(h, b))
	}
	require.Len(t, hostile, len(refs))
	return refs
}

// hostileURL is where a behaviour is met. What LongBody sends beyond its length can be
// taken for the answer to the next request of its connection, so it is met under a name,
// and thus on connections, of its own.
func hostileURL(h *fetchtest.HostileServer, b fetchtest.Behavior) string {
	if b != fetchtest.LongBody {
		return h.URL(b)
	}
	_, port, ok := strings.Cut(h.Addr(), ":")
	if !ok {
		return "http://long." + h.Addr() + string(b)
	}
	return "http://localhost:" + port + string(b)
}

// requireHostile fails the test unless every behaviour has its one record.
func requireHostile(t *testing.T, h *fetchtest.HostileServer, got map[string]crawl.Record, cfg assembly.Config) {
	t.Helper()
	for b, want := range hostile {
		rec, ok := got[hostileURL(h, b)]
		require.True(t, ok, "%s has no record", b)
		require.Equal(t, want, class(rec), "%s: %+v", b, rec.Error)
		require.LessOrEqual(t, rec.Bytes, cfg.Fetch.MaxBody, b)
		require.Equal(t, b == fetchtest.UnknownCoding, rec.IgnoredCodings == "morse", b)
		tries := 1
		if retried[want] {
			tries += cfg.RateLimit.RetryMaxAttempts
			require.Equal(t, tries, rec.Attempt, b)
		}
		if b != fetchtest.SecondTime {
			// A failure while the host is down as a whole is not held against the URL.
			const free = 5
			require.LessOrEqual(t, h.Seen(b), tries+free, b)
		}
	}
}

// beside sends one name to a hostile server and all others to a net.
func beside(h *fetchtest.HostileServer, others *fetchtest.Net) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if strings.HasSuffix(addr, h.Addr()+":80") {
			c, err := h.DialContext(ctx, network, addr)
			return socketLike{c}, err
		}
		return others.DialContext(ctx, network, addr)
	}
}

// Every behaviour is one page of a crawl with default settings: the rate adapts, the
// breaker opens and closes, and the crawl ends, with a record for each URL. The host
// beside it is done when it would be done alone.
func TestHostilePagesInABubble(t *testing.T) {
	const pages = 100
	run := func(t *testing.T, withHostile bool) (well time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			h := fetchtest.HostilePipes(t)
			refs := []string{"http://well.test/"}
			if withHostile {
				refs = append(hostileLinks(t, h), refs...)
			}
			others := fetchtest.Serve(t, map[string]http.Handler{
				"seed.test": page(anchors(refs...)), "well.test": star(pages),
			})
			cfg := assembly.DefaultConfig()
			cfg.Scope.Mode, cfg.Fetch.MaxBody = "any", 256<<10
			cfg.Sitemaps.Enabled = false // pages are asked for, and nothing else
			cfg.MaxBlocked = time.Hour   // what hangs gives no sign of life for long
			begun := time.Now()
			list, snap := visitOver(t, cfg, beside(h, others), "http://seed.test/")
			took := time.Since(begun)
			got := byURL(t, list)
			healthy := 0
			for url, rec := range got {
				if strings.HasPrefix(url, "http://well.test/") {
					healthy++
					require.Equal(t, 200, rec.Status, url)
					require.Equal(t, 1, rec.Attempt, url)
					well = max(well, rec.FetchedAt.Sub(begun))
				}
				require.LessOrEqual(t, rec.Timings.Total, cfg.Fetch.Timeout, url)
			}
			require.Equal(t, pages+1, healthy)
			require.Equal(t, "done", snap.State.String())
			if !withHostile {
				return
			}
			requireHostile(t, h, got, cfg)
			require.Len(t, got, pages+1+1+len(hostile))
			t.Logf("crawl ended after %v, %d requests at the hostile host, outcomes %v", took, snap.Requests-pages-5, snap.Outcomes)
			require.Less(t, took, time.Duration(snap.Requests)*(cfg.Fetch.Timeout+cfg.RateLimit.OpenStateDuration))
		})
		return well
	}
	alone, both := run(t, false), run(t, true)
	t.Logf("healthy host: last page at %v alone, %v beside the hostile one", alone, both)
	require.LessOrEqual(t, float64(both), 1.05*float64(alone))
}

// heapPeak samples the bytes of live and unswept objects until stop is called, which
// returns the most seen above those at the beginning. The collector is told not to let
// garbage pile up, which would be counted too.
func heapPeak() (stop func() int64) {
	percent := debug.SetGCPercent(20)
	runtime.GC()
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	read := func() int64 {
		metrics.Read(sample)
		return int64(sample[0].Value.Uint64())
	}
	begin := read()
	peak := begin
	quit := make(chan struct{})
	var sampling sync.WaitGroup
	sampling.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				peak = max(peak, read())
			case <-quit:
				return
			}
		}
	})
	return func() int64 {
		close(quit)
		sampling.Wait()
		debug.SetGCPercent(percent)
		return peak - begin
	}
}

// The same over sockets, all at once and without pacing.
func TestHostilePagesOnSockets(t *testing.T) {
	const pages = 100
	h := fetchtest.Hostile(t)
	well := serveHandler(t, "127.0.21.2:0", star(pages))
	seed := serveHandler(t, "127.0.21.1:0", page(anchors(append(hostileLinks(t, h), well+"/")...)))
	cfg := unpaced()
	cfg.Fetch.MaxBody = 256 << 10
	cfg.Sitemaps.Enabled = false
	// What hangs is waited for so long, and a machine with much else to do may hang too.
	cfg.Fetch.Timeout = 4 * time.Second
	cfg.RateLimit.RetryMaxAttempts = 1
	cfg.Concurrency = 16
	stop := heapPeak()
	list, snap := visit(t, cfg, seed+"/", "http://"+h.Addr()+"/", hostileURL(h, fetchtest.LongBody), well+"/")
	peak := stop()
	got := byURL(t, list)
	requireHostile(t, h, got, cfg)
	require.Len(t, got, 1+1+pages+1+len(hostile))
	for url, rec := range got {
		if strings.HasPrefix(url, well) {
			require.Equal(t, 200, rec.Status, "%s: %+v", url, rec.Error)
		}
	}
	t.Logf("peak heap %.1f MiB above the start; %.1f s; outcomes %v", float64(peak)/(1<<20), snap.ElapsedSeconds, snap.Outcomes)
	// The bodies are endless, and the bombs alone unpack to 32 MiB. What may be held is a
	// body of MaxBody, 256 KiB, for each of 16 workers and a few between the stages; the
	// rest is room for the decoders' windows and for packing the bombs in this process.
	require.Less(t, peak, int64(8*fetchtest.BombSize))
}

// serveHandler serves on a loopback address until the test ends, and returns the origin.
func serveHandler(t *testing.T, addr string, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	require.NoError(t, err)
	srv := &http.Server{Handler: h}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln) // ends with Close
	}()
	t.Cleanup(func() {
		_ = srv.Close() // of a test: nothing to lose
		<-done
	})
	return "http://" + ln.Addr().String()
}
