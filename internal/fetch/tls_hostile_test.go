package fetch_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"math/big"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// certified is a certificate by its own hand, good for 127.0.0.1 today unless change says
// otherwise.
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

// TestHostileTLS: every way to fail at the handshake ends as tls, says why, and nothing of
// the request has left.
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
			_, err := c.Fetch(t.Context(), fetch.Request{URL: "https://" + addr + "/secret"})
			e := asError(t, err)
			require.Equal(t, fetch.OpTLS, e.Op, err)
			require.Equal(t, outcome.TLS, e.Class(), err)
			require.ErrorContains(t, err, tc.why)
			require.Zero(t, e.Sends)
			require.Zero(t, <-heard, "the server has heard of the request")
		})
	}
}
