// Package record has what a crawl writes: a [Record] of each URL that it visited, and the [Sink] that takes them.
//
// A sink of one's own has three methods:
//
//	type counter struct{ pages int }
//
//	func (c *counter) Write(r *record.Record) error { c.pages++; return nil }
//	func (c *counter) Flush() error                 { return nil }
//	func (c *counter) Close() error                 { return nil }
//
// It is given to a crawl in crawl.Options.Sinks. One that is [Durable] as well gets each record exactly once over
// crashes; an [ItemSink] takes what handlers emit. [Record.AppendJSON] is the line that the command writes.
package record

import (
	"encoding/json"
	"time"
)

// Record is what became of one URL. Zero fields mean that there is nothing to say, and most of them are left out of
// the JSON. Strings may hold whatever a server sent, also what is not UTF-8; in JSON that is U+FFFD.
type Record struct {
	// The canonical URL.
	URL string `json:"url"`
	// What was asked for: page, robots or sitemap.
	Kind string `json:"kind"`
	// HTTP method of the request if a program asked by another one than GET; empty: GET.
	Method string `json:"method,omitempty"`
	// Of a job that several processes share: the same for a URL whoever fetches it, 32 hex digits.
	ID string `json:"id,omitempty"`
	// HTTP status; zero (left out) if there was no answer.
	Status int `json:"status,omitempty"`
	// Links away from a seed; 0 is a seed.
	Depth int `json:"depth" unit:"links"`
	// The page that had the link, or the redirect; empty for a seed.
	Referrer string `json:"referrer,omitempty"`
	// When the request was sent.
	FetchedAt time.Time `json:"fetched_at"`
	// Which try this is, from 1; 0 if none was made.
	Attempt int `json:"attempt" unit:"requests"`
	// The canonical URL that a redirect names.
	RedirectTo string `json:"redirect_to,omitempty"`
	// Media type without parameters, in lower case.
	ContentType string `json:"content_type,omitempty"`
	// The encoding that the page was read in; empty if it was not read as text.
	Charset string `json:"charset,omitempty"`
	// Names in Content-Encoding that are no content coding, and were ignored: none, utf-8.
	IgnoredCodings string `json:"ignored_codings,omitempty"`
	// Size of the body, decompressed.
	Bytes int64 `json:"bytes" unit:"bytes"`
	// Size of the body as it was sent.
	WireBytes int64 `json:"wire_bytes" unit:"bytes"`
	// True if not all of the page was read: its body is longer than max_body, or it has more than extract.max_elements
	// or takes longer than extract.max_time; the record has what was read.
	Truncated bool `json:"truncated,omitempty"`
	// Hash of the decompressed body: "sha256:" and 64 hex digits; empty without an answer, or if no digest is wanted.
	Digest string `json:"digest,omitempty"`
	// Against earlier rounds of the crawl: new, changed, unchanged or gone; empty in the first.
	Change string `json:"change,omitempty"`
	// Fingerprint of the text, 16 hex digits: pages that say nearly the same differ in few bits.
	SimHash string `json:"simhash,omitempty"`
	// Exact if the page repeats another one byte by byte, near if in nearly all it says.
	Duplicate string `json:"duplicate,omitempty"`
	// The first page that it repeats.
	DuplicateOf string `json:"duplicate_of,omitempty"`
	// The title element, at most 1 KiB.
	Title string `json:"title,omitempty"`
	// Language of the page by its html element, or else by its header.
	Lang string `json:"lang,omitempty"`
	// What the page says about itself.
	Meta Meta `json:"meta,omitzero"`
	// What a sitemap or a feed is; nil (left out) for others.
	Sitemap *Sitemap `json:"sitemap,omitempty"`
	// What it says to robots, in meta robots and X-Robots-Tag: noindex.
	Directives []string `json:"directives,omitempty"`
	// Other forms of the page that it names, at most 100.
	Alternates []Alternate `json:"alternates,omitempty"`
	// Canonical URL of the next page of a series.
	Next string `json:"next,omitempty"`
	// Canonical URL of the page before.
	Prev string `json:"prev,omitempty"`
	// Canonical URLs of pages it links to, in order.
	Links []string `json:"links,omitempty"`
	// Canonical URLs of images, scripts, styles and media; empty unless scope.resources has the crawl follow them.
	Resources []string `json:"resources,omitempty"`
	// Those of links that the page asks crawlers not to follow.
	NofollowLinks []string `json:"nofollow_links,omitempty"`
	// The page's text, a line per block; only if texts are wanted.
	Text string `json:"text,omitempty"`
	// Values taken by extract.fields: a text or number each, an array where a rule says all.
	Fields Named `json:"fields,omitempty"`
	// What of them was cut or could not be had.
	FieldsError string `json:"fields_error,omitempty"`
	// Open Graph and Twitter metadata by name: a text, or an array if it comes several times; only if metadata is wanted.
	Properties Named `json:"properties,omitempty"`
	// JSON-LD blocks, as JSON; only if metadata is wanted.
	JSONLD []json.RawMessage `json:"json_ld,omitempty"`
	// JSON-LD blocks that are no JSON, and were left out.
	InvalidJSONLD int `json:"json_ld_invalid,omitempty" unit:"blocks"`
	// The text without navigation, asides and footers, a line per block; only if it is wanted.
	MainText string `json:"main_text,omitempty"`
	// Markdown is the main text as a file of Markdown, with title, URL, author and date at its head; only if it is wanted.
	Markdown string `json:"markdown,omitempty"`
	// The body, decompressed, if it is UTF-8; only if bodies are wanted.
	Body string `json:"body,omitempty"`
	// The body in base64 if it is not UTF-8.
	BodyBase64 []byte `json:"body_base64,omitempty"`
	// What a browser did with the page; nil (left out) if none had it.
	Rendered *Rendered `json:"rendered,omitempty"`
	// Where the time went; what took none is left out.
	Timings Timings `json:"timings_ms,omitzero" unit:"ms"`
	// IP address and port that answered.
	RemoteAddr string `json:"remote_addr,omitempty"`
	// HTTP/1.1 or HTTP/2.0.
	Proto string `json:"proto,omitempty"`
	// Why there is no answer, or not the whole of it; nil (left out) if the answer is whole, whatever its status.
	Error *Error `json:"error,omitempty"`

	// Exchange is what was sent and what came, byte by byte, if the crawl has archives. Nil otherwise, and in JSON.
	Exchange *Exchange `json:"-"`
	// SameAs is when the request was sent whose answer a 304 stands for; zero if that is not known, and in JSON.
	SameAs time.Time `json:"-"`
	// Items are what handlers emitted, for an [ItemSink].
	Items []Item `json:"-"`
}

