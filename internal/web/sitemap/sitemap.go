// Package sitemap reads the lists of URLs that sites publish for crawlers and feed readers.
//
// [Read] yields an [Entry] for each URL of a document, in order, and returns a [Summary]. It reads urlset and
// sitemapindex of the Sitemaps protocol with the extensions for images, videos and languages; RSS 0.9x, 1.0 and 2.0;
// Atom; and text with one URL per line. Each may be compressed with gzip, be in any encoding of the web, and use any
// namespace prefix. [Detect] tests whether a page is one of them, by its root element, and [Possible] whether a body is
// worth reading, by its first bytes.
//
// Broken documents are read as far as possible. Therefore the tokenizer is that of HTML: tags need not be balanced, "&"
// need not be escaped, a tag without an end stops at the next, URLs may be relative. Problems are counted, and the
// first is reported with its line. An entry is yielded when the tag after its URL was read, so that the entries of a
// truncated document are the first of the whole. The caller decides whether a sitemap may list a URL, for example one
// of another directory.
//
// At most [MaxBytes] are read, counted after decompression, and [MaxURLs] entries besides [MaxExtras] alternates and
// resources. A URL or date beyond 64 KiB is skipped; a tag or text beyond 4 MiB ends the document. Nothing is
// recursive, and of entities only the five of XML and numeric ones are expanded. Memory is a few buffers, one entry and
// the longest tag or text.
//
// All functions are safe for concurrent use.
package sitemap

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/net/html/charset"
	"golang.org/x/text/encoding"
	"golang.org/x/text/transform"

	"github.com/treadlight/crawl/internal/lazy"
	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/effort"
	"github.com/treadlight/crawl/internal/web/mediatype"
)

// The bounds of a document. The first two are those of the Sitemaps protocol.
const (
	// MaxBytes is how much of a document is read, decompressed.
	MaxBytes = 50 << 20
	// MaxURLs is how many entries of the kinds Page and Sitemap are yielded.
	MaxURLs = 50_000
	// MaxExtras is how many alternates and resources are yielded.
	MaxExtras = 4 * MaxURLs
	// maxExtras bounds the alternates and resources of one URL: Google reads a thousand images of one.
	maxExtras = 1000
	maxField  = 64 << 10 // bytes of a URL or date: eight times what the longest ones have
	maxToken  = 4 << 20  // bytes of a tag or text
	// MaxLevel is the deepest level of a sitemap: those that robots.txt names have level 0, and each index leads one
	// level deeper.
	MaxLevel = 2
)

// Format is the kind of a document.
type Format uint8

// The formats.
const (
	None   Format = iota // no sitemap or feed
	URLSet               // a sitemap
	Index                // a list of sitemaps
	RSS                  // RSS 0.9x, 1.0 or 2.0
	Atom
	Text // one URL in a line
)

var formatNames = [...]string{"none", "urlset", "sitemapindex", "rss", "atom", "text"}

func (f Format) String() string { return formatNames[f] }

// Feed reports whether it is a feed.
func (f Format) Feed() bool { return f == RSS || f == Atom }

// Rel says how an entry relates to the document.
type Rel uint8

// The relations.
const (
	Page      Rel = iota // a page of the site
	Sitemap              // another document of this kind
	Alternate            // a page in another language
	Resource             // an image, a video, an enclosure
)

// DefaultPriority is the priority of an entry that has none.
const DefaultPriority = 0.5

// Entry is one URL.
type Entry struct {
	URL canonical.URL
	// LastMod is when the page was last changed. Zero if the document does not say.
	LastMod time.Time
	// Priority is from 0 to 1, compared with the other pages of the site.
	Priority float32
	// ChangeFreq is one of the seven words of the protocol, from "always" to "never". Empty if there is none.
	ChangeFreq string
	Rel        Rel
}

// Document is a document to read. Body and Base are required.
type Document struct {
	// Body is neither changed nor kept.
	Body []byte
	// Base is the document's own URL, against which relative URLs are resolved.
	Base canonical.URL
	// Charset is the encoding from the Content-Type; may be empty.
	Charset string
	// Truncated says that the body was cut off. Then a last line without a line end is not read as a URL.
	Truncated bool
	// List allows the document to be a list of URLs without markup.
	List bool
	// Budget bounds the cost. When it is spent, the rest of the document is not read. Nil means no bound.
	Budget *effort.Budget
	// Rules are applied to each URL. Nil means none.
	Rules *canonical.Rules
}

// Summary describes a document that was read.
type Summary struct {
	// Format is None if the document is no sitemap or feed; Problem then says what it looked like.
	Format Format
	// URLs, Sitemaps, Alternates and Resources are the numbers of entries yielded, by their Rel.
	URLs, Sitemaps, Alternates, Resources int
	// Dropped is the number of entries that were read beyond a bound and not yielded.
	Dropped int
	// Bound names the bound at which reading stopped; empty if none did.
	Bound string
	// Problems is the number of things that were wrong, including invalid URLs; Problem is the first, with its line.
	Problems int
	Problem  string
	// LastMod is the latest LastMod of the entries, or zero.
	LastMod time.Time
}

