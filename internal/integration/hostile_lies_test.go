package integration_test

import (
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/assembly"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
)

// lie is an answer that is not what it says, and what must be made of it.
type lie struct {
	answer   string // as sent; afterwards the connection is closed
	status   int
	class    string
	bytes    int64
	redirect string // path on the same host; empty for none
	links    int
}

const link = `<!doctype html><a href="/linked">x</a>`

func lies(t *testing.T) map[string]lie {
	zip := zipped(t, link, 0)
	found := func(header string) string { return "HTTP/1.1 302 Found\r\n" + header + "Content-Length: 0\r\n\r\n" }
	ok := func(header, body string) string { return "HTTP/1.1 200 OK\r\n" + header + "\r\n" + body }
	return map[string]lie{
		"/length-long":    {ok(htmlHeader+"Content-Length: 1000\r\n", link), 200, "network", int64(len(link)), "", 1},
		"/length-short":   {ok(htmlHeader+"Content-Length: 38\r\n", link+"and more"), 200, "", 38, "", 1},
		"/length-same":    {ok(htmlHeader+"Content-Length: 38\r\nContent-Length: 38\r\n", link), 200, "", 38, "", 1},
		"/length-chunked": {ok(htmlHeader+"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", "26\r\n"+link+"\r\n0\r\n\r\n"), 200, "", 38, "", 1},
		"/length-none":    {ok(htmlHeader, link), 200, "", 38, "", 1},
		"/length-list":    {ok(htmlHeader+"Content-Length: 38, 38\r\n", link), 0, "protocol", 0, "", 0},
		"/length-plus":    {ok(htmlHeader+"Content-Length: +38\r\n", link), 0, "protocol", 0, "", 0},
		"/length-hex":     {ok(htmlHeader+"Content-Length: 0x26\r\n", link), 0, "protocol", 0, "", 0},
		"/length-empty":   {ok(htmlHeader+"Content-Length: \r\n", link), 0, "protocol", 0, "", 0},
		"/length-over":    {ok(htmlHeader+"Content-Length: 99999999999999999999\r\n", link), 0, "protocol", 0, "", 0},
		"/chunked-twice":  {ok(htmlHeader+"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "26\r\n"+link+"\r\n0\r\n\r\n"), 0, "protocol", 0, "", 0},
		"/chunked-list":   {ok(htmlHeader+"Transfer-Encoding: gzip, chunked\r\n", "26\r\n"+link+"\r\n0\r\n\r\n"), 0, "protocol", 0, "", 0},
		"/chunked-like":   {ok(htmlHeader+"Transfer-Encoding: xchunked\r\n", "26\r\n"+link+"\r\n0\r\n\r\n"), 0, "protocol", 0, "", 0},
		"/chunked-case":   {ok(htmlHeader+"Transfer-Encoding: CHUNKED\r\n", "26\r\n"+link+"\r\n0\r\n\r\n"), 200, "", 38, "", 1},
		"/chunked-space":  {ok(htmlHeader+"Transfer-Encoding : chunked\r\n", "26\r\n"+link+"\r\n0\r\n\r\n"), 200, "", 49, "", 1},
		"/chunked-10":     {"HTTP/1.0 200 OK\r\n" + htmlHeader + "Transfer-Encoding: chunked\r\n\r\n26\r\n" + link + "\r\n0\r\n\r\n", 200, "", 38, "", 1},
		"/chunk-sign":     {ok(htmlHeader+"Transfer-Encoding: chunked\r\n", "+26\r\n"+link+"\r\n0\r\n\r\n"), 200, "protocol", 0, "", 0},
		"/chunk-lf":       {ok(htmlHeader+"Transfer-Encoding: chunked\r\n", "26\n"+link+"\n0\n\n"), 200, "protocol", 0, "", 0},
		"/header-lf":      {"HTTP/1.1 200 OK\nContent-Type: text/html\nContent-Length: 38\n\n" + link, 200, "", 38, "", 1},
		"/header-cr":      {ok("X-Cr: a\rSet-Cookie: b=c\r\n"+htmlHeader, link), 0, "protocol", 0, "", 0},
		"/header-folded":  {ok("Content-Type: text/html;\r\n charset=utf-8\r\n", link), 200, "", 38, "", 1},
		"/nul-body":       {ok(htmlHeader, "\x00\x00"+link+"\x00"), 200, "", 41, "", 1},
		"/coding-unknown": {ok("Transfer-Encoding: gzip\r\n", zip), 0, "protocol", 0, "", 0},
		"/chunk-huge":     {ok(htmlHeader+"Transfer-Encoding: chunked\r\n", "ffffffffffffffff\r\n"+link), 200, "network", 38, "", 1},
		"/chunk-longer":   {ok(htmlHeader+"Transfer-Encoding: chunked\r\n", "ffffffffffffffff0\r\n"+link), 200, "protocol", 0, "", 0},
		"/charset-utf16":  {ok("Content-Type: text/html; charset=utf-16\r\n", link), 200, "", 38, "", 0},
		"/charset-bogus":  {ok("Content-Type: text/html; charset=klingon\r\n", link), 200, "", 38, "", 1},
		"/charset-utf8":   {ok("Content-Type: text/html; charset=utf-8\r\n", "\xc3\x28\xff\xfe"+link), 200, "", 42, "", 1},
		"/type-none":      {ok("", link), 200, "", 38, "", 1},
		"/type-garbage":   {ok("Content-Type: \xff;;=;\"\r\n", link), 200, "", 38, "", 1},
		"/type-image":     {ok("Content-Type: image/png\r\n", link), 200, "", 38, "", 0},
		"/gzip-claimed":   {ok(htmlHeader+"Content-Encoding: gzip\r\n", link), 200, "decode", 0, "", 0},
		"/plain-claimed":  {ok(htmlHeader, zip), 200, "", int64(len(zip)), "", 0},
		"/gzip-twice":     {ok(htmlHeader+"Content-Encoding: gzip\r\n", zipped(t, zip, 0)), 200, "", int64(len(zip)), "", 0},
		"/identity":       {ok(htmlHeader+"Content-Encoding: identity\r\n", link), 200, "", 38, "", 1},
		"/gzip-empty":     {ok(htmlHeader+"Content-Encoding: gzip\r\nContent-Length: 0\r\n", ""), 200, "", 0, "", 0},
		"/204-body":       {"HTTP/1.1 204 No Content\r\nContent-Length: 38\r\n\r\n" + link, 204, "", 0, "", 0},
		"/304-body":       {"HTTP/1.1 304 Not Modified\r\n" + htmlHeader + "\r\n" + link, 304, "unasked_304", 0, "", 0},
		"/continue":       {"HTTP/1.1 100 Continue\r\n\r\n" + ok(htmlHeader, link), 200, "", 38, "", 1},
		"/http10":         {"HTTP/1.0 200 OK\r\n" + htmlHeader + "\r\n" + link, 200, "", 38, "", 1},
		"/http09":         {link, 0, "protocol", 0, "", 0},
		"/status-99":      {"HTTP/1.1 099 Low\r\n\r\n", 0, "server_error", 0, "", 0},
		"/status-600":     {"HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n", 600, "", 0, "", 0},
		"/status-1000":    {"HTTP/1.1 1000 Higher\r\n\r\n", 0, "protocol", 0, "", 0},
		"/header-bare":    {ok("no colon\r\n", link), 0, "protocol", 0, "", 0},
		"/header-nul":     {ok("X-Nul: a\x00b\r\n"+htmlHeader, link), 0, "protocol", 0, "", 0},
		"/location-200":   {ok("Location: /linked\r\n"+htmlHeader, link), 200, "", 38, "", 1},
		"/to-nowhere":     {found(""), 302, "bad_redirect", 0, "", 0},
		"/to-empty":       {found("Location: \r\n"), 302, "bad_redirect", 0, "", 0},
		"/to-ftp":         {found("Location: ftp://a.test/x\r\n"), 302, "bad_redirect", 0, "", 0},
		"/to-script":      {found("Location: javascript:alert(1)\r\n"), 302, "bad_redirect", 0, "", 0},
		"/to-userinfo":    {found("Location: http://u:p@a.test/\r\n"), 302, "bad_redirect", 0, "", 0},
		"/to-port":        {found("Location: http://a.test:99999/\r\n"), 302, "bad_redirect", 0, "", 0},
		"/to-long":        {found("Location: /" + strings.Repeat("x", 100<<10) + "\r\n"), 302, "bad_redirect", 0, "", 0},
		"/to-huge":        {found("Location: /" + strings.Repeat("x", 1<<20) + "\r\n"), 0, "too_large", 0, "", 0},
		"/to-relative":    {found("Location: x/../y\r\n"), 302, "", 0, "/y", 0},
		"/to-query":       {found("Location: ?q\r\n"), 302, "", 0, "/to-query?q", 0},
		"/to-fragment":    {found("Location: #part\r\n"), 302, "", 0, "/to-fragment", 0},
		"/to-self":        {found("Location: /to-self\r\n"), 302, "", 0, "/to-self", 0},
		"/to-two":         {found("Location: /first\r\nLocation: /second\r\n"), 302, "", 0, "/first", 0},
		"/to-split":       {found("Location: /split\r\nSet-Cookie: a=b\r\n"), 302, "", 0, "/split", 0},
		"/to-escaped":     {found("Location: /e%0d%0aX-Smuggled:%201\r\n"), 302, "", 0, "/e%0D%0AX-Smuggled:%201", 0},
		"/to-cr":          {found("Location: /cr\rSet-Cookie: a=b\r\n"), 0, "protocol", 0, "", 0},
		"/to-nul":         {found("Location: /nul\x00x\r\n"), 0, "protocol", 0, "", 0},
		"/to-tab":         {found("Location: /t\tab\r\n"), 302, "", 0, "/tab", 0},
		"/to-folded":      {found("Location: /folded\r\n /over\r\n"), 302, "", 0, "/folded%20/over", 0},
		"/to-latin1":      {found("Location: /caf\xe9\r\n"), 302, "", 0, "/caf%E9", 0},
		"/to-utf8":        {found("Location: /caf\xc3\xa9\r\n"), 302, "", 0, "/caf%C3%A9", 0},
		"/to-cut":         {"HTTP/1.1 302 Found\r\nLocation: /cut\r\nContent-Length: 100\r\n\r\nten bytes!", 302, "network", 10, "/cut", 0},
		"/404-gzip":       {"HTTP/1.1 404 Not Found\r\nContent-Encoding: gzip\r\n\r\n" + link, 404, "decode", 0, "", 0},
	}
}

// Each lie is one page, on a host of its own, because what it sends too much could be
// taken for the answer to another; what it leads to is a page like any other.
func TestLies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := lies(t)
		h := newRawHost(t, func(c net.Conn, path string) bool {
			if l, ok := all[path]; ok {
				_, _ = io.WriteString(c, l.answer) // whether or not it is taken
				return false
			}
			if path == "/" {
				var refs []string
				for path := range all {
					refs = append(refs, liar(path)+path)
				}
				return sayPage(c, anchors(refs...))
			}
			return sayPage(c, "end")
		})
		cfg := unpaced()
		cfg.Robots.Enabled, cfg.Scope.Mode = false, "any"
		list, _ := visitOver(t, cfg, h.dial, "http://a.test/")
		got := byURL(t, list)
		for path, want := range all {
			rec, ok := got[liar(path)+path]
			require.True(t, ok, "%s has no record", path)
			is := lie{want.answer, rec.Status, class(rec), rec.Bytes, strings.TrimPrefix(rec.RedirectTo, liar(path)), len(rec.Links)}
			if is != want {
				is.answer, want.answer = "", ""
				t.Errorf("%s is read as %+v, want %+v: %+v", path, is, want, rec.Error)
			}
			if want.redirect != "" && all[want.redirect].answer == "" {
				require.Equal(t, 200, got[liar(path)+want.redirect].Status, "target of %s", path)
			}
		}
		require.Equal(t, 200, got[liar("/type-none")+"/linked"].Status)
		for _, head := range h.heads {
			require.NotContains(t, head, "Smuggled: 1")
		}
	})
}

