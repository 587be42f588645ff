// Package record has what a crawl writes: a [Record] for each visited URL, and the [Sink] that receives them.
//
// A sink of a program has three methods:
//
//	type counter struct{ pages int }
//
//	func (c *counter) Write(r *record.Record) error { c.pages++; return nil }
//	func (c *counter) Flush() error                 { return nil }
//	func (c *counter) Close() error                 { return nil }
//
// Pass it to a crawl in crawl.Options.Sinks. A sink that is also [Durable] gets each record exactly once, even after a
// crash; an [ItemSink] receives the items that handlers emit. [Record.AppendJSON] writes the line that the command
// writes.
package record

import (
	"encoding/json"
	"time"
)

// Record is the result of one URL. Fields that have nothing to say are zero, and most of them are left out of the JSON.
// Strings may contain whatever a server sent, also invalid UTF-8, which becomes U+FFFD in JSON.
type Record struct {
	// The canonical URL.
	URL string `json:"url"`
	// What was requested: page, robots or sitemap.
	Kind string `json:"kind"`
	// Method of the request, if a program set another one than GET; empty means GET.
	Method string `json:"method,omitempty"`
	// In a job of several processes: 32 hex digits, the same for a URL whichever process fetches it.
	ID string `json:"id,omitempty"`
	// HTTP status; zero (left out) if there was no response.
	Status int `json:"status,omitempty"`
	// Links from a seed; 0 for a seed.
	Depth int `json:"depth" unit:"links"`
	// The page that linked or redirected here; empty for a seed.
	Referrer string `json:"referrer,omitempty"`
	// When the request was sent.
	FetchedAt time.Time `json:"fetched_at"`
	// Number of the request for this URL, from 1; 0 if none was sent.
	Attempt int `json:"attempt" unit:"requests"`
	// The canonical URL that a redirect leads to.
	RedirectTo string `json:"redirect_to,omitempty"`
	// Media type without parameters, in lower case.
	ContentType string `json:"content_type,omitempty"`
	// The encoding in which the page was read; empty if it was not read as text.
	Charset string `json:"charset,omitempty"`
	// Values of Content-Encoding that are no content coding and were ignored, such as none or utf-8.
	IgnoredCodings string `json:"ignored_codings,omitempty"`
	// Size of the body, decompressed.
	Bytes int64 `json:"bytes" unit:"bytes"`
	// Size of the body as it was sent.
	WireBytes int64 `json:"wire_bytes" unit:"bytes"`
	// True if only a part of the page was read, because of max_body, extract.max_elements or extract.max_time.
	Truncated bool `json:"truncated,omitempty"`
	// SHA-256 of the decompressed body, as "sha256:" and 64 hex digits; empty without a response or if digests are left
	// out.
	Digest string `json:"digest,omitempty"`
	// Compared with earlier rounds of the crawl: new, changed, unchanged or gone; empty in the first round.
	Change string `json:"change,omitempty"`
	// Fingerprint of the text, 16 hex digits: the fingerprints of nearly equal texts differ in few bits.
	SimHash string `json:"simhash,omitempty"`
	// exact if the page repeats the bytes of an earlier one, near if nearly all of its text.
	Duplicate string `json:"duplicate,omitempty"`
	// The first page that it repeats.
	DuplicateOf string `json:"duplicate_of,omitempty"`
	// The title element, at most 1 KiB.
	Title string `json:"title,omitempty"`
	// Language of the page as its html element says, or else its header.
	Lang string `json:"lang,omitempty"`
	// The page's metadata.
	Meta Meta `json:"meta,omitzero"`
	// Contents of a sitemap or a feed; nil (left out) for other pages.
	Sitemap *Sitemap `json:"sitemap,omitempty"`
	// Directives for robots in meta robots and X-Robots-Tag, such as noindex.
	Directives []string `json:"directives,omitempty"`
	// Other versions of the page that it names, at most 100.
	Alternates []Alternate `json:"alternates,omitempty"`
	// Canonical URL of the next page of a series.
	Next string `json:"next,omitempty"`
	// Canonical URL of the previous page of a series.
	Prev string `json:"prev,omitempty"`
	// Canonical URLs of the pages it links to, in order.
	Links []string `json:"links,omitempty"`
	// Canonical URLs of images, scripts, styles and media; empty unless scope.resources is set.
	Resources []string `json:"resources,omitempty"`
	// Those of the links that the page asks crawlers not to follow.
	NofollowLinks []string `json:"nofollow_links,omitempty"`
	// The page's text, one line per block, if output.record includes text.
	Text string `json:"text,omitempty"`
	// Values extracted by extract.fields: a text or a number each, an array if the rule says all.
	Fields Named `json:"fields,omitempty"`
	// What of the fields was cut or could not be read.
	FieldsError string `json:"fields_error,omitempty"`
	// Open Graph and Twitter metadata by name, an array if a name occurs several times, if output.record includes
	// metadata.
	Properties Named `json:"properties,omitempty"`
	// JSON-LD blocks, as JSON, if output.record includes metadata.
	JSONLD []json.RawMessage `json:"json_ld,omitempty"`
	// JSON-LD blocks that are not valid JSON and were left out.
	InvalidJSONLD int `json:"json_ld_invalid,omitempty" unit:"blocks"`
	// The text without navigation, asides and footers, one line per block, if output.record includes main-text.
	MainText string `json:"main_text,omitempty"`
	// The main text as Markdown, with title, URL, author and date at its head, if output.record includes markdown.
	Markdown string `json:"markdown,omitempty"`
	// The decompressed body, if it is UTF-8 and output.record includes body.
	Body string `json:"body,omitempty"`
	// The body in base64 if it is not UTF-8.
	BodyBase64 []byte `json:"body_base64,omitempty"`
	// The result of a browser; nil (left out) if the page was not rendered.
	Rendered *Rendered `json:"rendered,omitempty"`
	// How long each part of the request took; parts that did not happen are left out.
	Timings Timings `json:"timings_ms,omitzero" unit:"ms"`
	// IP address and port that answered.
	RemoteAddr string `json:"remote_addr,omitempty"`
	// HTTP/1.1 or HTTP/2.0.
	Proto string `json:"proto,omitempty"`
	// Why there is no whole response; nil (left out) if there is one, whatever its status.
	Error *Error `json:"error,omitempty"`

	// Exchange has the bytes of request and response if the crawl has archives; otherwise nil. It is not in the JSON.
	Exchange *Exchange `json:"-"`
	// SameAs is when the response was fetched that a 304 confirms; zero if that is not known. It is not in the JSON.
	SameAs time.Time `json:"-"`
	// Items are what handlers emitted, for an [ItemSink].
	Items []Item `json:"-"`
}

