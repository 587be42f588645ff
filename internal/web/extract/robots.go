package extract

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	maxDirectives     = 24      // kept; some twenty are in use
	maxDirective      = 64      // bytes
	maxDirectiveWords = 1 << 10 // read: dates take long
)

// defaultAgent is the name of all robots.
const defaultAgent = "robots"

// directives collects robots directives, each once. Those for all robots and those for the Agent
// add up, as for Google and Bing.
type directives struct {
	list             []string
	words            int // that were read
	noIndex          bool
	noFollow         bool
	unavailableAfter time.Time
}

// read reads a list of directives. In that of an X-Robots-Tag "name:" before a directive says for
// which robot it and the next ones are.
func (d *directives) read(list, agent string, addressed bool) {
	ours := true
	for ; list != "" && d.words < maxDirectiveWords; d.words++ {
		m := nextDirective.FindStringSubmatch(list)
		list = list[len(m[0]):]
		word := strings.ToLower(strings.TrimSpace(m[1]))
		for name, rest, named := agentOf(word); addressed && named; name, rest, named = agentOf(word) {
			ours, word = name == agent || name == defaultAgent || name == "*", rest
		}
		if ours {
			d.add(word)
		}
	}
}

// afterWord is the directive whose value may contain a comma, behind the day of the week.
const afterWord = "unavailable_after"

var nextDirective = regexp.MustCompile(`(?i)^[ \t\r\n\f,]*((?:[^,:]*:[ \t]*)*?` + afterWord + `[ \t:=]*[a-z]+,[ \t]*\d[^,]*|[^,]*)`)

// agentOf splits the name of a robot off a directive, unless the name is that of a directive
// with a value.
func agentOf(word string) (name, rest string, named bool) {
	name, rest, named = strings.Cut(word, ":")
	name = strings.ToLower(strings.TrimSpace(name))
	switch name {
	case afterWord, "max-snippet", "max-image-preview", "max-video-preview", "":
		return "", word, false
	}
	return name, strings.TrimSpace(rest), named
}

// add adds a directive. Permissions are left out.
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

// put keeps a printable directive.
func (d *directives) put(word string) {
	if len(d.list) >= maxDirectives || len(word) > maxDirective || slices.Contains(d.list, word) {
		return
	}
	if !strings.ContainsFunc(word, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		d.list = append(d.list, word)
	}
}

// unavailable is the time of an unavailable_after.
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
