package watch

import (
	"cmp"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
)

// edit is a changed line: a removed one or a new one.
type edit struct {
	removed bool
	text    string   // without noise
	own     place    // by what it says; zero if it has none
	words   bool     // it has no numbers
	near    [2]place // by the unchanged lines before and behind it; zero if there is none
}

// comparison is a comparison of two texts of a page: their lines, the keys of these, and the edits.
type comparison struct {
	old, now, was, is []string
	edits             []edit
}

// compare returns the lines by which a text differs from an earlier one. It finds no edits if the difference has no
// meaning: another order of the lines, or what follows from the time of the visit (see noise).
func compare(old, now []string, oldAt, nowAt time.Time) *comparison {
	c := &comparison{old: old, now: now, was: keys(old, now, oldAt), is: keys(now, old, nowAt)}
	c.edits = append(edits(c.was, c.is, true), edits(c.is, c.was, false)...)
	return c
}

// edits returns the lines that another text does not have, each once. They have no places if the texts have no line in
// common: what has changed as a whole has no template.
func edits(lines, other []string, removed bool) (list []edit) {
	there, done := setOf(other), make(map[string]bool)
	last, open, common := place(0), 0, false // last is the place behind the last common line, and open the first edit there
	for _, line := range lines {
		switch {
		case there[line]:
			for ; open < len(list); open++ {
				list[open].near[1] = before(line)
			}
			last, common = behind(line), true
		case !done[line]:
			done[line] = true
			list = append(list, edit{removed: removed, text: line, near: [2]place{last, 0}})
		}
	}
	for i := range list {
		if common {
			list[i].own, list[i].words = own(list[i].text)
		}
	}
	return list
}

// diff returns a diff of the edits for which told is true, and how many lines it adds and removes.
func (c *comparison) diff(told func(*edit) bool) (text string, added, removed int) {
	hidden := make(map[string]bool) // the texts of the other edits
	for i := range c.edits {
		switch e := &c.edits[i]; {
		case !told(e):
			hidden[e.text] = true
		case e.removed:
			removed++
		default:
			added++
		}
	}
	if added+removed == 0 {
		return "", 0, 0
	}
	was := make(map[string]string, len(c.old)) // by keys: a line that differs in noise alone stays as it was
	for i, key := range c.was {
		was[key] = c.old[i]
	}
	shown := func(lines, keys []string) []byte {
		var b strings.Builder
		for i, key := range keys {
			if !hidden[key] {
				b.WriteString(cmp.Or(was[key], lines[i]) + "\n")
			}
		}
		return []byte(b.String())
	}
	_, text, _ = strings.Cut(string(diff.Diff("", shown(c.old, c.was), "now", shown(c.now, c.is))), "+++ now\n")
	if len(text) > maxDiff {
		text = text[:strings.LastIndexByte(text[:maxDiff], '\n')+1] + "...\n"
	}
	return strings.ToValidUTF8(text, "\uFFFD"), added, removed
}

func setOf(lines []string) map[string]bool {
	set := make(map[string]bool, len(lines))
	for _, line := range lines {
		set[line] = true
	}
	return set
}
