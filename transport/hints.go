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

// defaultMaxRetryAfter is the engine's: more than an hour is most often a mistake.
const defaultMaxRetryAfter = time.Hour

// Quota is what a server says is left of one quota, by RateLimit, X-RateLimit and the like. Its fields, each zero if nothing was
// said:
//
//	Limit     int64         // requests per window
//	Remaining int64         // requests left in this window
//	Reset     time.Duration // from the answer to the end of this window; zero too if it is over
//	Window    time.Duration // length of a whole window
//	InFlight  int64         // requests of the client that may be under way at once
//
// IsZero reports whether nothing was said.
type Quota = header.Quota

// Hint is what the header of one answer says about the requests to come.
type Hint struct {
	Host       string        // as [ratelimit.Domain] spells it
	Status     int           // of the answer
	At         time.Time     // when the header came
	RetryAfter time.Duration // from At on, capped; zero if nothing was asked
	Quota      Quota         // the tightest; zero if nothing was said
}

// IsZero reports whether nothing was said.
func (h *Hint) IsZero() bool { return h.RetryAfter == 0 && h.Quota.IsZero() }

// later is what h still says after d: no order to wait, and no quota whose window has ended.
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

// HintsConfig says who is told of hints.
type HintsConfig struct {
	// OnHint is called with every hint, on the request's goroutine, before outer layers see the answer. Safe for
	// concurrent use. Nil is an error.
	OnHint        func(Hint)
	MaxRetryAfter time.Duration // cap of what a Retry-After and a reset may ask for; zero means 1h
}

// Hints tells a callback the limits in every answer, so it belongs inside what retries. Answers without any are not
// told. It fails without OnHint or with a negative cap.
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
	limit time.Duration // of what may be asked for; zero means none
}

func newHintReader(config string, limit time.Duration) (hintReader, error) {
	limit, err := positive(config+".MaxRetryAfter", limit, defaultMaxRetryAfter)
	return hintReader{limit}, err
}

func (r hintReader) read(req *http.Request, res *http.Response) Hint {
	hint := Hint{Status: res.StatusCode, At: now()}
	hint.RetryAfter, _ = header.RetryAfterOf(res.Header, hint.At, r.limit) // a malformed one asks for nothing
	hint.Quota, _ = header.Parse(res.Header, hint.At)                      // nor does a malformed quota say anything
	if r.limit > 0 {
		hint.Quota.Reset = min(hint.Quota.Reset, r.limit)
	}
	hint.Host = hostOf(req)
	return hint
}

// hostOf is the name under which the host of a request has its limits.
func hostOf(req *http.Request) string {
	if req.URL == nil {
		return ""
	}
	return ratelimit.Domain(req.URL.Host)
}

const maxPauses = 4096

// pauses keeps, bounded, until when servers have asked to wait; the host requested longest ago is forgotten.
type pauses struct {
	epoch time.Time

	mu    sync.Mutex // has one answer learned from at a time
	until *lru.Cache[string, clock.Instant]
}

func newPauses() (*pauses, error) {
	until, err := lru.New[string, clock.Instant](maxPauses)
	return &pauses{epoch: now(), until: until}, err
}

func (h *pauses) now() clock.Instant { return clock.Instant(since(h.epoch)) }

// wait is how long host has still asked to be left alone; zero or less is not.
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

// pauseOf is how long a hint forbids requests to its host: until a Retry-After ends, for statuses where it applies
// (see [outcome.RetryAfter]; not a 403), and until the reset of a used-up quota.
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

// waitedKey marks the context of a request that has waited for the redirect that led to it.
type waitedKey struct{}

// waitOfRedirect waits as long as the redirect to req asked for, at most limit, and marks the context so that inner
// layers do not.
func waitOfRedirect(ctx context.Context, req *http.Request, limit time.Duration) (context.Context, error) {
	from := req.Response // the redirect, as net/http's Client has it
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
