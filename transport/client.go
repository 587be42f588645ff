package transport

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"

	"github.com/treadlight/crawl/internal/fetch/redact"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/resilience"
)

// ClientConfig configures a [Client]. The zero value means a transport of the client's own, without layers.
type ClientConfig struct {
	// BaseURL is the URL against which relative URLs are resolved, as in a browser: if its last segment is to be kept,
	// it must end in a slash. Empty means that URLs must be absolute.
	BaseURL   string
	Transport http.RoundTripper // sends the requests; the client does not close it; nil means a transport made from Base, which the client closes
	Base      BaseConfig        // configures the client's own transport; it must be zero if Transport is set
	// Chain puts layers around the transport. It is called once. The client closes the result if that is an io.Closer.
	// Nil means no layers.
	Chain   func(base http.RoundTripper) (http.RoundTripper, error)
	MaxBody int64 // greatest size of a document that is decoded, in bytes; zero means 10 MiB
}

// defaultMaxDocument is also the crawl's bound on the size of pages.
const defaultMaxDocument int64 = 10 << 20

// Client is an http.Client that owns its transport and layers, with a helper for each method. It is safe for concurrent
// use. Use one for each purpose; see [Factory].
type Client struct {
	cfg  ClientConfig // never changes after NewClient
	base *url.URL     // nil if there is none
	http *http.Client
	gate clientGate
	own  []io.Closer // what the client closes, in that order
}

// NewClient returns a client. An error names the wrong field of cfg, or is that of cfg.Chain.
func NewClient(cfg ClientConfig) (*Client, error) {
	c := &Client{cfg: cfg}
	if err := c.settle(); err != nil {
		return nil, err
	}
	rt := cfg.Transport
	if rt == nil {
		base := NewBase(cfg.Base)
		rt, c.own = base, append(c.own, base)
	}
	if cfg.Chain != nil {
		chain, err := cfg.Chain(rt)
		if err != nil {
			return nil, errors.Join(err, c.closeOwn())
		}
		if closer, ok := chain.(io.Closer); ok && !same(chain, rt) { // if Chain returned rt itself, it is not closed here
			c.own = append([]io.Closer{closer}, c.own...) // the outermost first
		}
		rt = chain
	}
	c.gate.next = rt
	c.http = &http.Client{Transport: &c.gate}
	return c, nil
}

// same reports whether a and b are the same transport. For types on which == panics it reports false.
func same(a, b http.RoundTripper) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// settle parses the base URL and checks the configuration.
func (c *Client) settle() error {
	cfg := &c.cfg
	if cfg.Transport != nil && cfg.Base != (BaseConfig{}) {
		return errors.New("transport: ClientConfig.Base is set beside a Transport, which it cannot change: remove one of them")
	}
	if cfg.MaxBody < 0 {
		return fmt.Errorf("transport: ClientConfig.MaxBody is %d: use a positive number of bytes, or zero for 10 MiB", cfg.MaxBody)
	}
	cfg.MaxBody = cmp.Or(cfg.MaxBody, defaultMaxDocument)
	if cfg.BaseURL == "" {
		return nil
	}
	u, err := url.Parse(cfg.BaseURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("transport: ClientConfig.BaseURL is %q: use an absolute http or https URL", redact.URL(cfg.BaseURL))
	}
	c.base = u
	return nil
}

// HTTP returns a net/http client over the same chain. It ignores BaseURL, and ends with the Client. Its Jar and
// CheckRedirect may be set before use.
func (c *Client) HTTP() *http.Client { return c.http }

// Do sends a request as http.Client does, and follows redirects. It does not change req.
func (c *Client) Do(req *http.Request) (*http.Response, error) { return c.http.Do(req) }

// Close makes later requests fail with [resilience.ErrClosed]. It closes the chain and the client's own transport, but
// not ClientConfig.Transport. Requests in flight go on. It may be called again.
func (c *Client) Close() error {
	if c.gate.closed.Swap(true) {
		return nil
	}
	return c.closeOwn()
}

func (c *Client) closeOwn() (err error) {
	for _, closer := range c.own {
		err = errors.Join(err, closer.Close())
	}
	return err
}

type clientGate struct {
	next   http.RoundTripper
	closed atomic.Bool
}

func (g *clientGate) RoundTrip(req *http.Request) (*http.Response, error) {
	if g.closed.Load() {
		closeBody(req)
		return nil, resilience.ErrClosed
	}
	return g.next.RoundTrip(req)
}

func (g *clientGate) CloseIdleConnections() { closeIdle(g.next) }

const jsonType = "application/json"

// Get requests ref, which is relative to BaseURL or absolute. The following holds for all methods: ctx must last until
// the end of the body, a response of any status is not an error, and the caller must close the body.
func (c *Client) Get(ctx context.Context, ref string) (*http.Response, error) {
	return c.send(ctx, http.MethodGet, ref, nil, nil)
}

