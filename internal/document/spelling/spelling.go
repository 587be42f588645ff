// Package spelling guesses which of some names was meant by somebody who misspelled one:
// a flag, a setting, a strategy, a field of a scenario.
package spelling

import (
	"strings"

	"github.com/hbollon/go-edlib"
)

// longest is the longest word that is compared. No name of ours is nearly as long, and the
// comparison takes time in proportion to the product of the lengths.
const longest = 80

// Distance is how many letters have to be inserted, deleted, replaced or swapped with their neighbour to make b of a
// (optimal string alignment). A word that is too long to be compared is as far as its length.
func Distance(a, b string) int {
	if len(a) > longest || len(b) > longest {
		return max(len(a), len(b))
	}
	return edlib.OSADamerauLevenshteinDistance(a, b)
}

// Nearest is the name that word was probably meant to be: at most one slip, and one more for
// every four letters, away from it, or begun and not finished. Case, hyphens and underscores
// are no difference. Empty if no name is near enough: beyond that a guess misleads.
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
			d-- // retry for retries: whose beginning is right is close
		}
		if d < least {
			best, least = name, d
		}
	}
	return best
}

func plain(s string) string { return separators.Replace(strings.ToLower(s)) }

var separators = strings.NewReplacer("-", "", "_", "")
