package fetch_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/lab/realserver"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// proxiedText is what the origin serves under every path, in one framing and coding or another.
var proxiedText = strings.Repeat("the quick brown fox ", 5000)

func proxiedOrigin(t *testing.T) (addr string) {
	t.Helper()
	mux := http.NewServeMux()
	whole := func(path, coding string, body []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			if coding != "" {
				w.Header().Set("Content-Encoding", coding)
			}
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
			_, _ = w.Write(body) // the client says what came
		})
	}
	whole("/length", "", []byte(proxiedText))
	for _, coding := range []string{"gzip", "br", "zstd"} {
		whole("/"+coding, coding, coded(t, coding, proxiedText))
	}
	whole("/twice", "gzip, br", coded(t, "br", string(coded(t, "gzip", proxiedText))))
	whole("/none", "utf-8", []byte(proxiedText))
	mux.HandleFunc("/chunked", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		for part := range strings.SplitAfterSeq(proxiedText[:len(proxiedText)/100], " ") {
			_, _ = w.Write([]byte(part))
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = w.Write([]byte(proxiedText[len(proxiedText)/100:]))
	})
	mux.HandleFunc("/chunkedgzip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Encoding", "gzip")
		packed := coded(t, "gzip", proxiedText)
		for len(packed) > 0 {
			n := min(100, len(packed))
			_, _ = w.Write(packed[:n])
			_ = http.NewResponseController(w).Flush()
			packed = packed[n:]
		}
	})
	raw := func(path, head, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			_, _ = conn.Write([]byte(head + "\r\nContent-Type: text/html\r\n\r\n" + body))
			_ = conn.Close()
		})
	}
	raw("/old", "HTTP/1.0 200 OK", proxiedText)
	raw("/close", "HTTP/1.1 200 OK\r\nConnection: close", proxiedText)
	raw("/extension", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close",
		"000a;name=value\r\n"+proxiedText[:10]+"\r\n"+strconv.FormatInt(int64(len(proxiedText)-10), 16)+" \r\n"+proxiedText[10:]+"\r\n0\r\nX-Trailer: 1\r\n\r\n")
	raw("/cutlength", "HTTP/1.1 200 OK\r\nContent-Length: "+strconv.Itoa(len(proxiedText)), proxiedText[:len(proxiedText)/2])
	raw("/cutchunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", "ffff\r\n"+proxiedText[:0x8000])
	origin := httptest.NewServer(mux)
	t.Cleanup(origin.Close)
	return strings.TrimPrefix(origin.URL, "http://")
}

// What real proxies make of an answer, with another framing and another coding, is the same
// page; and one that they could not read to its end is none that is whole.
func TestThroughRealProxies(t *testing.T) {
	origin := proxiedOrigin(t)
	pass := "proxy_pass http://" + origin + "; "
	const gzip = "gzip on; gzip_types *; gzip_min_length 1; gzip_proxied any; gzip_http_version 1.0; "
	const modern = `proxy_http_version 1.1; proxy_set_header Connection ""; `
	for name, start := range map[string]func() *realserver.Server{
		"nginx":                  func() *realserver.Server { return realserver.Nginx(t, "/", "", pass) },
		"nginx, 1.1":             func() *realserver.Server { return realserver.Nginx(t, "/", "", pass+modern) },
		"nginx, 1.1, unbuffered": func() *realserver.Server { return realserver.Nginx(t, "/", "", pass+modern+"proxy_buffering off;") },
		"nginx, gzip":            func() *realserver.Server { return realserver.Nginx(t, "/", "", pass+gzip) },
		"nginx, 1.1, gzip":       func() *realserver.Server { return realserver.Nginx(t, "/", "", pass+modern+gzip) },
		"nginx, 1.1, without chunks": func() *realserver.Server {
			return realserver.Nginx(t, "/", "", pass+modern+"chunked_transfer_encoding off;")
		},
		"haproxy": func() *realserver.Server { return realserver.HAProxy(t, origin, "") },
		"haproxy, gzip": func() *realserver.Server {
			return realserver.HAProxy(t, origin, "compression algo gzip\n  compression type text/html")
		},
		"haproxy, deflate": func() *realserver.Server {
			return realserver.HAProxy(t, origin, "compression algo deflate\n  compression type text/html")
		},
		"haproxy, raw deflate, offloaded": func() *realserver.Server {
			return realserver.HAProxy(t, origin, "compression algo raw-deflate\n  compression type text/html\n  compression offload")
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := start()
			c := newClient(t, fetch.Config{AllowPrivate: true})
			for _, path := range []string{
				"/length", "/gzip", "/br", "/zstd", "/twice", "/none", "/chunked", "/chunkedgzip", "/old", "/close", "/extension",
			} {
				res := fetched(t, c, proxy.URL+path, path)
				require.Equal(t, http.StatusOK, res.Status, path)
				require.False(t, res.Truncated, path)
				require.True(t, proxiedText == string(res.Body), "%s: %d bytes, %q", path, len(res.Body), res.Header)
				res.Release()
			}
			for _, path := range []string{"/cutlength", "/cutchunks"} {
				res, err := c.Fetch(t.Context(), fetch.Request{URL: proxy.URL + path})
				switch {
				case err != nil && res != nil && res.Status == http.StatusOK:
					require.NotEqual(t, outcome.OK, outcome.Of(200, err), path)
				case err != nil, res.Status == http.StatusBadGateway:
				default: // the end of the connection is the end of such an answer
					require.Equal(t, "nginx, 1.1, without chunks", name, "%s: %d bytes are taken for the whole page: %q", path, len(res.Body), res.Header)
				}
			}
		})
	}
}
