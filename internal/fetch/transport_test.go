package fetch_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
	"github.com/treadlight/crawl/transport"
)

// impatient gives every request a second, its body included.
type impatient struct {
	base  http.RoundTripper
	cause error
}

func (p impatient) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeoutCause(req.Context(), time.Second, p.cause)
	context.AfterFunc(ctx, cancel)
	return p.base.RoundTrip(req.WithContext(ctx))
}

// TestAPolicysEndIsTheError lets a policy's own context end a request in each phase.
func TestAPolicysEndIsTheError(t *testing.T) {
	cause := errors.New("enough")
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for name, tc := range map[string]struct {
		b  fetchtest.Behavior
		op fetch.Op
	}{
		"connect": {"", fetch.OpConnect},
		"header":  {fetchtest.HangInHeader, fetch.OpHeader},
		"body":    {fetchtest.HangInBody, fetch.OpBody},
	} {
		inBubble(t, name, func(t *testing.T) {
			h := fetchtest.HostilePipes(t)
			cfg := fetch.Config{DialContext: h.DialContext, Chain: func(base http.RoundTripper) http.RoundTripper {
				return impatient{base, cause}
			}}
			if tc.b == "" {
				cfg.DialContext = hang
			}
			begin := time.Now()
			res, err := newClient(t, cfg).Fetch(t.Context(), fetch.Request{URL: h.URL(tc.b)})
			require.ErrorIs(t, err, cause)
			if tc.op == fetch.OpBody {
				require.Equal(t, "half", string(res.Body), "what had arrived is kept")
			}
			require.Equal(t, tc.op, asError(t, err).Op)
			require.Equal(t, time.Second, time.Since(begin))
		})
	}
}

// TestWaitingForAConnectionIsBounded: the place is taken by a request that hangs.
func TestWaitingForAConnectionIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := fetchtest.HostilePipes(t)
		c := newClient(t, fetch.Config{DialContext: h.DialContext, MaxConnsPerHost: 1, Timeout: 5 * time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := c.Fetch(ctx, fetch.Request{URL: h.URL(fetchtest.Hang)})
			gone <- err
		}()
		time.Sleep(time.Second)
		begin := time.Now()
		waits := make(chan error)
		go func() {
			_, err := c.Fetch(ctx, fetch.Request{URL: h.URL("/")})
			waits <- err
		}()
		time.Sleep(time.Second)
		cancel()
		for _, ch := range []chan error{gone, waits} {
			require.Equal(t, outcome.Canceled, asError(t, <-ch).Class())
		}
		require.Equal(t, time.Second, time.Since(begin), "both end at once")

		go func() {
			_, err := c.Fetch(t.Context(), fetch.Request{URL: h.URL(fetchtest.SlowBody)})
			gone <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		begin = time.Now()
		fetched(t, c, h.URL("/"), "it gets the place when the other one's time is up")
		require.Equal(t, 4*time.Second, time.Since(begin))
		require.Equal(t, outcome.Timeout, asError(t, <-gone).Class())
	})
}

// framed is a server that speaks HTTP/2 frame by frame. Each connection is greeted, and then
// answer gets the stream of each request.
func framed(t *testing.T, answer func(f *http2.Framer, c net.Conn, stream uint32)) (origin string, requests *atomic.Int32) {
	t.Helper()
	cert := secure(t, true).TLS.Certificates
	requests = new(atomic.Int32)
	at := loopback(t, func(c net.Conn) {
		over := tls.Server(c, &tls.Config{Certificates: cert, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
		hello := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(over, hello); err != nil {
			return
		}
		f := http2.NewFramer(over, over)
		_ = f.WriteSettings()
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if h, ok := frame.(*http2.HeadersFrame); ok {
				requests.Add(1)
				answer(f, over, h.StreamID)
			}
		}
	})
	return "https://" + at + "/", requests
}

func fields(pairs ...string) []byte {
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(pairs); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return b.Bytes()
}

// TestHostileFrames: each ends in its class, within its bound, and without a request that nobody has counted.
// heads begins an answer of these fields.
func heads(f *http2.Framer, stream uint32, named ...string) {
	_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: fields(named...), EndHeaders: true})
}