// Head requests the header of ref.
func (c *Client) Head(ctx context.Context, ref string) (*http.Response, error) {
	return c.send(ctx, http.MethodHead, ref, nil, nil)
}

// Post sends body to ref. A retry repeats it only under [WithIdempotent], and only if body is a *bytes.Reader,
// *bytes.Buffer or *strings.Reader.
func (c *Client) Post(ctx context.Context, ref, contentType string, body io.Reader) (*http.Response, error) {
	return c.send(ctx, http.MethodPost, ref, body, fields("Content-Type", contentType))
}

// Put sends body to ref, to store it there. A retry repeats it under the conditions of Post.
func (c *Client) Put(ctx context.Context, ref, contentType string, body io.Reader) (*http.Response, error) {
	return c.send(ctx, http.MethodPut, ref, body, fields("Content-Type", contentType))
}

// Patch sends body to ref, to change what is there. A retry repeats it under the conditions of Post.
func (c *Client) Patch(ctx context.Context, ref, contentType string, body io.Reader) (*http.Response, error) {
	return c.send(ctx, http.MethodPatch, ref, body, fields("Content-Type", contentType))
}

// Delete requests to delete ref. A retry repeats it only under [WithIdempotent].
func (c *Client) Delete(ctx context.Context, ref string) (*http.Response, error) {
	return c.send(ctx, http.MethodDelete, ref, nil, nil)
}

// PostJSON sends v as JSON to ref and accepts JSON. A retry repeats it only under [WithIdempotent].
func (c *Client) PostJSON(ctx context.Context, ref string, v any) (*http.Response, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("transport: encode the body for %s: %w", http.MethodPost, err)
	}
	return c.send(ctx, http.MethodPost, ref, bytes.NewReader(text), fields("Content-Type", jsonType, "Accept", jsonType))
}

// GetJSON requests a JSON document and decodes it into v, as [Client.DecodeJSON] does.
func (c *Client) GetJSON(ctx context.Context, ref string, v any) error {
	res, err := c.send(ctx, http.MethodGet, ref, nil, fields("Accept", jsonType)) //nolint:bodyclose // DecodeJSON closes it
	if err != nil {
		return err
	}
	return c.DecodeJSON(res, v)
}

// DecodeJSON reads the body of res, which must be one JSON document, into v, and closes it. Errors are a
// [*StatusError], a [*DecodeError] if the body is not one document or is larger than MaxBody, or those of reading.
func (c *Client) DecodeJSON(res *http.Response, v any) error {
	if err := CheckStatus(res); err != nil {
		return err
	}
	defer Discard(res)
	// One byte more than MaxBody, unless that overflows, shows that the body is too large.
	text, err := io.ReadAll(io.LimitReader(res.Body, max(c.cfg.MaxBody, c.cfg.MaxBody+1)))
	if err != nil {
		return err
	}
	e := &DecodeError{Err: json.Unmarshal(text, v), large: int64(len(text)) > c.cfg.MaxBody}
	if e.large {
		e.Err = fmt.Errorf("the body is longer than %d bytes", c.cfg.MaxBody)
	}
	if e.Err == nil {
		return nil
	}
	e.Type, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type")) // empty if the header is missing or malformed
	return e
}

// DecodeError says that a response came whose body is not the document that was expected.
type DecodeError struct {
	Type string // media type of the response; empty if it has none
	Err  error  // what is wrong; never nil

	large bool
}

var _ outcome.Classed = (*DecodeError)(nil)

// Error returns the media type and what is wrong.
func (e *DecodeError) Error() string {
	if e.Type == "" {
		return fmt.Sprintf("decode JSON: %v", e.Err)
	}
	return fmt.Sprintf("decode JSON from %s: %v", e.Type, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// Class returns too_large or decode.
func (e *DecodeError) Class() outcome.Class {
	if e.large {
		return outcome.TooLarge
	}
	return outcome.Decode
}

func (c *Client) send(ctx context.Context, method, ref string, body io.Reader, h http.Header) (*http.Response, error) {
	if c.base != nil {
		u, err := c.base.Parse(ref)
		if err != nil {
			return nil, fmt.Errorf("transport: %w", err)
		}
		ref = u.String()
	}
	req, err := http.NewRequestWithContext(ctx, method, ref, body)
	if err != nil {
		return nil, fmt.Errorf("transport: %w", err)
	}
	if h != nil {
		req.Header = h
	}
	return c.Do(req)
}

func fields(pairs ...string) http.Header {
	h := make(http.Header, len(pairs)/2)
	for i := 0; i < len(pairs); i += 2 {
		if strings.TrimSpace(pairs[i+1]) != "" {
			h.Set(pairs[i], pairs[i+1])
		}
	}
	return h
}
