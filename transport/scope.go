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

// usualEnds is how many ends a scope holds without an allocation, enough for the default order.
const usualEnds = 8

// scope is the body of a response in use. All layers add their ends, functions to call when the body is over, to one
// scope, so that reading passes through one wrapper only.
//
// At the end of the body, at an error, or at Close, each end is called once, the innermost layer's first, before Read
// or Close returns.
type scope struct {
	body io.ReadCloser
	ctx  context.Context // of the request; tells why a read failed; nil if it cannot
	read atomic.Int64    // bytes read so far

	mu    sync.Mutex // guards what follows; Close may come while another goroutine reads
	over  bool
	cause error         // the error that ended the body; nil if it ended well
	ends  []func(error) // the innermost layer's first
	room  [usualEnds]func(error)
}

// duplex is the scope of a body that can be written to, as after 101 Switching Protocols.
type duplex struct {
	scope
	w io.Writer
}

var _ io.ReadWriteCloser = (*duplex)(nil)

func (d *duplex) Write(p []byte) (int, error) { return d.w.Write(p) }

// Bind is the resilience.Bind for responses. It calls end once at the end of the body of res, with the error of reading
// it or nil; if there is no body, at once. It returns res, with its Body replaced.
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
		// net/http no longer watches the request's context here, so the context does not explain errors.
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

func (s *scope) add(end func(error)) {
	s.mu.Lock()
	over, cause := s.over, s.cause
	if s.ends == nil {
		s.ends = s.room[:0]
	}
	if !over {
		s.ends = append(s.ends, end)
	}
	s.mu.Unlock()
	if over {
		end(cause)
	}
}

// Read reads the body. The end of the body, or an error, ends the scope.
func (s *scope) Read(p []byte) (int, error) {
	n, err := s.body.Read(p)
	s.read.Add(int64(n))
	if err != nil {
		err = s.finish(err)
	}
	return n, err
}

// Close closes the body before it ends the scope, because an end may let in a request that needs the connection.
func (s *scope) Close() error {
	defer s.end(nil)
	return s.body.Close()
}

// finish ends the scope after a read returned err, and returns the error to pass on.
func (s *scope) finish(err error) error {
	if err == io.EOF { //nolint:errorlint // readers return it bare; a wrapped one is another error
		s.end(nil)
		return err
	}
	s.mu.Lock()
	over := s.over
	s.mu.Unlock()
	if !over { // if the scope has ended, its ends may have canceled the context, which then explains nothing
		err = explain(s.ctx, err)
		s.end(err)
	}
	return err
}

// explain adds to err why ctx has ended, if it has. If a timeout policy ended it, explain returns that policy's error.
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
		runEnds(s.ends, cause)
	}
}

// runEnds calls each end, also if one before it panics.
func runEnds(ends []func(error), cause error) {
	if len(ends) > 0 {
		defer runEnds(ends[1:], cause)
		ends[0](cause)
	}
}