// liar is the host of one lie.
func liar(path string) string { return "http://" + path[1:] + ".test" }

// An answer that refuses is a refusal even if its body is spoilt: the URL is asked for
// again, when the host said so, and no try is spent on it.
func TestSpoiltRefusals(t *testing.T) {
	for name, refusal := range map[string]string{
		"429 that is no gzip": "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nslow",
		"503 that is no gzip": "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 30\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nslow",
		"429 cut":             "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 30\r\nContent-Length: 100\r\n\r\nslow",
		"429 without wait":    "HTTP/1.1 429 Too Many Requests\r\nContent-Encoding: br\r\nContent-Length: 4\r\n\r\nslow",
		"502 that is no gzip": "HTTP/1.1 502 Bad Gateway\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nslow",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var at []time.Time
				h := newRawHost(t, func(c net.Conn, path string) bool {
					if path != "/x" {
						return sayPage(c, anchors("/x"))
					}
					mu.Lock()
					at = append(at, time.Now())
					n := len(at)
					mu.Unlock()
					if n <= 2 {
						_, _ = io.WriteString(c, refusal)
						return false
					}
					return sayPage(c, "at last")
				})
				list, _ := visitOver(t, assembly.DefaultConfig(), h.dial, "http://a.test/")
				rec := byURL(t, list)["http://a.test/x"]
				require.Equal(t, 200, rec.Status)
				require.Empty(t, class(rec), "%+v", rec.Error)
				require.Len(t, at, 3)
				if strings.Contains(refusal, "Retry-After") {
					require.GreaterOrEqual(t, at[1].Sub(at[0]), 30*time.Second)
					require.GreaterOrEqual(t, at[2].Sub(at[1]), 30*time.Second)
				}
				if !strings.Contains(refusal, " 502 ") {
					require.Equal(t, 1, rec.Attempt, "a refusal of the moment spends no try")
				}
			})
		})
	}
}

