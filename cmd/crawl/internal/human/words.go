package human

import (
	"fmt"
	"strings"
)

// Wrap breaks text into lines of at most so many bytes; a longer word stays whole.
func Wrap(text string, columns int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) <= columns:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// OneOf lists what to choose from: a, b or c.
func OneOf(words []string) string {
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Meant is the end of an error that has a guess.
func Meant(guess string) string {
	if guess == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", guess)
}

// Unknown is the cell of what the limiter does not know: a host that is not paced, or
// that is not among those used last.
const Unknown = "-"

// OrUnknown is a cell, or a dash if there is nothing to tell.
func OrUnknown(known bool, cell string) string {
	if known {
		return cell
	}
	return Unknown
}

// OneLine is s with its line ends as spaces.
func OneLine(s string) string { return strings.ReplaceAll(s, "\n", " ") }
