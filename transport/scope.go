package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/treadlight/crawl/resilience"
)

// inlineEnds is how many ends a scope holds without a further allocation: those of
// every layer of the default order.
const inlineEnds = 8

// scope is the body of a response for as long as it is in use. Every layer whose effect
// lasts until then adds its end to the one scope of the response, so that a read passes
// through one wrapper, however many layers there are.
//
// The life of a body is over at its end, at an error, or when it is closed, whichever
// comes first; the ends are then called once each, the innermost layer's first, and
// before the caller gets to know.
type scope struct {
	body io.ReadCloser
	ctx  context.Context // under which the request was sent; tells why a read failed; nil: nothing does
	read atomic.Int64    // bytes so far

	mu    sync.Mutex // guards what follows; Close may come while another goroutine reads
	over  bool
	cause error // of the end; nil after a good one
	n     int   // ends in first
	first [inlineEnds]func(error)
	more  []func(error) // those that do not fit
}

// duplex is the scope of a body that can be written too, as that of a
// 101 Switching Protocols.
type duplex struct {
	scope
	w io.Writer
}

var _ io.ReadWriteCloser = (*duplex)(nil)

func (d *duplex) Write(p []byte) (int, error) { return d.w.Write(p) }

// Bind is the resilience.Bind of responses: it calls end when the life of the body of
// res is over, with the error that a read met or nil. A response without a body is over
// at once. res itself is returned, with its Body replaced.
func Bind(res *http.Response, end func(error)) *http.Response {
	if res.Body == nil || res.Body == http.NoBody {
		end(nil)
		return res
	}
	scopeOf(res).add(end)
	return res
}

func scopeOf(res *http.Response) *scope {
	switch b := res.Body.(type) {
	case *scope:
		return b
	case *duplex:
		return &b.scope
	}
	var s *scope
	if w, ok := res.Body.(io.Writer); ok {
		// The request is over for net/http, which looks at its context no more: that this
		// one has ended since explains no error.
		d := &duplex{w: w}
		s, d.body, res.Body = &d.scope, res.Body, d
		return s
	}
	s = &scope{body: res.Body}
	res.Body = s
	if res.Request != nil {
		s.ctx = res.Request.Context()
	}
	return s
}

// add calls end when the life is over, at once if it is.
func (s *scope) add(end func(error)) {
	s.mu.Lock()
	over, cause := s.over, s.cause
	switch {
	case over:
	case s.n < inlineEnds:
		s.first[s.n] = end
		s.n++
	default:
		s.more = append(s.more, end)
	}
	s.mu.Unlock()
	if over {
		end(cause)
	}
}

// Read reads the body. Its end, or an error, is the end of the scope.
func (s *scope) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	s.read.Add(int64(n))
	if err != nil {
		err = s.finish(err)
	}
	return n, err
}

// Close closes the body, and with it the scope: first the body, because what the ends
// let in may be waiting for its connection.
func (s *scope) Close() error {
	defer s.end(nil)
	return s.body.Close()
}

// finish ends the scope for an error that a read returned, and says what to return.
func (s *scope) finish(err error) error {
	if err == io.EOF { //nolint:errorlint // readers return it bare; a wrapped one is another error
		s.end(nil)
		return err
	}
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if !over { // otherwise the ends have ended the context, and it explains nothing
		err = explain(s.ctx, err)
		s.end(err)
	}
	return err
}

// explain adds to err why ctx ended, if it did: a transport may say no more than that
// the request was cancelled. Our own timeout is returned as it is.
func explain(ctx context.Context, err error) error {
	if ctx == nil || ctx.Err() == nil {
		return err
	}
	if t, ok := errors.AsType[*resilience.TimeoutError](context.Cause(ctx)); ok {
		return t
	}
	if errors.Is(err, ctx.Err()) {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

func (s *scope) end(cause error) {
	s.mu.Lock()
	over := s.over
	s.over, s.cause = true, cause
	s.mu.Unlock()
	if !over {
		runEnds(s.first[:s.n], s.more, cause)
	}
}

// runEnds calls every end, also if one of them panics.
func runEnds(first, more []func(error), cause error) {
	if len(first) == 0 {
		if len(more) == 0 {
			return
		}
		first, more = more, nil
	}
	i := 0
	defer func() { runEnds(first[i:], more, cause) }()
	for i < len(first) {
		end := first[i]
		i++
		end(cause)
	}
}
