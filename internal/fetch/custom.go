package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/treadlight/crawl/internal/fetch/http1"
)

// foreign is a transport of the program that uses this package.
type foreign struct{ http.RoundTripper }

var errNothing = errors.New("the transport returned neither a response nor an error")

// roundTrip makes one attempt. It observes what the transport reports of its connections by package httptrace. If the
// transport reports nothing, the request counts as sent.
func (f foreign) roundTrip(x *exchange, to target, h http.Header) (*http.Response, error) {
	u := *to.url
	req := x.newRequest(x.traced(), &u, h)
	req.Header = req.Header.Clone() // the transport may change it
	rec := x.record()
	if err := rec.asks(x, to, req.Header); err != nil {
		return nil, err
	}
	x.arm(x.c.cfg.HeaderTimeout, x.c.silent)
	hres, err := f.RoundTrip(req)
	if err == nil && hres == nil {
		err = errNothing
	}
	if !x.connected && !dialFailed(err) {
		x.connected, x.tries = true, 1
	}
	if err != nil {
		return nil, err
	}
	if !x.answered() {
		x.firstByte()
	}
	tidy(hres)
	rec.hear(hres)
	return hres, nil
}

// CloseIdleConnections does nothing: the transport belongs to the program.
func (foreign) CloseIdleConnections() {}

func dialFailed(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	_, dns := errors.AsType[*net.DNSError](err)
	return dns || ok && op.Op == "dial"
}

// tidy sets fields that a response made by hand may lack.
func tidy(hres *http.Response) {
	if hres.Header == nil {
		hres.Header = make(http.Header)
	}
	switch {
	case hres.Body == nil:
		hres.Body = http.NoBody
	case hres.ContentLength == 0 && hres.Body != http.NoBody:
		hres.ContentLength = -1
	}
	hres.Proto = cmp.Or(hres.Proto, "HTTP/1.1")
}

// HookError is an error of the program's own code: of Config.OnRequest, and then nothing was sent; of
// Config.OnResponse, and then the body was not read; or of a [Stream].
type HookError struct {
	Hook string // such as "OnRequest"
	Err  error
}

func (e *HookError) Error() string { return e.Hook + ": " + e.Err.Error() }

func (e *HookError) Unwrap() error { return e.Err }

// fixed lists the header fields that hooks must not set, because the transport sets them.
var fixed = []string{"Host", "Connection", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Expect", "Proxy-Authorization"}

// outgoing passes a request that is about to be sent to Config.OnRequest, which may change it.
func (c *Client) outgoing(x *exchange, to target, h http.Header) (target, http.Header, error) {
	u := *to.url
	req := x.newRequest(x.sent(), &u, h)
	req.Header = req.Header.Clone()
	if x.request = req; c.cfg.OnRequest == nil {
		return to, h, nil
	}
	method, body := req.Method, req.Body
	err := c.cfg.OnRequest(req)
	if err == nil {
		switch {
		case req.URL == nil || req.URL.Scheme != to.url.Scheme || req.URL.Host != to.url.Host || req.Host != "" && req.Host != to.url.Host:
			err = errors.New("the hook has changed the host, which is not its to change")
		case req.Method != method || req.Body != body:
			err = errors.New("the hook has changed the method or the body, which are not its to change")
		default:
			err = checkFields(req.Header)
		}
	}
	if err == nil {
		user := to.user
		if to, err = targetOf(req.URL); err == nil && !http1.Visible(to.uri) {
			err = errBadURL
		}
		to.user = user
	}
	if err != nil {
		return to, h, &phaseError{OpHook, &HookError{"OnRequest", err}}
	}
	return to, req.Header, nil
}

func checkFields(h http.Header) error {
	for name, values := range h {
		switch {
		case !httpguts.ValidHeaderFieldName(name) || slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }):
			return fmt.Errorf("the hook has set header field %q, which cannot be sent", name)
		case slices.Contains(fixed, http.CanonicalHeaderKey(name)):
			return fmt.Errorf("the hook has set header field %s, which is the client's own", name)
		}
	}
	return nil
}

// inspect passes the header of a response to Config.OnResponse.
func (c *Client) inspect(x *exchange, hres *http.Response) {
	if c.cfg.OnResponse == nil {
		return
	}
	shown := *hres
	shown.Request, shown.Header, shown.Trailer, shown.Body = x.request, hres.Header.Clone(), nil, http.NoBody
	x.objection = nil
	if err := c.cfg.OnResponse(&shown); err != nil {
		x.objection = &HookError{"OnResponse", err}
	}
}

// Stream reads a body while it arrives. Response.Body is nil then.
type Stream struct {
	// MaxBytes bounds the decoded body. Zero means no bound.
	MaxBytes int64
	// Timeout bounds the request from the call of Fetch to the end of the body, instead of Config.Timeout. Zero means
	// that only Config.BodyTimeout applies, to each wait for more of the body.
	Timeout time.Duration
	// Hash, if set, gets the bytes that are read.
	Hash hash.Hash
	// Read is called by Fetch's goroutine. What it leaves unread is not fetched. Fetch returns its error as a
	// [HookError], unless reading the body failed.
	Read func(io.Reader) error
}

// unbounded is a duration that never passes, small enough for sums not to overflow.
const unbounded = math.MaxInt64 / 2

// streamed is a body that a Stream reads. The watchdog runs only while the host is waited for, not while the reader
// works.
type streamed struct {
	x     *exchange
	r     io.Reader
	s     *Stream
	n     int64
	over  bool // the body is longer than the bound
	ended bool
	err   error
}

func (b *streamed) Read(p []byte) (int, error) {
	switch {
	case b.err != nil:
		return 0, b.err
	case b.ended:
		return 0, io.EOF
	case len(p) == 0:
		return 0, nil
	}
	if left := b.s.MaxBytes - b.n; b.s.MaxBytes > 0 && int64(len(p)) > left {
		p = p[:left+1] // one byte more shows whether the body goes on
	}
	b.x.alive()
	n, err := b.r.Read(p)
	b.x.arm(unbounded, b.x.tooLong)
	if b.n += int64(n); b.s.MaxBytes > 0 && b.n > b.s.MaxBytes {
		n, b.n, b.over, err = n-1, b.s.MaxBytes, true, errTooLarge
	}
	if b.s.Hash != nil {
		_, _ = b.s.Hash.Write(p[:n]) // never fails
	}
	switch {
	case err == io.EOF:
		b.ended = true
	case err != nil:
		b.err = b.x.explain(err)
		err = b.err
	}
	return n, err
}

// stream calls the Stream to read a body.
func (c *Client) stream(w *wire, r io.Reader, res *Response, s *Stream) (Op, error) {
	b := &streamed{x: w.x, r: r, s: s, ended: r == nil}
	w.x.arm(unbounded, w.x.tooLong)
	err := s.Read(b)
	res.Size, res.Streamed, res.Truncated = b.n, true, !b.ended
	switch {
	case b.over:
		return OpBody, errTooLarge
	case w.err != nil:
		return OpBody, w.err
	case errors.Is(b.err, errRatio):
		return OpBody, b.err
	case b.err != nil:
		return OpDecode, b.err
	case err != nil:
		return OpHook, &HookError{"body handler", err}
	}
	return "", nil
}