// Meta is the metadata of a page. If a name occurs several times, the first counts. White space is collapsed, and a
// value has at most 1 KiB.
type Meta struct {
	// Meta description.
	Description string `json:"description,omitempty"`
	// Meta robots; several are joined by ", ".
	Robots string `json:"robots,omitempty"`
	// Meta generator.
	Generator string `json:"generator,omitempty"`
	// Link rel=canonical, resolved.
	Canonical string `json:"canonical,omitempty"`
	// Open Graph title.
	OGTitle string `json:"og_title,omitempty"`
	// Open Graph type.
	OGType string `json:"og_type,omitempty"`
	// Open Graph image, as written.
	OGImage string `json:"og_image,omitempty"`
}

// Alternate is another version of a page: a translation, a feed, a version for print.
type Alternate struct {
	// Its canonical URL.
	Href string `json:"href"`
	// Its language, as written, at most 1 KiB.
	HrefLang string `json:"hreflang,omitempty"`
	// Its media type, in lower case.
	Type string `json:"type,omitempty"`
}

// Sitemap summarises a sitemap or a feed. The links of a record of kind "sitemap" are counted here and not listed, as
// there may be 50,000.
type Sitemap struct {
	// One of urlset, sitemapindex, rss, atom or text.
	Format string `json:"format"`
	// Pages it lists.
	URLs int `json:"urls"`
	// Sitemaps it lists.
	Sitemaps int `json:"sitemaps,omitempty"`
	// Alternates, images and other media it lists.
	Extras int `json:"extras,omitempty"`
	// Entries beyond the limits of the protocol, which were left out.
	Dropped int `json:"dropped,omitempty"`
	// Mistakes in it.
	Problems int `json:"problems,omitempty"`
	// The first mistake in words, with its line.
	Problem string `json:"problem,omitempty"`
	// The latest date in it.
	LastModified time.Time `json:"last_modified,omitzero"`
}

