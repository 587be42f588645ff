package resilience_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/treadlight/crawl/resilience"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDown = errors.New("down")

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

type result struct {
	v     string
	err   error
	after time.Duration
}

// callee gives its results in turn, the last one again and again, and notes its calls.
type callee struct {
	results []result
	start   time.Time

	mu       sync.Mutex
	at       []time.Duration // of the calls, since start
	attempts []int           // as their contexts said
	discards []string
}

func newCallee(results ...result) *callee { return &callee{results: results, start: time.Now()} }

func (c *callee) call(ctx context.Context) (string, error) {
	c.mu.Lock()
	r := c.results[min(len(c.at), len(c.results)-1)]
	c.at = append(c.at, time.Since(c.start))
	c.attempts = append(c.attempts, resilience.AttemptFrom(ctx))
	c.mu.Unlock()
	select {
	case <-time.After(r.after):
		return r.v, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (c *callee) discard(v string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.discards = append(c.discards, v)
}

func wantEqual[E comparable](t *testing.T, what string, got, want []E) {
	t.Helper()
	assert.True(t, slices.Equal(got, want), "%s = %v, want %v", what, got, want)
}

func wantResult(t *testing.T, want string) func(v string, err error) {
	t.Helper()
	return func(v string, err error) {
		t.Helper()
		assert.Equal(t, []any{want, nil}, []any{v, err}, "what Execute returned")
	}
}

// kept is the context of a call, to look at after the call.
type kept struct{ ctx context.Context }

func (k *kept) keep(ctx context.Context) { k.ctx = ctx }

// goexits runs fn on a goroutine of its own that fn ends with runtime.Goexit.
func goexits(fn func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		fn()
	}()
	<-done
}

func panics(fn func()) (yes bool) {
	defer func() { yes = recover() != nil }()
	fn()
	return
}

func exit(context.Context) (string, error) {
	runtime.Goexit()
	return "", nil
}

func bad(v string, err error) resilience.Classification {
	if err != nil || v == "bad" {
		return resilience.Failure
	}
	return resilience.Success
}

// inBubble is a subtest of which the time is its own.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}