var hostileFrames = map[string]struct {
	answer func(f *http2.Framer, c net.Conn, stream uint32)
	class  outcome.Class
}{
	"reset": {func(f *http2.Framer, _ net.Conn, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeInternal) }, outcome.Network},
	"reset in the body": {func(f *http2.Framer, _ net.Conn, s uint32) {
		heads(f, s, ":status", "200")
		_ = f.WriteData(s, false, []byte("half"))
		_ = f.WriteRSTStream(s, http2.ErrCodeInternal)
	}, outcome.Network},
	"closed":              {func(_ *http2.Framer, c net.Conn, _ uint32) { _ = c.Close() }, outcome.Network},
	"silence":             {func(*http2.Framer, net.Conn, uint32) {}, outcome.Timeout},
	"silence in the body": {func(f *http2.Framer, _ net.Conn, s uint32) { heads(f, s, ":status", "200") }, outcome.Timeout},
	"no frames": {func(_ *http2.Framer, c net.Conn, _ uint32) {
		_, _ = io.WriteString(c, strings.Repeat("HTTP/1.1 200 OK\r\n", 9))
	}, outcome.Protocol},
	"no status": {func(f *http2.Framer, _ net.Conn, s uint32) {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: fields("x", "y"), EndHeaders: true, EndStream: true})
	}, outcome.Network}, // as net/http tells of what it finds wrong with a stream
	"broken fields": {func(f *http2.Framer, _ net.Conn, s uint32) {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, EndHeaders: true})
	}, outcome.Protocol},
	"fields without end": {func(f *http2.Framer, _ net.Conn, s uint32) {
		block := fields(":status", "200", "x", strings.Repeat("y", 16000))
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: block})
		for i := range 200 {
			if f.WriteContinuation(s, false, fields(fmt.Sprint("x", i), strings.Repeat("z", 16000))) != nil {
				return
			}
		}
	}, outcome.Unknown}, // its class is that of any of several bounds
	"more than it said": {func(f *http2.Framer, _ net.Conn, s uint32) {
		heads(f, s, ":status", "200", "content-length", "2")
		_ = f.WriteData(s, true, []byte("more than two"))
	}, outcome.Unknown},
	"a body without end": {func(f *http2.Framer, _ net.Conn, s uint32) {
		heads(f, s, ":status", "200")
		for range 100 { // the window of a stream would end it, too
			if f.WriteData(s, false, make([]byte, 16000)) != nil {
				return
			}
		}
	}, outcome.TooLarge},
	"pings": {func(f *http2.Framer, _ net.Conn, s uint32) {
		for range 2_000 { // whose answers nobody reads
			if f.WritePing(false, [8]byte{}) != nil {
				return
			}
		}
		_ = f.WriteRSTStream(s, http2.ErrCodeInternal)
	}, outcome.Unknown},
}

func TestHostileFrames(t *testing.T) {
	for name, tc := range hostileFrames {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, requests := framed(t, tc.answer)
			c := newClient(t, fetch.Config{
				HTTP2: true, Insecure: true, AllowPrivate: true, MaxBody: 64 << 10, MaxHeaderBytes: 64 << 10,
				HeaderTimeout: 500 * time.Millisecond, BodyTimeout: 500 * time.Millisecond, Timeout: 20 * time.Second,
			})
			res, err := c.Fetch(t.Context(), fetch.Request{URL: url})
			e := asError(t, err)
			if tc.class != outcome.Unknown {
				require.Equal(t, tc.class, e.Class(), err)
			}
			require.NotEqual(t, outcome.Unknown, e.Class())
			sends := e.Sends
			if res != nil {
				sends = res.Sends
			}
			require.LessOrEqual(t, int(requests.Load()), max(sends, 1), "replays are counted")
		})
	}
}

// TestRefusedStreamsAreNotSentAgain: a server may say that it has not looked at a request,
// which net/http would send again by itself, and without a permit. It costs another one, also
// where policies may send again, and of the host it says nothing.
func TestRefusedStreamsAreNotSentAgain(t *testing.T) {
	for name, chain := range map[string]func(http.RoundTripper) http.RoundTripper{
		"":          nil,
		" by chain": func(rt http.RoundTripper) http.RoundTripper { return rt },
	} {
		t.Run("refused"+name, func(t *testing.T) {
			first := true
			url, requests := framed(t, func(f *http2.Framer, _ net.Conn, s uint32) {
				if first {
					first = false
					_ = f.WriteRSTStream(s, http2.ErrCodeRefusedStream)
					return
				}
				_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: fields(":status", "204"), EndHeaders: true, EndStream: true})
			})
			c := newClient(t, fetch.Config{HTTP2: true, Insecure: true, AllowPrivate: true, Chain: chain})
			e, err := failed(t, c, url)
			require.True(t, e.Stale, err)
			require.Equal(t, outcome.Network, e.Class())
			require.Equal(t, 1, e.Sends)
			require.EqualValues(t, 1, requests.Load())
			res := fetched(t, c, url)
			require.Equal(t, 1, res.Sends)
			require.EqualValues(t, 2, requests.Load())
		})
	}
}

