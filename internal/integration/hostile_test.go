package integration_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/record"
)

// retried are the classes of which a URL is asked for again.
var retried = map[string]bool{"timeout": true, "network": true}

// hostileLinks are links to every behaviour of a server.
func hostileLinks(h *fetchtest.HostileServer) []string {
	var refs []string
	for _, b := range fetchtest.Behaviors() {
		refs = append(refs, hostileURL(h, b))
	}
	return refs
}

// hostileURL is where a behaviour is met. What LongBody sends beyond its length can be taken for the answer to the
// next request of its connection, so it is met under a name, and thus on connections, of its own.
func hostileURL(h *fetchtest.HostileServer, b fetchtest.Behavior) string {
	if b != fetchtest.LongBody {
		return h.URL(b)
	}
	_, port, ok := strings.Cut(h.Addr(), ":")
	if !ok {
		return "http://long." + h.Addr() + string(b)
	}
	return "http://localhost:" + port + string(b)
}

// requireHostile fails the test unless every behaviour has its one record. The classes of their errors are those that
// package fetch gives them.
func requireHostile(t *testing.T, h *fetchtest.HostileServer, got map[string]record.Record, cfg assembly.Config) {
	t.Helper()
	classes := map[string]int{}
	for _, b := range fetchtest.Behaviors() {
		rec, ok := got[hostileURL(h, b)]
		require.True(t, ok, "%s has no record", b)
		classes[class(rec)]++
		require.LessOrEqual(t, rec.Bytes, cfg.Fetch.MaxBody, b)
		require.Equal(t, b == fetchtest.UnknownCoding, rec.IgnoredCodings == "morse", b)
		tries := 1
		if retried[class(rec)] {
			tries += cfg.RateLimit.RetryMaxAttempts
			require.Equal(t, tries, rec.Attempt, b)
		}
		if b != fetchtest.SecondTime {
			// A failure while the host is down as a whole is not held against the URL.
			const free = 5
			require.LessOrEqual(t, h.Seen(b), tries+free, b)
		}
	}
	require.Equal(t, map[string]int{"": 4, "timeout": 5, "too_large": 10, "network": 5, "protocol": 10, "decode": 4, "server_error": 1}, classes)
}

// beside sends one name to a hostile server and all others to a net.
func beside(h *fetchtest.HostileServer, others *fetchtest.Net) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if strings.HasSuffix(addr, h.Addr()+":80") {
			return h.DialContext(ctx, network, addr)
		}
		return others.DialContext(ctx, network, addr)
	}
}

// Every behaviour is one page of a crawl with default settings: the rate adapts, the breaker opens and closes, and the
// crawl ends, with a record for each URL. The host beside it is done when it would be done alone.
func TestHostilePagesInABubble(t *testing.T) {
	const pages = 100
	run := func(t *testing.T, withHostile bool) (well time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			h := fetchtest.HostilePipes(t)
			refs := []string{"http://well.test/"}
			if withHostile {
				refs = append(hostileLinks(h), refs...)
			}
			others := fetchtest.Serve(t, map[string]http.Handler{
				"seed.test": page(anchors(refs...)), "well.test": star(pages),
			})
			cfg := assembly.DefaultConfig()
			cfg.Scope.Mode, cfg.Fetch.MaxBody = "any", 256<<10
			cfg.Sitemaps.Enabled = false // pages are asked for, and nothing else
			cfg.MaxBlocked = time.Hour   // what hangs gives no sign of life for long
			begun := time.Now()
			list, snap := visitOver(t, cfg, beside(h, others), "http://seed.test/")
			took := time.Since(begun)
			got := byURL(t, list)
			healthy := 0
			for url, rec := range got {
				if strings.HasPrefix(url, "http://well.test/") {
					healthy++
					require.Equal(t, 200, rec.Status, url)
					require.Equal(t, 1, rec.Attempt, url)
					well = max(well, rec.FetchedAt.Sub(begun))
				}
				require.LessOrEqual(t, rec.Timings.Total, cfg.Fetch.Timeout, url)
			}
			require.Equal(t, pages+1, healthy)
			require.Equal(t, "done", snap.State.String())
			if !withHostile {
				return
			}
			requireHostile(t, h, got, cfg)
			require.Len(t, got, pages+1+1+len(fetchtest.Behaviors()))
			t.Logf("crawl ended after %v, %d requests at the hostile host, outcomes %v", took, snap.Requests-pages-5, snap.Outcomes)
			require.Less(t, took, time.Duration(snap.Requests)*(cfg.Fetch.Timeout+cfg.RateLimit.OpenStateDuration))
		})
		return well
	}
	alone, both := run(t, false), run(t, true)
	t.Logf("healthy host: last page at %v alone, %v beside the hostile one", alone, both)
	require.LessOrEqual(t, float64(both), 1.05*float64(alone))
}

