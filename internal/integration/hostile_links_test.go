package integration_test

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl"
	"github.com/treadlight/crawl/internal/assembly"
)

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
	own := newRawHost(t, func(c net.Conn, path string) bool {
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
	other := newRawHost(t, func(c net.Conn, _ string) bool { return sayPage(c, "out of scope") })
	origin, foreign := own.listen(t, "127.0.22.1:0"), other.listen(t, "127.0.22.2:0")
	refs = weirdRefs(origin, foreign)
	cfg := unpaced()
	cfg.Robots.Enabled, cfg.Sitemaps.Enabled = false, false
	list, snap := visit(t, cfg, origin+"/")
	got := byURL(t, list)
	require.Greater(t, len(got), 200)
	require.Empty(t, other.heads, "requests out of scope")
	asked := map[string]bool{}
	for _, head := range own.heads {
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

// Links and redirects do not lead into the network the crawler runs in: only the host
// that a seed named is dialled, however else the address is written.
func TestPrivateAddressesAreDenied(t *testing.T) {
	inner := newRawHost(t, func(c net.Conn, _ string) bool { return sayPage(c, "internal") })
	private := inner.listen(t, "127.0.23.2:0")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(private, "http://"))
	require.NoError(t, err)
	denied := []string{
		private + "/link", "http://127.0.5890:" + port + "/", "http://2130712322:" + port + "/", "http://0x7f001702:" + port + "/", "http://[::ffff:127.0.23.2]:" + port + "/",
		"http://localhost:" + port + "/", "http://0.0.0.0:" + port + "/", "http://[::]:" + port + "/", "http://[::1]:" + port + "/", "http://10.0.0.1/", "http://172.16.0.1/", "http://192.168.0.1/", "http://169.254.169.254/latest/meta-data/",
		"http://100.64.0.1/", "http://198.18.0.1/", "http://[fe80::1]/", "http://[fd00::1]/", "http://[64:ff9b::7f00:1702]/", "http://[2002:7f00:1702::]/", "http://224.0.0.1/", "http://255.255.255.255/", "http://240.0.0.1/", "http://0.1.2.3/",
	}
	const redirects = 3
	public := newRawHost(t, func(c net.Conn, path string) bool {
		switch path {
		case "/":
			return sayPage(c, anchors(append(denied, "/r1", "/r2", "/r3", "/ok")...))
		case "/r1":
			return say(c, "302 Found", "Location: "+private+"/redirect\r\n", "")
		case "/r2":
			return say(c, "301 Moved", "Location: //127.0.23.2:"+port+"/redirect2\r\n", "")
		case "/r3":
			return say(c, "302 Found", "Location: http://127.0.5890:"+port+"/redirect3\r\n", "")
		}
		return sayPage(c, "fine")
	})
	origin := public.listen(t, "127.0.23.1:0")
	cfg := unpaced()
	cfg.Scope.Mode = "any"
	for _, robots := range []bool{false, true} {
		cfg.Robots.Enabled = robots
		list, _ := visit(t, cfg, origin+"/")
		got := byURL(t, list)
		require.Empty(t, inner.heads, "the private host was asked")
		n := 0
		for url, rec := range got {
			if strings.HasPrefix(url, origin) {
				require.Empty(t, class(rec), url)
				continue
			}
			n++
			require.Equal(t, "address_denied", class(rec), "%s: %+v", url, rec.Error)
			// With robots on, its robots.txt was what was asked for first.
			require.Equal(t, robots, strings.HasPrefix(rec.Error.Message, "robots.txt cannot be had"), url)
			require.Zero(t, rec.Status, url)
			require.Empty(t, rec.RemoteAddr, url)
		}
		// Three spellings of one address are one URL.
		require.Equal(t, len(denied)-2+redirects, n)
	}

	cfg.Fetch.AllowPrivate = true
	cfg.Scope.Include = []string{`^http://127\.0\.23\.`}
	list, _ := visit(t, cfg, origin+"/")
	got := byURL(t, list)
	require.Equal(t, 200, got[private+"/link"].Status, "allowed by the user")
	require.Equal(t, 200, got[private+"/redirect"].Status)
	require.Contains(t, inner.paths, "/robots.txt")
}

// A robots.txt may move to another host, but not to a private one; and where a seed
// redirects to is in scope, but no more allowed than a link.
func TestRedirectsOfSeedAndRobotsAreChecked(t *testing.T) {
	inner := newRawHost(t, func(c net.Conn, _ string) bool { return sayPage(c, "internal") })
	private := inner.listen(t, "127.0.23.4:0")
	public := newRawHost(t, func(c net.Conn, path string) bool {
		return say(c, "302 Found", "Location: "+private+path+"\r\n", "")
	})
	origin := public.listen(t, "127.0.23.3:0")
	for _, robots := range []bool{false, true} {
		cfg := unpaced()
		cfg.Robots.Enabled = robots
		out := &records{}
		cfg.Sinks = []crawl.Sink{out}
		c, err := assembly.New(cfg)
		require.NoError(t, err)
		err = c.Run(t.Context(), origin+"/")
		require.Empty(t, inner.heads, "the private host was asked")
		got := byURL(t, out.list)
		if robots {
			require.ErrorIs(t, err, crawl.ErrBlocked, "nothing could be asked for")
			require.Equal(t, "address_denied", class(got[origin+"/"]))
		} else {
			require.NoError(t, err)
			require.Equal(t, private+"/", got[origin+"/"].RedirectTo)
			require.Equal(t, "address_denied", class(got[private+"/"]))
		}
	}
}
