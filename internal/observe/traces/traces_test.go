package traces

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/frontier"
	"github.com/treadlight/crawl/internal/pipeline"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/internal/web/canonical"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// collector is an OTLP receiver.
type collector struct {
	*httptest.Server
	answer func(n int, w http.ResponseWriter) // nil: it takes everything

	mu       sync.Mutex // guards what follows
	requests []*http.Request
	spans    []*tracepb.Span
	resource map[string]string
	log      bytes.Buffer
}

func newCollector(t *testing.T, answer func(n int, w http.ResponseWriter)) *collector {
	c := &collector{answer: answer}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		var data tracepb.TracesData
		if err != nil || proto.Unmarshal(body, &data) != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests = append(c.requests, r)
		if c.answer != nil {
			c.answer(len(c.requests), w)
		}
		for _, rs := range data.GetResourceSpans() {
			c.resource = texts(rs.GetResource().GetAttributes())
			for _, ss := range rs.GetScopeSpans() {
				c.spans = append(c.spans, ss.GetSpans()...)
			}
		}
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *collector) logged() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

func texts(attrs []*commonpb.KeyValue) map[string]string {
	m := make(map[string]string)
	for _, a := range attrs {
		switch v := a.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			m[a.GetKey()] = v.StringValue
		case *commonpb.AnyValue_IntValue:
			m[a.GetKey()] = time.Duration(v.IntValue).String() // 200 is 200ns
		}
	}
	return m
}

// begin starts an exporter to a URL, which ends with the test at the latest.
func (c *collector) begin(t *testing.T, change func(*Config)) *Exporter {
	t.Helper()
	cfg := Config{Endpoint: c.URL, Sample: 1, Version: "1.2", Log: slog.New(slog.NewTextHandler(c, nil))}
	if change != nil {
		change(&cfg)
	}
	e, err := New(cfg)
	require.NoError(t, err)
	require.Nil(t, e.Begin(parse(t, "http://a.test/"), canonical.URL{}), "it was not started")
	e.Start()
	t.Cleanup(e.Close)
	return e
}

func parse(t *testing.T, s string) canonical.URL {
	t.Helper()
	u, err := canonical.Parse(s)
	require.NoError(t, err)
	return u
}

// valueOf is what a counter has come to.
func valueOf(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	require.NoError(t, c.Write(&m))
	return m.GetCounter().GetValue()
}

var noon = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return noon.Add(time.Duration(ms) * time.Millisecond) }

// visit is a trip of a URL: found at 0, leased at 100, a permit until 120, a new connection, an
// answer of which the first byte comes at 200 and the last at 250.
func visit(t *testing.T, e *Exporter, url string, change func(*pipeline.Trip)) {
	t.Helper()
	u := parse(t, url)
	trip := e.Begin(u, canonical.URL{})
	require.NotNil(t, trip)
	trip.URL, trip.Attempt, trip.Depth, trip.Final = u, 1, 2, true
	trip.Found, trip.Leased, trip.PermitWait, trip.Sent, trip.Ended = at(0), at(100), 20*time.Millisecond, at(120), at(250)
	trip.Class, trip.Status, trip.Proto, trip.RemoteAddr, trip.WireBytes = outcome.OK, 200, "HTTP/1.1", "127.0.0.1:80", 77
	trip.Handed = at(180)
	trip.Timings = fetch.Timings{DNS: 10 * time.Millisecond, Connect: 20 * time.Millisecond, TLS: 30 * time.Millisecond, FirstByte: 20 * time.Millisecond, Body: 40 * time.Millisecond}
	trip.Parse, trip.Write = pipeline.Span{From: at(260), Til: at(270)}, pipeline.Span{From: at(280), Til: at(281)}
	trip.Fate = "processed"
	if change != nil {
		change(trip)
	}
	e.End(trip)
}

func span(t *testing.T, spans []*tracepb.Span, name string) *tracepb.Span {
	t.Helper()
	var found *tracepb.Span
	for _, s := range spans {
		if s.GetName() == name {
			require.Nil(t, found, "two spans %q", name)
			found = s
		}
	}
	require.NotNil(t, found, "no span %q", name)
	return found
}

