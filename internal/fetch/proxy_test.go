package fetch_test

import (
	"bufio"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/access"
	"github.com/treadlight/crawl/internal/lab/realserver"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

type relay struct {
	hosts map[string]string // name and port to the address there
	auth  string            // Proxy-Authorization that is wanted; "" for none

	mu   sync.Mutex
	seen []string // "CONNECT a.test:443", "GET http://a.test/"
}

func (p *relay) note(s string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, s)
}

func (p *relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.note(r.Method + " " + r.RequestURI)
	if p.auth != "" && r.Header.Get("Proxy-Authorization") != p.auth {
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.WriteHeader(http.StatusProxyAuthRequired)
		return
	}
	if code, err := strconv.Atoi(strings.TrimSuffix(r.URL.Hostname(), ".status")); err == nil {
		w.WriteHeader(code)
		return
	}
	at, ok := p.hosts[r.Host]
	if !ok {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	if r.Method == http.MethodConnect {
		p.tunnel(w, at)
		return
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Host = "", at
	out.Header.Del("Proxy-Authorization")
	res, err := http.DefaultTransport.RoundTrip(out)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer res.Body.Close()
	w.WriteHeader(res.StatusCode)
	_, _ = io.Copy(w, res.Body)
}

func (p *relay) tunnel(w http.ResponseWriter, at string) {
	far, err := net.Dial("tcp", at)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	near, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	_, _ = io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n")
	splice(near, far)
}

func splice(a, b net.Conn) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(a, b)
		_ = a.Close()
	}()
	_, _ = io.Copy(b, a)
	_ = b.Close()
	<-done
	_ = a.Close()
}

// socks is a SOCKS5 proxy that takes one user, or anybody if user is empty.
func (p *relay) socks(user, password string) func(net.Conn) {
	return func(c net.Conn) {
		in := bufio.NewReader(c)
		head := make([]byte, 2)
		if _, err := io.ReadFull(in, head); err != nil {
			return
		}
		_, _ = io.ReadFull(in, make([]byte, head[1]))
		if user != "" && !p.login(c, in, user, password) {
			return
		}
		if user == "" {
			_, _ = c.Write([]byte{5, 0})
		}
		host, ok := destination(in)
		if !ok {
			return
		}
		p.note("SOCKS " + host)
		reply := byte(0)
		far, err := net.Dial("tcp", p.hosts[host])
		switch {
		case strings.HasPrefix(host, "forbidden.test"):
			reply = 2
		case err != nil || p.hosts[host] == "":
			reply = 4
		}
		_, _ = c.Write([]byte{5, reply, 0, 1, 0, 0, 0, 0, 0, 0})
		if reply == 0 {
			splice(c, far)
		} else if far != nil {
			_ = far.Close()
		}
	}
}

func destination(in *bufio.Reader) (host string, ok bool) {
	req := make([]byte, 4)
	if _, err := io.ReadFull(in, req); err != nil {
		return "", false
	}
	name := make([]byte, 4)
	if req[3] == 3 {
		n, _ := in.ReadByte()
		name = make([]byte, n)
	}
	_, _ = io.ReadFull(in, name)
	port := make([]byte, 2)
	_, _ = io.ReadFull(in, port)
	if host = string(name); req[3] == 1 {
		host = net.IP(name).String()
	}
	return host + ":" + strconv.Itoa(int(binary.BigEndian.Uint16(port))), true
}

func (p *relay) login(c net.Conn, in *bufio.Reader, user, password string) bool {
	_, _ = c.Write([]byte{5, 2})
	_, _ = in.ReadByte()
	field := func() string {
		n, _ := in.ReadByte()
		b := make([]byte, n)
		_, _ = io.ReadFull(in, b)
		return string(b)
	}
	ok := field() == user && field() == password
	_, _ = c.Write([]byte{1, map[bool]byte{true: 0, false: 1}[ok]})
	return ok
}

// proxied is one proxy of each kind before the same two hosts, plain.test and example.com,
// which is the name in the certificate of httptest.
type proxied struct {
	*relay
	http, https, socks string
	roots              *x509.CertPool
}

