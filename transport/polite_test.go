package transport_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/transport"
)

type engine struct {
	err    error // of Acquire
	blocks bool  // the host refuses altogether

	mu       sync.Mutex
	acquired []string
	told     []ratelimit.Feedback
	released int
	late     bool // feedback came when no permit was out
	addrs    []netip.Addr
}

func (e *engine) Acquire(_ context.Context, domain string) (ratelimit.Permit, error) {
	if e.err != nil {
		return nil, e.err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.acquired = append(e.acquired, domain)
	return permit{e}, nil
}

func (e *engine) Feedback(_ string, fb ratelimit.Feedback) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.late = e.late || e.released == len(e.acquired)
	e.told = append(e.told, fb)
}

func (e *engine) SetAddress(_ string, addr netip.Addr) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.addrs = append(e.addrs, addr)
}

func (e *engine) ReadyAt(string, int, int) (time.Time, ratelimit.Limit) {
	if e.blocks {
		return time.Time{}, ratelimit.LimitBreaker
	}
	return time.Time{}, ratelimit.LimitNone
}

type permit struct{ e *engine }

func (p permit) Release() {
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	p.e.released++
}

func polite(e transport.AdaptiveLimiter, base http.RoundTripper) http.RoundTripper {
	return transport.Layers{RateLimit: must(transport.Polite(transport.PoliteConfig{Limiter: e}))}.Chain(base)
}

// What the engine hears of a request, and when: at the header where that settles it, else at the body's end.
func TestPoliteFeedback(t *testing.T) {
	broken := io.ErrUnexpectedEOF
	order := http.Header{"Retry-After": {"30"}}
	usedUp := http.Header{"X-Ratelimit-Remaining": {"0"}, "X-Ratelimit-Reset": {"60"}}
	room := http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Reset": {"60"}}
	short := http.Header{"X-Ratelimit-Remaining": {"5"}, "X-Ratelimit-Reset": {"2"}}
	quota := func(remaining int64, reset time.Duration) header.Quota {
		return header.Quota{Remaining: remaining, Reset: reset}
	}
	for name, tc := range map[string]struct {
		status   int
		header   http.Header
		bodyErr  error
		atHeader []ratelimit.Feedback
		atEnd    []ratelimit.Feedback
	}{
		"a good page":             {200, nil, nil, nil, []ratelimit.Feedback{{StatusCode: 200}}},
		"a body that broke off":   {200, nil, broken, nil, []ratelimit.Feedback{{StatusCode: 200, Err: broken}}},
		"a body too large for us": {200, nil, tooLarge{}, nil, []ratelimit.Feedback{{StatusCode: 200}}},
		"a refusal":               {429, order, nil, []ratelimit.Feedback{{StatusCode: 429, RetryAfter: 30 * time.Second}}, nil},
		"a refusal that broke":    {503, order, broken, []ratelimit.Feedback{{StatusCode: 503, RetryAfter: 30 * time.Second}}, nil},
		"a redirect":              {301, nil, nil, []ratelimit.Feedback{{StatusCode: 301}}, nil},
		"an order of a redirect":  {301, order, nil, []ratelimit.Feedback{{StatusCode: 301}}, nil},
		"an order on a 404":       {404, order, nil, []ratelimit.Feedback{{StatusCode: 404}}, nil},
		"an order on a 403":       {403, order, nil, []ratelimit.Feedback{{StatusCode: 403}}, nil},
		"an order on a 420":       {420, order, nil, []ratelimit.Feedback{{StatusCode: 420, RetryAfter: 30 * time.Second}}, nil},
		"an order on a 500":       {500, order, nil, []ratelimit.Feedback{{StatusCode: 500, RetryAfter: 30 * time.Second}}, nil},
		"a page that is not":      {404, nil, broken, []ratelimit.Feedback{{StatusCode: 404}}, nil},
		"a quota used up":         {200, usedUp, nil, []ratelimit.Feedback{{StatusCode: 200, Quota: quota(0, time.Minute)}}, nil},
		"the same, broken off": {
			200, usedUp, broken,
			[]ratelimit.Feedback{{StatusCode: 200, Quota: quota(0, time.Minute)}},
			[]ratelimit.Feedback{{StatusCode: 200, Err: broken}},
		},
		"a quota with room":         {200, room, nil, nil, []ratelimit.Feedback{{StatusCode: 200, Quota: quota(5, 57*time.Second)}}},
		"a quota over meanwhile":    {200, short, nil, nil, []ratelimit.Feedback{{StatusCode: 200}}},
		"an order on a good answer": {200, order, nil, nil, []ratelimit.Feedback{{StatusCode: 200}}},
	} {
		inBubble(t, name, func(t *testing.T) {
			e := &engine{}
			end := io.EOF
			if tc.bodyErr != nil {
				end = tc.bodyErr
			}
			start := time.Now()
			rt := polite(e, stub(func(req *http.Request) (*http.Response, error) {
				time.Sleep(2 * time.Second) // to be connected
				httptrace.ContextClientTrace(req.Context()).GotConn(httptrace.GotConnInfo{})
				time.Sleep(time.Second)
				return &http.Response{StatusCode: tc.status, Header: tc.header, Body: &tracked{Reader: brokenReader{strings.NewReader("page"), end}}}, nil
			}))
			res := must(rt.RoundTrip(get(t, "https://A.test:443/")))
			require.Equal(t, tc.atHeader, e.heard(start))
			require.Zero(t, e.released)
			time.Sleep(3 * time.Second)
			_, err := io.ReadAll(res.Body)
			require.ErrorIs(t, err, tc.bodyErr)
			require.Equal(t, append(tc.atHeader, tc.atEnd...), e.heard(start))
			require.NoError(t, res.Body.Close())
			require.Equal(t, 1, e.released)
			require.False(t, e.late, "the feedback comes before the permit's release")
			require.Equal(t, []string{"a.test"}, e.acquired)
		})
	}
}