// Rendered is what a browser did with a page. Links, text and fields of the record are those of the rendered page; size
// and digest are those of the response.
type Rendered struct {
	// Why it was rendered: always, learned, app_root, template, noscript, little_text or controls.
	Why string `json:"why"`
	// Requests of the page that were answered.
	Requests int `json:"requests,omitempty" unit:"requests"`
	// Requests of the page that were refused: out of scope, forbidden by robots.txt, or of a kind that is not loaded.
	Refused int `json:"refused,omitempty" unit:"requests"`
	// File name of its screenshot.
	Screenshot string `json:"screenshot,omitempty"`
	// File name of its PDF.
	PDF string `json:"pdf,omitempty"`
}

// Error says why there is no whole response for a URL.
type Error struct {
	// Name of the kind of error, one of a small set, to count by.
	Class string `json:"class"`
	// The error in words, for people. It may change.
	Message string `json:"message"`
}

// ErrorClass is the class of the record's error; empty if it has none.
func (r *Record) ErrorClass() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Class
}

// Timings says how long each part took. In JSON they are milliseconds with up to three decimals. A negative time, after
// a change of the computer's clock, counts as zero.
type Timings struct {
	// In the frontier.
	Queue time.Duration `json:"queue"`
	// Waiting for a permit of the rate limiter.
	PermitWait time.Duration `json:"permit_wait"`
	// Name lookup.
	DNS time.Duration `json:"dns"`
	// TCP connection.
	Connect time.Duration `json:"connect"`
	// TLS handshake.
	TLS time.Duration `json:"tls"`
	// From the end of the request to the first byte of the response.
	FirstByte time.Duration `json:"first_byte"`
	// From the first byte to the last.
	Body time.Duration `json:"body"`
	// The whole request.
	Total time.Duration `json:"total"`
	// In a browser or waiting for one, with the requests of the page.
	Render time.Duration `json:"render"`
}

// Exchange is one request and its response, for an archive. For HTTP/1.1 it has the bytes above TLS; for a request
// through a proxy, the bytes that the host would get, without the full URL and the proxy's credentials. For HTTP/2 it
// has HTTP/1.1 messages with the received fields sorted by name and the body without framing.
type Exchange struct {
	// Request is the message sent, with its credentials.
	Request []byte
	// Response is the final message received, with chunk framing and trailers. Its size is at most that of the encoded
	// body plus that of the header, framing included.
	Response []byte
	// Payload is the body without chunk framing, with its content codings. It may share memory with Response.
	Payload []byte
	// Truncated is why the message is incomplete, as in WARC-Truncated: "length" for a size limit or filter, "time" for
	// a time limit, "disconnect" for the connection, its framing or the caller. Empty if it is complete.
	Truncated string
}

// Named is a list of values with names, in order. In JSON it is an object: a name with List has an array, another a
// text; with Number the values are numbers.
type Named []Values

// Values are the values of one name.
type Values struct {
	// Name is the name of the rule or property.
	Name string
	// Values are as they stand in the page, with white space collapsed. Empty if there is none.
	Values []string
	// List says that there may be several values. False: the first is the value.
	List bool
	// Number says that values are numbers, as JSON writes them; another value is written as a text.
	Number bool
}