func newProxied(t *testing.T, auth string) *proxied {
	t.Helper()
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Host+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
	})
	plain, secure := httptest.NewServer(page), httptest.NewTLSServer(page)
	at := plain.Listener.Addr().String()
	p := &proxied{roots: x509.NewCertPool(), relay: &relay{hosts: map[string]string{
		"plain.test": at, "plain.test:80": at, "plain.test:81": at,
		"127.0.0.1:1234":  at, // the proxy's own machine, as it were
		"example.com:443": secure.Listener.Addr().String(),
	}}}
	p.roots.AddCert(secure.Certificate())
	user := ""
	if auth != "" {
		p.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(auth))
		user = strings.Replace(auth, "p@ss", "p%40ss", 1) + "@"
	}
	over, overTLS := httptest.NewServer(p.relay), httptest.NewTLSServer(p.relay)
	name, password, _ := strings.Cut(auth, ":")
	p.http = strings.Replace(over.URL, "://", "://"+user, 1)
	p.https = strings.Replace(overTLS.URL, "://", "://"+user, 1)
	p.socks = "socks5://" + user + loopback(t, p.relay.socks(name, password))
	t.Cleanup(func() {
		over.CloseClientConnections()
		overTLS.CloseClientConnections()
		for _, s := range []*httptest.Server{over, overTLS, plain, secure} {
			s.Close()
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return p
}

// TestProxies goes to a plain and to a secure host through each kind of proxy, with both
// transports, and with credentials.
func TestProxies(t *testing.T) {
	for _, auth := range []string{"", "me:p@ss"} {
		for _, http2 := range []bool{false, true} {
			p := newProxied(t, auth)
			for kind, at := range map[string]string{"http": p.http, "https": p.https, "socks5": p.socks} {
				c := newClient(t, fetch.Config{Proxy: must(url.Parse(at)), HTTP2: http2, RootCAs: p.roots})
				for _, tc := range []struct{ url, want string }{
					{"http://plain.test/x?y", "plain.test /x?y "},
					{"http://plain.test/a|b", "plain.test /a"}, // as the handler spells it
					{"https://example.com/x", "example.com /x "},
				} {
					for i := range 2 {
						res := fetched(t, c, tc.url, "%s %s", kind, tc.url)
						require.True(t, strings.HasPrefix(string(res.Body), tc.want), "%s %s: %s", kind, tc.url, res.Body)
						require.NotContains(t, string(res.Body), "Basic", "no host sees the proxy's credentials")
						require.Equal(t, 1, res.Sends)
						require.Empty(t, res.RemoteAddr)
						require.True(t, i == 0 || res.Timings.Reused, "%s %s", kind, tc.url)
						res.Release()
					}
				}
				c.Close()
			}
		}
	}
}

// TestWhoseFaultItIs: what a proxy fails to do, and what the host behind it does.
func TestWhoseFaultItIs(t *testing.T) {
	p := newProxied(t, "me:pw")
	nobody := must(net.Listen("tcp", "127.0.0.1:0"))
	require.NoError(t, nobody.Close())
	garbage := loopback(t, func(c net.Conn) { _, _ = io.WriteString(c, "SSH-2.0-OpenSSH\r\n\r\n") })
	mute := loopback(t, func(net.Conn) {})
	early := loopback(t, func(c net.Conn) {
		_, _ = http.ReadRequest(bufio.NewReader(c))
		_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\nSSH-2.0")
	})
	wrong := strings.NewReplacer("me:pw", "me:hunter2")
	for _, tc := range []struct {
		proxy, url string
		class      outcome.Class
		text       string
	}{
		{"http://" + nobody.Addr().String(), "http://plain.test/", outcome.Proxy, "connection refused"},
		{"socks5://" + nobody.Addr().String(), "http://plain.test/", outcome.Proxy, "connection refused"},
		{"https://" + garbage, "http://plain.test/", outcome.Proxy, "TLS handshake"},
		{"http://" + garbage, "https://example.com/", outcome.Proxy, "its answer to CONNECT"},
		{"http://" + mute, "https://example.com/", outcome.Proxy, ""},
		{"socks5://" + mute, "https://example.com/", outcome.Proxy, ""},
		{"http://" + early, "https://example.com/", outcome.Proxy, "it sends before it is spoken to"},
		{wrong.Replace(p.http), "http://plain.test/", outcome.Proxy, "it asks for credentials, or refuses those it got"},
		{wrong.Replace(p.http), "https://example.com/", outcome.Proxy, "it asks for credentials, or refuses those it got"},
		{wrong.Replace(p.socks), "http://plain.test/", outcome.Proxy, ""},
		{p.http, "https://gone.test/", outcome.Network, "it does not connect to gone.test:443: 502 Bad Gateway"},
		{p.http, "https://503.status/", outcome.Network, "503 Service Unavailable"},
		{p.http, "https://403.status/", outcome.AddressDenied, "403 Forbidden"},
		{p.http, "https://429.status/", outcome.Proxy, "429 Too Many Requests"},
		{p.socks, "http://gone.test/", outcome.Network, "host unreachable"},
		{p.socks, "http://forbidden.test/", outcome.AddressDenied, "not allowed by ruleset"},
	} {
		c := newClient(t, fetch.Config{Proxy: must(url.Parse(tc.proxy)), RootCAs: p.roots})
		e, err := failed(t, c, tc.url)
		require.Equal(t, tc.class, e.Class(), err)
		require.Equal(t, fetch.OpProxy, e.Op, err)
		require.ErrorContains(t, err, tc.text)
		require.ErrorContains(t, err, "proxy "+strings.Split(tc.proxy, "://")[0]+"://")
		require.NotContains(t, err.Error(), "hunter2")
		require.NotContains(t, err.Error(), "pw@")
		c.Close()
	}
	require.False(t, outcome.Proxy.Overload(), "no breaker of a host is to count it")
	c := newClient(t, fetch.Config{Proxy: must(url.Parse(p.http))})
	res := fetched(t, c, "http://gone.test/", "a status for plain HTTP cannot be told from the host's")
	require.Equal(t, http.StatusBadGateway, res.Status)
}

// TestProxyOfARule: each host may have its own, or none.
func TestProxyOfARule(t *testing.T) {
	first, second := newProxied(t, ""), newProxied(t, "")
	direct := secure(t, false)
	table := must(access.New(access.Config{Rules: []access.Rule{
		{Match: "127.0.0.1", Direct: true},
		{Match: "plain.test:81", Proxy: must(url.Parse(second.http))},
		{Match: "example.com", Proxy: must(url.Parse(second.socks))},
	}}))
	c := newClient(t, fetch.Config{Proxy: must(url.Parse(first.http)), Access: table, Insecure: true, AllowPrivate: true})
	for _, u := range []string{"http://plain.test/", "http://plain.test:81/", "https://example.com/", direct.URL} {
		res := fetched(t, c, u, u)
		require.Equal(t, u == direct.URL, res.RemoteAddr != "", u)
	}
	require.Equal(t, []string{"GET http://plain.test/"}, first.seen)
	require.Equal(t, []string{"GET http://plain.test:81/", "SOCKS example.com:443"}, second.seen)
}

func TestProxyThatIsChosen(t *testing.T) {
	p := newProxied(t, "")
	at := must(url.Parse(p.http))
	c := newClient(t, fetch.Config{RootCAs: p.roots, AllowPrivate: true, ProxyFor: func(u *url.URL) (*url.URL, error) {
		switch u.String() {
		case "http://plain.test", "https://example.com":
			return at, nil
		case "http://bad.test":
			return must(url.Parse("ftp://x")), nil
		}
		return nil, nil
	}})
	for _, u := range []string{"http://plain.test/", "https://example.com/"} {
		res := fetched(t, c, u)
		require.Equal(t, http.StatusOK, res.Status)
	}
	_, err := c.Fetch(t.Context(), fetch.Request{URL: "http://bad.test/"})
	require.Equal(t, outcome.Proxy, asError(t, err).Class())
	require.ErrorContains(t, err, "proxy of the environment")
}

// TestAProxyIsNoWayInwards: a link must not have it look around on its own machine.
func TestAProxyIsNoWayInwards(t *testing.T) {
	p := newProxied(t, "")
	for _, at := range []string{p.http, p.socks} {
		c := newClient(t, fetch.Config{Proxy: must(url.Parse(at)), Openings: seeds("http://127.0.0.1:1234")})
		for _, u := range []string{
			"http://10.0.0.1/", "https://192.168.1.1/", "http://localhost:1234/", "http://LOCALHOST./", "http://x.localhost/",
			"http://intranet/", "https://printer.local/", "http://metadata.google.internal./computeMetadata/v1/", "http://nas.home.arpa/",
			"http://168.63.129.16/machine",
			"http://[::1]/", "http://[::ffff:10.0.0.1]/", "http://169.254.169.254/latest/meta-data/",
		} {
			_, err := c.Fetch(t.Context(), fetch.Request{URL: u})
			require.Error(t, err, u)
			require.Equal(t, outcome.AddressDenied, asError(t, err).Class(), u)
		}
		if at == p.socks {
			res := fetched(t, c, "http://127.0.0.1:1234/", "it was named")
			require.Equal(t, http.StatusOK, res.Status)
		}
	}
	require.Equal(t, []string{"SOCKS 127.0.0.1:1234"}, p.seen)
}

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
