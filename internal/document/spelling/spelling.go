// Package spelling guesses which of several names was meant by a misspelled one: a flag, a setting, a strategy, a field
// of a scenario.
package spelling

import (
	"strings"

	"github.com/hbollon/go-edlib"
)

// longest is the length of the longest word that is compared. No name of ours is nearly as long, and a comparison takes
// time proportional to the product of the lengths.
const longest = 80

// Distance returns how many letters must be inserted, deleted, replaced or swapped with their neighbor to turn a into b
// (optimal string alignment). If a word is too long to be compared, it returns the greater length.
func Distance(a, b string) int {
	if len(a) > longest || len(b) > longest {
		return max(len(a), len(b))
	}
	return edlib.OSADamerauLevenshteinDistance(a, b)
}

// Nearest returns the name that word was probably meant to be. A name qualifies if it differs by at most one letter and
// one more for every four letters, or if word is its beginning. Case, hyphens and underscores are ignored. It returns
// "" if no name qualifies, as a further guess would mislead.
func Nearest(word string, names []string) string {
	word = plain(word)
	best, least := "", 2+len(word)/4
	for _, name := range names {
		n := plain(name)
		d := Distance(word, n)
		switch {
		case len(word) > 2 && strings.HasPrefix(n, word):
			d = min(d, 1)
		case len(word) > 4 && strings.HasPrefix(n, word[:4]):
			d-- // as retry for retries: a name with the same beginning is close
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

func plain(s string) string { return separators.Replace(strings.ToLower(s)) }

var separators = strings.NewReplacer("-", "", "_", "")
