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

// ClientConfig says what a [Client] is made of. The zero value is an own transport without layers.
type ClientConfig struct {
	// BaseURL resolves relative URLs as in a browser: one that keeps its last part ends in a slash. Empty: URLs must
	// be absolute.
	BaseURL   string
	Transport http.RoundTripper // sends the requests, and stays its owner's; nil means one made of Base, which the client closes
	Base      BaseConfig        // what the client's own transport is made of; it must be zero beside a Transport
	// Chain puts layers around the transport, once. The client closes the result if it is an io.Closer. Nil: no
	// layers.
	Chain   func(base http.RoundTripper) (http.RoundTripper, error)
	MaxBody int64 // of documents that are decoded, in bytes; zero means 10 MiB
}

// defaultMaxDocument is the crawl's own bound on pages.
const defaultMaxDocument int64 = 10 << 20

// Client is an http.Client that owns its parts, with a helper for each verb. Safe for concurrent use; one per purpose:
// see [Factory].
type Client struct {
	cfg  ClientConfig // never changes after NewClient
	base *url.URL     // nil if there is none
	http *http.Client
	gate clientGate
	own  []io.Closer // in the order in which they are closed
}

// NewClient builds a client. The error names the wrong field of cfg, or is that of cfg.Chain.
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
		if closer, ok := chain.(io.Closer); ok && !same(chain, rt) { // else the transport was handed back
			c.own = append([]io.Closer{closer}, c.own...) // the outer one first
		}
		rt = chain
	}
	c.gate.next = rt
	c.http = &http.Client{Transport: &c.gate}
	return c, nil
}

// same compares transports, some of which are of types that == panics on.
func same(a, b http.RoundTripper) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// settle reads the base URL and rejects what makes no sense.
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

// HTTP is a net/http client over the same chain, without BaseURL, that ends with the Client. Its jar and redirect rule
// may be set before use.
func (c *Client) HTTP() *http.Client { return c.http }

// Do sends a request as http.Client does, redirects included. It does not change req.
func (c *Client) Do(req *http.Request) (*http.Response, error) { return c.http.Do(req) }

// Close has later requests fail with [resilience.ErrClosed], and closes the chain and the client's own transport, not
// a given one. Running requests go on. It may be called again.
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

// Get requests ref, relative to BaseURL or absolute. For all verbs, ctx lasts to the end of the body, any status is an
// answer, and the caller closes the body.
func (c *Client) Get(ctx context.Context, ref string) (*http.Response, error) {
	return c.send(ctx, http.MethodGet, ref, nil, nil)
}

// Head asks for the header of ref.
func (c *Client) Head(ctx context.Context, ref string) (*http.Response, error) {
	return c.send(ctx, http.MethodHead, ref, nil, nil)
}

// Post sends body to ref. A retry repeats it only under [WithIdempotent], with a *bytes.Reader, *bytes.Buffer or
// *strings.Reader.
func (c *Client) Post(ctx context.Context, ref, contentType string, body io.Reader) (*http.Response, error) {
	return c.send(ctx, http.MethodPost, ref, body, fields("Content-Type", contentType))
}

// Put stores body at ref. It is repeated on the conditions of Post.
func (c *Client) Put(ctx context.Context, ref, contentType string, body io.Reader) (*http.Response, error) {
	return c.send(ctx, http.MethodPut, ref, body, fields("Content-Type", contentType))
}

// Patch changes ref by body. It is repeated on the conditions of Post.
func (c *Client) Patch(ctx context.Context, ref, contentType string, body io.Reader) (*http.Response, error) {
	return c.send(ctx, http.MethodPatch, ref, body, fields("Content-Type", contentType))
}

// Delete removes ref. It is repeated under [WithIdempotent].
func (c *Client) Delete(ctx context.Context, ref string) (*http.Response, error) {
	return c.send(ctx, http.MethodDelete, ref, nil, nil)
}

// PostJSON sends v as JSON and asks for JSON. It is repeated on the conditions of Post.
func (c *Client) PostJSON(ctx context.Context, ref string, v any) (*http.Response, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("transport: encode the body for %s: %w", http.MethodPost, err)
	}
	return c.send(ctx, http.MethodPost, ref, bytes.NewReader(text), fields("Content-Type", jsonType, "Accept", jsonType))
}

// GetJSON asks for a JSON document and decodes it into v, as [Client.DecodeJSON] does.
func (c *Client) GetJSON(ctx context.Context, ref string, v any) error {
	res, err := c.send(ctx, http.MethodGet, ref, nil, fields("Accept", jsonType)) //nolint:bodyclose // DecodeJSON closes it
	if err != nil {
		return err
	}
	return c.DecodeJSON(res, v)
}

// DecodeJSON reads the body of res, one JSON document, into v, and closes it. Errors are a [*StatusError], a
// [*DecodeError] for a body that is not one document or exceeds MaxBody, and those of reading.
func (c *Client) DecodeJSON(res *http.Response, v any) error {
	if err := CheckStatus(res); err != nil {
		return err
	}
	defer Discard(res)
	// One byte beyond the bound, if there is such a number, tells a body that goes on.
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
	e.Type, _, _ = mime.ParseMediaType(res.Header.Get("Content-Type")) // empty if it is none
	return e
}

// DecodeError says that an answer came and is not the document that was asked for.
type DecodeError struct {
	Type string // media type that the answer claims, empty if none
	Err  error  // why it is not; never nil

	large bool
}

var _ outcome.Classed = (*DecodeError)(nil)

// Error says what came and what is wrong with it.
func (e *DecodeError) Error() string {
	if e.Type == "" {
		return fmt.Sprintf("decode JSON: %v", e.Err)
	}
	return fmt.Sprintf("decode JSON from %s: %v", e.Type, e.Err)
}

// Unwrap returns the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// Class is TooLarge or Decode.
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
