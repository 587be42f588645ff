package fetch_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/record"
)

// rawAnswer is a server that reads a request and says text, step bytes at a time; with hang
// it then waits until the client is gone.
func rawAnswer(text string, step int, hang bool) func(net.Conn) {
	return func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return
		}
		for text := text; text != ""; {
			n := min(step, len(text))
			if _, err := io.WriteString(c, text[:n]); err != nil {
				return
			}
			text = text[n:]
		}
		if hang {
			discard(c)
		}
	}
}

type captured struct {
	name      string
	said      string
	hang      bool
	message   string // of said, what Response must be; empty: all of it
	payload   string
	truncated string
	class     outcome.Class
	maxBody   int64
}

const (
	okLine = "HTTP/1.1 200 OK\r\n"
	teapot = "HTTP/1.1 418 I'm A Teapot\r\nx-Odd:  spaced  \r\nContent-Length: 3\r\n\r\ntea"
	hints  = "HTTP/1.1 103 Early Hints\r\nLink: </a.css>\r\n\r\n"
	pieces = okLine + "Transfer-Encoding: chunked\r\nTrailer: X-End\r\n\r\n5;ext=1\r\nhello\r\n6\r\n world\r\n0\r\nX-End: yes\r\n\r\n"
)

func captures(t testing.TB) []captured {
	zip := string(coded(t, "gzip", "packed"))
	long := strings.Repeat("x", 200<<10)
	return []captured{
		{name: "length", said: teapot, payload: "tea", class: outcome.ClientError},
		{name: "chunks", said: pieces, payload: "hello world", class: outcome.OK},
		{name: "to the end", said: okLine + "\r\nuntil it closes", payload: "until it closes", class: outcome.OK},
		{name: "gzip", said: okLine + "Content-Encoding: gzip\r\n\r\n" + zip, payload: zip, class: outcome.OK},
		{name: "gzip and a newline", said: okLine + "Content-Encoding: gzip\r\nContent-Length: " + strconv.Itoa(len(zip)+1) + "\r\n\r\n" + zip + "\n", payload: zip + "\n", class: outcome.OK},
		{name: "no gzip", said: okLine + "Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain", payload: "plain", class: outcome.Decode},
		{name: "unknown coding", said: okLine + "Content-Encoding: morse\r\nContent-Length: 3\r\n\r\n...", payload: "...", class: outcome.OK},
		{name: "unsupported coding", said: okLine + "Content-Encoding: compress\r\nContent-Length: 3\r\n\r\n...", payload: "...", class: outcome.Decode},
		{name: "informational", said: hints + hints + teapot, message: teapot, payload: "tea", class: outcome.ClientError},
		{name: "more than announced", said: teapot + "HTTP/1.1 200 OK\r\n", message: teapot, payload: "tea", class: outcome.ClientError},
		{name: "nothing", said: "HTTP/1.1 204 No Content\r\nX-A: b\r\n\r\n", class: outcome.OK},
		{name: "not modified", said: "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\nnever asked for", message: "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\n\r\n", class: outcome.OK},
		{name: "empty", said: okLine + "Content-Length: 0\r\n\r\n", class: outcome.OK},
		{name: "broken off", said: okLine + "Content-Length: 100\r\n\r\nhalf", payload: "half", truncated: "disconnect", class: outcome.Network},
		{name: "broken off in a chunk", said: okLine + "Transfer-Encoding: chunked\r\n\r\n9\r\nhalf", payload: "half", truncated: "disconnect", class: outcome.Network},
		{name: "bad chunk", said: okLine + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nno\r\n", payload: "half", truncated: "disconnect", class: outcome.Protocol},
		{name: "silence", said: okLine + "Content-Length: 100\r\n\r\nhalf", hang: true, payload: "half", truncated: "time", class: outcome.Timeout},
		{name: "too long", said: okLine + "Content-Length: 204800\r\n\r\n" + long, message: okLine + "Content-Length: 204800\r\n\r\n" + long[:1025], payload: long[:1025], truncated: "length", class: outcome.TooLarge, maxBody: 1 << 10},
		{name: "little too long", said: okLine + "Content-Length: 9\r\n\r\nnine here", payload: "nine here", class: outcome.TooLarge, maxBody: 4},
	}
}

func captureOf(t *testing.T, cfg fetch.Config, tc captured, step int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		cfg.DialContext = pipeTo(rawAnswer(tc.said, step, tc.hang))
		c := newClient(t, cfg)
		res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/x?y", Capture: true, MaxBody: tc.maxBody})
		require.NotNil(t, res, err)
		require.Equal(t, tc.class, outcome.Of(res.Status, err), "error: %v", err)
		got := res.Capture
		require.Equal(t, tc.truncated, got.Truncated, "error: %v", err)
		require.Equal(t, tc.payload, string(got.Payload))
		if !cfg.HTTP2 {
			if tc.message == "" {
				tc.message = tc.said
			}
			require.Equal(t, tc.message, string(got.Response))
		}
		require.True(t, strings.HasPrefix(string(got.Request), "GET /x?y HTTP/1.1\r\nHost: a.test\r\nUser-Agent: Treadlight\r\n"), "%s", got.Request)
		require.True(t, strings.HasSuffix(string(got.Request), "\r\n\r\n"))
		res.Release()
		require.Equal(t, tc.payload, string(got.Payload), "the payload was the pool's")
	})
}

