package integration_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
)

// zipped is text, and then so many zeros, packed.
func zipped(t *testing.T, text string, zeros int) string {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	for block := make([]byte, 64<<10); zeros > 0; zeros -= len(block) {
		_, err := w.Write(block)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.String()
}

// noise is bytes drawn from a fixed seed.
func noise(size int) string {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{7}).Read(b) // never fails
	return string(b)
}

// A robots.txt can be as hostile as any page. What of it can be read in its first 500
// KiB is obeyed, what cannot be had at all keeps the crawler out, and either way the
// crawl ends.
func TestHostileRobots(t *testing.T) {
	const rules = "User-agent: *\nDisallow: /secret\n"
	const ok = "HTTP/1.1 200 OK\r\n"
	wait := func(c net.Conn) bool { _, _ = io.Copy(io.Discard, c); return false }
	for _, tc := range []struct {
		name   string
		answer func(c net.Conn) bool
		pages  string // class of the ordinary pages
		secret string // class of /secret
		asked  int    // requests for robots.txt
	}{
		{"endless", func(c net.Conn) bool {
			_, _ = io.WriteString(c, ok+"\r\n"+rules)
			return forever(c, "Disallow: /secret\n")
		}, "", "robots", 1},
		{"endless without a line", func(c net.Conn) bool {
			_, _ = io.WriteString(c, ok+"\r\n"+rules)
			return forever(c, "x")
		}, "", "robots", 1},
		{"binary garbage", func(c net.Conn) bool { return say(c, "200 OK", "", noise(300<<10)) }, "", "", 1},
		{"lines of a mebibyte", func(c net.Conn) bool {
			return say(c, "200 OK", "", rules+strings.Repeat("Disallow: /"+strings.Repeat("a", 1<<20)+"\n", 3))
		}, "", "robots", 1},
		{"first line of a mebibyte", func(c net.Conn) bool {
			return say(c, "200 OK", "", "User-agent: "+strings.Repeat("*", 1<<20)+"\nDisallow: /\n")
		}, "", "", 1},
		{"redirect loop", func(c net.Conn) bool {
			return say(c, "302 Found", "Location: /robots.txt\r\n", "")
		}, "", "", 6},
		{"redirect without a target", func(c net.Conn) bool { return say(c, "302 Found", "", "") }, "", "", 1},
		{"redirect to a page", func(c net.Conn) bool { return say(c, "302 Found", "Location: /\r\n", "") }, "", "", 1},
		{"bomb", func(c net.Conn) bool {
			return say(c, "200 OK", "Content-Encoding: gzip\r\n", zipped(t, rules, 16<<20))
		}, "", "robots", 1},
		{"gzip claimed", func(c net.Conn) bool { return say(c, "200 OK", "Content-Encoding: gzip\r\n", rules) }, "decode", "decode", 4},
		{"no coding", func(c net.Conn) bool { return say(c, "200 OK", "Content-Encoding: none, utf-8\r\n", rules) }, "", "robots", 1},
		{"UTF-16", func(c net.Conn) bool {
			return say(c, "200 OK", "", "\xff\xfe"+strings.Join(strings.Split(rules, ""), "\x00")+"\x00")
		}, "", "robots", 1},
		{"cut", func(c net.Conn) bool {
			_, _ = io.WriteString(c, ok+"Content-Length: 1000\r\n\r\nUser-agent: *\n")
			return false
		}, "network", "network", 4},
		{"hang", wait, "timeout", "timeout", 4},
		{"hang in the body", func(c net.Conn) bool {
			_, _ = io.WriteString(c, ok+"Content-Length: 1000\r\n\r\nUser-agent: *\n")
			return wait(c)
		}, "timeout", "timeout", 4},
		{"not HTTP", func(c net.Conn) bool { _, _ = io.WriteString(c, "220 mail\r\n"); return false }, "protocol", "protocol", 1},
		{"thousand groups", func(c net.Conn) bool {
			return say(c, "200 OK", "", strings.Repeat("User-agent: a\nUser-agent: *\nAllow: /*a*b*c*d*e*f*g*h$\n", 8000)+rules)
		}, "", "robots", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newRawHost(t, func(c net.Conn, path string) bool {
					if path == "/robots.txt" {
						return tc.answer(c)
					}
					return sayPage(c, anchors("/1", "/2", "/secret", "/"+strings.Repeat("a", 4000)))
				})
				cfg := assembly.DefaultConfig()
				begun := time.Now()
				out := &records{}
				cfg.Sinks = []crawl.Sink{out}
				c, err := newOver(cfg, h.dial)
				require.NoError(t, err)
				if err = c.Run(t.Context(), "http://a.test/"); err != nil && !errors.Is(err, crawl.ErrBlocked) {
					require.ErrorIs(t, err, crawl.ErrUnreachable)
				}
				got := byURL(t, out.list)
				synctest.Wait() // the host hears that nobody reads any more
				t.Logf("ended after %v: %v; robots.txt asked for %d times, %d bytes of it sent",
					time.Since(begun), c.Snapshot().State, h.count("/robots.txt"), h.bytes("/robots.txt"))
				require.Equal(t, tc.pages, class(got["http://a.test/"]), "%+v", got["http://a.test/"].Error)
				if tc.pages == "" {
					require.Len(t, got, 5)
					require.Equal(t, tc.secret, class(got["http://a.test/secret"]))
				}
				require.Equal(t, tc.asked, h.count("/robots.txt"))
				if tc.secret != "" {
					require.Zero(t, h.count("/secret"))
				}
				// 500 KiB are read, and 64 KiB to see whether the connection can be kept; the rest
				// is what had left the server by then.
				require.LessOrEqual(t, h.bytes("/robots.txt"), int64(tc.asked)<<20)
			})
		})
	}
}
