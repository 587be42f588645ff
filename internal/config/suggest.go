package config

import (
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/document/spelling"
)

// suggest names the setting that a key in a section was meant to be, or "". A key
// that is right in another section or is the name of a flag beats one that is merely
// spelled alike.
func suggest(prefix, key string, known []string) string {
	plain := strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	if here := document.Join(prefix, plain); here != document.Join(prefix, key) && slices.Contains(known, here) {
		return here
	}
	for _, f := range fields() {
		names := []string{f.path, leaf(f.path), strings.ReplaceAll(f.flag, "-", "_")}
		if plain != "" && slices.Contains(known, f.path) && slices.Contains(names, plain) {
			return f.path
		}
	}
	var near []string // what stands beside it, or has a section that is spelled alike
	for _, path := range known {
		if section(path) == prefix {
			near = append(near, leaf(path))
		}
	}
	if meant := spelling.Nearest(key, near); meant != "" {
		return document.Join(prefix, meant)
	}
	return ""
}