// Read yields the entries of a document in order, until yield returns false. It accepts any input; what is wrong with
// it is in the Summary.
func Read(doc Document, yield func(Entry) bool) Summary {
	r := reader{doc: doc, base: doc.Base, yield: yield}
	if err := r.open(doc.Body, doc.Charset, MaxBytes); err != nil {
		r.problem("%v", err)
		return r.sum
	}
	if doc.List {
		r.lines()
	} else {
		r.markup(r.text)
	}
	if r.raw.N <= 0 {
		r.sum.Bound = fmt.Sprintf("%d bytes", MaxBytes)
	}
	if r.sum.Format == None && r.sum.Problem == "" {
		r.problem("it has neither URLs nor the root of a sitemap or feed")
	}
	return r.sum
}

// detectWithin is how much of a document Detect reads to find its root, in bytes.
const detectWithin = 8 << 10

// Detect returns the format of a page by its root element. It returns [None] for everything else, including lists in
// plain text, and whenever mediaType is that of HTML. mediaType must be without parameters.
func Detect(mediaType string, body []byte) Format {
	if mediatype.IsHTML(mediaType) {
		return None
	}
	head := body[:min(len(body), 64)]
	head = bytes.TrimLeft(bytes.TrimPrefix(head, []byte(mark)), " \t\r\n")
	if len(head) < 2 || bytes.IndexByte([]byte("<\x00\x1f\xfe\xff"), head[0]) < 0 {
		return None
	}
	r := reader{strict: true}
	if r.open(body, "", detectWithin) != nil {
		return None
	}
	r.markup(r.text)
	return r.sum.Format
}

// Possible reports whether a document that begins with head may be a sitemap, a feed or a list of URLs. It is false for
// an HTML page, for other media, and for text without markup and URLs.
func Possible(head []byte) bool {
	r := reader{strict: true}
	if r.open(head, "", MaxBytes) != nil {
		return false
	}
	text, _ := r.text.Peek(detectWithin) // a shorter text is whole, or compressed
	switch begin := bytes.TrimFunc(text, isSpace); {
	case len(begin) == 0:
		return true
	case begin[0] == '<':
		r.markup(r.text)
		return !r.stopped || r.sum.Problems == 0 || r.sum.Format != None
	}
	return strings.HasPrefix(http.DetectContentType(text), "text/") && (bytes.IndexByte(text, '<') >= 0 || bytes.Contains(text, []byte("://")))
}

const (
	mark           = "\ufeff" // the byte order mark
	declaredWithin = 256      // bytes in which an XML declaration is looked for
)

// open makes r read a body as UTF-8, at most limit bytes before decoding, because some escape sequences yield no text.
// The error is that of the gzip header.
func (r *reader) open(body []byte, declared string, limit int64) error {
	r.raw = io.LimitedReader{R: bytes.NewReader(body), N: limit + 1}
	if bytes.HasPrefix(body, []byte("\x1f\x8b")) {
		zr, err := gzip.NewReader(r.raw.R)
		if err != nil {
			return fmt.Errorf("gzip: %w", err)
		}
		r.raw.R = zr
	}
	r.text = bufio.NewReaderSize(&r.raw, maxField)
	head, _ := r.text.Peek(declaredWithin) // an error is reported when that part is read
	if enc := encodingOf(head, declared); enc != nil {
		r.text = bufio.NewReaderSize(transform.NewReader(r.text, enc.NewDecoder()), maxField)
	}
	if head, _ := r.text.Peek(len(mark)); string(head) == mark {
		_, _ = r.text.Discard(len(mark)) // it was peeked at
	}
	return nil
}

// encodingOf returns the encoding by the byte order mark, the server, or the XML declaration (RFC 7303 section 3). Nil
// means UTF-8. A document that begins with single bytes is never UTF-16.
func encodingOf(head []byte, declared string) encoding.Encoding {
	for _, order := range [...]struct{ begins, name string }{
		{mark, ""}, {"\xff\xfe", "utf-16le"}, {"<\x00", "utf-16le"}, {"\xfe\xff", "utf-16be"}, {"\x00<", "utf-16be"},
	} {
		if bytes.HasPrefix(head, []byte(order.begins)) {
			enc, _ := charset.Lookup(order.name)
			return enc
		}
	}
	inside := ""
	if m := xmlDeclaration().FindSubmatch(head); m != nil {
		inside = string(m[1])
	}
	for _, label := range []string{declared, inside} {
		enc, name := charset.Lookup(label)
		switch {
		case name == "utf-8":
			return nil
		case enc != nil && !strings.HasPrefix(name, "utf-16") && name != "replacement":
			return enc
		}
	}
	return nil
}

var xmlDeclaration = lazy.Regexp(`^\s*<\?xml[^>]*\sencoding\s*=\s*["']?([^"'>\s]+)`)
