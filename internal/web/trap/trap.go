// Package trap tells URLs that lead nowhere: calendars without an end, filters in every
// combination, session ids in links, paths that grow by themselves, hosts that have a page
// for any name.
//
// A [Judge] has two kinds of evidence. Some URLs tell by themselves, whatever their host:
// their path repeats itself or is endlessly deep, or they are longer than anyone writes. All
// else is judged by what the pages of a host say, once [Config.After] of them were visited: a
// trap has no end and can wait, and a site that has fewer pages is visited whole, for the
// price of a counter. A URL belongs to patterns, and a pattern is left when it goes on
// without an end and its pages have had nothing new for a while. A pattern whose pages say
// something new goes on for ever, however many there are: an archive of a hundred thousand
// articles is no trap. From then on dates that are further away than events are planned
// count too.
//
// # Patterns
//
// A URL has up to four of them: its path, with what varies from page to page left out,
// under the names of its parameters; the same whatever the parameters; its first directory;
// its host. What varies is the last segment, but for its ending, and every other segment
// with a digit or a hyphen in it. The wider a pattern is, the more pages it takes to doubt
// it and the more to leave it, as more would be lost. To the wider ones only those pages
// count whose narrowest pattern has not passed a trial: a page about a product says what the
// list of products has said before, and is what was looked for.
//
// # Trials
//
// When so many pages of a pattern were visited, its trial begins if the pattern grows: if
// for two pages of it that are visited at least one URL of it is found. One that does not
// has an end. Pages are read (package neardup) and their runs of three words compared with
// those that the pattern's pages have had before. A page is stale if it has at most
// [staleWords] runs that are new, at most [staleNumbers] new numbers, and shows no new image.
// [teaching] pages only teach, so that the names of months are known; pages with less than
// [fewWords] different words are not heard. After them a stale page counts one; a fresh one
// takes [freshWeight] away, and so does one that leads to new URLs of other patterns, as an
// index may have nothing to say by itself. The pattern is left when the count gets to its
// limit and it still grows: that takes more than 92 stale pages of a hundred.
//
// A trial also ends well, when pages keep bringing as much as the first ones did or when it
// has lasted long; then some hundred pages pass until the next. Of pages with a title that is
// new, numbers aside, only every eighth is read, and it is stale only if all of its runs are
// known; while titles are new the first trial waits for eight times as many pages. That makes
// a trial of an archive cheap, and lets the pages of a reference pass whose names are made of
// a few parts.
//
// A pattern that was left is asked again, after 64, 128, 256 and so on more URLs were
// refused: one of them may pass, and if its page is fresh, the pattern is open again.
//
// # Session ids
//
// A parameter, or a part of the path, that looks random is put to the test: if pages are the
// same whatever its value, of URLs that differ in it alone one is visited. If they are not,
// it is a name like others.
//
// # Bounds
//
// A Judge holds at most 50 MB. What it forgets begins anew, which costs the pages of a trial
// once more: patterns and hosts with few pages first, then the others; trials that others
// need the room of; session ids beyond a quarter million. Nothing is kept beyond the process: a crawl
// that is resumed learns again.
//
// All methods are safe for concurrent use. With the same calls in the same order a Judge
// says the same.
package trap

import (
	"fmt"
	"math"
)

// Reason is why a URL is left.
type Reason uint8

// The reasons.
const (
	None           Reason = iota
	PathRepetition        // segments of its path repeat
	PathDepth             // its path has too many segments
	URLLength             // it is too long
	Calendar              // its date is far away, or nothing happens on dates like it
	Sessions              // it differs from one that is known in a session id alone
	Parameters            // its path has nothing new under any more parameters
	PatternBudget         // pages like it have nothing new
	Soft404               // pages like it say that there is nothing
	NumReasons
)

var reasons = [NumReasons]string{"", "path_repetition", "path_depth", "url_length", "calendar", "sessions", "parameters", "pattern_budget", "soft_404"}

// String is the name to count by; empty for None.
func (r Reason) String() string { return reasons[r] }

// Why says it in words, without an end.
func (r Reason) Why() string {
	return [NumReasons]string{
		"", "segments of its path repeat", "its path is too deep", "it is too long", "its date is far from today, or pages of such dates have nothing new",
		"it differs from a URL that is known in a session id alone", "its path has nothing new under other parameters", "pages of URLs like it have nothing new",
		"pages of URLs like it say that there is nothing",
	}[r]
}

// Fix is the setting that lets such URLs pass; see [Config].
func (r Reason) Fix() string {
	switch r {
	case PathRepetition:
		return "raise traps.max_repeats"
	case PathDepth:
		return "raise traps.max_depth"
	case URLLength:
		return "raise traps.max_url_length"
	case Calendar:
		return "none is needed; to have them, raise traps.max_far and traps.after, or set traps.report"
	}
	return "none is needed; to have them, raise traps.after, set traps.report, or seed them"
}

// Config shapes a Judge.
type Config struct {
	// MaxURLLength is the longest URL in bytes. Zero means 8000, which is about what servers
	// take; below zero there is no bound.
	MaxURLLength int
	// MaxDepth is how many segments a path may have. Zero means 32; the deepest pages of
	// documentations have a dozen. Below zero there is no bound.
	MaxDepth int
	// MaxRepeats is how often a segment, or some of them, may stand in a row in a path, and
	// three times that is how often one may stand in it at all. Zero means 3, below zero
	// there is no bound.
	MaxRepeats int
	// MaxStale is how many stale pages in a row have the narrowest patterns left, after
	// those that only teach; the others take two, four and eight times as many. Zero means
	// 24; below zero patterns and session ids are not looked at.
	MaxStale int
	// MaxFar is how many URLs of a pattern may have dates beyond five years from now, or
	// before 1700. Zero means 64, below zero there is no bound.
	MaxFar int
	// After is how many pages of a host are visited before it is judged by what its pages
	// say, so that a site with fewer is visited whole: a trap has no end, and can wait. Zero
	// means 1000; below zero it is judged from the first page.
	After int
	// Key seeds the hashes of patterns, so that nobody can make two that are one.
	Key uint64
}

func (c Config) withDefaults() (Config, error) {
	for _, f := range []struct {
		name     string
		value    *int
		def, max int
	}{
		{"MaxURLLength", &c.MaxURLLength, 8000, math.MaxInt},
		{"MaxDepth", &c.MaxDepth, 32, math.MaxInt},
		{"MaxRepeats", &c.MaxRepeats, 3, 1000},
		{"MaxStale", &c.MaxStale, 24, 1_000_000},
		{"MaxFar", &c.MaxFar, 64, math.MaxUint16},
	} {
		switch {
		case *f.value == 0:
			*f.value = f.def
		case *f.value < 0:
			*f.value = math.MaxInt
		case *f.value > f.max:
			return c, fmt.Errorf("trap: %s is %d: give it at most %d, or -1 for no bound", f.name, *f.value, f.max)
		}
	}
	switch {
	case c.After == 0:
		c.After = 1000
	case c.After < 0:
		c.After = 0
	}
	return c, nil
}
