//go:build unix

package redis_test

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/internal/admission"
	"github.com/treadlight/crawl/internal/admission/admissiontest"
	"github.com/treadlight/crawl/internal/admission/redis"
	"github.com/treadlight/crawl/internal/lab/redistest"
)

func TestMain(m *testing.M) {
	code := m.Run()
	redistest.StopAll()
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

const patience = redistest.Patience

// program and server are those of the tests of all that is kept in Redis.
type (
	program = redistest.Program
	server  = redistest.Server
)

func onEach(t *testing.T, test func(t *testing.T, p program)) {
	t.Helper()
	redistest.OnEach(t, test)
}

// startServer and sharedServer are for tests to which the program makes no difference.
func startServer(t testing.TB, args ...string) *server { return redistest.Redis.Start(t, args...) }

func sharedServer(t testing.TB) *server { return redistest.Redis.Shared(t) }

// open is a repository on a server; zero fields that would make a test depend on the computer's speed are set.
func open(t testing.TB, cfg redis.Config, addrs ...string) *redis.Repository {
	t.Helper()
	cfg.Redis.InitAddress = addrs
	if cfg.Deadline == 0 {
		cfg.Deadline = patience
	}
	r := must(redis.New(cfg))
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

// What tests of all repositories ask for, and ask.
var (
	bucket, fixed, sliding = admissiontest.Bucket, admissiontest.Fixed, admissiontest.Sliding
	take                   = admissiontest.Take
)

func granted(t testing.TB, n int, ask func(i int) (admission.Result, error)) int64 {
	t.Helper()
	var allowed atomic.Int64
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() {
			res, err := ask(i)
			if err != nil {
				t.Error(err)
			}
			if res.Allowed {
				allowed.Add(1)
			}
		})
	}
	group.Wait()
	return allowed.Load()
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