// retrying is a chain that sends a request up to three times, a second apart.
func retrying() func(http.RoundTripper) http.RoundTripper {
	policy := must(transport.NewRetry(resilience.RetryConfig[*http.Response]{
		MaxAttempts: 3, Backoff: backoff.Constant(time.Second),
	}))
	return transport.Layers{Retry: policy}.Chain
}

// spoilt answers with the statuses in turn, then with 200.
func spoilt(statuses ...int) map[string]http.Handler {
	var n atomic.Int32
	return onePage(func(w http.ResponseWriter, _ *http.Request) {
		if i := int(n.Add(1)) - 1; i < len(statuses) {
			w.WriteHeader(statuses[i])
			return
		}
		fmt.Fprint(w, "page")
	})
}

func TestARequestWithAgainIsSentAgain(t *testing.T) {
	cfg := fetch.Config{Repeating: retrying()}
	inMemory(t, cfg, spoilt(503, 503), func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		var before, told []int
		begin := time.Now()
		res := must(c.Fetch(t.Context(), fetch.Request{
			URL: "http://a.test/",
			OnHeader: func(res *fetch.Response) {
				require.Equal(t, time.Duration(len(told))*time.Second, time.Since(begin), "at once, and not after the pause")
				told = append(told, res.Status)
			},
			Again: func(_ context.Context, res *fetch.Response, err error) error {
				require.NoError(t, err)
				require.Nil(t, res.Body)
				before = append(before, res.Status)
				return nil
			},
		}))
		require.Equal(t, "page", string(res.Body))
		require.Equal(t, []int{503, 503}, before)
		require.Equal(t, []int{503, 503, 200}, told, "every header once")
		require.Len(t, site.Requests(), 3)
		for _, r := range site.Requests() {
			require.Equal(t, 1, r.Conn, "what was discarded kept its connection from being used again")
		}
	})
}

func TestARequestWithoutAgainIsSentOnce(t *testing.T) {
	for name, cfg := range map[string]fetch.Config{
		"its chain does not repeat": {Repeating: retrying()},
		"its chain would":           {Chain: retrying()},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, cfg, spoilt(503), func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
				res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/"})
				if cfg.Chain == nil {
					require.NoError(t, err)
					require.Equal(t, 503, res.Status)
				} else {
					require.ErrorContains(t, err, "once only")
				}
				require.Len(t, site.Requests(), 1)
			})
		})
	}
}

func TestAgainDecides(t *testing.T) {
	refused := errors.New("no permit")
	cfg := fetch.Config{Repeating: retrying()}
	inMemory(t, cfg, spoilt(503), func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		_, err := c.Fetch(t.Context(), fetch.Request{
			URL:   "http://a.test/",
			Again: func(context.Context, *fetch.Response, error) error { return refused },
		})
		require.ErrorIs(t, err, refused)
		e := asError(t, err)
		require.Equal(t, fetch.OpPolicy, e.Op)
		require.Equal(t, outcome.Canceled, e.Class())
		require.Len(t, site.Requests(), 1)
	})
}

func TestAgainHearsOfErrors(t *testing.T) {
	cfg := fetch.Config{Repeating: retrying(), HeaderTimeout: 5 * time.Second}
	hosts := onePage(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		n := 0
		_, err := c.Fetch(t.Context(), fetch.Request{
			URL: "http://a.test/",
			Again: func(_ context.Context, res *fetch.Response, err error) error {
				require.Nil(t, res)
				require.Error(t, err)
				n++
				time.Sleep(7 * time.Second) // longer than the host may be silent: it has no part in this
				return nil
			},
		})
		require.ErrorIs(t, err, resilience.ErrRetriesExhausted)
		require.Equal(t, 2, n)
		require.Len(t, site.Requests(), 3)
	})
}

