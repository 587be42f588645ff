package sink

import (
	"encoding/json"
	"math"
	"time"
)

// Record is what became of one URL. Zero fields mean that there is nothing to say,
// and most of them are left out of the line. Strings may hold anything; what is not
// UTF-8 is written as U+FFFD.
type Record struct {
	// URL is canonical, as are all URLs in a record but Meta.OGImage.
	URL string `json:"url"`
	// Kind is what was asked for: "page", "robots" or "sitemap".
	Kind string `json:"kind"`
	// Status is the HTTP status, or 0 if there was no answer: see Error.
	Status int `json:"status,omitempty"`
	// Depth counts links from a seed, which has 0. Redirects do not count.
	Depth    int    `json:"depth"`
	Referrer string `json:"referrer,omitempty"`
	// FetchedAt is when the request was sent. It is written in UTC and cut to the
	// millisecond.
	FetchedAt time.Time `json:"fetched_at"`
	// Attempt counts the requests for this URL, this one included. 0 is none.
	Attempt    int    `json:"attempt"`
	RedirectTo string `json:"redirect_to,omitempty"`
	// ContentType is the media type without parameters; Charset is what the page was
	// read in, which need not be what the server said.
	ContentType string `json:"content_type,omitempty"`
	Charset     string `json:"charset,omitempty"`
	// Bytes is the size of the body decompressed, WireBytes as it was sent.
	Bytes     int64 `json:"bytes"`
	WireBytes int64 `json:"wire_bytes"`
	// Truncated says that the body was cut off at the limit, and that Digest, Links
	// and Text are of what was read.
	Truncated bool   `json:"truncated,omitempty"`
	Digest    string `json:"digest,omitempty"`
	Title     string `json:"title,omitempty"`
	Lang      string `json:"lang,omitempty"`
	Meta      Meta   `json:"meta,omitzero"`
	// Links and Resources are in the order of the page, each URL once.
	Links     []string `json:"links,omitempty"`
	Resources []string `json:"resources,omitempty"`
	Text      string   `json:"text,omitempty"`
	Timings   Timings  `json:"timings_ms,omitzero"`
	// RemoteAddr is the IP address and port that answered, Proto what it spoke.
	RemoteAddr string `json:"remote_addr,omitempty"`
	Proto      string `json:"proto,omitempty"`
	// Error is nil if the answer is whole, whatever its status.
	Error *Error `json:"error,omitempty"`
}

// Meta is what a page says about itself. Package extract's Meta converts to it.
type Meta struct {
	Description string `json:"description,omitempty"`
	Robots      string `json:"robots,omitempty"`
	Generator   string `json:"generator,omitempty"`
	Canonical   string `json:"canonical,omitempty"`
	OGTitle     string `json:"og_title,omitempty"`
	OGType      string `json:"og_type,omitempty"`
	OGImage     string `json:"og_image,omitempty"`
}

// Error is why a URL has no answer, or not the whole of it. Class is one of a small
// set of names, to count by; Message is for people and may change.
type Error struct {
	Class   string `json:"class"`
	Message string `json:"message"`
}

// Timings is where the time went. In JSON they are milliseconds, to the microsecond.
// Negative ones, which a clock that was set can make, count as zero.
type Timings struct {
	Queue, PermitWait, DNS, Connect, TLS, FirstByte, Body, Total time.Duration
}

// timingNames are the fields in JSON, in the order of all.
var timingNames = [...]string{"queue", "permit_wait", "dns", "connect", "tls", "first_byte", "body", "total"}

// all is the fields in order.
func (t *Timings) all() [len(timingNames)]*time.Duration {
	return [...]*time.Duration{&t.Queue, &t.PermitWait, &t.DNS, &t.Connect, &t.TLS, &t.FirstByte, &t.Body, &t.Total}
}

// MarshalJSON writes what a record has, for those who encode one by reflection.
func (t Timings) MarshalJSON() ([]byte, error) { return appendTimings(nil, &t), nil }

