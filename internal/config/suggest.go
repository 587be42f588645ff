package config

import (
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document/spelling"
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

// distance is [spelling.Distance], or at least limit when their
// lengths alone differ by that much.
func distance(a, b string, limit int) int {
	if d := len(a) - len(b); d >= limit || -d >= limit {
		return limit
	}
	return spelling.Distance(a, b)
}

// join puts a key below a section, which is "" at the top.
func join(prefix, key string) string {
	if prefix == "" {
		return key
	}
	return prefix + "." + key
}
