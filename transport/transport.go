package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/clock"
)

// Middleware puts a layer around a transport. Layers of this package obey the rules of [http.RoundTripper]: they do not
// change the request, they close its body even if they refuse it, and they return either a response or an error.
type Middleware func(http.RoundTripper) http.RoundTripper

// Chain puts layers around base, the first outermost, and leaves out nil layers. The result passes on
// CloseIdleConnections.
func Chain(base http.RoundTripper, outerToInner ...Middleware) http.RoundTripper {
	rt := base
	for _, wrap := range slices.Backward(outerToInner) {
		if wrap != nil {
			rt = wrap(rt)
		}
	}
	return &chained{hop: newHop(rt), base: base}
}

type chained struct {
	hop
	base http.RoundTripper
}

func (c *chained) RoundTrip(req *http.Request) (*http.Response, error) {
	return c.send(req.Context(), req)
}

func (c *chained) CloseIdleConnections() { closeIdle(c.base) }

func closeIdle(rt http.RoundTripper) { (&http.Client{Transport: rt}).CloseIdleConnections() }

// layerFunc is a layer. It gets the context beside the request, so that a chain copies the request only once.
type layerFunc func(ctx context.Context, req *http.Request) (*http.Response, error)

// RoundTrip is called by transports of other packages.
func (f layerFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req.Context(), req) }

// hop calls the next inner transport.
type hop struct {
	own   layerFunc // nil if next is of another package
	other http.RoundTripper
}

func newHop(next http.RoundTripper) hop {
	own, _ := next.(layerFunc)
	return hop{own: own, other: next}
}

var errNoAnswer = errors.New("transport: a RoundTripper returned neither a response nor an error")

// send passes req on with ctx. It returns an error, or a response whose Body and Request are set.
func (h hop) send(ctx context.Context, req *http.Request) (*http.Response, error) {
	if h.own != nil {
		return h.own(ctx, req)
	}
	if !sameContext(ctx, req.Context()) {
		req = req.WithContext(ctx)
	}
	res, err := h.other.RoundTrip(req)
	return complete(req, res, err)
}

// complete repairs results in which a transport broke the rules, and sets the fields that an http.Transport always
// sets.
func complete(req *http.Request, res *http.Response, err error) (*http.Response, error) {
	switch {
	case err != nil:
		if res != nil && res.Body != nil {
			_ = res.Body.Close() // the caller gets only the error
		}
		return nil, err
	case res == nil:
		return nil, errNoAnswer
	}
	res.Request = cmp.Or(res.Request, req)
	if res.Body == nil {
		res.Body = http.NoBody
	}
	return res, nil
}

// sameContext reports whether a and b are equal. For types on which == may panic it reports false, which costs a copy
// of the request.
func sameContext(a, b context.Context) bool {
	t := reflect.TypeOf(a)
	return (t.Kind() == reflect.Pointer || t.Size() == 0 && t.Comparable()) && a == b
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // the caller gets the other error
	}
}

// hasBody reports whether the request has a body, which can be sent only once.
func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// positive returns d, or the default given as zero if d is 0. A negative d is an error that names the field.
func positive(field string, d, zero time.Duration) (time.Duration, error) {
	if d < 0 {
		return 0, fmt.Errorf("transport: %s is %v: use a positive duration, or zero for %v", field, d, zero)
	}
	return cmp.Or(d, zero), nil
}

func now() time.Time { return clock.System().Now() }

func since(t time.Time) time.Duration { return clock.System().Since(t) }

// A body that nobody reads is drained up to this size and for this time, so that its connection can be reused.
const maxDrain, drainTime = 64 << 10, time.Second

// Discard reads the rest of the body, up to 64 KiB and for a second, so that the connection can be reused, and closes
// it. res may be nil, and its body may be closed.
func Discard(res *http.Response) {
	if res == nil || res.Body == nil {
		return
	}
	defer res.Body.Close() //nolint:errcheck // the body is given up
	if res.Body == http.NoBody || res.ContentLength > maxDrain || res.StatusCode == http.StatusSwitchingProtocols {
		return
	}
	//nolint:forbidigo // a watchdog unblocks a read; nothing waits on it
	watchdog := time.AfterFunc(drainTime, func() { _ = res.Body.Close() })
	defer watchdog.Stop()
	// One byte more than the bound, to reach the end of a body of exactly that size.
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxDrain+1))
}
