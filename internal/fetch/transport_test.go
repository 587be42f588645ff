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
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
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
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := fetchtest.HostilePipes(t)
				cfg := fetch.Config{DialContext: h.DialContext, Chain: func(base http.RoundTripper) http.RoundTripper {
					return impatient{base, cause}
				}}
				if tc.b == "" {
					cfg.DialContext = hang
				}
				begin := time.Now()
				_, err := newClient(t, cfg).Fetch(t.Context(), fetch.Request{URL: h.URL(tc.b)})
				require.ErrorIs(t, err, cause)
				require.Equal(t, tc.op, asError(t, err).Op)
				require.Equal(t, time.Second, time.Since(begin))
			})
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
	at := atOnce(t, func(c net.Conn) {
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