// Meta is the metadata of a page. Each field is the first of its name, with space collapsed, at most 1 KiB.
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

// Alternate is another form of a page: a translation, a feed, a printable one.
type Alternate struct {
	// Canonical URL of one.
	Href string `json:"href"`
	// Its language, as written, at most 1 KiB.
	HrefLang string `json:"hreflang,omitempty"`
	// Its media type, in lower case.
	Type string `json:"type,omitempty"`
}

// Sitemap is what a sitemap or a feed was. Links of a record of kind "sitemap" are counted here and not listed: there
// may be 50,000.
type Sitemap struct {
	// One of urlset, sitemapindex, rss, atom or text.
	Format string `json:"format"`
	// Pages it names.
	URLs int `json:"urls"`
	// Sitemaps it names.
	Sitemaps int `json:"sitemaps,omitempty"`
	// Alternates, images and other media it names.
	Extras int `json:"extras,omitempty"`
	// What it names beyond the bounds of the protocol, and was left out.
	Dropped int `json:"dropped,omitempty"`
	// Things that are wrong with it.
	Problems int `json:"problems,omitempty"`
	// The first of them in words, with its line.
	Problem string `json:"problem,omitempty"`
	// The latest date in it.
	LastModified time.Time `json:"last_modified,omitzero"`
}

// Rendered is what a browser did with a page. Links, text and fields of its record are those of the rendered page; size and
// digest are those of what was fetched.
type Rendered struct {
	// Why it was rendered: always, learned, app_root, template, noscript, little_text or controls.
	Why string `json:"why"`
	// Requests that the page made and that were answered.
	Requests int `json:"requests,omitempty" unit:"requests"`
	// Requests that it did not get: out of scope, against robots.txt, of a kind that is left out.
	Refused int `json:"refused,omitempty" unit:"requests"`
	// The file of its picture.
	Screenshot string `json:"screenshot,omitempty"`
	// The file of its print.
	PDF string `json:"pdf,omitempty"`
}

// Error is why a URL has no answer, or not the whole of it.
type Error struct {
	// Kind of error, one of a small set of names, to count by.
	Class string `json:"class"`
	// The error in words, for people; they may change.
	Message string `json:"message"`
}

// ErrorClass is the class of the record's error, empty if it has none.
func (r *Record) ErrorClass() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Class
}

// Timings is where the time went. In JSON they are milliseconds, to the microsecond. Negative ones, which a clock
// that was set can make, count as zero.
type Timings struct {
	// In the frontier.
	Queue time.Duration `json:"queue"`
	// For the rate limiter.
	PermitWait time.Duration `json:"permit_wait"`
	// Name lookup.
	DNS time.Duration `json:"dns"`
	// TCP connection.
	Connect time.Duration `json:"connect"`
	// TLS handshake.
	TLS time.Duration `json:"tls"`
	// From the request sent to the first byte of the answer.
	FirstByte time.Duration `json:"first_byte"`
	// From the first byte to the last.
	Body time.Duration `json:"body"`
	// The whole request.
	Total time.Duration `json:"total"`
	// In a browser and in line for one, with what the page asked for.
	Render time.Duration `json:"render"`
}

// Exchange is one request and its response, for an archive. Of HTTP/1.1 it has the bytes above TLS; of a request to a
// proxy what the host would get, without the whole URL and the proxy's credentials. Of HTTP/2 it has HTTP/1.1 messages
// made of what is known: received fields sorted by name, the body without framing, nothing added.
type Exchange struct {
	// Request is the message sent, with the credentials in it.
	Request []byte
	// Response is the final message received, with the framing of chunks and the trailers. Its bound is that of the
	// encoded body plus that of the header; framing counts.
	Response []byte
	// Payload is the body without framing of chunks, its codings not undone. It may share memory with Response.
	Payload []byte
	// Truncated is why the message is incomplete, as in WARC-Truncated: "length" for a bound or filter, "time" for a
	// time limit, "disconnect" for the connection, its framing or the caller. Empty: it is whole.
	Truncated string
}

// Named is values by their names, in order. In JSON it is an object: of a name with List the value is an array, of
// others a text; with Number the values are numbers.
type Named []Values

// Values is what goes by one name.
type Values struct {
	// Name is that of the rule, or of the property.
	Name string
	// Values are as they stand in the page, white space collapsed. None: the name was not found.
	Values []string
	// List says that there may be more than one value. False: the first is the value.
	List bool
	// Number says that values are numbers as JSON writes them; one that is none is written as a text.
	Number bool
}
