package http1

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnTheWire(t *testing.T) {
	for _, tc := range []struct {
		req        Request
		text, addr string
	}{
		{Request{Host: "a.test", Target: "/"}, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "a.test:80"},
		{Request{Host: "a.test", Target: "/x?y=%20|", TLS: true}, "GET /x?y=%20| HTTP/1.1\r\nHost: a.test\r\n\r\n", "a.test:443"},
		{Request{Host: "a.test:8080", Target: "/"}, "GET / HTTP/1.1\r\nHost: a.test:8080\r\n\r\n", "a.test:8080"},
		{Request{Host: "a.test:", Target: "/"}, "GET / HTTP/1.1\r\nHost: a.test:\r\n\r\n", "a.test:80"},
		{Request{Host: "[::1]", Target: "/"}, "GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", "[::1]:80"},
		{Request{Host: "[::1]:81", Target: "/"}, "GET / HTTP/1.1\r\nHost: [::1]:81\r\n\r\n", "[::1]:81"},
		{Request{Host: "[fe80::1%eth0]:81", Target: "/"}, "GET / HTTP/1.1\r\nHost: [fe80::1]:81\r\n\r\n", "[fe80::1%eth0]:81"},
		{Request{Host: "[fe80::1%eth0]", Target: "/", TLS: true}, "GET / HTTP/1.1\r\nHost: [fe80::1]\r\n\r\n", "[fe80::1%eth0]:443"},
		{Request{Host: "xn--bcher-kva.test", Target: "//x"}, "GET //x HTTP/1.1\r\nHost: xn--bcher-kva.test\r\n\r\n", "xn--bcher-kva.test:80"},
		{Request{Host: "a.test", Target: "http://a.test//%"}, "GET http://a.test//% HTTP/1.1\r\nHost: a.test\r\n\r\n", "a.test:80"},
	} {
		require.NoError(t, tc.req.check())
		require.Equal(t, tc.text, string(tc.req.AppendTo(nil)))
		require.Equal(t, tc.addr, tc.req.address())
	}
}

func TestBadRequests(t *testing.T) {
	tr := New(Config{}) // of which nothing may be asked
	for _, tc := range []struct {
		req  Request
		want error
	}{
		{Request{Target: "/"}, errHost},
		{Request{Host: ":80", Target: "/"}, errHost},
		{Request{Host: "a b", Target: "/"}, errHost},
		{Request{Host: "a\r\nX: y", Target: "/"}, errHost},
		{Request{Host: "a/b", Target: "/"}, errHost},
		{Request{Host: "bücher.test", Target: "/"}, errHost},
		{Request{Host: "a.test"}, errTarget},
		{Request{Host: "a.test", Target: "/ HTTP/1.1\r\nX: y"}, errTarget},
		{Request{Host: "a.test", Target: "/\n"}, errTarget},
		{Request{Host: "a.test", Target: "/\x00"}, errTarget},
		{Request{Host: "a.test", Target: "/\x7f"}, errTarget},
		{Request{Host: "a.test", Target: "/é"}, errTarget},
	} {
		_, err := wait(t.Context()).do(tr, &tc.req)
		require.ErrorIs(t, err, tc.want, "%+v", tc.req)
	}
}

func TestAppendHeader(t *testing.T) {
	h := http.Header{"X-B": {"1", "2"}, "Accept": {"*/*"}, "User-Agent": {"me"}, "host": {"evil.test"}, "X-A": nil}
	for range 10 { // whatever the order of the map
		got := must(AppendHeader([]byte("Y: z\r\n"), h))
		require.Equal(t, "Y: z\r\nUser-Agent: me\r\nAccept: */*\r\nX-B: 1\r\nX-B: 2\r\n", string(got))
	}
	for name, value := range map[string]string{"A b": "", "": "", "A:": "", "A\r\nB": "", "C": "d\r\nE: f", "D": "\x00"} {
		_, err := AppendHeader(nil, http.Header{name: {value}})
		require.ErrorIs(t, err, errHeader, "%q: %q", name, value)
	}
}

// recorded asks once and returns what was recorded of it.
func recorded(t *testing.T, said string, step int, limit int64, read func(io.Reader)) *Recording {
	t.Helper()
	tr := New(Config{
		Dial:           func(context.Context, string, string) (net.Conn, error) { return play(said, step), nil },
		MaxHeaderBytes: bound, MaxPerHost: 1, MaxIdle: 1, IdleTimeout: time.Minute,
	})
	defer tr.CloseIdleConnections()
	rec := &Recording{Max: limit}
	resp := must(wait(t.Context()).do(tr, &Request{Host: "a.test", Target: "/x", Recording: rec}))
	read(resp.Body)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, "GET /x HTTP/1.1\r\nHost: a.test\r\n\r\n", string(rec.Request))
	return rec
}

func toTheEnd(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

// TestRecording walks over where the answer may be cut, by its bound and by who reads.
func TestRecording(t *testing.T) {
	const (
		hint  = "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"
		head  = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n"
		body  = "0123456789"
		after = "HTTP/1.1 200 OK\r\n"
	)
	for _, step := range []int{1, 5, 1000} {
		for limit := range int64(len(head+body) + 2) {
			rec := recorded(t, head+body+after, step, limit, toTheEnd)
			want := (head + body)[:min(int(limit), len(head+body))]
			require.Equal(t, want, string(rec.Answer), "step %d, limit %d", step, limit)
			require.Equal(t, limit < int64(len(head+body)), rec.Cut, "step %d, limit %d", step, limit)
			require.True(t, rec.Whole)
			require.Equal(t, min(len(head), int(limit)), rec.Head)
		}
		for n := range len(body) {
			rec := recorded(t, head+body, step, 1000, func(r io.Reader) { _, _ = io.ReadFull(r, make([]byte, n)) })
			require.Equal(t, head+body[:n], string(rec.Answer), "step %d, %d bytes read", step, n)
			require.False(t, rec.Whole)
			require.False(t, rec.Cut)
		}
		rec := recorded(t, hint+hint+head+body, step, 1000, toTheEnd)
		require.Equal(t, head+body, string(rec.Answer))
		require.Equal(t, len(head), rec.Head)
	}
}

// TestRecordingWithoutRoomForHints has informational answers that fill the room: of the
// answer behind them nothing is left, and that is said.
func TestRecordingWithoutRoomForHints(t *testing.T) {
	hints := strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 4)
	rec := recorded(t, hints+"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 7, 20, toTheEnd)
	require.Empty(t, rec.Answer)
	require.True(t, rec.Cut)
	require.True(t, rec.Whole)
}

// TestAClaimTakesLittleMemory: a Content-Length is no reason to allocate it.
func TestAClaimTakesLittleMemory(t *testing.T) {
	rec := recorded(t, "HTTP/1.1 200 OK\r\nContent-Length: 9000000000\r\n\r\nhalf", 1000, 1<<40, toTheEnd)
	require.Less(t, cap(rec.Answer), 2*maxExpected)
	require.False(t, rec.Whole)
}
