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

// Middleware puts a layer around a transport. Layers of this package keep the rules of [http.RoundTripper]: the
// request unmodified, its body closed also on refusal, and a response or an error.
type Middleware func(http.RoundTripper) http.RoundTripper

// Chain puts layers around base, the first outermost. Nil layers are left out. The result forwards
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

func closeIdle(rt http.RoundTripper) {
	if idle, ok := rt.(interface{ CloseIdleConnections() }); ok {
		idle.CloseIdleConnections()
	}
}

// layerFunc takes the context beside the request, so that a chain copies the request once.
type layerFunc func(ctx context.Context, req *http.Request) (*http.Response, error)

// RoundTrip is the way in for what is not of this package.
func (f layerFunc) RoundTrip(req *http.Request) (*http.Response, error) { return f(req.Context(), req) }

// hop leads to the next transport inwards.
type hop struct {
	own   layerFunc // nil if next is not of this package
	other http.RoundTripper
}

func newHop(next http.RoundTripper) hop {
	own, _ := next.(layerFunc)
	return hop{own: own, other: next}
}

var errNoAnswer = errors.New("transport: a RoundTripper returned neither a response nor an error")

// send passes req on under ctx. It returns a response with a body and its request, or an error.
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

// complete mends broken results of transports, and fills in what an http.Transport always sets.
func complete(req *http.Request, res *http.Response, err error) (*http.Response, error) {
	switch {
	case err != nil:
		if res != nil && res.Body != nil {
			_ = res.Body.Close() // nobody gets it beside an error
		}
		return nil, err
	case res == nil:
		return nil, errNoAnswer
	}
	if res.Request == nil {
		res.Request = req
	}
	if res.Body == nil {
		res.Body = http.NoBody
	}
	return res, nil
}

// sameContext compares contexts of types where == cannot panic; others count as different, at the cost of a copy.
func sameContext(a, b context.Context) bool {
	t := reflect.TypeOf(a)
	return (t.Kind() == reflect.Pointer || t.Size() == 0 && t.Comparable()) && a == b
}

func closeBody(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close() // nobody is left to be told
	}
}

// hasBody reports whether a request carries anything that can be sent only once.
func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// positive is d, or what stands for zero; a negative d is an error that names the field.
func positive(field string, d, zero time.Duration) (time.Duration, error) {
	if d < 0 {
		return 0, fmt.Errorf("transport: %s is %v: use a positive duration, or zero for %v", field, d, zero)
	}
	return cmp.Or(d, zero), nil
}

func now() time.Time { return clock.System().Now() }

func since(t time.Time) time.Duration { return clock.System().Since(t) }

// A body that nobody wants is read so far and for so long, to keep its connection.
const maxDrain, drainTime = 64 << 10, time.Second

// Discard reads the rest of the body, up to 64 KiB and for a second, so that the connection can be reused, and closes
// it. A nil or closed response is fine.
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
	// One byte more than allowed, to see the end of a body of exactly the bound.
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, maxDrain+1))
}
