package frontier

import (
	"bytes"
	"strings"
	"time"

	"github.com/treadlight/crawl/internal/web/canonical"
)

// UsualSitemap is where a sitemap is looked for that nobody has told of.
const UsualSitemap = "/sitemap.xml"

// asPage tells the fingerprint of a URL that was asked for as a sitemap from that of the page.
const asPage = 0x9e3779b97f4a7c15

// IsUsual reports whether a sitemap is looked for there.
func IsUsual(u canonical.URL) bool { return strings.EqualFold(u.Path(), UsualSitemap) }

// EndsAsUsual reports whether the text of a canonical URL ends as one for which [IsUsual] holds,
// which few others do.
func EndsAsUsual(url []byte) bool {
	at := len(url) - len(UsualSitemap)
	return at > 0 && bytes.EqualFold(url[at:], []byte(UsualSitemap)) && bytes.Count(url, []byte("/")) == 3
}

// AsPage is the fingerprint under which a page is known at whose URL, of that fingerprint, a
// sitemap was looked for.
func AsPage(fp uint64) uint64 { return fp ^ asPage }

// MaxGuesses bounds the places that are remembered, one of a host with a sitemap. A link to one
// that is not is not followed: it has no record, as if nobody had linked to it.
const MaxGuesses = 1 << 16

// Guess is what a crawl knows of a place where a sitemap usually is, and has to know again when it
// is resumed.
type Guess struct {
	URL    canonical.URL // of the place
	Absent bool          // there is no sitemap
	// Link is the first link of a page to there since the URL was known, as far as it counts for
	// what it leads to: Depth, Hops, Seed, FoundOn and Referrer. Nil: there was none.
	Link *Item
}

// Linked tells a store of several processes of a link to a page whose URL this process knows already, and
// reports whether there is such a store: another process may have looked for a sitemap there, and
// have found none.
func (f *Frontier) Linked(now time.Time, it Item, fp uint64) bool {
	if f.fleet != nil {
		f.put(now, &it, fp)
	}
	return f.fleet != nil
}
