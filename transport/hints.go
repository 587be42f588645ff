package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
)

// defaultMaxRetryAfter is also the adaptive engine's default: more than an hour is most often a mistake.
const defaultMaxRetryAfter = time.Hour

// Quota is what a server tells about one quota by RateLimit, X-RateLimit and similar headers. A field is zero if the
// server did not tell it:
//
//	Limit     int64         // requests per window
//	Remaining int64         // requests left in this window
//	Reset     time.Duration // from the response to the end of this window; also zero if the window is over
//	Window    time.Duration // length of a whole window
//	InFlight  int64         // requests of the client that may be in flight at once
//
// IsZero reports whether the server told nothing.
type Quota = header.Quota

// Hint is what the header of one response tells about later requests.
type Hint struct {
	Host       string        // as [ratelimit.Domain] spells it
	Status     int           // status of the response
	At         time.Time     // when the header came
	RetryAfter time.Duration // time to wait from At on, at most MaxRetryAfter; zero if the server asks for no wait
	Quota      Quota         // the tightest quota; zero if the server told none
}

// IsZero reports whether the header told nothing.
func (h *Hint) IsZero() bool { return h.RetryAfter == 0 && h.Quota.IsZero() }

// later returns what is left of h after d: no wait, and no quota whose window has ended.
func (h Hint) later(d time.Duration) Hint {
	h.RetryAfter = 0
	switch {
	case h.Quota.Reset == 0:
	case h.Quota.Reset <= d:
		h.Quota = Quota{}
	default:
		h.Quota.Reset -= d
	}
	return h
}

// HintsConfig says who gets hints.
type HintsConfig struct {
	// OnHint is called with every hint, on the request's goroutine, before outer layers get the response. It must be
	// safe for concurrent use. Nil is an error.
	OnHint        func(Hint)
	MaxRetryAfter time.Duration // bound of Retry-After and of a quota's reset, which are cut to it; zero means 1h
}

// Hints makes a layer that calls OnHint with the hint in every response that has one. Put it inside the layers that
// retry, so that it sees every attempt. It fails if OnHint is nil or MaxRetryAfter is negative.
func Hints(cfg HintsConfig) (Middleware, error) {
	if cfg.OnHint == nil {
		return nil, errors.New("transport: HintsConfig.OnHint is nil: give a callback or leave Hints out")
	}
	reader, err := newHintReader("HintsConfig", cfg.MaxRetryAfter)
	if err != nil {
		return nil, err
	}
	return func(next http.RoundTripper) http.RoundTripper {
		h := newHop(next)
		return layerFunc(func(ctx context.Context, req *http.Request) (*http.Response, error) {
			res, err := h.send(ctx, req)
			if err == nil {
				if hint := reader.read(req, res); !hint.IsZero() {
					cfg.OnHint(hint)
				}
			}
			return res, err
		})
	}, nil
}

type hintReader struct {
	limit time.Duration // bound of the times in hints; zero means none
}

func newHintReader(config string, limit time.Duration) (hintReader, error) {
	limit, err := positive(config+".MaxRetryAfter", limit, defaultMaxRetryAfter)
	return hintReader{limit}, err
}

func (r hintReader) read(req *http.Request, res *http.Response) Hint {
	hint := Hint{Status: res.StatusCode, At: now()}
	hint.RetryAfter, _ = header.RetryAfterOf(res.Header, hint.At, r.limit) // zero if it is malformed
	hint.Quota, _ = header.Parse(res.Header, hint.At)                      // zero if it is malformed
	if r.limit > 0 {
		hint.Quota.Reset = min(hint.Quota.Reset, r.limit)
	}
	hint.Host = hostOf(req)
	return hint
}

// hostOf returns the name by which limits of the request's host are kept.
func hostOf(req *http.Request) string {
	if req.URL == nil {
		return ""
	}
	return ratelimit.Domain(req.URL.Host)
}

const maxPauses = 4096

// pauses has the times until which servers have asked to wait. The number of hosts is bounded; the host that was used
// least recently is forgotten.
type pauses struct {
	epoch time.Time

	mu    sync.Mutex // held while a hint is added
	until *lru.Cache[string, clock.Instant]
}

func newPauses() (*pauses, error) {
	until, err := lru.New[string, clock.Instant](maxPauses)
	return &pauses{epoch: now(), until: until}, err
}

func (h *pauses) now() clock.Instant { return clock.Instant(since(h.epoch)) }

// wait returns how long requests to host must still wait; zero or less means not at all.
func (h *pauses) wait(host string) time.Duration {
	until, _ := h.until.Get(host)
	return until.Sub(h.now())
}

func (h *pauses) learn(hint *Hint) {
	d := pauseOf(hint)
	if d <= 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	until, _ := h.until.Get(hint.Host)
	h.until.Add(hint.Host, max(until, h.now().AddClamped(d)))
}

// pauseOf returns how long a hint forbids requests to its host: until the end of Retry-After, if that applies to the
// host for this status (see [outcome.RetryAfter]; not for a 403), and until the reset of a used-up quota.
func pauseOf(hint *Hint) time.Duration {
	d := time.Duration(0)
	if outcome.RetryAfter(hint.Status) == outcome.WaitsHost {
		d = hint.RetryAfter
	}
	if !hint.Quota.IsZero() && hint.Quota.Remaining <= 0 {
		d = max(d, hint.Quota.Reset)
	}
	return d
}

// waitedKey is the key that marks the context of a request that has waited as the redirect to it asked.
type waitedKey struct{}

// waitOfRedirect waits for as long as the redirect to req asked, at most limit. It marks the context so that inner
// layers do not wait again.
func waitOfRedirect(ctx context.Context, req *http.Request, limit time.Duration) (context.Context, error) {
	from := req.Response // the redirect, which net/http's Client stores there
	if from == nil || outcome.RetryAfter(from.StatusCode) != outcome.WaitsTarget ||
		resilience.AttemptFrom(ctx) > 1 || ctx.Value(waitedKey{}) != nil {
		return ctx, nil
	}
	d, ok := header.RetryAfterOf(from.Header, now(), limit)
	if !ok || d == 0 {
		return ctx, nil
	}
	if end, ok := ctx.Deadline(); ok && since(end) > -d {
		why := fmt.Errorf("the redirect to it asked to wait %v: %w", d, context.DeadlineExceeded)
		return ctx, &RejectedError{Host: hostOf(req), RetryAfter: d, Err: why}
	}
	return context.WithValue(ctx, waitedKey{}, true), clock.Sleep(ctx, clock.System(), d)
}
