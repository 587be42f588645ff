package fetch

import (
	"net/http"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/record"
)

// Response is an answer, perhaps incomplete. [Response.Release] takes back only Body.
type Response struct {
	URL        string      // as it was given
	Status     int         // 200 to 999
	Header     http.Header // as received: Content-Encoding and Content-Length are of the encoded body
	Proto      string      // such as "HTTP/1.1"
	RemoteAddr string      // address and port of the server; empty behind a proxy

	Body        []byte           // decoded, at most as long as the bound; valid until Release
	WireBytes   int64            // of the encoded body that were read, without chunk framing
	Truncated   bool             // the body went on beyond Body, or what a Stream took
	Streamed    bool             // a Stream took it, and Body is nil
	Size        int64            // of what it took, decoded
	Conditional bool             // the request asked whether anything had changed
	Capture     *record.Exchange // the exchange as it was, if Request.Capture asked for it

	Location       string        // of a redirect, not resolved; empty if there is none
	ContentType    string        // media type in lower case, without parameters; empty if unknown
	Charset        string        // its parameter in lower case; empty if there is none
	IgnoredCodings string        // names in Content-Encoding that are no coding, as "none" or "utf-8", in lower case, separated by ", "
	RetryAfter     time.Duration // how long the server asked us to wait, uncapped; zero if it did not
	Quota          header.Quota  // the tightest that the header speaks of, its Reset counted from the arrival of the header
	Second         uint8         // of the host's clock, in which the answer was written, see [header.Second]; zero if it does not say

	SentAt  time.Time // when a connection was ready and the request went out
	Timings Timings
	Sends   int // how many times the request may have reached the host since the last permit: one

	c   *Client
	buf *buffer
}

// Timings is where the time went. The first three are zero when the connection was Reused.
type Timings struct {
	DNS       time.Duration // lookup of the name
	Connect   time.Duration // making the connection
	TLS       time.Duration // handshake with the host
	FirstByte time.Duration // from SentAt to the first byte of the answer
	Body      time.Duration // from the end of the header to the end of the body
	Total     time.Duration // from the call of Fetch to the end of the body
	Reused    bool          // the connection had served before
}

// Release gives the body's memory back and sets Body to nil. It is optional, and may be called again.
func (r *Response) Release() {
	if r == nil || r.buf == nil {
		return
	}
	r.c.buffers.put(r.buf)
	r.buf, r.Body = nil, nil
}

func newResponse(rawURL string, h *http.Response, now time.Time) *Response {
	r := &Response{
		URL:      rawURL,
		Status:   h.StatusCode,
		Header:   h.Header,
		Proto:    h.Proto,
		Location: strings.TrimSpace(h.Header.Get("Location")),
	}
	r.ContentType, r.Charset = contentType(h.Header["Content-Type"])
	r.RetryAfter, _ = header.RetryAfterOf(h.Header, now, 0) // a malformed one asks for nothing
	r.Quota, _ = header.Parse(h.Header, now)                // nor does a malformed quota say anything
	r.Second = header.Second(h.Header)
	return r
}

// contentType reads the lines of a Content-Type; the last valid type counts (Fetch standard, "extract a MIME type").
func contentType(lines []string) (media, charset string) {
	for rest := strings.Join(lines, ","); rest != ""; {
		n, quoted := 0, false
		for n < len(rest) && (quoted || rest[n] != ',') {
			quoted = quoted != (rest[n] == '"')
			n++
		}
		m, c := mediaType(rest[:n])
		rest = rest[min(n+1, len(rest)):]
		switch {
		case m == "*/*", m == "" && media != "":
		case m == media && c == "": // what was said of it before stands
		default:
			media, charset = m, c
		}
	}
	return media, charset
}

// mediaType reads a media type, ignoring malformed parameters as browsers do.
func mediaType(v string) (media, charset string) {
	media, params, _ := strings.Cut(v, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if !strings.Contains(media, "/") || strings.ContainsAny(media, " \t,") {
		media = ""
	}
	for p := range strings.SplitSeq(params, ";") {
		name, value, ok := strings.Cut(p, "=")
		if ok && strings.EqualFold(strings.TrimSpace(name), "charset") {
			// Quotes of either kind occur, also unpaired.
			value = strings.Trim(strings.TrimSpace(value), `"' `)
			return media, strings.ToLower(value)
		}
	}
	return media, ""
}