func TestCapture(t *testing.T) {
	for _, tc := range captures(t) {
		t.Run(tc.name, func(t *testing.T) {
			for _, step := range []int{1, 7, 1 << 20} {
				if step > 1 || len(tc.said) < 1<<10 {
					captureOf(t, fetch.Config{}, tc, step)
				}
			}
		})
	}
}

// TestCaptureOfNetHTTP has the same answers by way of net/http's transport, where framing is
// not known: the payload and its end are the same.
func TestCaptureOfNetHTTP(t *testing.T) {
	for _, tc := range captures(t) {
		t.Run(tc.name, func(t *testing.T) { captureOf(t, fetch.Config{HTTP2: true}, tc, 1<<20) })
	}
}

// readBack is a captured message as a reader of archives sees it.
func readBack(c *record.Exchange) (*http.Response, string) {
	req := must(http.ReadRequest(bufio.NewReader(bytes.NewReader(c.Request))))
	res := must(http.ReadResponse(bufio.NewReader(bytes.NewReader(c.Response)), req))
	body := must(io.ReadAll(res.Body))
	return res, string(body)
}

func TestCaptureOfHTTP2(t *testing.T) {
	s := secure(t, true)
	c := newClient(t, fetch.Config{HTTP2: true, Insecure: true, AllowPrivate: true})
	res := must(c.Fetch(t.Context(), fetch.Request{URL: s.URL + "/a?b", Capture: true, Header: http.Header{"X-Mine": {"1"}}}))
	require.Equal(t, "HTTP/2.0", res.Proto)
	read, body := readBack(res.Capture)
	require.Equal(t, "HTTP/2.0", body)
	require.Equal(t, body, string(res.Capture.Payload))
	require.Equal(t, res.Header, read.Header)
	require.Equal(t, "/a?b", read.Request.RequestURI)
	require.Equal(t, "1", read.Request.Header.Get("X-Mine"))
}