// tooLarge is the error of a reader that met its own bound.
type tooLarge struct{}

func (tooLarge) Error() string        { return "too large" }
func (tooLarge) Class() outcome.Class { return outcome.TooLarge }

// heard is the feedback so far, without the times, which are those of a request that was
// connected two seconds after start and answered a second later.
func (e *engine) heard(start time.Time) []ratelimit.Feedback {
	e.mu.Lock()
	defer e.mu.Unlock()
	var list []ratelimit.Feedback
	for _, fb := range e.told {
		if !fb.SentAt.Equal(start.Add(2*time.Second)) || fb.Latency != time.Second {
			return []ratelimit.Feedback{{Err: fmt.Errorf("sent at %v, latency %v", fb.SentAt.Sub(start), fb.Latency)}}
		}
		fb.SentAt, fb.Latency = time.Time{}, 0
		list = append(list, fb)
	}
	return list
}

func TestPoliteWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		ctx, cancel := context.WithCancelCause(t.Context())
		rt := polite(e, stub(func(*http.Request) (*http.Response, error) {
			time.Sleep(time.Second)
			cancel(errors.New("enough"))
			return nil, errors.New("request ended")
		}))
		_, err := rt.RoundTrip(newRequest(ctx, http.MethodGet, "http://a.test/", nil))
		require.EqualError(t, err, "request ended")
		require.Len(t, e.told, 1)
		require.ErrorIs(t, e.told[0].Err, context.Canceled, "the engine hears that it was the caller")
		require.Equal(t, time.Second, e.told[0].Latency)
		require.Equal(t, 1, e.released)
	})
}

func TestPoliteReleasesAtAPanic(t *testing.T) {
	e := &engine{}
	require.Panics(t, func() {
		res, err := polite(e, stub(func(*http.Request) (*http.Response, error) { panic("base") })).RoundTrip(get(t, "http://a.test/"))
		t.Errorf("returned %v, %v", res, err)
	})
	require.Equal(t, 1, e.released)
	require.Empty(t, e.told)
}

