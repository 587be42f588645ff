package sink

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/treadlight/crawl/internal/fetch"
	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Record is what became of one URL. Zero fields mean that there is nothing to say,
// and most of them are left out of the line. Strings may hold anything; what is not
// UTF-8 is written as U+FFFD.
type Record struct {
	// URL is canonical, as are all URLs in a record but Meta.OGImage.
	URL string `json:"url"`
	// Kind is what was asked for: "page", "robots" or "sitemap".
	Kind string `json:"kind"`
	// ID names what was asked for within a job, the same whoever asks: see [ID]. Empty of a
	// crawl that is no job.
	ID string `json:"id,omitempty"`
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
	// IgnoredCodings are the names in Content-Encoding that are no content coding, such as
	// "none" or "utf-8", separated by ", ": the body was read as if they were not there.
	IgnoredCodings string `json:"ignored_codings,omitempty"`
	// Bytes is the size of the body decompressed, WireBytes as it was sent.
	Bytes     int64 `json:"bytes"`
	WireBytes int64 `json:"wire_bytes"`
	// Truncated says that not all of the page was read: that the body was cut off at the limit,
	// and Digest, Links and Text are of what was read, or that the page had more elements or
	// took longer to read than one may.
	Truncated bool   `json:"truncated,omitempty"`
	Digest    string `json:"digest,omitempty"`
	// Change is "new", "changed", "unchanged" or "gone" in a later round of a crawl: how the
	// page differs from what rounds before have found. Empty if nothing is known of that.
	Change string `json:"change,omitempty"`
	// SimHash is the fingerprint of the text, 64 bits in hex digits; see package neardup.
	SimHash string `json:"simhash,omitempty"`
	// Duplicate is "exact" or "near" if the page repeats DuplicateOf.
	Duplicate   string `json:"duplicate,omitempty"`
	DuplicateOf string `json:"duplicate_of,omitempty"`
	Title       string `json:"title,omitempty"`
	Lang        string `json:"lang,omitempty"`
	Meta        Meta   `json:"meta,omitzero"`
	// Sitemap is nil unless the answer is a sitemap or a feed.
	Sitemap *Sitemap `json:"sitemap,omitempty"`
	// Directives is what the page and its header say to robots: "noindex", "max-snippet:20".
	Directives []string `json:"directives,omitempty"`
	// Alternates are other forms of the page, at most 100, Next and Prev its neighbours in a
	// series, as it names them itself.
	Alternates []Alternate `json:"alternates,omitempty"`
	Next       string      `json:"next,omitempty"`
	Prev       string      `json:"prev,omitempty"`
	// Links and Resources are in the order of the page, each URL once.
	Links     []string `json:"links,omitempty"`
	Resources []string `json:"resources,omitempty"`
	// NofollowLinks are those of Links that the page asks crawlers not to follow.
	NofollowLinks []string `json:"nofollow_links,omitempty"`
	Text          string   `json:"text,omitempty"`
	// Fields are what the user's rules took out of the page, in their order; FieldsError is
	// what was cut or could not be run.
	Fields      Named  `json:"fields,omitempty"`
	FieldsError string `json:"fields_error,omitempty"`
	// Properties are those of Open Graph and Twitter, JSONLD the blocks of that name, as the
	// page has them but for space. InvalidJSONLD counts blocks that are no JSON.
	Properties    Named             `json:"properties,omitempty"`
	JSONLD        []json.RawMessage `json:"json_ld,omitempty"`
	InvalidJSONLD int               `json:"json_ld_invalid,omitempty"`
	// MainText is Text without navigation, asides and footers, as far as can be told.
	MainText string `json:"main_text,omitempty"`
	// Body is the body, its content codings undone, if it is UTF-8 whatever Charset says;
	// BodyBase64 is any other. Both are empty unless bodies are wanted.
	Body       string  `json:"body,omitempty"`
	BodyBase64 []byte  `json:"body_base64,omitempty"`
	Timings    Timings `json:"timings_ms,omitzero"`
	// RemoteAddr is the IP address and port that answered, Proto what it spoke.
	RemoteAddr string `json:"remote_addr,omitempty"`
	Proto      string `json:"proto,omitempty"`
	// Error is nil if the answer is whole, whatever its status.
	Error *Error `json:"error,omitempty"`
	// Exchange is what was sent and what came, byte by byte, if the crawl has archives.
	// Lines do not have it.
	Exchange *fetch.Capture `json:"-"`
	// SameAs is when the request was sent whose answer a 304 stands for, if that is known.
	// Lines do not have it.
	SameAs time.Time `json:"-"`
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

// Sitemap is what a sitemap or a feed was. Links of a record of kind "sitemap" are counted
// here and not listed: there may be 50,000.
type Sitemap struct {
	// Format is urlset, sitemapindex, rss, atom or text.
	Format string `json:"format"`
	// URLs, Sitemaps and Extras are how many pages, other sitemaps, and alternates and media
	// it names; Dropped how many it has beyond the bounds.
	URLs     int `json:"urls"`
	Sitemaps int `json:"sitemaps,omitempty"`
	Extras   int `json:"extras,omitempty"`
	Dropped  int `json:"dropped,omitempty"`
	// Problems are how many things were wrong with it, and Problem is the first in words.
	Problems int    `json:"problems,omitempty"`
	Problem  string `json:"problem,omitempty"`
	// LastModified is the latest date in it. Zero: it has none.
	LastModified time.Time `json:"last_modified,omitzero"`
}

// Alternate is another form of a page. Package extract's Alternate converts to it.
type Alternate struct {
	Href     string `json:"href"`
	HrefLang string `json:"hreflang,omitempty"`
	Type     string `json:"type,omitempty"`
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
		{"id", "string", "", false, "of a job that several processes share: the same for a URL whoever fetches it, 32 hex digits"},
		{"status", "number", "", false, "HTTP status; none if there was no answer"},
		{"depth", "number", "links", true, "links away from a seed; 0 is a seed"},
		{"referrer", "string", "", false, "the page that had the link, or the redirect"},
		{"fetched_at", "string", "RFC 3339, UTC", true, "when the request was sent"},
		{"attempt", "number", "requests", true, "which try this is, from 1; 0 if none was made"},
		{"redirect_to", "string", "", false, "the canonical URL that a redirect names"},
		{"content_type", "string", "", false, "media type without parameters"},
		{"charset", "string", "", false, "the encoding that the page was read in"},
		{"ignored_codings", "string", "", false, "names in Content-Encoding that are no content coding, and were ignored: none, utf-8"},
		{"bytes", "number", "bytes", true, "size of the body, decompressed"},
		{"wire_bytes", "number", "bytes", true, "size of the body as it was sent"},
		{"truncated", "boolean", "", false, "true if not all of the page was read: its body is longer than max_body, or it has more than extract.max_elements or takes longer than extract.max_time; the record has what was read"},
		{"digest", "string", "", false, `hash of the decompressed body: "sha256:" and 64 hex digits`},
		{"change", "string", "", false, "against earlier rounds of the crawl: new, changed, unchanged or gone"},
		{"simhash", "string", "", false, "fingerprint of the text, 16 hex digits: pages that say nearly the same differ in few bits"},
		{"duplicate", "string", "", false, "exact if the page repeats another one byte by byte, near if in nearly all it says"},
		{"duplicate_of", "string", "", false, "the first page that it repeats"},
		{"title", "string", "", false, "the title element, at most 1 KiB"},
		{"lang", "string", "", false, "language of the page by its html element, or else by its header"},
		{"meta", "object", "", false, "what the page says about itself"},
		{"meta.description", "string", "", false, "meta description"},
		{"meta.robots", "string", "", false, `meta robots; several are joined by ", "`},
		{"meta.generator", "string", "", false, "meta generator"},
		{"meta.canonical", "string", "", false, "link rel=canonical, resolved"},
		{"meta.og_title", "string", "", false, "Open Graph title"},
		{"meta.og_type", "string", "", false, "Open Graph type"},
		{"meta.og_image", "string", "", false, "Open Graph image, as written"},
		{"sitemap", "object", "", false, "what a sitemap or a feed is"},
		{"sitemap.format", "string", "", true, "urlset, sitemapindex, rss, atom or text"},
		{"sitemap.urls", "number", "", true, "pages it names"},
		{"sitemap.sitemaps", "number", "", false, "sitemaps it names"},
		{"sitemap.extras", "number", "", false, "alternates, images and other media it names"},
		{"sitemap.dropped", "number", "", false, "what it names beyond the bounds of the protocol, and was left out"},
		{"sitemap.problems", "number", "", false, "things that are wrong with it"},
		{"sitemap.problem", "string", "", false, "the first of them in words, with its line"},
		{"sitemap.last_modified", "string", "RFC 3339, UTC", false, "the latest date in it"},
		{"directives", "array of strings", "", false, "what it says to robots, in meta robots and X-Robots-Tag: noindex"},
		{"alternates", "array of objects", "", false, "other forms of the page that it names, at most 100"},
		{"alternates.href", "string", "", true, "canonical URL of one"},
		{"alternates.hreflang", "string", "", false, "its language"},
		{"alternates.type", "string", "", false, "its media type"},
		{"next", "string", "", false, "canonical URL of the next page of a series"},
		{"prev", "string", "", false, "canonical URL of the page before"},
		{"links", "array of strings", "", false, "canonical URLs of pages it links to, in order"},
		{"resources", "array of strings", "", false, "canonical URLs of images, scripts, styles and media"},
		{"nofollow_links", "array of strings", "", false, "those of links that the page asks crawlers not to follow"},
		{"text", "string", "", false, "the page's text, a line per block"},
		{"fields", "object", "", false, "values taken by extract.fields: a text or number each, an array where a rule says all"},
		{"fields_error", "string", "", false, "what of them was cut or could not be had"},
		{"properties", "object", "", false, "Open Graph and Twitter metadata by name: a text, or an array if it comes several times"},
		{"json_ld", "array of objects", "", false, "JSON-LD blocks, as JSON"},
		{"json_ld_invalid", "number", "blocks", false, "JSON-LD blocks that are no JSON, and were left out"},
		{"main_text", "string", "", false, "the text without navigation, asides and footers, a line per block"},
		{"body", "string", "", false, "the body, decompressed, if it is UTF-8; only if bodies are wanted"},
		{"body_base64", "string", "", false, "the body in base64 if it is not UTF-8"},
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

// ErrorClass is the class of the record's error, empty if it has none.
func (r *Record) ErrorClass() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Class
}

// Counts is what a record counts as wherever a crawl is summed up: while it runs, at its end,
// and by 'crawl report'. A page has a 2xx status. An error is a URL with a status of 400 and
// above, one without an answer, and one of which the answer could not be used. One whose body
// broke off is both. A redirect is neither, nor are robots.txt, sitemaps, and what was left out
// on purpose.
func Counts(kind string, status int, class string) (page, failed bool) {
	switch {
	case kind == "sitemap" || kind == "robots", slices.Contains(leftOut, class):
		return false, false
	}
	return status/100 == 2, class != "" || status >= 400
}

// leftOut are the classes of errors of URLs that robots.txt or the settings keep out.
var leftOut = []string{outcome.Filtered.String(), "robots", "trap", "host_pages", "excluded", "not_included"}

// ID is the name of a record among all of a job: the first 16 bytes, in hex digits, of the
// SHA-256 of the job's name, the kind and the canonical URL, with a zero byte behind each of the
// first two. So whoever fetches the URL, and however often, it is the same, and whoever stores
// records by it has each URL once. It may be computed by others, and is no secret.
func ID(job, kind, url string) string {
	buf := make([]byte, 0, 256) // of the usual lengths all stays on the stack
	buf = append(append(buf, job...), 0)
	buf = append(append(buf, kind...), 0)
	sum := sha256.Sum256(append(buf, url...))
	var text [32]byte
	hex.Encode(text[:], sum[:16])
	return string(text[:])
}
