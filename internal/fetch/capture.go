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
	http1.Recording        // filled by our own transport; with net/http's, as if it had spoken HTTP/1.1
	toHost          []byte // with net/http's transport or a proxy: the request as HTTP/1.1 to the host
}

// record returns a new recorder for the next attempt. It returns nil if nothing is captured.
func (x *exchange) record() *recorder {
	if x.capture == 0 {
		return nil
	}
	x.recorder = &recorder{Recording: http1.Recording{Max: x.capture}}
	return x.recorder
}

// onWire returns the recording that our own transport fills. It returns nil if nothing is captured.
func (r *recorder) onWire() *http1.Recording {
	if r == nil {
		return nil
	}
	return &r.Recording
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
		r.toHost = req.AppendTo(nil)
	}
}

// hear records net/http's response, with what is read of its body.
func (r *recorder) hear(hres *http.Response) {
	if r == nil {
		return
	}
	r.Answer = responseText(hres)
	r.Head = len(r.Answer)
	r.Max += int64(r.Head) // it bounds the body alone
	if r.Whole = hres.Body == http.NoBody; !r.Whole {
		hres.Body = &heard{hres.Body, r}
	}
}

type heard struct {
	io.ReadCloser
	r *recorder
}

func (h *heard) Read(p []byte) (int, error) {
	n, err := h.ReadCloser.Read(p)
	room := max(h.r.Max-int64(len(h.r.Answer)), 0)
	h.r.Answer = append(h.r.Answer, p[:min(int64(n), room)]...)
	h.r.Cut = h.r.Cut || int64(n) > room
	h.r.Whole = h.r.Whole || err == io.EOF
	return n, err
}

// captured returns the exchange of a response that was read. Failed is why the response is incomplete, or nil.
func (x *exchange) captured(failed *Error) *record.Exchange {
	r := x.recorder
	if r == nil {
		return nil
	}
	c := &record.Exchange{Request: r.Request, Response: r.Answer, Payload: r.Answer[r.Head:]}
	if r.toHost != nil {
		c.Request = r.toHost
	}
	cut := r.Cut
	switch {
	case failed != nil && failed.Op == OpFilter && len(c.Payload) > 0:
		// What was read of an unwanted body was only drained to keep the connection.
		c.Response, c.Payload, cut = c.Response[:r.Head], nil, true
	case r.Chunked:
		c.Payload = unchunked(c.Payload)
	}
	if cut || !r.Whole {
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

// responseText returns the header of a response as HTTP/1.1 text.
func responseText(hres *http.Response) []byte {
	var text bytes.Buffer
	text.WriteString("HTTP/1.1 " + strconv.Itoa(hres.StatusCode) + " " + http.StatusText(hres.StatusCode) + "\r\n")
	for _, name := range slices.Sorted(maps.Keys(hres.Header)) {
		for _, v := range hres.Header[name] {
			text.WriteString(name + ": " + v + "\r\n")
		}
	}
	text.WriteString("\r\n")
	return text.Bytes()
}
