package sitemap

import (
	"fmt"
	"time"

	"github.com/treadlight/crawl/internal/web/canonical"
	"github.com/treadlight/crawl/internal/web/effort"
)

// The bounds of a document. The first two are those of the Sitemaps protocol.
const (
	// MaxBytes is how much of a document is read, decompressed.
	MaxBytes = 50 << 20
	// MaxURLs is how many entries of the kinds Page and Sitemap are yielded.
	MaxURLs = 50_000
	// MaxExtras is how many alternates and resources are. Four for each URL is more than
	// sites have that keep to the other two.
	MaxExtras = 4 * MaxURLs
	// maxExtras bounds those of one URL. Google reads a thousand images of one.
	maxExtras = 1000
	// maxLevels is how many documents lead to a URL at most: an index, one more that it
	// should not have, and a sitemap.
	maxLevels = 3
)

// MaxLevel is the deepest level of a sitemap: 0 is one that robots.txt names, and an index
// leads one deeper.
const MaxLevel = maxLevels - 1

// Format is what a document is.
type Format uint8

// The formats. The zero Format is None.
const (
	None   Format = iota // nothing of ours
	URLSet               // a sitemap
	Index                // a list of sitemaps
	RSS                  // RSS 0.9x, 1.0 or 2.0
	Atom
	Text // one URL in a line
)

var formatNames = [...]string{"none", "urlset", "sitemapindex", "rss", "atom", "text"}

// String is the name that records carry.
func (f Format) String() string { return formatNames[f] }

// Feed reports whether it is a feed.
func (f Format) Feed() bool { return f == RSS || f == Atom }

// Rel is what an entry is to the document.
type Rel uint8

// The relations.
const (
	Page      Rel = iota // a page of the site
	Sitemap              // another document of this kind
	Alternate            // a page in another language
	Resource             // an image, a video, an enclosure
)

var relNames = [...]string{"page", "sitemap", "alternate", "resource"}

// String names the relation for tests and logs.
func (r Rel) String() string { return relNames[r] }

// DefaultPriority is that of an entry without one.
const DefaultPriority = 0.5

// Entry is one URL.
type Entry struct {
	URL canonical.URL
	// LastMod is when the page was last changed. Zero if the document does not say.
	LastMod time.Time
	// Priority is from 0 to 1, compared with the other pages of the site.
	Priority float32
	// ChangeFreq is one of the seven words of the protocol, from "always" to "never". Empty
	// if there is none.
	ChangeFreq string
	Rel        Rel
}

// Document is what is to be read. Body and Base are required.
type Document struct {
	// Body is not changed, nor kept.
	Body []byte
	// Base is the document's own URL, against which relative ones resolve.
	Base canonical.URL
	// Charset is the encoding as the server said. Empty: it did not.
	Charset string
	// Truncated says that the body was cut off, so that a line without an end is not taken
	// for a URL. False: it is whole.
	Truncated bool
	// List lets it be a list of URLs without markup. False: text without markup is nothing.
	List bool
	// Budget is what reading the document may cost; when it is spent the rest is left out. Nil
	// has no bound.
	Budget *effort.Budget
	// Rules are what is done to URLs beside their canonical form. Nil does nothing.
	Rules *canonical.Rules
}

// Summary is what a document was.
type Summary struct {
	// Format is None if it was nothing of ours; Problem then says what it looked like.
	Format Format
	// URLs, Sitemaps, Alternates and Resources are the entries yielded, by their Rel.
	URLs, Sitemaps, Alternates, Resources int
	// Dropped are the entries beyond a bound, as far as they were seen. If there are any, or
	// if Bound says so, the document holds more than was yielded.
	Dropped int
	// Bound names the bound at which the reading stopped. Empty: it did not.
	Bound string
	// Problems are how many things were wrong, and Problem is the first in words, with its
	// line. URLs that are none are among them.
	Problems int
	Problem  string
	// LastMod is the latest of the entries' that is not in the far future. Zero: none has one.
	LastMod time.Time
}

// Read yields the entries of a document in order, until yield returns false. The error of
// a document is in the Summary: any bytes at all are a document.
func Read(doc Document, yield func(Entry) bool) Summary {
	r := reader{doc: doc, base: doc.Base, yield: yield}
	if err := r.w.open(doc.Body, doc.Charset, MaxBytes); err != nil {
		r.problem("%v", err)
		return r.sum
	}
	if doc.List {
		r.lines()
	} else {
		r.markup()
	}
	r.conclude()
	return r.sum
}

// conclude says why a reading ended.
func (r *reader) conclude() {
	if err := r.w.err; err != nil && !r.stopped {
		r.problem("it breaks off: %v", err)
	}
	if r.w.cut {
		r.sum.Bound = fmt.Sprintf("%d bytes", MaxBytes)
	}
	if r.sum.Format == None && r.sum.Problem == "" {
		r.problem("it has neither URLs nor the root of a sitemap or feed")
	}
}
