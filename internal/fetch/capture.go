package fetch

import (
	"bufio"
	"bytes"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/treadlight/crawl/internal/fetch/http1"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
	"github.com/treadlight/crawl/record"
)

// The values of Exchange.Truncated.
const (
	truncatedLength     = "length"
	truncatedTime       = "time"
	truncatedDisconnect = "disconnect"
)

// recorder collects an exchange for Response.Capture. Each attempt has its own, because policies may still read an
// earlier response.
type recorder struct {
	max  int64            // bound of the response, in bytes
	wire *http1.Recording // filled by our own transport; nil with net/http's

	request []byte // with net/http's transport or a proxy: the request as HTTP/1.1 to the host
	body    []byte
	cut     bool // the body was longer than max allows
	whole   bool // the body was read to its end
}

// record returns a new recorder for the next attempt. It returns nil if nothing is captured.
func (x *exchange) record() *recorder {
	if x.capture == 0 {
		return nil
	}
	x.recorder = &recorder{max: x.capture}
	return x.recorder
}

// onWire returns the recording that our own transport fills. It returns nil if nothing is captured.
func (r *recorder) onWire() *http1.Recording {
	if r == nil {
		return nil
	}
	r.wire = &http1.Recording{Max: r.max}
	return r.wire
}

// asks records the request that net/http's transport is about to send.
func (r *recorder) asks(x *exchange, to target, h http.Header) error {
	if r == nil {
		return nil
	}
	fields, err := http1.AppendHeader(nil, h)
	r.asksOf(x, to, fields)
	return err
}

// asksOf records a request in the form in which the host sees it, also if it is sent to a proxy.
func (r *recorder) asksOf(x *exchange, to target, fields []byte) {
	if r != nil {
		req := http1.Request{Method: x.req.Method, Body: x.req.Payload, Host: to.host, Target: to.uri, Fields: fields}
		r.request = req.AppendTo(nil)
	}
}

// hear records the body that is read of net/http's response.
func (r *recorder) hear(hres *http.Response) {
	if r == nil {
		return
	}
	if r.whole = hres.Body == http.NoBody; !r.whole {
		hres.Body = &heard{hres.Body, r}
	}
}

type heard struct {
	io.ReadCloser
	r *recorder
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	room := max(h.r.max-int64(len(h.r.body)), 0)
	h.r.body = append(h.r.body, p[:min(int64(n), room)]...)
	h.r.cut = h.r.cut || int64(n) > room
	h.r.whole = h.r.whole || err == io.EOF
	return n, err
}

// captured returns the exchange of a response that was read. Failed is why the response is incomplete, or nil.
func (x *exchange) captured(hres *http.Response, failed *Error) *record.Exchange {
	r := x.recorder
	if r == nil {
		return nil
	}
	c := new(record.Exchange)
	whole, cut, head := r.whole, r.cut, 0
	if r.wire != nil {
		whole, cut, head = r.wire.Whole, r.wire.Cut, r.wire.Head
		if c.Request, c.Response = r.wire.Request, r.wire.Answer; r.request != nil {
			c.Request = r.request
		}
	} else {
		c.Request, c.Response = r.request, responseText(hres, len(r.body))
		head = len(c.Response)
		c.Response = append(c.Response, r.body...)
	}
	switch c.Payload = c.Response[head:]; {
	case failed != nil && failed.Op == OpFilter && len(c.Payload) > 0:
		// What was read of an unwanted body was only drained to keep the connection.
		c.Response, c.Payload, cut = c.Response[:head], nil, true
	case r.wire != nil && r.wire.Chunked:
		c.Payload = unchunked(c.Payload)
	}
	if cut || !whole {
		c.Truncated = truncation(cut, failed)
	}
	return c
}

func truncation(cut bool, failed *Error) string {
	switch {
	case cut || failed == nil || failed.class.Declined() || failed.Op == OpDecode:
		return truncatedLength // also if the rest was not worth reading
	case failed.class == outcome.Timeout:
		return truncatedTime
	}
	return truncatedDisconnect
}

func unchunked(framed []byte) []byte {
	body := bytes.NewBuffer(make([]byte, 0, len(framed)))
	// Truncated already says if the body is cut off; the chunks before that are kept.
	_, _ = io.Copy(body, http1.NewChunked(bufio.NewReader(bytes.NewReader(framed))))
	return body.Bytes()
}

// responseText returns the header of a response as HTTP/1.1 text, with capacity for a body of room bytes after it.
func responseText(hres *http.Response, room int) []byte {
	var text bytes.Buffer
	text.Grow(1<<10 + room)
	text.WriteString("HTTP/1.1 " + strconv.Itoa(hres.StatusCode) + " " + http.StatusText(hres.StatusCode) + "\r\n")
	for _, name := range slices.Sorted(maps.Keys(hres.Header)) {
		for _, v := range hres.Header[name] {
			text.WriteString(name + ": " + v + "\r\n")
		}
	}
	text.WriteString("\r\n")
	return text.Bytes()
}
