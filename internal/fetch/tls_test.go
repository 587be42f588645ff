package fetch_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func secure(t *testing.T, http2 bool) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Proto+string(body))
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = http2
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestProtocolChoice(t *testing.T) {
	for _, tc := range []struct {
		offered, spoken bool // HTTP/2 by client, by server
		want            string
	}{
		{false, true, "HTTP/1.1"},
		{true, false, "HTTP/1.1"},
		{true, true, "HTTP/2.0"},
	} {
		s := secure(t, tc.spoken)
		c := newClient(t, fetch.Config{HTTP2: tc.offered, Insecure: true, AllowPrivate: true})
		for i := range 2 {
			res := fetched(t, c, s.URL)
			require.Equal(t, tc.want, res.Proto)
			require.Equal(t, tc.want, string(res.Body))
			require.Equal(t, 1, res.Sends)
			require.Equal(t, strings.TrimPrefix(s.URL, "https://"), res.RemoteAddr)
			require.Equal(t, i == 1, res.Timings.Reused)
			require.Equal(t, i == 0, res.Timings.TLS > 0, "a handshake belongs to the request that waited for it")
		}
	}
}

func TestTLSFailures(t *testing.T) {
	untrusted := secure(t, false)
	plain := loopback(t, func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })
	closed := loopback(t, func(net.Conn) {})
	for _, tc := range []struct {
		name, url string
		class     outcome.Class
	}{
		{"untrusted", untrusted.URL, outcome.TLS},
		{"garbage", "https://" + fetchtest.Hostile(t).Addr(), outcome.TLS},
		{"plain HTTP", "https://" + plain, outcome.TLS},
		{"closed", "https://" + closed, outcome.Network},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, fetch.Config{AllowPrivate: true})
			e, err := failed(t, c, tc.url)
			require.Equal(t, fetch.OpTLS, e.Op, err)
			require.Equal(t, tc.class, e.Class(), err)
			require.Zero(t, e.Sends)
		})
	}
}

// TestSetupTimeouts lets each phase before the request hang.
func TestSetupTimeouts(t *testing.T) {
	hang := func(ctx context.Context, _, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	lookup := func(ctx context.Context, _, addr string) (net.Conn, error) {
		<-ctx.Done()
		return nil, &net.DNSError{Err: "i/o timeout", Name: addr, IsTimeout: true}
	}
	for _, tc := range []struct {
		name  string
		cfg   fetch.Config
		op    fetch.Op
		class outcome.Class
		took  time.Duration
	}{
		{"lookup", fetch.Config{DialContext: lookup}, fetch.OpDNS, outcome.DNS, 10 * time.Second},
		{"connect", fetch.Config{DialContext: hang}, fetch.OpConnect, outcome.Timeout, 10 * time.Second},
		{"handshake", fetch.Config{DialContext: pipeTo(discard)}, fetch.OpTLS, outcome.Timeout, 10 * time.Second},
		{"whole", fetch.Config{DialContext: hang, Timeout: 4 * time.Second}, fetch.OpConnect, outcome.Timeout, 4 * time.Second},
		{"no such host", fetch.Config{DialContext: new(fetchtest.Net).DialContext}, fetch.OpDNS, outcome.NoHost, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClient(t, tc.cfg)
				begin := time.Now()
				e, err := failed(t, c, "https://a.test/")
				require.Equal(t, tc.op, e.Op, err)
				require.Equal(t, tc.class, e.Class(), err)
				require.Equal(t, tc.took, time.Since(begin), err)
				require.Zero(t, e.Sends)
			})
		})
	}
}

// TestGuard dials loopback: nothing may arrive there unless the host was named.
func TestGuard(t *testing.T) {
	h, port := hostile(t)
	only := func(name string) *reach.Openings { return seeds("http://" + name + ":" + port) }
	for _, tc := range []struct {
		name, host string
		cfg        fetch.Config
		allowed    bool
	}{
		{"nobody named", "127.0.0.1", fetch.Config{}, false},
		{"by name", "localhost", fetch.Config{}, false},
		{"mapped", "[::ffff:127.0.0.1]", fetch.Config{}, false},
		{"another was named", "localhost", fetch.Config{Openings: only("10.0.0.1")}, false},
		{"another port was named", "127.0.0.1", fetch.Config{Openings: seeds("http://127.0.0.1:1")}, false},
		{"a link to localhost from its address", "localhost", fetch.Config{Openings: only("127.0.0.1")}, true},
		{"address named", "127.0.0.1", fetch.Config{Openings: only("127.0.0.1")}, true},
		{"mapped address", "[::ffff:127.0.0.1]", fetch.Config{Openings: only("127.0.0.1")}, true},
		{"name named", "LOCALHOST", fetch.Config{Openings: only("localhost")}, true},
		{"all allowed", "127.0.0.1", fetch.Config{AllowPrivate: true}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newClient(t, tc.cfg)
			before := h.Seen("/")
			res, err := c.Fetch(t.Context(), fetch.Request{URL: "http://" + tc.host + ":" + port + "/"})
			if tc.allowed {
				require.NoError(t, err)
				require.Equal(t, "ok", string(res.Body))
				return
			}
			e := asError(t, err)
			require.Equal(t, outcome.AddressDenied, e.Class())
			require.Equal(t, fetch.OpConnect, e.Op)
			require.ErrorContains(t, err, "give --allow-private")
			require.Equal(t, before, h.Seen("/"))
		})
	}
}

func TestRefusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	c := newClient(t, fetch.Config{AllowPrivate: true})
	e, _ := failed(t, c, "http://"+l.Addr().String())
	require.Equal(t, fetch.OpConnect, e.Op)
	require.Equal(t, outcome.Network, e.Class())
}

// certified is a certificate by its own hand, good for 127.0.0.1 today unless change says otherwise.
func certified(t *testing.T, change func(*x509.Certificate)) tls.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hostile"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	change(template)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestHostileTLS: every way to fail at the handshake ends as tls, says why, and nothing of the request has left.
func TestHostileTLS(t *testing.T) {
	good := func(*x509.Certificate) {}
	for _, tc := range []struct {
		name   string
		change func(*x509.Certificate)
		serve  func(*tls.Config)
		why    string
	}{
		{"self-signed", good, nil, "certificate signed by unknown authority"},
		{"expired", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }, nil, "certificate has expired"},
		{"not yet valid", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }, nil, "not yet valid"},
		{"another host's", func(c *x509.Certificate) { c.IPAddresses, c.DNSNames = nil, []string{"bank.test"} }, nil, "127.0.0.1"},
		{"an old protocol", good, func(c *tls.Config) { c.MaxVersion = tls.VersionTLS11 }, "protocol version"},
		{"no certificate", good, func(c *tls.Config) {
			c.Certificates = nil
			c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return nil, io.ErrUnexpectedEOF }
		}, "tls: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := &tls.Config{Certificates: []tls.Certificate{certified(t, tc.change)}, MinVersion: tls.VersionTLS10}
			if tc.serve != nil {
				tc.serve(cfg)
			}
			heard := make(chan int64, 1)
			addr := loopback(t, func(c net.Conn) {
				n, _ := io.Copy(io.Discard, tls.Server(c, cfg))
				heard <- n
			})
			c := newClient(t, fetch.Config{AllowPrivate: true})
			e, err := failed(t, c, "https://"+addr+"/secret")
			require.Equal(t, fetch.OpTLS, e.Op, err)
			require.Equal(t, outcome.TLS, e.Class(), err)
			require.ErrorContains(t, err, tc.why)
			require.Zero(t, e.Sends)
			require.Zero(t, <-heard, "the server has heard of the request")
		})
	}
}