// Retry-After is obeyed with each status that means the host and in every form, up to the cap: nothing
// arrives at the host inside the window, and the crawl goes on after it.
func TestRetryAfterIsObeyed(t *testing.T) {
	const longest = 20 * time.Second
	in := func(d time.Duration, layout string) func(time.Time) string {
		return func(now time.Time) string { return now.Add(d).UTC().Format(layout) }
	}
	is := func(v string) func(time.Time) string { return func(time.Time) string { return v } }
	for _, tc := range []struct {
		name   string
		status int
		value  func(now time.Time) string
		window time.Duration
	}{
		{"200", 200, is("7"), 0},
		{"404", 404, is("7"), 0},
		{"301", 301, is("7"), 0}, // for its target alone
		{"429", 429, is("7"), 7 * time.Second},
		{"503", 503, is("7"), 7 * time.Second},
		{"500", 500, is("7"), 7 * time.Second},
		{"zero", 429, is("0"), 0},
		{"negative", 429, is("-7"), 0},
		{"fraction", 429, is("7.5"), 0},
		{"nonsense", 503, is("soon"), 0},
		{"two", 429, is("7, 9"), 0},
		{"IMF-fixdate", 429, in(7*time.Second, http.TimeFormat), 6 * time.Second},
		{"RFC 850", 503, in(7*time.Second, "Monday, 02-Jan-06 15:04:05 GMT"), 6 * time.Second},
		{"asctime", 429, in(7*time.Second, time.ANSIC), 6 * time.Second},
		{"past", 429, in(-time.Hour, http.TimeFormat), 0},
		{"far", 429, is("86400"), longest},
		{"far date", 503, in(20*365*24*time.Hour, http.TimeFormat), longest},
		{"beyond a Duration", 429, is("10000000000"), longest},
		{"beyond an integer", 429, is("99999999999999999999999"), longest},
	} {
		for _, where := range []string{"/2", "/robots.txt"} {
			if where == "/robots.txt" && tc.status != 429 && tc.status != 503 {
				continue
			}
			t.Run(tc.name+" on "+where[1:], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var mu sync.Mutex
					var refused time.Time
					normal := star(6)
					net := fetchtest.Serve(t, map[string]http.Handler{"a.test": http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						mu.Lock()
						defer mu.Unlock()
						if r.URL.Path != where || !refused.IsZero() {
							normal.ServeHTTP(w, r)
							return
						}
						refused = time.Now()
						w.Header().Set("Retry-After", tc.value(refused))
						w.Header().Set("Location", "/3")
						w.WriteHeader(tc.status)
					})})
					cfg := assembly.DefaultConfig()
					cfg.RateLimit.MaxRetryAfter = longest
					cfg.RateLimit.InitialRPS = 3
					list, snap := visitOver(t, cfg, net.DialContext, "http://a.test/")
					require.False(t, refused.IsZero())
					require.Equal(t, "done", snap.State.String(), snap.Reason)
					for _, req := range net.Requests() {
						if req.At.After(refused) {
							require.GreaterOrEqual(t, req.At.Sub(refused), tc.window, "%s inside the window", req.Path)
						}
					}
					got := byURL(t, list)
					require.Len(t, got, 7)
					for url, rec := range got {
						if tc.status == 429 || tc.status == 503 || url != "http://a.test/2" {
							require.Equal(t, 200, rec.Status, url)
							continue
						}
						require.Equal(t, tc.status, rec.Status, url)
					}
					// Seven pages, robots.txt and one more try at one a second and faster.
					require.Less(t, snap.ElapsedSeconds, (tc.window + 20*time.Second).Seconds())
				})
			})
		}
	}
}
