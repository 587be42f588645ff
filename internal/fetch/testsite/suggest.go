package testsite

import "fmt"

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

// edits is the Levenshtein distance of two words, kept to one row of its table. Of a word
// that is much longer than any name it says only that.
func edits(a, b string) int {
	if len(a) > 2*len(b)+2 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
