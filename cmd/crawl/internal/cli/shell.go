package cli

import (
	"regexp"
	"strings"
)

// plainWord is one that a shell takes as it is.
var plainWord = regexp.MustCompile("^[a-zA-Z0-9/._+,:@%=][a-zA-Z0-9/._+,:@%=-]*$")

// ShellWord is a word as a shell takes it.
func ShellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	if strings.HasPrefix(s, "-") {
		s = "./" + s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