func TestSpansOfAURL(t *testing.T) {
	c := newCollector(t, nil)
	e := c.begin(t, func(cfg *Config) { cfg.Header = http.Header{"X-Tenant": {"me"}} })
	visit(t, e, "https://a.test:8443/p?token=secret&q=1", nil)
	e.Close()
	e.Close()
	require.Equal(t, "/v1/traces", c.requests[0].URL.Path)
	require.Equal(t, "me", c.requests[0].Header.Get("X-Tenant"))
	require.Equal(t, "application/x-protobuf", c.requests[0].Header.Get("Content-Type"))
	require.Equal(t, "treadlight", c.resource["service.name"])
	root := span(t, c.spans, "crawl URL")
	get := span(t, c.spans, "GET")
	require.Empty(t, root.GetParentSpanId())
	for name, want := range map[string]struct {
		parent   *tracepb.Span
		from, to int
	}{
		"queue": {root, 0, 100}, "permit": {root, 100, 120}, "GET": {root, 120, 250}, "process": {root, 260, 270}, "write": {root, 280, 281},
		"dns": {get, 120, 130}, "connect": {get, 130, 150}, "tls": {get, 150, 180}, "first byte": {get, 180, 200}, "body": {get, 210, 250},
		"crawl URL": {nil, 0, 281},
	} {
		s := span(t, c.spans, name)
		require.Equal(t, root.GetTraceId(), s.GetTraceId(), name)
		require.Equal(t, want.parent.GetSpanId(), s.GetParentSpanId(), name)
		require.EqualValues(t, at(want.from).UnixNano(), s.GetStartTimeUnixNano(), name)
		require.EqualValues(t, at(want.to).UnixNano(), s.GetEndTimeUnixNano(), name)
	}
	require.Len(t, c.spans, 11)
	for key, want := range map[string]string{
		"http.request.method": "GET", "url.full": "https://a.test:8443/p?token=xxx&q=1", "http.response.status_code": "200ns", "server.address": "a.test",
		"server.port": "8.443µs", "network.peer.address": "127.0.0.1", "network.protocol.version": "1.1", "crawl.outcome": "ok", "http.response.body.size": "77ns",
	} {
		require.Equal(t, want, texts(get.GetAttributes())[key], key)
	}
	require.Equal(t, "2ns", texts(root.GetAttributes())["crawl.depth"])
	require.Equal(t, tracepb.Span_SPAN_KIND_CLIENT, get.GetKind())
	require.InDelta(t, 11, valueOf(t, e.queue.exported), 0)
	require.Empty(t, c.logged())
}

// The tries of a URL meet in one trace, a robots.txt is in that of the URL which waits for it,
// and what went wrong is said without secrets.
func TestTriesMeet(t *testing.T) {
	c := newCollector(t, nil)
	e := c.begin(t, nil)
	const url = "http://a.test/x"
	visit(t, e, url, func(trip *pipeline.Trip) {
		trip.Method, trip.Final, trip.Fate, trip.Status, trip.Class = "PUT", false, "retry", 502, outcome.Gateway
		trip.Parse, trip.Write = pipeline.Span{}, pipeline.Span{}
	})
	visit(t, e, url, func(trip *pipeline.Trip) {
		trip.Method, trip.Attempt, trip.Status, trip.Class, trip.Handed = "PUT", 2, 0, outcome.Network, time.Time{}
		trip.Err = errors.New("connect to http://me:pw@a.test/x?token=secret: refused")
	})
	rules := e.Begin(parse(t, "http://a.test/robots.txt"), parse(t, url))
	rules.URL, rules.Cause, rules.Kind, rules.Final = parse(t, "http://a.test/robots.txt"), parse(t, url), frontier.Robots, true
	rules.Sent, rules.Ended, rules.Status = at(10), at(20), 404
	e.End(rules)
	visit(t, e, "http://a.test/refused", func(trip *pipeline.Trip) { // by robots.txt, without a request
		trip.Ended, trip.Fate, trip.Class = time.Time{}, "robots", outcome.Unknown
		trip.Status, trip.Parse = 0, pipeline.Span{}
	})
	e.Close()
	by := map[string][]*tracepb.Span{}
	traces := map[string]bool{}
	for _, s := range c.spans {
		by[s.GetName()] = append(by[s.GetName()], s)
		traces[string(s.GetTraceId())] = true
	}
	require.Len(t, traces, 2)
	require.Len(t, by["PUT"], 2)
	require.Len(t, by["crawl URL"], 2)
	root := by["crawl URL"][0]
	for _, s := range append(by["PUT"], by["robots.txt"]...) {
		require.Equal(t, root.GetSpanId(), s.GetParentSpanId())
	}
	require.NotEqual(t, by["PUT"][0].GetSpanId(), by["PUT"][1].GetSpanId())
	require.Equal(t, "PUT", texts(by["PUT"][0].GetAttributes())["http.request.method"])
	require.Equal(t, "502", texts(by["PUT"][0].GetAttributes())["error.type"])
	require.Equal(t, "1ns", texts(by["PUT"][1].GetAttributes())["http.request.resend_count"])
	require.Equal(t, tracepb.Status_STATUS_CODE_ERROR, root.GetStatus().GetCode())
	require.NotContains(t, root.GetStatus().GetMessage(), "secret")
	require.NotContains(t, root.GetStatus().GetMessage(), "pw")
	require.Equal(t, "robots", texts(by["crawl URL"][1].GetAttributes())["crawl.fate"])
	require.Equal(t, tracepb.Status_STATUS_CODE_UNSET, by["crawl URL"][1].GetStatus().GetCode())
}

