package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

const jsonType = "application/json"

// Get asks for ref, which may be relative to BaseURL. As with all verbs, ctx lasts to the
// end of the body, any status is an answer, and the caller closes the body.
func (c *Client) Get(ctx context.Context, ref string) (*http.Response, error) {
	return c.send(ctx, http.MethodGet, ref, nil, nil)
}

// Head asks for the header of ref.
func (c *Client) Head(ctx context.Context, ref string) (*http.Response, error) {
	return c.send(ctx, http.MethodHead, ref, nil, nil)
}

// Post sends body to ref. A retry in the chain repeats it only under [WithIdempotent], and
// if body is a *bytes.Reader, *bytes.Buffer or *strings.Reader, which can be read again.
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

// DecodeJSON reads the one JSON document that is the body of res into v, and closes the
// body. Its errors are a [*StatusError] for a status that is no success, a [*DecodeError]
// for a body that is not one document or is longer than MaxBody, and that of reading.
func (c *Client) DecodeJSON(res *http.Response, v any) error {
	if err := CheckStatus(res); err != nil {
		return err
	}
	defer Discard(res)
	// One byte beyond the bound tells a body that ends there from one that goes on. A bound
	// of all there is has none beyond it, and no body reaches it.
	body := &boundedBody{r: res.Body, left: max(c.cfg.MaxBody, c.cfg.MaxBody+1)}
	dec := json.NewDecoder(body)
	err := dec.Decode(v)
	if err == nil {
		if _, end := dec.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("the body goes on after the document")
		}
	}
	switch {
	case body.err != nil: // the network's word, and not the decoder's
		return body.err
	case body.left <= 0:
		return &DecodeError{Type: mediaType(res), Err: fmt.Errorf("the body is longer than %d bytes", c.cfg.MaxBody), large: true}
	case err != nil:
		return &DecodeError{Type: mediaType(res), Err: err}
	}
	return nil
}

// DecodeError says that an answer came and is not the document that was asked for.
type DecodeError struct {
	Type string // media type that the answer claims, empty if none
	Err  error

	large bool
}

var _ outcome.Classed = (*DecodeError)(nil)

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

// boundedBody ends after left bytes and remembers why reading failed.
type boundedBody struct {
	r    io.Reader
	left int64
	err  error
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if err != nil && err != io.EOF {
		b.err = err
	}
	return n, err
}

func mediaType(res *http.Response) string {
	media, _, err := mime.ParseMediaType(res.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return media
}

func (c *Client) send(ctx context.Context, method, ref string, body io.Reader, h http.Header) (*http.Response, error) {
	target, err := c.resolve(ref)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
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
