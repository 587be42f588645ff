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
	"github.com/treadlight/crawl/internal/web/extract"
)

// Record is what became of one URL. Zero fields mean that there is nothing to say, and most of them are left out of
// the line. Strings may hold anything; what is not UTF-8 is written as U+FFFD.
type Record struct {
	URL            string            `json:"url" doc:"the canonical URL"`
	Kind           string            `json:"kind" doc:"what was asked for: page, robots or sitemap"`
	Method         string            `json:"method,omitempty" doc:"HTTP method of the request if a program asked by another one than GET"`
	ID             string            `json:"id,omitempty" doc:"of a job that several processes share: the same for a URL whoever fetches it, 32 hex digits"`
	Status         int               `json:"status,omitempty" doc:"HTTP status; none if there was no answer"`
	Depth          int               `json:"depth" unit:"links" doc:"links away from a seed; 0 is a seed"`
	Referrer       string            `json:"referrer,omitempty" doc:"the page that had the link, or the redirect"`
	FetchedAt      time.Time         `json:"fetched_at" doc:"when the request was sent"`
	Attempt        int               `json:"attempt" unit:"requests" doc:"which try this is, from 1; 0 if none was made"`
	RedirectTo     string            `json:"redirect_to,omitempty" doc:"the canonical URL that a redirect names"`
	ContentType    string            `json:"content_type,omitempty" doc:"media type without parameters"`
	Charset        string            `json:"charset,omitempty" doc:"the encoding that the page was read in"`
	IgnoredCodings string            `json:"ignored_codings,omitempty" doc:"names in Content-Encoding that are no content coding, and were ignored: none, utf-8"`
	Bytes          int64             `json:"bytes" unit:"bytes" doc:"size of the body, decompressed"`
	WireBytes      int64             `json:"wire_bytes" unit:"bytes" doc:"size of the body as it was sent"`
	Truncated      bool              `json:"truncated,omitempty" doc:"true if not all of the page was read: its body is longer than max_body, or it has more than extract.max_elements or takes longer than extract.max_time; the record has what was read"`
	Digest         string            `json:"digest,omitempty" doc:"hash of the decompressed body: \"sha256:\" and 64 hex digits"`
	Change         string            `json:"change,omitempty" doc:"against earlier rounds of the crawl: new, changed, unchanged or gone"`
	SimHash        string            `json:"simhash,omitempty" doc:"fingerprint of the text, 16 hex digits: pages that say nearly the same differ in few bits"`
	Duplicate      string            `json:"duplicate,omitempty" doc:"exact if the page repeats another one byte by byte, near if in nearly all it says"`
	DuplicateOf    string            `json:"duplicate_of,omitempty" doc:"the first page that it repeats"`
	Title          string            `json:"title,omitempty" doc:"the title element, at most 1 KiB"`
	Lang           string            `json:"lang,omitempty" doc:"language of the page by its html element, or else by its header"`
	Meta           Meta              `json:"meta,omitzero" doc:"what the page says about itself"`
	Sitemap        *Sitemap          `json:"sitemap,omitempty" doc:"what a sitemap or a feed is"`
	Directives     []string          `json:"directives,omitempty" doc:"what it says to robots, in meta robots and X-Robots-Tag: noindex"`
	Alternates     []Alternate       `json:"alternates,omitempty" doc:"other forms of the page that it names, at most 100"`
	Next           string            `json:"next,omitempty" doc:"canonical URL of the next page of a series"`
	Prev           string            `json:"prev,omitempty" doc:"canonical URL of the page before"`
	Links          []string          `json:"links,omitempty" doc:"canonical URLs of pages it links to, in order"`
	Resources      []string          `json:"resources,omitempty" doc:"canonical URLs of images, scripts, styles and media"`
	NofollowLinks  []string          `json:"nofollow_links,omitempty" doc:"those of links that the page asks crawlers not to follow"`
	Text           string            `json:"text,omitempty" doc:"the page's text, a line per block"`
	Fields         Named             `json:"fields,omitempty" doc:"values taken by extract.fields: a text or number each, an array where a rule says all"`
	FieldsError    string            `json:"fields_error,omitempty" doc:"what of them was cut or could not be had"`
	Properties     Named             `json:"properties,omitempty" doc:"Open Graph and Twitter metadata by name: a text, or an array if it comes several times"`
	JSONLD         []json.RawMessage `json:"json_ld,omitempty" doc:"JSON-LD blocks, as JSON"`
	InvalidJSONLD  int               `json:"json_ld_invalid,omitempty" unit:"blocks" doc:"JSON-LD blocks that are no JSON, and were left out"`
	MainText       string            `json:"main_text,omitempty" doc:"the text without navigation, asides and footers, a line per block"`
	Body           string            `json:"body,omitempty" doc:"the body, decompressed, if it is UTF-8; only if bodies are wanted"`
	BodyBase64     []byte            `json:"body_base64,omitempty" doc:"the body in base64 if it is not UTF-8"`
	Timings        Timings           `json:"timings_ms,omitzero" unit:"ms" doc:"where the time went; what took none is left out"`
	RemoteAddr     string            `json:"remote_addr,omitempty" doc:"IP address and port that answered"`
	Proto          string            `json:"proto,omitempty" doc:"HTTP/1.1 or HTTP/2.0"`
	Error          *Error            `json:"error,omitempty" doc:"why there is no answer, or not the whole of it"`
	// Exchange is what was sent and what came, byte by byte, if the crawl has archives. SameAs is when the request
	// was sent whose answer a 304 stands for, if that is known. Lines have neither.
	Exchange *fetch.Capture `json:"-"`
	SameAs   time.Time      `json:"-"`
	// Items are what handlers emitted, for an [ItemSink].
	Items []Item `json:"-"`
}