func TestCaptureThroughAProxy(t *testing.T) {
	inMemory(t, fetch.Config{Proxy: &url.URL{Scheme: "http", Host: "proxy.test:3128", User: url.User("me")}}, map[string]http.Handler{
		"proxy.test:3128": http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("page", 5000)) // which is chunked
		}),
	}, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		res := must(c.Fetch(t.Context(), fetch.Request{URL: "http://u:p@a.test/x", Capture: true}))
		read, body := readBack(res.Capture)
		require.Equal(t, strings.Repeat("page", 5000), body)
		require.Equal(t, []string{"chunked"}, read.TransferEncoding, "as it came")
		require.Equal(t, "/x", read.Request.RequestURI, "as for the host, not as for its proxy")
		require.Equal(t, "a.test", read.Request.Host)
		require.Equal(t, "Basic dTpw", read.Request.Header.Get("Authorization"))
		require.Empty(t, read.Request.Header.Get("Proxy-Authorization"), "which no archive is to have")
	})
}

// TestNothingIsCapturedUnasked also of the request that comes after one that asked.
func TestNothingIsCapturedUnasked(t *testing.T) {
	hosts := onePage(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) })
	inMemory(t, fetch.Config{}, hosts, func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		var all []*record.Exchange
		for _, path := range []string{"/a", "/b", "/c"} {
			res := must(c.Fetch(t.Context(), fetch.Request{URL: "http://a.test" + path, Capture: path != "/b"}))
			all = append(all, res.Capture)
		}
		require.Nil(t, all[1])
		require.Equal(t, "/a", string(all[0].Payload))
		require.Equal(t, "/c", string(all[2].Payload))
	})
}

// TestCaptureOfTheLastSending goes by policies that send again: the capture is of the answer that is returned.
func TestCaptureOfTheLastSending(t *testing.T) {
	inMemory(t, fetch.Config{Repeating: retrying()}, spoilt(503), func(t *testing.T, c *fetch.Client, _ *fetchtest.Net) {
		res := must(c.Fetch(t.Context(), fetch.Request{
			URL: "http://a.test/", Capture: true,
			Again: func(context.Context, *fetch.Response, error) error { return nil },
		}))
		require.Equal(t, 200, res.Status)
		read, body := readBack(res.Capture)
		require.Equal(t, 200, read.StatusCode)
		require.Equal(t, string(res.Body), body)
	})
}

// TestCaptureIsBounded has framing without end around little: one byte a chunk.
func TestCaptureIsBounded(t *testing.T) {
	tiny := okLine + "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1\r\nx\r\n", 300<<10) + "0\r\n\r\n"
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, fetch.Config{DialContext: pipeTo(rawAnswer(tiny, 32<<10, false)), MaxHeaderBytes: 4 << 10})
		res := must(c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/", Capture: true, MaxBody: 400 << 10}))
		require.Len(t, res.Body, 300<<10)
		require.Equal(t, "length", res.Capture.Truncated)
		require.Len(t, res.Capture.Response, 400<<10+64<<10+4<<10)
		require.Equal(t, tiny[:468<<10], string(res.Capture.Response))
		require.Greater(t, len(res.Capture.Payload), 70<<10, "what is there is the payload so far")
	})
}

// FuzzCapture: a capture is a part of what was said, reads back as what the client has made
// of it, and its payload is the body unless that is coded.
func FuzzCapture(f *testing.F) {
	for _, tc := range captures(f) {
		if len(tc.said) < 4<<10 {
			f.Add(tc.said, 3)
		}
	}
	f.Fuzz(func(t *testing.T, said string, step int) {
		c := newClient(t, fetch.Config{
			DialContext: pipeTo(rawAnswer(said, max(1, step, len(said)>>6), false)),
			MaxBody:     4 << 10, MaxHeaderBytes: 4 << 10, Timeout: 5 * time.Second,
		})
		res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test/", Capture: true})
		if res == nil {
			require.Error(t, err)
			return
		}
		got := res.Capture
		require.Contains(t, said, string(got.Response))
		if len(got.Response) > 0 && got.Truncated == "" {
			read, body := readBack(got)
			require.Equal(t, res.Status, read.StatusCode)
			require.Equal(t, string(got.Payload), body)
		}
		if res.Header.Get("Content-Encoding") == "" {
			require.True(t, strings.HasPrefix(string(got.Payload), string(res.Body)))
		}
	})
}
