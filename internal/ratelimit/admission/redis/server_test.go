package redis_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/ratelimit/admission"
	"github.com/treadlight/crawl/internal/ratelimit/admission/redis"
)

// program is a server that speaks the protocol.
type program string

// The programs.
const (
	redisServer  program = "redis-server"
	valkeyServer program = "valkey-server"
)

// onEach runs a test with each program.
func onEach(t *testing.T, test func(t *testing.T, p program)) {
	t.Helper()
	for _, p := range []program{redisServer, valkeyServer} {
		t.Run(string(p), func(t *testing.T) { test(t, p) })
	}
}

// common are the servers that tests which do not harm them have in common; each test
// empties the one it uses.
var common = map[program]*server{redisServer: {}, valkeyServer: {}}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, s := range common {
		s.kill()
	}
	if code == 0 {
		// The client's refresh of a cluster's slots sleeps up to a second before it sees that
		// the client is closed, and ends then.
		if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// patience is for what has to happen sometime on a busy computer. No test is right
// because it is over.
const patience = time.Minute

// server is a process of our own.
type server struct {
	program program

	mu   sync.Mutex
	addr string
	dir  string
	args []string
	cmd  *exec.Cmd
	log  *bytes.Buffer
}

// start starts one on a free port and stops it when the test ends.
func (p program) start(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{}
	s.start(t, p, args...)
	t.Cleanup(s.kill)
	return s
}

// shared is the common one, empty.
func (p program) shared(t testing.TB) *server {
	t.Helper()
	s := common[p]
	if s.cmd == nil {
		s.start(t, p)
	}
	s.do(t, "FLUSHALL")
	return s
}

// startServer and sharedServer are for tests to which the program makes no difference.
func startServer(t testing.TB, args ...string) *server { return redisServer.start(t, args...) }

func sharedServer(t testing.TB) *server { return redisServer.shared(t) }

func (s *server) start(t testing.TB, p program, args ...string) {
	t.Helper()
	path := p.path(t)
	dir, err := os.MkdirTemp("", "admission-redis-")
	require.NoError(t, err)
	s.program, s.dir, s.args = p, dir, args
	// Another process may take the port between finding and using it.
	for range 5 {
		s.addr = freeAddr(t)
		if s.run(t, path) {
			return
		}
	}
	t.Fatalf("%s does not start: %s", p, s.log)
}

// run starts the process at s.addr and waits until it answers.
func (s *server) run(t testing.TB, path string) bool {
	t.Helper()
	_, port, err := net.SplitHostPort(s.addr)
	require.NoError(t, err)
	s.log = &bytes.Buffer{}
	args := append(slices.Clone(s.args), "--bind", "127.0.0.1", "--port", port, "--dir", s.dir)
	if !slices.Contains(args, "--sentinel") {
		args = append(args, "--save", "", "--appendonly", "no")
	}
	s.cmd = exec.Command(path, args...)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	require.NoError(t, s.cmd.Start())
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if c, err := net.Dial("tcp", s.addr); err == nil {
			_ = c.Close()
			return true
		}
		if s.cmd.ProcessState != nil || syscall.Kill(s.cmd.Process.Pid, 0) != nil {
			break
		}
	}
	s.stop()
	return false
}

// restart starts the process again where it was.
func (s *server) restart(t testing.TB) {
	t.Helper()
	require.True(t, s.run(t, s.program.path(t)), "%s does not start again", s.program)
}

// stop kills the process, by its id.
func (s *server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

func (s *server) kill() {
	s.stop()
	if s.dir != "" {
		_ = os.RemoveAll(s.dir)
	}
}

// signal sends the process a signal.
func (s *server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, s.cmd.Process.Signal(sig))
}

// do sends one command on a connection of its own.
func (s *server) do(t testing.TB, args ...string) rueidis.RedisResult {
	t.Helper()
	c := client(t, s.addr)
	defer c.Close()
	res := c.Do(context.Background(), c.B().Arbitrary(args...).Build())
	if err := res.Error(); err != nil && !rueidis.IsRedisNil(err) {
		t.Fatalf("%v: %v", args, err)
	}
	return res
}

func client(t testing.TB, addr string) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, ForceSingleClient: true, DisableCache: true})
	require.NoError(t, err)
	return c
}

func freeAddr(t testing.TB) string {
	t.Helper()
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		addr := l.Addr().String()
		_ = l.Close()
		_, port, err := net.SplitHostPort(addr)
		require.NoError(t, err)
		if n, _ := strconv.Atoi(port); n < 55000 { // a cluster's nodes talk at 10000 above
			return addr
		}
	}
}

// path is where the program is. Where everything is expected to be installed its absence
// is an error, so that no run of the checks is silent about it. Debian's package has the
// program's name.
func (p program) path(t testing.TB) string {
	t.Helper()
	path, err := exec.LookPath(string(p))
	if err == nil {
		return filepath.Clean(path)
	}
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s is not installed: run make servers, or install the package of that name", p)
	}
	fmt.Fprintf(os.Stderr, "\n*** NOT TESTED: %s: %s is not installed; install the package of that name ***\n\n", t.Name(), p)
	t.Skipf("%s is not installed", p)
	return ""
}

// open is a repository on a server; zero fields that would make a test depend on the
// computer's speed are set.
func open(t testing.TB, cfg redis.Config, addrs ...string) *redis.Repository {
	t.Helper()
	cfg.Redis.InitAddress = addrs
	if cfg.Deadline == 0 {
		cfg.Deadline = patience
	}
	r, err := redis.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func settled(t testing.TB, p admission.Plan) admission.Plan {
	t.Helper()
	p, err := p.Settle()
	require.NoError(t, err)
	return p
}

func bucket(t testing.TB, name string, capacity int64, perSecond float64) admission.Plan {
	t.Helper()
	return settled(t, admission.Plan{Name: name, Capacity: capacity, TokensPerSecond: perSecond})
}

func fixed(t testing.TB, name string, capacity int64, window time.Duration) admission.Plan {
	t.Helper()
	return settled(t, admission.Plan{Name: name, Kind: admission.KindFixedWindow, Capacity: capacity, Window: window})
}

func sliding(t testing.TB, name string, capacity int64, window time.Duration) admission.Plan {
	t.Helper()
	return settled(t, admission.Plan{Name: name, Kind: admission.KindSlidingWindow, Capacity: capacity, Window: window})
}

func take(t testing.TB, r admission.Repository, key string, n int64, plans ...admission.Plan) admission.Result {
	t.Helper()
	res, err := r.Take(context.Background(), key, plans, n)
	require.NoError(t, err)
	return res
}