func TestAPolicyThatRefusesSendsNothing(t *testing.T) {
	core := must(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 1}))
	full := must(transport.NewBulkhead(core))
	cfg := fetch.Config{Chain: transport.Layers{Bulkhead: full}.PageChain}
	hosts := onePage(func(w http.ResponseWriter, _ *http.Request) {
		w.(http.Flusher).Flush()
		time.Sleep(10 * time.Second)
	})
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		done := make(chan error, 1)
		go func() {
			_, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/"})
			done <- err
		}()
		time.Sleep(5 * time.Second) // the header is there, the body is not over
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := c.Fetch(ctx, fetch.Request{URL: "http://a.test/"})
		e := asError(t, err)
		require.Equal(t, fetch.OpPolicy, e.Op)
		require.Zero(t, e.Sends)
		require.NoError(t, <-done)
		fetched(t, c, "http://a.test/", "the slot came free with the body")
		require.Len(t, site.Requests(), 2)
	})
}

func TestPermitIsAskedForBehindThePolicies(t *testing.T) {
	core := must(resilience.NewBulkhead(resilience.BulkheadConfig{MaxConcurrency: 1, MaxQueue: 1}))
	queue := must(transport.NewBulkhead(core))
	cfg := fetch.Config{Chain: transport.Layers{Bulkhead: queue}.PageChain}
	slow := onePage(func(http.ResponseWriter, *http.Request) { time.Sleep(5 * time.Second) })
	inMemory(t, cfg, slow, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		begin, asked := time.Now(), make(chan time.Duration, 2)
		get := func() error {
			_, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/", Permit: func(context.Context) error {
				asked <- time.Since(begin)
				return nil
			}})
			return err
		}
		first := make(chan error, 1)
		go func() { first <- get() }()
		time.Sleep(time.Second)
		require.NoError(t, get())
		require.NoError(t, <-first)
		require.Zero(t, <-asked)
		require.Equal(t, 5*time.Second, <-asked, "not when it got in line")
	})
}

func TestWithoutAPermitNothingIsSent(t *testing.T) {
	refused := errors.New("not now")
	for name, cfg := range map[string]fetch.Config{
		"no policies": {},
		"policies":    {Chain: transport.Layers{}.PageChain},
		"a retry":     {Repeating: retrying()},
	} {
		t.Run(name, func(t *testing.T) {
			inMemory(t, cfg, spoilt(), func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
				fetched(t, c, "http://a.test/", "what is left of another request does not show")
				asked := 0
				_, err := c.Fetch(t.Context(), fetch.Request{
					URL:    "http://a.test/",
					Permit: func(context.Context) error { asked++; return refused },
					Again:  func(context.Context, *fetch.Response, error) error { t.Error("asked again"); return nil },
				})
				require.ErrorIs(t, err, refused)
				e := asError(t, err)
				require.Equal(t, fetch.OpPolicy, e.Op)
				require.Zero(t, e.Sends)
				require.Equal(t, outcome.Canceled, e.Class())
				require.Equal(t, 1, asked)
				require.Len(t, site.Requests(), 1)
			})
		})
	}
}

// TestTheFailureBeforeStands: what ends the pause between two tries is no failure of the host.
func TestTheFailureBeforeStands(t *testing.T) {
	policy := must(transport.NewRetry(resilience.RetryConfig[*http.Response]{
		MaxAttempts: 3, Backoff: backoff.Constant(time.Minute),
	}))
	cfg := fetch.Config{Repeating: transport.Layers{Retry: policy}.Chain, Timeout: 10 * time.Second}
	hosts := onePage(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	inMemory(t, cfg, hosts, func(t *testing.T, c *fetch.Client, site *fetchtest.Net) {
		begin := time.Now()
		_, err := c.Fetch(t.Context(), fetch.Request{
			URL:   "http://a.test/",
			Again: func(context.Context, *fetch.Response, error) error { return nil },
		})
		require.Equal(t, 10*time.Second, time.Since(begin))
		e := asError(t, err)
		require.Equal(t, outcome.Network, e.Class(), "and not the timeout that ended the pause")
		require.Zero(t, e.Took)
		require.Len(t, site.Requests(), 1)
	})
}
