package config

import (
	"slices"
	"strings"
)

// suggest names the setting that a key in a section was meant to be, or "". A key
// that is right in another section or is the name of a flag beats one that is merely
// spelled alike.
func suggest(prefix, key string, known []string) string {
	plain := strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	if here := join(prefix, plain); here != join(prefix, key) && slices.Contains(known, here) {
		return here
	}
	for _, f := range fields() {
		names := []string{f.path, leaf(f.path), strings.ReplaceAll(f.flag, "-", "_")}
		if plain != "" && slices.Contains(known, f.path) && slices.Contains(names, plain) {
			return f.path
		}
	}
	return nearest(join(prefix, plain), known)
}

// nearest is the name that differs from s in the fewest letters, if they are few: up
// to a quarter of them, at least two for a swap. Beyond that a guess misleads.
func nearest(s string, names []string) string {
	best, at := "", max(2, len(leaf(s))/4)+1
	for _, name := range names {
		if d := distance(s, name, at); d < at {
			best, at = name, d
		}
	}
	return best
}

// distance is the Levenshtein distance of a and b, or at least limit when their
// lengths alone differ by that much.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	// One row of the usual table is enough: each cell needs its left, upper and upper
	// left neighbours only.
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

// join puts a key below a section, which is "" at the top.
func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}