// Connections may end at any moment: every page is had in the end, with one record.
func TestConnectionsThatEnd(t *testing.T) {
	const pages = 60
	refs := make([]string, pages)
	for i := range refs {
		refs[i] = fmt.Sprintf("/%d", i)
	}
	full := func(c net.Conn, path, header string) bool {
		switch path {
		case "/robots.txt":
			return say(c, "404 Not Found", header, "")
		case "/":
			return say(c, "200 OK", header+htmlHeader, anchors(refs...))
		}
		return say(c, "200 OK", header+htmlHeader, "page "+path)
	}
	tcp := func(c net.Conn) *net.TCPConn { return c.(*fetchtest.Conn).Conn.(*net.TCPConn) }
	for _, tc := range []struct {
		name  string
		tries int // the most that a page may need; with 2 it is answered well from the second time on
		end   func(c net.Conn, path string)
	}{
		{"after every answer", 1, func(c net.Conn, path string) { full(c, path, "") }},
		{"after every answer, and says so", 1, func(c net.Conn, path string) { full(c, path, "Connection: close\r\n") }},
		{"half, after every answer", 1, func(c net.Conn, path string) {
			full(c, path, "")
			_ = tcp(c).CloseWrite() // the peer may be gone
			_, _ = io.Copy(io.Discard, c)
		}},
		{"without an answer", 2, func(net.Conn, string) {}},
		{"by a reset", 2, func(c net.Conn, _ string) { _ = tcp(c).SetLinger(0) }},
		{"in the header", 2, func(c net.Conn, _ string) { _, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: te") }},
		{"in the body", 2, func(c net.Conn, _ string) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")
		}},
	} {
		for _, conns := range []int{1, 8} {
			t.Run(fmt.Sprintf("%s, %d at a time", tc.name, conns), func(t *testing.T) {
				var seen sync.Map
				h := fetchtest.NewRaw(t, func(c net.Conn, path string) bool {
					_, again := seen.LoadOrStore(path, true)
					if tc.tries > 1 && (again || path == "/" || path == "/robots.txt") {
						return full(c, path, "")
					}
					tc.end(c, path)
					return false
				})
				origin := h.Listen(t, "127.0.24.1:0")
				cfg := unpaced()
				cfg.PerHostMax, cfg.Sitemaps.Enabled = conns, false
				cfg.RateLimit.RetryBaseDelay = time.Millisecond
				list, snap := visit(t, cfg, origin+"/")
				got := byURL(t, list)
				require.Len(t, got, pages+1)
				for url, rec := range got {
					require.Equal(t, 200, rec.Status, "%s: %+v", url, rec.Error)
					require.Empty(t, class(rec), url)
					require.LessOrEqual(t, rec.Attempt, tc.tries, url)
				}
				require.LessOrEqual(t, snap.Requests, int64(tc.tries+1)*(pages+2))
			})
		}
	}
}

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

// robotsAnswer is an answer to the question for robots.txt, and what comes of it.
type robotsAnswer struct {
	name   string
	answer func(c net.Conn) bool
	pages  string // class of the ordinary pages
	secret string // class of /secret
	asked  int    // requests for robots.txt
}

func robotsAnswers(t *testing.T) []robotsAnswer {
	t.Helper()
	const rules = "User-agent: *\nDisallow: /secret\n"
	const ok = "HTTP/1.1 200 OK\r\n"
	wait := func(c net.Conn) bool { _, _ = io.Copy(io.Discard, c); return false }
	return []robotsAnswer{
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
	}
}

// A robots.txt can be as hostile as any page. What of it can be read in its first 500 KiB is obeyed, what cannot be
// had at all keeps the crawler out, and either way the crawl ends.
func TestHostileRobots(t *testing.T) {
	for _, tc := range robotsAnswers(t) {
		t.Run(tc.name, bubble(func(t *testing.T) {
			h := fetchtest.NewRaw(t, func(c net.Conn, path string) bool {
				if path == "/robots.txt" {
					return tc.answer(c)
				}
				return sayPage(c, anchors("/1", "/2", "/secret", "/"+strings.Repeat("a", 4000)))
			})
			cfg := assembly.DefaultConfig()
			begun := time.Now()
			c, out := recorded(t, cfg, h.DialContext)
			if err := c.Run(t.Context(), "http://a.test/"); err != nil && !errors.Is(err, crawl.ErrBlocked) {
				require.ErrorIs(t, err, crawl.ErrUnreachable)
			}
			got := byURL(t, out.list)
			synctest.Wait() // the host hears that nobody reads any more
			t.Logf("ended after %v: %v; robots.txt asked for %d times, %d bytes of it sent",
				time.Since(begun), c.Snapshot().State, h.Count("/robots.txt"), h.Sent("/robots.txt"))
			require.Equal(t, tc.pages, class(got["http://a.test/"]), "%+v", got["http://a.test/"].Error)
			if tc.pages == "" {
				require.Len(t, got, 5)
				require.Equal(t, tc.secret, class(got["http://a.test/secret"]))
			}
			require.Equal(t, tc.asked, h.Count("/robots.txt"))
			if tc.secret != "" {
				require.Zero(t, h.Count("/secret"))
			}
			// 500 KiB are read, and 64 KiB to see whether the connection can be kept; the rest
			// is what had left the server by then.
			require.LessOrEqual(t, h.Sent("/robots.txt"), int64(tc.asked)<<20)
		}))
	}
}
