// Package paced makes requests that belong to no page of a crawl: those of a login, and those that a page makes while a
// browser renders it. Each takes a permit of its host, and is repeated if the host was overloaded.
package paced

import (
	"context"
	"errors"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/ratelimit"
	"github.com/treadlight/crawl/internal/ratelimit/backoff"
)

// Client makes the requests. It is safe for concurrent use.
type Client struct {
	Limiter interface {
		ratelimit.RateLimiter
		ChargeBytes(n int64)
	}
	Fetch   func(context.Context, fetch.Request) (*fetch.Response, error)
	Clock   clock.Clock
	Backoff backoff.Policy             // the pause before another attempt; at least a second
	Note    func(resp *fetch.Response) // called after each request; resp is nil if there was no response
}

const maxSends = 4

// Do makes a request to a host. No record and no archive has it.
func (c *Client) Do(ctx context.Context, host string, req fetch.Request) (*fetch.Response, error) {
	for n := 1; ; n++ {
		permit, err := c.Limiter.Acquire(ctx, host)
		if err != nil && n < maxSends && errors.Is(err, ratelimit.ErrCircuitOpen) {
			if err = c.pause(ctx, n); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, err
		}
		fb := ratelimit.Feedback{SentAt: c.Clock.Now(), Retry: n > 1}
		resp, err := c.Fetch(ctx, req)
		fb.Err, fb.Latency = err, c.Clock.Since(fb.SentAt)
		if resp != nil {
			fb.StatusCode = resp.Status
			fb.RetryAfter, fb.Quota = resp.Hints()
			c.Limiter.ChargeBytes(resp.WireBytes)
		}
		c.Limiter.Feedback(host, fb)
		permit.Release()
		c.Note(resp)
		class := fetch.ClassOf(resp, err)
		if !class.Overload() && !class.Transient() || n == maxSends || ctx.Err() != nil || !fetch.MayRepeat(req.Method, class, err) {
			return resp, err
		}
		resp.Release()
		if err := c.pause(ctx, n); err != nil {
			return nil, err
		}
	}
}

func (c *Client) pause(ctx context.Context, n int) error {
	return clock.Sleep(ctx, c.Clock, max(c.Backoff.Delay(n, nil), time.Second))
}