func TestPoliteTellsTheEngineWhatARetryIs(t *testing.T) {
	e := &engine{}
	layers := transport.Layers{
		Retry:     must(transport.NewRetry(retryConfig{MaxAttempts: 2, Backoff: backoff.Constant(0)})),
		RateLimit: must(transport.Polite(transport.PoliteConfig{Limiter: e})),
	}
	do(t, layers.Chain(always(503, "later")), get(t, "http://a.test/"))
	require.Len(t, e.told, 2, "every attempt pays")
	require.False(t, e.told[0].Retry)
	require.True(t, e.told[1].Retry)
	require.Equal(t, 2, e.released)
}

func TestPoliteRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct {
			err  error
			want time.Duration
		}{
			{&ratelimit.CircuitOpenError{Domain: "a.test", Until: time.Now().Add(5 * time.Second)}, 5 * time.Second},
			{&ratelimit.CircuitOpenError{Domain: "a.test", Until: time.Now().Add(-time.Second)}, 0},
			{&ratelimit.WaitError{Domain: "a.test", Wait: 7 * time.Second}, 7 * time.Second},
			{ratelimit.ErrTooManyWaiters, 0},
		} {
			sent := body("form")
			_, err := polite(&engine{err: tc.err}, always(200, "page")).RoundTrip(newRequest(t.Context(), http.MethodPost, "http://a.test/", sent))
			var rejected *transport.RejectedError
			require.ErrorAs(t, err, &rejected)
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.want, rejected.RetryAfter)
			require.Equal(t, outcome.Canceled, outcome.Of(0, err))
			require.Positive(t, sent.closed.Load())
		}
	})
}

// With the real engine: a client that is told to wait waits, and one that is not learns.
func TestPoliteWithTheEngine(t *testing.T) {
	var at []time.Time
	inMemory(t, func(w http.ResponseWriter, _ *http.Request) {
		if at = append(at, time.Now()); len(at) == 1 {
			w.Header().Set("Retry-After", "30")
			w.WriteHeader(http.StatusTooManyRequests)
		}
		_, _ = io.WriteString(w, "page")
	}, func(t *testing.T, base *http.Transport) {
		limiter := must(ratelimit.New(ratelimit.DefaultConfig()))
		rt := polite(limiter, base)
		for range 3 {
			do(t, rt, get(t, "http://a.test/"))
		}
		require.GreaterOrEqual(t, at[1].Sub(at[0]), 30*time.Second)
		require.EqualValues(t, 3, limiter.Snapshot().Requests)
	})
}

// Another try goes out when the circuit lets it, which the try before has opened.
func TestPoliteTriesAgainBehindTheCircuit(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable} {
		for failures := range 4 {
			asked, from := 0, 5
			inMemory(t, func(w http.ResponseWriter, _ *http.Request) {
				if asked++; asked > from && asked <= from+failures || asked > 20 {
					w.WriteHeader(status)
				}
			}, func(t *testing.T, base *http.Transport) {
				cfg := ratelimit.DefaultConfig()
				cfg.InitialRPS, cfg.MaxRPS = 20, 20
				layers := transport.Layers{
					Retry:     must(transport.NewRetry(retryConfig{MaxAttempts: 4, Backoff: backoff.Constant(time.Millisecond)})),
					RateLimit: must(transport.Polite(transport.PoliteConfig{Limiter: must(ratelimit.New(cfg))})),
				}
				rt := layers.Chain(base)
				for range from + 1 {
					got, _ := do(t, rt, get(t, "http://a.test/"))
					require.Equal(t, 200, got, "%d times %d", failures, status)
				}
				require.Equal(t, from+1+failures, asked)
				asked = 20 // and from now on it fails
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if res, err := rt.RoundTrip(newRequest(ctx, http.MethodGet, "http://a.test/", nil)); err == nil {
					require.NoError(t, res.Body.Close())
				}
				require.LessOrEqual(t, time.Since(began), time.Second, "a deadline bounds the waits")
			})
		}
	}
}

func TestPoliteOverRealSockets(t *testing.T) {
	url, base, _ := onLoopback(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "page") })
	e := &engine{}
	_, page := do(t, polite(e, base), get(t, url))
	require.Equal(t, "page", page)
	require.Len(t, e.addrs, 1)
	require.True(t, e.addrs[0].IsLoopback())
	require.Positive(t, e.told[0].Latency)
}
