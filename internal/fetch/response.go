package fetch

import (
	"net/http"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/ratelimit/header"
	"github.com/treadlight/crawl/record"
)

// Response is a response, which may be incomplete. [Response.Release] takes back only Body.
type Response struct {
	URL        string      // as in the Request
	Status     int         // 200 to 999
	Header     http.Header // as received: Content-Encoding and Content-Length describe the encoded body
	Proto      string      // such as "HTTP/1.1"
	RemoteAddr string      // address and port of the server; empty behind a proxy

	Body        []byte           // decoded, at most as long as the bound; valid until Release
	WireBytes   int64            // bytes of the encoded body that were read, without chunk framing
	Truncated   bool             // the body is longer than Body, or than what a Stream read
	Streamed    bool             // a Stream read the body, and Body is nil
	Size        int64            // decoded bytes that a Stream read
	Conditional bool             // the request had a condition, such as If-None-Match
	Capture     *record.Exchange // the exchange, if Request.Capture is set

	Location       string        // of a redirect, as sent and not resolved; empty if there is none
	ContentType    string        // media type in lower case, without parameters; empty if unknown
	Charset        string        // parameter of the media type, in lower case; empty if there is none
	IgnoredCodings string        // names in Content-Encoding that are not codings, such as "utf-8", in lower case, separated by ", "
	RetryAfter     time.Duration // how long the server asks to wait, uncapped; zero if it does not
	Quota          header.Quota  // the tightest quota in the header, its Reset counted from the arrival of the header
	Second         uint8         // second of the host's clock at which it responded, see [header.Second]; zero if not known

	SentAt  time.Time // when the connection was ready and the request was sent
	Timings Timings
	Sends   int // how many times the request may have reached the host since the last permit: 1

	c   *Client
	buf *buffer
}

// Timings says where the time went. The first three are zero if the connection was Reused.
type Timings struct {
	DNS       time.Duration // name lookup
	Connect   time.Duration // making the connection
	TLS       time.Duration // TLS handshake with the host
	FirstByte time.Duration // from SentAt to the first byte of the response
	Body      time.Duration // from the end of the header to the end of the body
	Total     time.Duration // from the call of Fetch to the end of the body
	Reused    bool          // the connection had served an earlier request
}

// Release returns the memory of the body to the Client and sets Body to nil. It is optional and may be called several
// times, also on nil.
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
	r.RetryAfter, _ = header.RetryAfterOf(h.Header, now, 0) // a malformed one counts as none
	r.Quota, _ = header.Parse(h.Header, now)                // and so does a malformed quota
	r.Second = header.Second(h.Header)
	return r
}

// contentType parses the lines of a Content-Type. The last valid type counts (Fetch standard, "extract a MIME type").
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
		case m == media && c == "": // the parameters of the earlier line still apply
		default:
			media, charset = m, c
		}
	}
	return media, charset
}

// mediaType parses a media type. It ignores malformed parameters, as browsers do.
func mediaType(v string) (media, charset string) {
	media, params, _ := strings.Cut(v, ";")
	media = strings.ToLower(strings.TrimSpace(media))
	if !strings.Contains(media, "/") || strings.ContainsAny(media, " \t,") {
		media = ""
	}
	for p := range strings.SplitSeq(params, ";") {
		name, value, ok := strings.Cut(p, "=")
		if ok && strings.EqualFold(strings.TrimSpace(name), "charset") {
			// Quotes of both kinds occur, also unpaired ones.
			value = strings.Trim(strings.TrimSpace(value), `"' `)
			return media, strings.ToLower(value)
		}
	}
	return media, ""
}
