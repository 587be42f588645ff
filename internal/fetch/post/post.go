// Package post sends what a program has to tell to a service that the user named, such as a webhook or a collector of
// traces. Unlike a page, it is sent at once: the service is the user's own.
package post

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/treadlight/crawl/internal/clock"
	"github.com/treadlight/crawl/internal/ratelimit/header"
)

// maxAnswer bounds how much of a response is read, in bytes.
const maxAnswer = 64 << 10

// Refusal is why a service has not taken what was sent.
type Refusal struct {
	Status int           // of the response; zero if there was none
	Cause  error         // why there was none, or the name of the status; never nil
	After  time.Duration // the service asks to wait so long, by Retry-After; zero means that it does not
}

// Error says nothing of the URL, which may be a secret.
func (r *Refusal) Error() string {
	if r.After > 0 {
		return fmt.Sprintf("%v, again in %v", r.Cause, r.After.Round(time.Second))
	}
	return r.Cause.Error()
}

func (r *Refusal) Unwrap() error { return r.Cause }

// Send posts a body with that header and returns the beginning of the response, or what there is of it if it breaks off.
// The error is nil if the status is 2xx, and otherwise a [*Refusal] whose After is at most longest. The client should
// follow no redirects: they would make another request of a POST.
func Send(ctx context.Context, client *http.Client, to string, h http.Header, body []byte, longest time.Duration) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	var res *http.Response
	if err == nil {
		r.Header = h
		res, err = client.Do(r)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	if err != nil {
		return nil, &Refusal{Cause: err}
	}
	answer, _ := io.ReadAll(io.LimitReader(res.Body, maxAnswer)) // the status says whether it was taken
	_ = res.Body.Close()                                         // it was only read
	if res.StatusCode/100 == 2 {
		return answer, nil
	}
	after, _ := header.RetryAfterOf(res.Header, clock.System().Now(), longest) // zero if there is none
	return nil, &Refusal{Status: res.StatusCode, Cause: fmt.Errorf("it answers %s", res.Status), After: after}
}