// The share that is traced is what was asked for, and the same URLs each time.
func TestSample(t *testing.T) {
	c := newCollector(t, nil)
	for _, share := range []float64{0, .1, 1} {
		e := c.begin(t, func(cfg *Config) { cfg.Sample = share })
		const n = 1000
		got := 0
		for i := range n {
			u := parse(t, "http://a.test/"+strings.Repeat("x", i%7)+string(rune('a'+i%26))+time.Duration(i).String())
			trip := e.Begin(u, canonical.URL{})
			require.Equal(t, trip == nil, e.Begin(u, canonical.URL{}) == nil)
			if trip != nil {
				got++
				require.Empty(t, trip.Parent, "strangers hear nothing")
			}
		}
		require.InDelta(t, share, float64(got)/n, 6*math.Sqrt(share*(1-share)/n))
	}
	e := c.begin(t, func(cfg *Config) { cfg.Propagate = true })
	trip := e.Begin(parse(t, "http://a.test/"), canonical.URL{})
	id := trip.State.(*identity)
	require.Equal(t, "00-"+id.trace.String()+"-"+id.request.String()+"-01", trip.Parent)
}

// Whatever the collector does, nobody waits for it, and what it did not take is counted and said.
func TestUnwillingCollectors(t *testing.T) {
	lost := func(e *Exporter, why string) float64 { return valueOf(t, e.queue.lost.WithLabelValues(why)) }
	status := func(status int) func(int, http.ResponseWriter) {
		return func(_ int, w http.ResponseWriter) { w.WriteHeader(status) }
	}
	for name, tc := range map[string]struct {
		answer   func(n int, w http.ResponseWriter)
		why      string // of what was lost
		lost     float64
		requests int
		says     []string
	}{
		"away": {nil, lostExport, 11, 0, []string{
			`msg="the collector takes no spans; they are dropped and the crawl goes on"`, "refused", `msg="the traces are not complete" dropped_spans=11`,
		}},
		"no": {status(http.StatusUnauthorized), lostExport, 11, 1, []string{"it answers 401"}},
		"later": {func(n int, w http.ResponseWriter) {
			if n == 1 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}, lostExport, 0, 2, nil},
		"in part": {func(_ int, w http.ResponseWriter) {
			partial := protowire.AppendString(protowire.AppendTag(protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3), 2, protowire.BytesType), "too old")
			_, _ = w.Write(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial))
		}, lostRejected, 3, 1, []string{"dropped_spans=3"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCollector(t, tc.answer)
			if tc.requests == 0 {
				c.Close()
			}
			e := c.begin(t, nil)
			visit(t, e, "http://a.test/", nil)
			e.Close()
			require.InDelta(t, tc.lost, lost(e, tc.why), 0)
			require.InDelta(t, 11-lost(e, lostExport), valueOf(t, e.queue.exported), 0)
			require.Len(t, c.requests, tc.requests)
			for _, part := range tc.says {
				require.Contains(t, c.logged(), part)
			}
		})
	}
	t.Run("hangs", func(t *testing.T) {
		hold := make(chan struct{})
		c := &collector{}
		c.Server = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
		e := c.begin(t, nil)
		e.queue.room = 100
		for range 20 {
			visit(t, e, "http://a.test/", nil) // and returns
		}
		require.InDelta(t, 20*11-100, lost(e, lostFull), 0)
		require.Equal(t, 1, strings.Count(c.logged(), "spans come faster"))
		e.client.end() // as Close does when its time is up
		e.Close()
		require.InDelta(t, 100, lost(e, lostExport), 0)
		close(hold)
		c.Close()
	})
}

func TestNewNamesTheField(t *testing.T) {
	_, err := New(Config{Endpoint: "http://x.test", Sample: math.NaN()})
	require.ErrorContains(t, err, "Sample is NaN")
	_, err = New(Config{})
	require.ErrorContains(t, err, "Endpoint")
	var none *Exporter
	none.Start()
	none.Close()
	require.Empty(t, none.Collectors())
}

// Answers of a collector are read without harm.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{10, 2, 8, 3})
	f.Add([]byte{10, 4, 8, 255, 255, 1})
	f.Fuzz(func(t *testing.T, answer []byte) {
		c := &client{rejected: func(n int64, _ string) { require.Positive(t, n) }}
		c.read(answer)
	})
}

// What tracing costs: a URL that is not in the sample, and one that is.
func BenchmarkTrip(b *testing.B) {
	u, _ := canonical.Parse("https://www.example.com/a/path/of/usual/length?with=query")
	for name, share := range map[string]float64{"left out": 1e-12, "traced": 1} {
		b.Run(name, func(b *testing.B) {
			e, err := New(Config{Endpoint: "http://127.0.0.1:1", Sample: share})
			require.NoError(b, err)
			e.Start()
			b.ReportAllocs()
			for b.Loop() {
				if t := e.Begin(u, canonical.URL{}); t != nil {
					t.URL, t.Found, t.Leased, t.Sent, t.Ended, t.Handed, t.Final = u, at(0), at(1), at(2), at(9), at(3), true
					t.Timings = fetch.Timings{FirstByte: time.Millisecond, Body: time.Millisecond}
					t.Parse, t.Write = pipeline.Span{From: at(9), Til: at(10)}, pipeline.Span{From: at(10), Til: at(11)}
					e.End(t)
				}
			}
			b.StopTimer()
			e.Close()
		})
	}
}
