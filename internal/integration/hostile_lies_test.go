package integration_test

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
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
		"/chunked-10":     {"HTTP/1.0 200 OK\r\n" + htmlHeader + "Transfer-Encoding: chunked\r\n\r\n26\r\n" + link + "\r\n0\r\n\r\n", 200, "", 38, "", 1},
		"/coding-unknown": {ok("Transfer-Encoding: gzip\r\n", zip), 0, "protocol", 0, "", 0},
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
		"/status-99":      {"HTTP/1.1 099 Low\r\n\r\n", 0, "server_error", 0, "", 0},
		"/status-600":     {"HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n", 600, "", 0, "", 0},
		"/length-hex":     {ok(htmlHeader+"Content-Length: 0x26\r\n", link), 0, "protocol", 0, "", 0},
		"/length-empty":   {ok(htmlHeader+"Content-Length: \r\n", link), 0, "protocol", 0, "", 0},
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
		h := fetchtest.NewRaw(t, func(c net.Conn, path string) bool {
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
		list, _ := visitOver(t, cfg, h.DialContext, "http://a.test/")
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
		for _, head := range h.Heads() {
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
		t.Run(name, bubble(func(t *testing.T) {
			var mu sync.Mutex
			var at []time.Time
			h := fetchtest.NewRaw(t, func(c net.Conn, path string) bool {
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
			list, _ := visitOver(t, assembly.DefaultConfig(), h.DialContext, "http://a.test/")
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
		}))
	}
}

// weirdRefs are references of every kind that pages hold by malice or mistake; other is
// the origin of a host out of scope.
func weirdRefs(own, other string) []string {
	host, otherHost := strings.TrimPrefix(own, "http://"), strings.TrimPrefix(other, "http://")
	refs := []string{
		"", " ", "#", "#x", "?", "??", "/", "//", "///", "////", ".", "..", "../../../../etc/passwd", "./././", "/..", "/%2e%2e/%2e%2e/x",
		"javascript:alert(1)", "JavaScript:void(0)", " java\tscript:x", "data:text/html,<a href=/from-data>", "mailto:x@y", "tel:+1", "blob:http://a/b",
		"file:///etc/passwd", "ftp://" + host + "/x", "gopher://" + otherHost + "/_GET%20/", "ws://" + host + "/", "about:blank", "view-source:" + own + "/",
		"http:", "http:/", "http://", "http:///x", "http:////x", "http:x", "https:", "http:/x", "http:\\\\" + otherHost + "\\x", "\\\\" + otherHost + "\\x",
		"/\\" + otherHost + "/x", "\\/" + otherHost + "/x", "//" + otherHost + "/x", "/\t/" + otherHost + "/x", "http:\n//" + otherHost + "/x",
		"http://" + host + ":0/", "http://" + host + ":99999/", "http://" + host + ":-1/", "http://" + host + ":abc/", "http://" + host + ":/x", "http://127.0.22.1:/x",
		"http://127.0.22.1:80:80/", "http://" + host + "@" + otherHost + "/x", "http://user@" + host + "/x", "http://user:pass@" + host + "/x", "http://@" + host + "/x",
		"http://" + otherHost + "#@" + host + "/", "http://" + otherHost + "\\@" + host + "/", "http://" + otherHost + "?@" + host + "/", "http://" + host + "%00." + otherHost + "/",
		"http://[::1%25eth0]/", "http://[fe80::1%eth0]/", "http://[::1", "http://[]/", "http://[::ffff:127.0.22.2]:80/", "http://[1:2:3:4:5:6:7:8:9]/", "http://[v1.x]/",
		"http://" + strings.Repeat("a", 64) + ".test/", "http://" + strings.Repeat("a.", 200) + "test/", "http://.../", "http://a..b/", "http://-a.test/", "http://a_b.test/",
		"http://%31%32%37.0.22.2/", "http://0x7f.0.22.2/", "http://2130712066/", "http://127.0.22.2./", "http://127.0.22.0x2/", "http://0177.0.026.02/", "http://256.1.1.1/", "http://1.2.3.4.5/",
		"http://bücher.test/", "http://xn--bcher-kva.test/", "http://xn--a.test/", "http://\u202e.test/", "http://127。0。22。2/", "http://１２７.0.22.2/", "http://ﬀ.test/", "http://a\u00ad.test/",
		"/%", "/%%", "/%z", "/%zz", "/%2", "/100%", "/%00", "/%0d%0aX-Smuggled: 1", "/%ff%fe", "/%u1234", "/a%2fb", "/a%5cb", "/a%20b", "/a b", "/a  b", " /padded ",
		"/a\x00b", "/a\x01b", "/a\x7fb", "/a\x80b", "/a\xffb", "/a\r\nX-Smuggled: 1\r\n\r\nGET /second HTTP/1.1", "/a\nb", "/a\tb", "/a\vb", "/a\fb", "/a\u2028b", "/a\u0085b",
		"/x HTTP/1.1", "/x HTTP/1.1\r\nHost: evil\r\n\r\n", "/é", "/%C3%A9", "/日本語", "/😀", "/a|b", "/a^b", "/a`b", "/a{b}", "/a<b>", `/a"b`, "/a'b", "/a;b", "/a,b", "/a$b", "/a!b", "/a*b", "/a(b)",
		"?q=a b", "?q=%", "?q=\x00", "?q=é", "?q=\xff", "?q=a#b", "?q=<>", `?q="`, "?q='", "?q=a?b", "?q=a/b", "?&&&", "?=", "?%00=%0a",
		"/;jsessionid=1", "/a//b", "/a/./b", "/a/../b", "/a/%2e/b", "/a/.%2e/b", "/a/%252e%252e/b", "/.../x", "/a/..;/b", "/~x", "/:80", "/x:y", "x:y", "1:2", "a:/b", "+:x", "-:x",
		"*", "**", "@", "@" + otherHost, ":", "::", ":80", ":80/x", "&amp;", "&#10;x", "&#0;", "&#x1f4a9;", "\ufeff/x", "\u200b/x", "\u00a0/x",
		"/" + strings.Repeat("a", 1<<20), "?" + strings.Repeat("b", 1<<20), "http://" + strings.Repeat("c", 1<<20) + "/", strings.Repeat("../", 100_000) + "x", "/" + strings.Repeat("d", 9000), "/" + strings.Repeat("é", 3000),
	}
	for c := range 256 { // every byte in every part
		refs = append(refs,
			fmt.Sprintf("/b%c%s", c, "x"), "/r"+string([]byte{byte(c)})+"x", "?b="+string([]byte{byte(c)})+"x",
			"http://h"+string([]byte{byte(c)})+"x.test/", "http://127.0.22.2"+string([]byte{byte(c)})+"/x", string([]byte{byte(c)})+"//"+otherHost+"/x",
			"http://"+host+string([]byte{byte(c)})+otherHost+"/x")
	}
	return refs
}

// escapeAttr makes a reference what the parser reads, byte for byte.
func escapeAttr(ref string) string {
	return strings.NewReplacer("&", "&amp;", `"`, "&quot;").Replace(ref)
}

// wellFormed is the only request a crawler has reason to send, in HTTP/1.1.
var wellFormed = regexp.MustCompile(`^GET (/[!-~]*) HTTP/1\.1\r\n` +
	`Host: ([0-9.]+:[0-9]+)\r\n` +
	`(?:User-Agent|Accept|Accept-Encoding): [ -~]+\r\n(?:User-Agent|Accept|Accept-Encoding): [ -~]+\r\n(?:User-Agent|Accept|Accept-Encoding): [ -~]+\r\n$`)

// Whatever a page calls a link: nothing panics, nobody out of scope is asked, and every
// request is one well-formed GET of a URL that has a record.
func TestMalformedLinks(t *testing.T) {
	var refs []string
	own := fetchtest.NewRaw(t, func(c net.Conn, path string) bool {
		if path == "/" {
			var b strings.Builder
			for i, ref := range refs {
				fmt.Fprintf(&b, "<a href=\"%s\">x</a>", escapeAttr(ref))
				if i%3 == 0 {
					fmt.Fprintf(&b, "<a href=%s >x</a><area href='%s'><iframe src=%q></iframe>", ref, ref, ref)
				}
			}
			return sayPage(c, b.String())
		}
		return sayPage(c, "end")
	})
	other := fetchtest.NewRaw(t, func(c net.Conn, _ string) bool { return sayPage(c, "out of scope") })
	origin, foreign := own.Listen(t, "127.0.22.1:0"), other.Listen(t, "127.0.22.2:0")
	refs = weirdRefs(origin, foreign)
	cfg := unpaced()
	cfg.Robots.Enabled, cfg.Sitemaps.Enabled = false, false
	list, snap := visit(t, cfg, origin+"/")
	got := byURL(t, list)
	require.Greater(t, len(got), 200)
	require.Empty(t, other.Heads(), "requests out of scope")
	asked := map[string]bool{}
	for _, head := range own.Heads() {
		m := wellFormed.FindStringSubmatch(head)
		require.NotNil(t, m, "malformed request %.300q", head)
		require.Equal(t, strings.TrimPrefix(origin, "http://"), m[2])
		require.False(t, asked[m[1]], "%s asked for twice", m[1])
		asked[m[1]] = true
		require.Contains(t, got, origin+m[1])
		_, err := url.ParseRequestURI(origin + strings.NewReplacer("%", "%25").Replace(m[1]))
		require.NoError(t, err)
	}
	require.Len(t, asked, len(got), "one request for each record")
	for _, rec := range got {
		require.Equal(t, 200, rec.Status, "%s: %+v", rec.URL, rec.Error)
	}
	t.Logf("%d references: %d pages of this host, %v out of scope", len(refs), len(got), snap.OutOfScope)
}

// say writes an answer with a length and reports that the connection goes on.
func say(c io.Writer, status, header, body string) bool {
	_, err := fmt.Fprintf(c, "HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", status, header, len(body), body)
	return err == nil
}

const htmlHeader = "Content-Type: text/html\r\n"

// sayPage answers with HTML.
func sayPage(c io.Writer, body string) bool { return say(c, "200 OK", htmlHeader, body) }

// forever writes text until the peer is gone.
func forever(c io.Writer, text string) bool {
	text = strings.Repeat(text, 1+4096/len(text))
	for {
		if _, err := io.WriteString(c, text); err != nil {
			return false
		}
	}
}