// UnmarshalJSON reads milliseconds.
func (t *Timings) UnmarshalJSON(data []byte) error {
	var ms map[string]float64
	if err := json.Unmarshal(data, &ms); err != nil {
		return err
	}
	*t = Timings{}
	for i, d := range t.all() {
		*d = time.Duration(math.Round(ms[timingNames[i]]*1000)) * time.Microsecond
	}
	return nil
}

// Field describes one field of a JSON line.
type Field struct {
	Name    string // with the name of the object in front: "error.class"
	Type    string // as JSON has it
	Unit    string // empty if it has none
	Always  bool   // there even if empty
	Meaning string
}

// Schema is every field of a JSON line, in the order in which they are written. It is
// what documentation and "crawl config" print, so that none of them goes out of date:
// a test walks over the struct tags and misses nothing. The slice is the caller's.
func Schema() []Field {
	return []Field{
		{"url", "string", "", true, "the canonical URL"},
		{"kind", "string", "", true, "what was asked for: page, robots or sitemap"},
		{"status", "number", "", false, "HTTP status; none if there was no answer"},
		{"depth", "number", "links", true, "links away from a seed; 0 is a seed"},
		{"referrer", "string", "", false, "the page that had the link, or the redirect"},
		{"fetched_at", "string", "RFC 3339, UTC", true, "when the request was sent"},
		{"attempt", "number", "requests", true, "which try this is, from 1; 0 if none was made"},
		{"redirect_to", "string", "", false, "the canonical URL that a redirect names"},
		{"content_type", "string", "", false, "media type without parameters"},
		{"charset", "string", "", false, "the encoding that the page was read in"},
		{"bytes", "number", "bytes", true, "size of the body, decompressed"},
		{"wire_bytes", "number", "bytes", true, "size of the body as it was sent"},
		{"truncated", "boolean", "", false, "true if the body was cut off at the limit"},
		{"digest", "string", "", false, `hash of the decompressed body: "sha256:" and 64 hex digits`},
		{"title", "string", "", false, "the title element, at most 1 KiB"},
		{"lang", "string", "", false, "the lang attribute of the html element"},
		{"meta", "object", "", false, "what the page says about itself"},
		{"meta.description", "string", "", false, "meta description"},
		{"meta.robots", "string", "", false, `meta robots; several are joined by ", "`},
		{"meta.generator", "string", "", false, "meta generator"},
		{"meta.canonical", "string", "", false, "link rel=canonical, resolved"},
		{"meta.og_title", "string", "", false, "Open Graph title"},
		{"meta.og_type", "string", "", false, "Open Graph type"},
		{"meta.og_image", "string", "", false, "Open Graph image, as written"},
		{"links", "array of strings", "", false, "canonical URLs of pages it links to, in order"},
		{"resources", "array of strings", "", false, "canonical URLs of images, scripts, styles and media"},
		{"text", "string", "", false, "the page's text, a line per block"},
		{"timings_ms", "object", "ms", false, "where the time went; what took none is left out"},
		{"timings_ms.queue", "number", "ms", false, "in the frontier"},
		{"timings_ms.permit_wait", "number", "ms", false, "for the rate limiter"},
		{"timings_ms.dns", "number", "ms", false, "name lookup"},
		{"timings_ms.connect", "number", "ms", false, "TCP connection"},
		{"timings_ms.tls", "number", "ms", false, "TLS handshake"},
		{"timings_ms.first_byte", "number", "ms", false, "from the request sent to the first byte of the answer"},
		{"timings_ms.body", "number", "ms", false, "from the first byte to the last"},
		{"timings_ms.total", "number", "ms", false, "the whole request"},
		{"remote_addr", "string", "", false, "IP address and port that answered"},
		{"proto", "string", "", false, "HTTP/1.1 or HTTP/2.0"},
		{"error", "object", "", false, "why there is no answer, or not the whole of it"},
		{"error.class", "string", "", true, "kind of error, to count by"},
		{"error.message", "string", "", true, "the error in words"},
	}
}