// Meta is what a page says about itself.
type Meta = extract.Meta

// Alternate is another form of a page.
type Alternate = extract.Alternate

// Sitemap is what a sitemap or a feed was. Links of a record of kind "sitemap" are counted here and not listed: there
// may be 50,000.
type Sitemap struct {
	Format       string    `json:"format" doc:"urlset, sitemapindex, rss, atom or text"`
	URLs         int       `json:"urls" doc:"pages it names"`
	Sitemaps     int       `json:"sitemaps,omitempty" doc:"sitemaps it names"`
	Extras       int       `json:"extras,omitempty" doc:"alternates, images and other media it names"`
	Dropped      int       `json:"dropped,omitempty" doc:"what it names beyond the bounds of the protocol, and was left out"`
	Problems     int       `json:"problems,omitempty" doc:"things that are wrong with it"`
	Problem      string    `json:"problem,omitempty" doc:"the first of them in words, with its line"`
	LastModified time.Time `json:"last_modified,omitzero" doc:"the latest date in it"`
}

// Error is why a URL has no answer, or not the whole of it. Class is one of a small set of names, to count by;
// Message is for people and may change.
type Error struct {
	Class   string `json:"class" doc:"kind of error, to count by"`
	Message string `json:"message" doc:"the error in words"`
}

// Timings is where the time went. In JSON they are milliseconds, to the microsecond. Negative ones, which a clock
// that was set can make, count as zero.
type Timings struct {
	Queue      time.Duration `json:"queue" doc:"in the frontier"`
	PermitWait time.Duration `json:"permit_wait" doc:"for the rate limiter"`
	DNS        time.Duration `json:"dns" doc:"name lookup"`
	Connect    time.Duration `json:"connect" doc:"TCP connection"`
	TLS        time.Duration `json:"tls" doc:"TLS handshake"`
	FirstByte  time.Duration `json:"first_byte" doc:"from the request sent to the first byte of the answer"`
	Body       time.Duration `json:"body" doc:"from the first byte to the last"`
	Total      time.Duration `json:"total" doc:"the whole request"`
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

// ErrorClass is the class of the record's error, empty if it has none.
func (r *Record) ErrorClass() string {
	if r.Error == nil {
		return ""
	}
	return r.Error.Class
}

// Counts is how a record counts in all sums of a crawl. A page has a 2xx status. An error has a status of 400 and
// above, no answer, or an unusable one; a page whose body broke off is both. Redirects, robots.txt, sitemaps and what
// was left out on purpose are neither.
func Counts(kind string, status int, class string) (page, failed bool) {
	if kind == "sitemap" || kind == "robots" || slices.Contains(uncountedClasses, class) {
		return false, false
	}
	return status/100 == 2, class != "" || status >= 400
}

// uncountedClasses are the classes of errors of URLs that robots.txt or the settings keep out.
var uncountedClasses = []string{outcome.Filtered.String(), "robots", "trap", "host_pages", "excluded", "not_included"}

// ID names a record within a job: the first 16 bytes, in hex, of the SHA-256 of the job's name, the kind and the
// canonical URL, with a zero byte behind each of the first two. It is the same for every fetch, and no secret.
func ID(job, kind, url string) string {
	sum := sha256.Sum256([]byte(job + "\x00" + kind + "\x00" + url))
	return hex.EncodeToString(sum[:16])
}
