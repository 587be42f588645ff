package watch

import (
	"cmp"
	"strings"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/rogpeppe/go-internal/diff"
)

// edit is a changed line: a removed one or a new one.
type edit struct {
	removed bool
	text    string  // without noise
	places  []place // what it says is the first
}

// comparison is a comparison of two texts of a page: their lines, the keys of these, and the edits.
type comparison struct {
	old, now, was, is []string
	edits             []edit
}

// compare returns the lines by which a text differs from an earlier one. It finds no edits if the difference has no
// meaning: another order of the lines, or what follows from the time of the visit (see noise). The edits have no places
// if one of the texts has a single line, such as a digest or the target of a redirect: such a text has no template.
func compare(old, now []string, oldAt, nowAt time.Time) *comparison {
	c := &comparison{old: old, now: now, was: keys(old, now, oldAt), is: keys(now, old, nowAt)}
	inOld, inNow := setOf(c.was), setOf(c.is)
	first, begin := "", 0 // the last unchanged line, and the first edit after it
	close := func(last string) {
		if len(old) > 1 && len(now) > 1 {
			locate(c.edits[begin:], first, last)
		}
		first, begin = last, len(c.edits)
	}
	for line := range strings.Lines(unified(c.was, c.is)) {
		switch sign, line := line[0], strings.TrimSuffix(line[1:], "\n"); sign {
		case '@':
			close("")
		case ' ':
			close(line)
		default:
			if sign == '-' && !inNow[line] || sign == '+' && !inOld[line] {
				c.edits = append(c.edits, edit{removed: sign == '-', text: line})
			}
		}
	}
	close("")
	return c
}

// locate adds the places of edits that are between two unchanged lines. An empty line stands for the beginning or the
// end of the text, where each page may change in words of its own.
func locate(edits []edit, first, last string) {
	for i := range edits {
		e := &edits[i]
		if p, ok := own(e.text); ok {
			e.places = append(e.places, p)
		}
		for kind, line := range []string{behind: first, before: last} {
			if line != "" && !strings.Contains(line, "\x00") { // not if it has noise
				e.places = append(e.places, place{xxhash.Sum64String(line), uint8(kind)})
			}
		}
	}
}

// places returns the places at which the page has changed.
func (c *comparison) places() map[place]bool {
	here := make(map[place]bool)
	for _, e := range c.edits {
		for _, p := range e.places {
			here[p] = true
		}
	}
	return here
}

// diff returns a diff of the edits for which told is true, and how many lines it adds and removes.
func (c *comparison) diff(told func(*edit) bool) (text string, added, removed int) {
	shown := make(map[string]bool, len(c.edits)) // by the texts of edits
	for i := range c.edits {
		e := &c.edits[i]
		is := told(e)
		switch {
		case !is || shown[e.text]:
		case e.removed:
			removed++
		default:
			added++
		}
		shown[e.text] = is || shown[e.text]
	}
	if added+removed == 0 {
		return "", 0, 0
	}
	was := make(map[string]string, len(c.old)) // by keys: a line that differs in noise alone stays as it was
	for i, key := range c.was {
		was[key] = c.old[i]
	}
	kept := func(lines, keys []string) (list []string) {
		for i, key := range keys {
			if is, edited := shown[key]; is || !edited {
				list = append(list, cmp.Or(was[key], lines[i]))
			}
		}
		return list
	}
	text = unified(kept(c.old, c.was), kept(c.now, c.is))
	if len(text) > maxDiff {
		text = text[:strings.LastIndexByte(text[:maxDiff], '\n')+1] + "...\n"
	}
	return strings.ToValidUTF8(text, "\uFFFD"), added, removed
}

// unified returns a unified diff of two texts.
func unified(old, now []string) string {
	joined := func(lines []string) []byte { return []byte(strings.Join(lines, "\n") + "\n") }
	_, text, _ := strings.Cut(string(diff.Diff("", joined(old), "now", joined(now))), "+++ now\n")
	return text
}

func setOf(lines []string) map[string]bool {
	set := make(map[string]bool, len(lines))
	for _, line := range lines {
		set[line] = true
	}
	return set
}
