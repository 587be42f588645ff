package testsite

import (
	"fmt"

	"github.com/treadlight/crawl/internal/document/spelling"
)

// meant is a hint for somebody who has misspelled one of the names, or "".
func meant(word string, names []string) string {
	best, least := "", max(2, len(word)/3)+1 // beyond a third of its letters a guess misleads
	for _, name := range names {
		if d := edits(word, name); d < least {
			best, least = name, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %s?)", best)
}

// edits is the distance of two words. Of a word that is much longer than any name it says
// only that.
func edits(a, b string) int {
	if len(a) > 2*len(b)+2 {
		return len(a)
	}
	return spelling.Distance(a, b)
}
