// Package trap finds URLs that lead to endless sets of pages without new text: calendars, filters in every
// combination, session ids in links, paths that repeat, wildcard hosts.
//
// A [Detector] decides by two kinds of evidence. Some URLs are traps by their own form: a path that repeats itself or
// is very deep, or an extreme length. All others are decided by the pages of their host, once [Config.After] of them
// were visited: an endless set can wait, and a site with fewer pages is visited whole.
//
// # Patterns and trials
//
// A URL belongs to up to four patterns, from narrow to wide: its path and the names of its parameters, its path with
// any parameters, its first directory, its host. In a path, the last segment (but for its extension) and every
// segment with a digit or a hyphen count as variable. A wider pattern needs more pages, because more would be lost.
// Pages of a narrow pattern that has passed a trial do not count in wider ones.
//
// A trial compares the pages of a pattern with earlier ones: runs of three words, numbers and images (package
// neardup). It begins when the pattern has enough pages and grows, that is, at least one new URL was found for every
// two visited pages. The first [warmUp] pages only fill the filter. Then a stale page (at most [staleWords] new runs,
// [staleNumbers] new numbers, no new image) adds one to the score; a fresh page, or one that links to new URLs of
// other patterns, subtracts [freshWeight]. At the limit the pattern is skipped if it still grows. A trial passes when
// pages bring as much as the first ones did, or after many pages; some hundred pages later the next one begins.
//
// After 64, 128, 256 … refused URLs of a skipped pattern one is fetched as a probe; a fresh page reopens the pattern.
//
// A parameter or path segment that looks random is tested as a session id: if pages are equal whatever its value,
// only one of the URLs that differ in it alone is visited.
//
// # Bounds
//
// A Detector holds at most 60 MB. Patterns and hosts that were met longest ago are evicted first; an evicted one
// begins anew. Nothing is kept across restarts. All methods are safe for concurrent use, and the same calls in the
// same order give the same decisions.
package trap

import "log/slog"

// Decision says whether a URL is followed, or why it is skipped.
type Decision uint8

// The decisions.
const (
	Follow         Decision = iota
	PathRepetition          // segments of its path repeat
	PathDepth               // its path has too many segments
	URLLength               // it is too long
	Calendar                // its date is far away, or pages with such dates have nothing new
	Sessions                // it differs from a known URL only in a session id
	Parameters              // pages of its path with other parameters have nothing new
	PatternBudget           // pages of its pattern have nothing new
	Soft404                 // pages of its pattern are "not found" pages
	NumDecisions
)

var decisions = [NumDecisions]struct{ name, why string }{
	PathRepetition: {"path_repetition", "segments of its path repeat"},
	PathDepth:      {"path_depth", "its path is too deep"},
	URLLength:      {"url_length", "it is too long"},
	Calendar:       {"calendar", "its date is far from today, or pages of such dates have nothing new"},
	Sessions:       {"sessions", "it differs from a URL that is known in a session id alone"},
	Parameters:     {"parameters", "its path has nothing new under other parameters"},
	PatternBudget:  {"pattern_budget", "pages of URLs like it have nothing new"},
	Soft404:        {"soft_404", "pages of URLs like it say that there is nothing"},
}

func (r Decision) String() string { return decisions[r].name }

// Why returns the reason in words, without a full stop.
func (r Decision) Why() string { return decisions[r].why }

// Fix returns what setting lets such URLs pass.
func (r Decision) Fix() string {
	switch r {
	case PathRepetition, PathDepth, URLLength:
		return "none is needed; to have them, seed them, or give --no-traps"
	}
	return "none is needed; to have them, raise traps.after, set traps.report, or seed them"
}

// Config has the settings of a Detector.
type Config struct {
	// After is how many pages of a host are visited before its pages can make URLs be skipped. Zero or less means that
	// the first page can.
	After int
	// Key seeds the hashes of patterns, so that nobody can construct collisions.
	Key uint64
	// Report says that URLs of traps are counted and followed all the same. False does not follow them.
	Report bool
	// Log gets a line for each host and reason. Nil logs nothing.
	Log *slog.Logger
}

const (
	// maxTold bounds the lines in the log.
	maxTold = 1 << 12

	maxURLLength = 8000 // bytes, about what servers accept
	maxDepth     = 32   // segments of a path
	// maxRepeats is how often a segment, or a group of them, may follow itself in a path; a third of how often one
	// may occur at all.
	maxRepeats = 3
	// maxStale is after how many stale pages in a row, after the warm-up, the narrowest pattern is skipped.
	maxStale = 24
	// maxFar is how many URLs of a pattern may have dates beyond five years from now, or before 1700.
	maxFar = 64
)
