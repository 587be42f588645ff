package integration_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	_ "github.com/treadlight/crawl/console"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/testsite"
	"github.com/treadlight/crawl/internal/pipeline"
	_ "github.com/treadlight/crawl/maintext"
	"github.com/treadlight/crawl/record"
	_ "github.com/treadlight/crawl/redis"
	_ "github.com/treadlight/crawl/sqlite"
	_ "github.com/treadlight/crawl/traces"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dialer makes connections in memory.
type dialer = func(ctx context.Context, network, addr string) (net.Conn, error)

// newOver is a crawl with connections made by dial, so that it fits into a bubble; runOver runs it to its end.
func newOver(t *testing.T, cfg assembly.Config, dial dialer) *assembly.Crawler {
	t.Helper()
	cfg.Dial = dial
	c, err := assembly.New(cfg)
	require.NoError(t, err)
	return c
}

func runOver(t *testing.T, cfg assembly.Config, dial dialer, seeds ...string) *assembly.Crawler {
	t.Helper()
	c := newOver(t, cfg, dial)
	require.NoError(t, c.Run(t.Context(), seeds...))
	return c
}

// recorded is newOver with the records that the crawl writes.
func recorded(t *testing.T, cfg assembly.Config, dial dialer) (*assembly.Crawler, *records) {
	t.Helper()
	out := &records{}
	cfg.Sinks = append(cfg.Sinks, out)
	return newOver(t, cfg, dial), out
}

// bubble is a test with a time of its own.
func bubble(test func(t *testing.T)) func(*testing.T) {
	return func(t *testing.T) { synctest.Test(t, test) }
}

// visitOver crawls through dial, inside a bubble.
func visitOver(t *testing.T, cfg assembly.Config, dial dialer, seeds ...string) ([]record.Record, pipeline.Snapshot) {
	t.Helper()
	c, out := recorded(t, cfg, dial)
	require.NoError(t, c.Run(t.Context(), seeds...))
	return out.list, c.Snapshot()
}

// byURL holds records by URL, and fails the test if a URL has two.
func byURL(t *testing.T, list []record.Record) map[string]record.Record {
	t.Helper()
	m := make(map[string]record.Record, len(list))
	for i := range list {
		if _, twice := m[list[i].URL]; twice {
			t.Errorf("%s has two records", list[i].URL)
		}
		m[list[i].URL] = list[i]
	}
	return m
}

// class is the class of a record's error; empty without one.
func class(rec record.Record) string {
	if rec.Error == nil {
		return ""
	}
	return rec.Error.Class
}

// page answers with HTML.
func page(html string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(html)) // a client that is gone is what some tests are about
	}
}

// status answers with one, and nothing else.
func status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) })
}

// anchors is a page that links to every reference.
func anchors(refs ...string) string {
	var b strings.Builder
	for _, ref := range refs {
		fmt.Fprintf(&b, "<a href=%q>x</a>\n", ref)
	}
	return b.String()
}

// star is a site whose first page links to pages /1 to /n, each with its number in it.
func star(n int) http.Handler {
	mux := http.NewServeMux()
	refs := make([]string, n)
	for i := range refs {
		refs[i] = fmt.Sprintf("/%d", i+1)
	}
	mux.Handle("/{$}", page(anchors(refs...)))
	mux.HandleFunc("/{n}", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		page(strings.Repeat("page "+r.PathValue("n")+"\n", 100))(w, r)
	})
	return mux
}

// serveSite runs a made-up site on loopback until the test ends.
func serveSite(t *testing.T, cfg testsite.Config) *testsite.Site {
	t.Helper()
	site, err := testsite.New(cfg)
	require.NoError(t, err)
	require.NoError(t, site.Listen())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- site.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-served)
	})
	return site
}

// content is what two crawls of one site must agree on, whatever the order in which they came by its pages.
func content(list []record.Record) map[string]string {
	m := make(map[string]string, len(list))
	for i := range list {
		r := &list[i]
		m[r.URL] = fmt.Sprint(r.Status, r.Digest, r.Title, r.ContentType, r.RedirectTo, len(r.Links), len(r.Resources), len(r.Text), class(*r))
	}
	return m
}

// records is a sink that keeps what it is given.
type records struct {
	mu   sync.Mutex
	list []record.Record
}

func (r *records) Write(rec *record.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, *rec)
	return nil
}
func (*records) Flush() error { return nil }
func (*records) Close() error { return nil }

// visit crawls from the seeds and returns the records and the final snapshot.
func visit(t *testing.T, cfg assembly.Config, seeds ...string) ([]record.Record, pipeline.Snapshot) {
	t.Helper()
	c, out := recorded(t, cfg, cfg.Dial)
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

// heapPeak samples the bytes of live and unswept objects until stop is called, which returns the most seen above those
// at the beginning. The collector is told not to let garbage pile up, which would be counted too.
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

// lockedBuffer is a log that is read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// ledger is a sink of a program's own that can be cut back.
type ledger struct {
	list    []record.Record
	flushed int
	synced  int
}

func (l *ledger) Write(r *record.Record) error { l.list = append(l.list, *r); return nil }
func (l *ledger) Flush() error                 { l.flushed = len(l.list); return nil }
func (l *ledger) Close() error                 { return nil }
func (l *ledger) Sync() error                  { l.synced++; return nil }
func (l *ledger) Mark() record.Position {
	return record.Position{Path: "ledger", Bytes: int64(100 * l.flushed), Records: int64(l.flushed)}
}

var _ record.Durable = (*ledger)(nil)

// copyState is what a process would leave behind that was killed now.
func copyState(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	require.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	return to
}

func openState(t *testing.T, dir string) *assembly.State {
	t.Helper()
	st, err := assembly.OpenState(assembly.StateConfig{Dir: dir})
	require.NoError(t, err)
	return st
}

func openAgain(t *testing.T, dir string, again assembly.Again) *assembly.State {
	t.Helper()
	st, err := assembly.OpenAgain(assembly.StateConfig{Dir: dir}, again)
	require.NoError(t, err)
	return st
}

// resumed opens a state, applies change and crawls to the end, all in memory.
func resumed(t *testing.T, dir string, dial dialer, out *ledger, change func(*assembly.Config)) *assembly.Crawler {
	t.Helper()
	st := openState(t, dir)
	cfg := st.Config()
	cfg.Sinks = []record.Sink{out}
	out.list = out.list[:st.Position("ledger").Records]
	if change != nil {
		change(&cfg)
	}
	return runOver(t, cfg, dial)
}
