package integration_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/realserver"
)

// records is a sink that keeps what it is given.
type records struct {
	mu   sync.Mutex
	list []crawl.Record
}

func (r *records) Write(rec *crawl.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, *rec)
	return nil
}
func (*records) Flush() error { return nil }
func (*records) Close() error { return nil }

// visit crawls from the seeds and returns the records and the final snapshot.
func visit(t *testing.T, cfg assembly.Config, seeds ...string) ([]crawl.Record, crawl.Snapshot) {
	t.Helper()
	out := &records{}
	cfg.Sinks = append(cfg.Sinks, out)
	c, err := assembly.New(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	require.NoError(t, c.Run(ctx, seeds...))
	return out.list, c.Snapshot()
}

// unpaced is a crawl whose rate is out of the way, for tests of what is crawled.
func unpaced() assembly.Config {
	cfg := assembly.DefaultConfig()
	cfg.RateLimit.Strategy = "off"
	return cfg
}

// Every page of a real site that a link reaches is fetched exactly once, and nothing
// else is: what nginx saw equals what an obvious crawler over a DOM visits.
func TestRealDocumentation(t *testing.T) {
	for _, site := range []struct {
		name  string
		dir   func(testing.TB) string
		start string
	}{
		{"python3-doc", pythonDocs, "/index.html"},
		{"libboost-doc", boostDocs, "/html/index.html"},
	} {
		t.Run(site.name, func(t *testing.T) {
			t.Parallel()
			root := site.dir(t)
			want := reachable(t, root, site.start)
			server := realserver.Nginx(t, root, "", "")
			cfg := unpaced()
			cfg.Sitemaps.Enabled = false // the oracle has none
			got, snap := visit(t, cfg, server.URL+site.start)

			seen := map[string]int{}
			server.Stop()
			for _, h := range server.Hits() {
				if h.URI == "/robots.txt" {
					require.Equal(t, 404, h.Status)
					continue
				}
				if _, twice := seen[h.URI]; twice && h.Status != 403 { // which may have meant "later"
					t.Errorf("%s was asked for twice", h.URI)
				}
				seen[h.URI] = h.Status
			}
			requireSameURLs(t, want, seen)
			require.Equal(t, len(want), len(got), "one record per URL")
			for _, rec := range got {
				require.Equal(t, want[strings.TrimPrefix(rec.URL, server.URL)], rec.Status, rec.URL)
			}
			requireOnDisk(t, root, got, server.URL)
			t.Logf("%d URLs, %d pages, %d bytes in %.2fs", len(got), snap.Pages, snap.Bytes, snap.ElapsedSeconds)
		})
	}
}

// oracles are what the oracle has found, by directory: it takes longer than the crawls.
var oracles = struct {
	sync.Mutex
	found map[string]map[string]int
}{found: make(map[string]map[string]int)}

// reachable is what the oracle visits of a directory that nginx serves, from a page of it.
func reachable(t *testing.T, root, page string) map[string]int {
	t.Helper()
	oracles.Lock()
	defer oracles.Unlock()
	if oracles.found[root+page] == nil {
		oracles.found[root+page] = oracle(t, realserver.Nginx(t, root, "", "").URL+page)
	}
	return oracles.found[root+page]
}

func requireSameURLs(t *testing.T, want, got map[string]int) {
	t.Helper()
	for _, uri := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[uri]; !ok {
			t.Errorf("%s is reached by a link and was not asked for", uri)
		}
	}
	for _, uri := range slices.Sorted(maps.Keys(got)) {
		if _, ok := want[uri]; !ok {
			t.Errorf("%s was asked for and no link reaches it", uri)
		}
	}
}

// requireOnDisk holds the records against the files they came from: what answered 200
// is a file, byte for byte.
func requireOnDisk(t *testing.T, root string, got []crawl.Record, origin string) {
	t.Helper()
	for i := range got {
		rec := &got[i]
		if rec.Status != 200 {
			continue
		}
		u, err := url.Parse(rec.URL)
		require.NoError(t, err)
		path := filepath.FromSlash(u.Path)
		if strings.HasSuffix(path, "/") {
			path += "index.html"
		}
		data, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err, strings.TrimPrefix(rec.URL, origin))
		if int64(len(data)) != rec.Bytes || fmt.Sprintf("sha256:%x", sha256.Sum256(data)) != rec.Digest && len(data) > 0 {
			t.Errorf("%s: %d bytes, %s: not the file", rec.URL, rec.Bytes, rec.Digest)
		}
	}
}

// A server that allows 20 requests a second and refuses the rest is crawled whole, with
// few refusals and none of its Retry-After ignored.
func TestRealLimiter(t *testing.T) {
	const zone = "limit_req_zone $binary_remote_addr zone=z:1m rate=20r/s; limit_req_status 429;"
	for _, tc := range []struct{ name, location string }{
		{"silent", "limit_req zone=z burst=5 nodelay;"},
		{"retry-after", "limit_req zone=z burst=5 nodelay; error_page 429 = @limited;"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			root := pythonDocs(t)
			want := reachable(t, root, "/index.html")
			server := realserver.Nginx(t, root, zone, tc.location)
			cfg := assembly.DefaultConfig()
			cfg.RateLimit.InitialRPS, cfg.RateLimit.MaxRPS = 5, 100
			got, snap := visit(t, cfg, server.URL+"/index.html")

			server.Stop()
			hits := server.Hits()
			require.NotEmpty(t, hits)
			refused, inside := refusals(hits)
			t.Logf("%d requests in %.0fs (%.1f/s), %d refused (%.2f%%), %d retries",
				len(hits), snap.ElapsedSeconds, float64(len(hits))/snap.ElapsedSeconds,
				refused, 100*float64(refused)/float64(len(hits)), snap.Retries)
			require.Equal(t, len(want), len(got), "nothing is lost")
			for _, rec := range got {
				require.Equal(t, want[strings.TrimPrefix(rec.URL, server.URL)], rec.Status, rec.URL)
			}
			require.Less(t, float64(refused), 0.05*float64(len(hits)))
			if tc.name == "retry-after" {
				require.Zero(t, inside)
			}
		})
	}
}

// refusals counts the answers 429, and the requests that arrived while the Retry-After
// of one ran.
func refusals(hits []realserver.Hit) (refused, inside int) {
	end := hits[len(hits)-1].At.Add(1)
	f := realserver.Measure(hits, hits[0].At, end, 0)
	for _, h := range hits {
		if h.Status == 429 {
			refused++
		}
	}
	return refused, f.Inside
}
