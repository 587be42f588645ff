package sink

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/treadlight/crawl/internal/ratelimit/outcome"
)

// Counts says how a record counts in all sums of a crawl. A page has a 2xx status. An error has a status of 400 or
// above, no response, or an unusable one; a page whose body broke off is both. Redirects, robots.txt, sitemaps and what
// was left out on purpose are neither.
func Counts(kind string, status int, class string) (page, failed bool) {
	if kind == "sitemap" || kind == "robots" || slices.Contains(uncountedClasses, class) {
		return false, false
	}
	return status/100 == 2, class != "" || status >= 400
}

// uncountedClasses are the error classes of URLs that robots.txt or the settings keep out.
var uncountedClasses = []string{outcome.Filtered.String(), "robots", "trap", "host_pages", "excluded", "not_included"}

// ID returns the ID of a record within a job: the first 16 bytes, in hex, of the SHA-256 of the job's name, the kind
// and the canonical URL, with a zero byte after each of the first two. It is the same for every fetch of the URL, and
// not secret.
func ID(job, kind, url string) string {
	sum := sha256.Sum256([]byte(job + "\x00" + kind + "\x00" + url))
	return hex.EncodeToString(sum[:16])
}
