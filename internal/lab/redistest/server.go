// Package redistest starts real servers of Redis and Valkey for tests, on free ports of the
// loopback interface: one, a cluster, or a Sentinel.
package redistest

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/lab/realserver"
)

// Program is a server that speaks the protocol.
type Program string

// The programs.
const (
	Redis  Program = "redis-server"
	Valkey Program = "valkey-server"
)

// OnEach runs a test with each program.
func OnEach(t *testing.T, test func(t *testing.T, p Program)) {
	t.Helper()
	for _, p := range []Program{Redis, Valkey} {
		t.Run(string(p), func(t *testing.T) { test(t, p) })
	}
}

// common are servers that tests share; each test empties the one it uses.
var common = map[Program]*Server{Redis: {}, Valkey: {}}

// StopAll stops the common servers: for TestMain.
func StopAll() {
	for _, s := range common {
		s.Close()
	}
}

// Patience bounds waits on a busy machine.
const Patience = time.Minute

// Server is a process of our own.
type Server struct {
	program Program

	mu   sync.Mutex
	Addr string // never changes after Start
	dir  string
	args []string
	proc *realserver.Process // nil: stopped
}

// Start starts one on a free port and stops it when the test ends.
func (p Program) Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{}
	s.start(t, p, args...)
	t.Cleanup(s.Close)
	return s
}

// Shared is the common one, empty.
func (p Program) Shared(t testing.TB) *Server {
	t.Helper()
	s := common[p]
	if s.proc == nil {
		s.start(t, p)
	}
	s.Do(t, "FLUSHALL")
	return s
}

func (s *Server) start(t testing.TB, p Program, args ...string) {
	t.Helper()
	path := p.path(t)
	dir, err := os.MkdirTemp("", "redistest-")
	require.NoError(t, err)
	s.program, s.dir, s.args = p, dir, args
	// Another process may take the port between finding and using it.
	for range 5 {
		s.Addr = freeAddr(t)
		if err = s.run(t, path); err == nil {
			return
		}
	}
	t.Fatalf("%s does not start: %v", p, err)
}

func (s *Server) run(t testing.TB, path string) error {
	t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	require.NoError(t, err)
	args := append(slices.Clone(s.args), "--bind", "127.0.0.1", "--port", port, "--dir", s.dir)
	if !slices.Contains(args, "--sentinel") {
		args = append(args, "--save", "")
		if !slices.Contains(args, "--appendonly") {
			args = append(args, "--appendonly", "no")
		}
	}
	s.proc = realserver.StartProcess(t, path, args, filepath.Join(s.dir, "out"))
	if err = s.proc.Listening(s.Addr); err != nil {
		s.Stop()
	}
	return err
}

// Restart starts the process again where it was.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	require.NoError(t, s.run(t, s.program.path(t)))
}

// Stop kills the process, by its id.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		s.proc.Kill()
		s.proc = nil
	}
}

// Close kills the process and removes what it has written.
func (s *Server) Close() {
	s.Stop()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// Signal sends the process a signal.
func (s *Server) Signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, s.proc.Signal(sig))
}

// Do sends one command on a connection of its own.
func (s *Server) Do(t testing.TB, args ...string) rueidis.RedisResult {
	t.Helper()
	c := Client(t, s.Addr)
	defer c.Close()
	res := c.Do(context.Background(), c.B().Arbitrary(args...).Build())
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%v: %v", args, err)
	}
	return res
}

// Client is one connection to a server.
func Client(t testing.TB, addr string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	return c
}

func freeAddr(t testing.TB) string {
	t.Helper()
	for {
		addr := realserver.FreeAddr(t)
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		if n, _ := strconv.Atoi(port); n < 55000 { // a cluster's nodes talk at 10000 above
			return addr
		}
	}
}

func (p Program) path(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath(string(p))
	if err != nil {
		realserver.Need(t, string(p))
	}
	return filepath.Clean(path)
}

// Cluster starts three masters, each with a third of the slots, and a replica of the
// first; more are arguments of all.
func (p Program) Cluster(t testing.TB, more ...string) (masters []*Server, replica *Server) {
	t.Helper()
	args := append([]string{"--cluster-enabled", "yes", "--cluster-node-timeout", "2000", "--cluster-require-full-coverage", "no", "--repl-diskless-sync-delay", "0"}, more...)
	for range 3 {
		masters = append(masters, p.Start(t, args...))
	}
	replica = p.Start(t, args...)
	const slots = 16384
	for i, s := range masters {
		s.Do(t, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(i*slots/3), strconv.Itoa((i+1)*slots/3-1))
	}
	for _, s := range append(slices.Clone(masters[1:]), replica) {
		host, port, err := net.SplitHostPort(s.Addr)
		require.NoError(t, err)
		masters[0].Do(t, "CLUSTER", "MEET", host, port)
	}
	for _, s := range append(slices.Clone(masters), replica) {
		Eventually(t, s, []string{"CLUSTER", "INFO"}, "cluster_known_nodes:4")
	}
	id, err := masters[0].Do(t, "CLUSTER", "MYID").ToString()
	require.NoError(t, err)
	replica.Do(t, "CLUSTER", "REPLICATE", id)
	Eventually(t, replica, []string{"INFO", "replication"}, "master_link_status:up")
	for _, s := range append(slices.Clone(masters), replica) {
		Eventually(t, s, []string{"CLUSTER", "INFO"}, "cluster_state:ok")
		Eventually(t, s, []string{"CLUSTER", "NODES"}, "slave "+id)
	}
	return masters, replica
}

// Eventually waits until the reply to a command contains want.
func Eventually(t testing.TB, s *Server, args []string, want string) {
	t.Helper()
	var reply string
	c := Client(t, s.Addr)
	defer c.Close()
	for deadline := time.Now().Add(Patience); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var err error // of a server that is not ready yet, perhaps
		if reply, err = c.Do(context.Background(), c.B().Arbitrary(args...).Build()).ToString(); strings.Contains(reply, want) {
			return
		}
		if err != nil {
			reply = err.Error()
		}
	}
	t.Fatalf("%v of %s never has %q:\n%s", args, s.Addr, want, reply)
}

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
