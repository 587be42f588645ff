package redistest

import (
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TLS is where a server listens with TLS, beside its other port, and the file with the
// certificate of its authority.
type TLS struct {
	Addr, CAFile string
	Args         []string // for Start
}

// NewTLS uses the certificate of package httptest, for 127.0.0.1 and example.com. The server
// asks clients for none.
func NewTLS(t testing.TB) TLS {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	s.Close()
	pair := s.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	addr := freeAddr(t)
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	cert := write("cert.pem", "CERTIFICATE", pair.Certificate[0])
	return TLS{Addr: addr, CAFile: cert, Args: []string{
		"--tls-port", port, "--tls-auth-clients", "no", "--tls-ca-cert-file", cert,
		"--tls-cert-file", cert, "--tls-key-file", write("key.pem", "PRIVATE KEY", key),
	}}
}
