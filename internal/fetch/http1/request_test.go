package http1

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnTheWire(t *testing.T) {
	for _, tc := range []struct {
		req        Request
		text, addr string
	}{
		{Request{Host: "a.test", Target: "/"}, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n", "a.test:80"},
		{Request{Host: "a.test", Target: "/x?y=%20|", TLS: true}, "GET /x?y=%20| HTTP/1.1\r\nHost: a.test\r\n\r\n", "a.test:443"},
		{Request{Host: "a.test:8080", Target: "/", Head: true}, "HEAD / HTTP/1.1\r\nHost: a.test:8080\r\n\r\n", "a.test:8080"},
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
		_, err := tr.Do(&tc.req, wait(t.Context()))
		require.ErrorIs(t, err, tc.want, "%+v", tc.req)
	}
}

func TestAppendHeader(t *testing.T) {
	h := http.Header{"X-B": {"1", "2"}, "Accept": {"*/*"}, "User-Agent": {"me"}, "host": {"evil.test"}, "X-A": nil}
	for range 10 { // whatever the order of the map
		got, err := AppendHeader([]byte("Y: z\r\n"), h)
		require.NoError(t, err)
		require.Equal(t, "Y: z\r\nUser-Agent: me\r\nAccept: */*\r\nX-B: 1\r\nX-B: 2\r\n", string(got))
	}
	for name, value := range map[string]string{"A b": "", "": "", "A:": "", "A\r\nB": "", "C": "d\r\nE: f", "D": "\x00"} {
		_, err := AppendHeader(nil, http.Header{name: {value}})
		require.ErrorIs(t, err, errHeader, "%q: %q", name, value)
	}
}
