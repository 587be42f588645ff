package fetch

import (
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Decides reports whether the status alone decides the outcome. That is true for every status but that of a good
// response: a 429 whose body cannot be read still means "not now". A nil Response decides nothing.
func (r *Response) Decides() bool { return r != nil && outcome.Of(r.Status, nil) != outcome.OK }

// Hints returns how long the server asks to wait, and its quota. Times count from the end of the part of the body that
// has arrived; if the window of the quota ended meanwhile, it says nothing about the next window. A Retry-After is
// always passed on when the header arrives, so none of it has passed yet. A nil Response gives none.
func (r *Response) Hints() (retryAfter time.Duration, quota header.Quota) {
	if r == nil {
		return 0, quota
	}
	past := r.Timings.Body
	if q := r.Quota; q.Reset == 0 || q.Reset > past {
		quota = q
		quota.Reset = max(0, q.Reset-past)
	}
	return r.RetryAfter, quota
}

// ClassOf returns the class of a request: that of the status if it decides, otherwise that of the error.
func ClassOf(resp *Response, err error) outcome.Class {
	status := 0
	if resp != nil {
		status = resp.Status
	}
	class := outcome.Of(status, err)
	if resp.Decides() && class != outcome.Canceled {
		return outcome.Of(status, nil)
	}
	return class
}

// Stale reports whether the request was sent on a kept connection that the host had closed meanwhile: see [Error].
func Stale(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Stale
}

// Hooked reports whether the program's own code has refused the request or the response, or failed.
func Hooked(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Op == OpHook
}

// Unsent reports whether the policies around the requests to a host have let none pass.
func Unsent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Op == OpPolicy && e.Sends == 0
}

// Unsafe reports whether a method is not idempotent, so that sending a request twice may do the same thing twice (RFC
// 9110 section 9.2.2).
func Unsafe(method string) bool {
	return !slices.Contains([]string{"", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete}, method)
}

// MayRepeat reports whether a request that ended in that way may be sent again. One with an unsafe method may if the
// host has refused it, or if it was never sent.
func MayRepeat(method string, class outcome.Class, err error) bool {
	if !Unsafe(method) || class == outcome.Throttled || class == outcome.Unavailable {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains([]Op{OpDNS, OpConnect, OpTLS, OpProxy}, e.Op)
}
