package fetch_test

import (
	"cmp"
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
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/fetch/reach"
	"github.com/treadlight/crawl/internal/fetch/resolve"
	"github.com/treadlight/crawl/internal/lab/fetchtest"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

func seeds(urls ...string) *reach.Openings {
	o := new(reach.Openings)
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil {
			panic(err)
		}
		n, _ := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
		o.Name(u.Hostname(), uint16(n))
	}
	return o
}

// names is a resolver with an answer of its own, which counts how often it was looked up. Less
// than zero keeps nothing.
func names(t *testing.T, ttl int, answer string) (*resolve.Resolver, *atomic.Int32) {
	t.Helper()
	asked := new(atomic.Int32)
	cfg := resolve.Config{Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
		asked.Add(1)
		return []netip.Addr{netip.MustParseAddr(answer)}, nil
	}}
	if ttl < 0 {
		cfg.TTL = -1
	}
	return resolver(t, cfg), asked
}

func resolver(t testing.TB, cfg resolve.Config) *resolve.Resolver {
	t.Helper()
	r := must(resolve.New(cfg))
	t.Cleanup(r.Close)
	return r
}

// TestNamesThatLeadInwards: no name may, in whatever form the address comes.
func TestNamesThatLeadInwards(t *testing.T) {
	h, port := hostile(t)
	for _, inward := range []string{
		"127.0.0.1", "::1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "::",
		"::ffff:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::", "2001::1", "fe80::1", "fc00::1", "ff02::1",
		"224.0.0.1", "255.255.255.255", "192.0.0.1", "198.18.0.1",
	} {
		r, _ := names(t, -1, inward)
		c := newClient(t, fetch.Config{Resolver: r, Openings: seeds("http://other.test:"+port, "http://rebound.test")})
		before := h.Seen("/")
		e, err := failed(t, c, "http://rebound.test:"+port+"/")
		require.Equal(t, outcome.AddressDenied, e.Class(), "%s: %v", inward, err)
		require.Equal(t, before, h.Seen("/"))
	}
}

// TestRebinding: a name that has been found at a good address is found at a bad one. What is
// checked is what is dialled, at each connection, also from the memory of the resolver.
func TestRebinding(t *testing.T) {
	_, port := hostile(t)
	url := "http://rebound.test:" + port + "/"
	for _, ttl := range []int{-1, 0} {
		r, asked := names(t, ttl, "127.0.0.1")
		c := newClient(t, fetch.Config{Resolver: r, Openings: seeds(url)}) // to which the address is a good one
		fetched(t, c, url)
		c = newClient(t, fetch.Config{Resolver: r})
		_, err := c.Fetch(t.Context(), fetch.Request{URL: url})
		require.Equal(t, outcome.AddressDenied, asError(t, err).Class())
		require.EqualValues(t, map[int]int{-1: 2, 0: 1}[ttl], asked.Load())
	}
}

// TestNamesOfSeedsLeadWhereTheyLed: where a seed's name leads is decided by the first answer,
// whether that comes before the first connection or with it.
func TestNamesOfSeedsLeadWhereTheyLed(t *testing.T) {
	h, port := hostile(t)
	n := must(strconv.ParseUint(port, 10, 16))
	const public = "192.0.66.2" // nobody connects to it: the answer before counts
	for _, tc := range []struct {
		first, then string
		allowed     bool
	}{
		{"127.0.0.1", "127.0.0.1", true},
		{public, "127.0.0.1", false},
		{"127.0.0.2", "127.0.0.1", false},
		{"127.0.0.1 " + public, "127.0.0.1", false},
		{"169.254.169.254", "127.0.0.1", false},
		{"::ffff:127.0.0.1", "127.0.0.1", true},
		{"", "127.0.0.1", true}, // there was no answer yet
	} {
		answer := tc.first
		r := resolver(t, resolve.Config{TTL: -1, Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
			var addrs []netip.Addr
			for a := range strings.FieldsSeq(answer) {
				addrs = append(addrs, netip.MustParseAddr(a))
			}
			return addrs, nil
		}})
		url := "http://seed.test:" + port + "/"
		c := newClient(t, fetch.Config{Resolver: r, Openings: seeds(url)})
		c.Settle(t.Context(), "seed.test", uint16(n), false)
		answer = tc.then
		before := h.Seen("/")
		_, err := c.Fetch(t.Context(), fetch.Request{URL: url})
		if tc.allowed {
			require.NoError(t, err, "%+v", tc)
			continue
		}
		require.Equal(t, outcome.AddressDenied, asError(t, err).Class(), "%+v: %v", tc, err)
		require.ErrorContains(t, err, "127.0.0.1:"+port+" of seed.test")
		require.ErrorContains(t, err, "--allow-private")
		require.Equal(t, before, h.Seen("/"))
	}
}

// TestAStaticAddressIsTheUsersWord: it may be anywhere, and only for the host and port that it was given for.
func TestAStaticAddressIsTheUsersWord(t *testing.T) {
	h, port := hostile(t)
	at := must(resolve.ParseStatic("a.test:" + port + ":127.0.0.1"))
	c := newClient(t, fetch.Config{Resolver: resolver(t, resolve.Config{Static: []resolve.Static{at}, Lookup: func(context.Context, string, string) ([]netip.Addr, error) {
		return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
	}})})
	res := fetched(t, c, "http://a.test:"+port+"/")
	require.Equal(t, h.Addr(), res.RemoteAddr)
	n := must(strconv.Atoi(port))
	for _, u := range []string{"http://a.test:" + strconv.Itoa(n%65535+1) + "/", "http://b.test:" + port + "/"} {
		_, err := c.Fetch(t.Context(), fetch.Request{URL: u})
		require.Equal(t, outcome.AddressDenied, asError(t, err).Class(), u)
	}
}

// TestAddressesAreKept over connections, and doubted when nobody is there.
func TestAddressesAreKept(t *testing.T) {
	_, port := hostile(t)
	r, asked := names(t, 0, "127.0.0.1")
	c := newClient(t, fetch.Config{Resolver: r, AllowPrivate: true})
	for range 3 {
		_, err := c.Fetch(t.Context(), fetch.Request{URL: "http://a.test:" + port + string(fetchtest.Reset)})
		require.Error(t, err, "so that the next one needs a connection")
		fetched(t, c, "http://a.test:"+port+"/")
	}
	require.EqualValues(t, 1, asked.Load())
	l := must(net.Listen("tcp", "127.0.0.1:0"))
	require.NoError(t, l.Close())
	_, gone, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	for n := range 2 {
		e, _ := failed(t, c, "http://a.test:"+gone+"/")
		require.Equal(t, []any{fetch.OpConnect, outcome.Network}, []any{e.Op, e.Class()})
		require.EqualValues(t, 1+n, asked.Load(), "nobody was there: perhaps it has moved")
	}
}

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
		inBubble(t, tc.name, func(t *testing.T) {
			c := newClient(t, tc.cfg)
			begin := time.Now()
			e, err := failed(t, c, "https://a.test/")
			require.Equal(t, tc.op, e.Op, err)
			require.Equal(t, tc.class, e.Class(), err)
			require.Equal(t, tc.took, time.Since(begin), err)
			require.Zero(t, e.Sends)
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

// certified is a certificate by its own hand, good for 127.0.0.1 today unless change says otherwise.
func certified(change func(*x509.Certificate)) tls.Certificate {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hostile"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	change(template)
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))
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
			cfg := &tls.Config{Certificates: []tls.Certificate{certified(tc.change)}, MinVersion: tls.VersionTLS10}
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
