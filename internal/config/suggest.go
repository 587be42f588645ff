package config

import (
	"slices"
	"strings"

	"github.com/treadlight/crawl/internal/document"
	"github.com/treadlight/crawl/internal/document/spelling"
)

// names are the paths of settings and sections. Sections count as names too: a slip in one of
// them hides all that is below it.
func (l *loader) names() []string {
	known := append(paths(l.rows), hostsPath, resiliencePath)
	for _, p := range paths(l.rows) {
		if s := section(p); s != "" && !slices.Contains(known, s) {
			known = append(known, s)
		}
	}
	return known
}

// unknown reports a key that is no setting: what has taken its place, or the one that was probably meant.
func (l *loader) unknown(prefix, key string, o Origin, known []string) {
	path, hint := document.Join(prefix, document.QuoteKey(key)), "; see crawl config --reference"
	if old := retired(path); old != nil {
		l.report(path, o, "%s", old.says())
		return
	}
	if len(l.problems) < problemsMax {
		if meant := suggest(prefix, key, known); meant != "" {
			hint = "; did you mean " + meant + "?"
		}
	}
	l.report(path, o, "is not a setting%s", hint)
}

// suggest names the setting that a key in a section was meant to be, or "". A key that is right in another
// section or is the name of a flag beats one that is merely spelled alike.
func suggest(prefix, key string, known []string) string {
	plain := strings.ToLower(strings.ReplaceAll(key, "-", "_"))
	if here := document.Join(prefix, plain); here != document.Join(prefix, key) && slices.Contains(known, here) {
		return here
	}
	for _, f := range fields() {
		names := []string{f.path, leaf(f.path), strings.ReplaceAll(f.flag, "-", "_"), strings.ReplaceAll(f.was, "-", "_")}
		if plain != "" && slices.Contains(known, f.path) && slices.Contains(names, plain) {
			return f.path
		}
	}
	if at := section(key); at != "" { // a whole path
		prefix, key = document.Join(prefix, at), leaf(key)
	}
	var near []string // what stands beside it
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

func paths(rows []field) []string {
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = rows[i].path
	}
	return all
}
