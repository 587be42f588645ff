package extract

import (
	"slices"
	"strings"
	"time"
)

const (
	// maxDirectives bounds what a page may say to robots: there are some twenty words
	// that anyone has ever used.
	maxDirectives = 24
	// maxDirective bounds one of them, in bytes.
	maxDirective = 64
	// maxDirectiveWords bounds what is looked at: dates are read in many ways, and a page can
	// be full of them.
	maxDirectiveWords = 1 << 10
)

// defaultAgent is the name of whom a page speaks to if it names nobody else.
const defaultAgent = "robots"

// directives gathers what a page and its answer say to robots, each once and in the
// order in which it was said. What is said to all holds beside what is said to us, as
// Google and Bing have it: each of them forbids something.
type directives struct {
	list             []string
	words            int // that were looked at
	noIndex          bool
	noFollow         bool
	unavailableAfter time.Time
}

// header takes the value of an X-Robots-Tag, in which "name:" in front of directives says
// that they, and those that follow, are for the robot of that name. Other robots' are
// passed over.
func (d *directives) header(value, agent string) {
	ours := true
	for ; value != "" && d.words < maxDirectiveWords; d.words++ {
		var word string
		word, value = nextDirective(value)
		for name, rest, named := agentOf(word); named; name, rest, named = agentOf(word) {
			ours, word = name == agent || name == defaultAgent || name == "*", rest
			if strings.HasPrefix(word, afterWord) { // whose date the comma has cut off
				word, value = nextDirective(word + "," + value)
			}
		}
		if ours {
			d.add(word)
		}
	}
}

// meta takes the content of a meta element that is for us.
func (d *directives) meta(content string) {
	for ; content != "" && d.words < maxDirectiveWords; d.words++ {
		var word string
		word, content = nextDirective(content)
		d.add(word)
	}
}

// afterWord begins the directive whose value holds what separates others.
const afterWord = "unavailable_after"

// nextDirective splits the first directive off a list, in lower case. Commas separate
// them, but dates have commas too.
func nextDirective(s string) (word, rest string) {
	s = strings.TrimLeft(s, " \t\r\n\f,")
	if len(s) >= len(afterWord) && strings.EqualFold(s[:len(afterWord)], afterWord) {
		word, rest = untilDate(s)
		return word, rest
	}
	word, rest, _ = strings.Cut(s, ",")
	return strings.ToLower(strings.TrimSpace(word)), rest
}

// untilDate reads an unavailable_after with as much as makes a date, or up to the comma.
func untilDate(s string) (word, rest string) {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], ',')
		if i < 0 {
			i = len(s) - from
		}
		end := from + i
		if _, ok := unavailable(s[:end]); ok || end == len(s) || end > maxDirective {
			if !ok {
				word, rest, _ = strings.Cut(s, ",")
				return strings.ToLower(strings.TrimSpace(word)), rest
			}
			return strings.TrimSpace(s[:end]), s[end:]
		}
		from = end + 1
	}
}

// agentOf splits the name of a robot off a directive. Those that have values have names
// with a colon behind too, and none of them is a robot's.
func agentOf(word string) (name, rest string, named bool) {
	name, rest, named = strings.Cut(word, ":")
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case afterWord, "max-snippet", "max-image-preview", "max-video-preview", "":
		return "", word, false
	}
	return name, strings.TrimSpace(rest), named
}

// add takes a directive. What permits what nobody has forbidden is not worth a word.
func (d *directives) add(word string) {
	if at, ok := unavailable(word); ok {
		if d.unavailableAfter.IsZero() {
			d.unavailableAfter = at
			d.put(afterWord + ": " + at.UTC().Format(time.RFC3339))
		}
		return
	}
	switch word {
	case "", "all", "index", "follow", "archive", "snippet":
	case "none":
		d.add("noindex")
		d.add("nofollow")
	default:
		d.noIndex = d.noIndex || word == "noindex"
		d.noFollow = d.noFollow || word == "nofollow"
		d.put(word)
	}
}

// put keeps a directive that reads like one.
func (d *directives) put(word string) {
	if len(d.list) >= maxDirectives || len(word) > maxDirective || slices.Contains(d.list, word) {
		return
	}
	for i := range len(word) {
		if c := word[i]; c < ' ' || c >= 0x7f {
			return
		}
	}
	d.list = append(d.list, word)
}

// unavailable is the instant of an unavailable_after.
func unavailable(word string) (time.Time, bool) {
	if len(word) < len(afterWord) || !strings.EqualFold(word[:len(afterWord)], afterWord) {
		return time.Time{}, false
	}
	date := strings.TrimLeft(word[len(afterWord):], " \t:=")
	date = strings.ToUpper(strings.TrimSpace(date)) // as months are read in any case
	for _, layout := range [...]string{
		time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", time.DateTime, time.DateOnly,
		time.RFC1123, time.RFC1123Z, time.RFC850, "2 Jan 2006 15:04:05 MST", "2 Jan 2006 15:04:05 -0700",
		"2-Jan-2006 15:04:05 MST", "2-Jan-06 15:04:05 MST", "2 Jan 2006", "Mon, 2 Jan 2006",
	} {
		if at, err := time.Parse(layout, date); err == nil && at.Year() > 0 && at.Year() < 10_000 {
			return at, true
		}
	}
	return time.Time{}, false
}
